//! Requests in a module: items are made of them as they come; they leave handed on with what was found, dropped, or lost.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::Context;
use weir_flow::Inference;
use weir_policy::ModuleEvent;
use weir_types::{DropReason, ModuleId, RequestId};

use super::{Deliver, Fact, Held, ModuleActor, Wire};
use crate::actors::egress::{Completed, Dropped};
use crate::actors::supervisor::RequestLost;
use crate::request::{Parcel, Request};
use crate::worker::words;

impl ModuleActor {
    pub(super) fn delivered(&mut self, parcel: Parcel, of: u32, context: &mut Context<Self>) {
        if parcel.request.has_ended() {
            self.join.cancel(parcel.request.id);
            return;
        }
        let request = parcel.request.id;
        let whole = self.join.on_branch(request, of, parcel, |whole, part| {
            whole.results.merge(&part.results)
        });
        let Some(parcel) = whole else { return };
        let operator = &self.setup.operator;
        let items = catch_unwind(AssertUnwindSafe(|| {
            operator.items(&parcel.request.frame, &parcel.results)
        }));
        let items = match (items, &self.wire) {
            (Ok(items), _) => items,
            (Err(panic), Some(wire)) => return self.operator_failed(parcel.request, panic.as_ref(), wire),
            (Err(_), None) => return,
        };
        let arrived = ModuleEvent::Arrived {
            request,
            stream: parcel.request.stream,
            sent_at: parcel.request.sent_at,
            items: u32::try_from(items.len()).unwrap_or(u32::MAX),
            droppable: parcel.request.droppable,
        };
        let inferences = vec![Inference::default(); items.len()];
        self.held.insert(
            request,
            Held {
                parcel,
                items,
                inferences,
            },
        );
        self.fact(arrived, context);
    }

    pub(super) fn forward(&mut self, request: RequestId, wire: &Wire) {
        let Some(Held {
            mut parcel,
            items,
            inferences,
        }) = self.held.remove(&request)
        else {
            return;
        };
        if parcel.request.has_ended() {
            return;
        }
        let module = self.setup.id;
        let operator = &self.setup.operator;
        let found = catch_unwind(AssertUnwindSafe(|| operator.output(module.0, &items, inferences)));
        match found {
            Ok(finding) => parcel.results.add(module.0, finding),
            Err(panic) => return self.operator_failed(parcel.request, panic.as_ref(), wire),
        }
        let parts = &self.setup.parts[parcel.request.stream.index()];
        let Some((last, others)) = self.setup.successors.split_last() else {
            wire.egress.do_send(Completed(parcel));
            return;
        };
        let of = |successor: &ModuleId| parts[successor.index()];
        for successor in others {
            let deliver = Deliver {
                parcel: parcel.clone(),
                of: of(successor),
            };
            wire.modules[successor.index()].do_send(deliver);
        }
        wire.modules[last.index()].do_send(Deliver { of: of(last), parcel });
    }

    /// A drop is told to the ledger and the source (both through the egress), and to siblings that may hold the request.
    pub(super) fn let_go(&mut self, request: RequestId, reason: DropReason, wire: &Wire) {
        let Some(held) = self.held.remove(&request) else {
            return;
        };
        self.end(held.parcel.request, reason, wire);
    }

    /// The operator panicked over a request, which is lost by it; the run goes on.
    fn operator_failed(&self, request: Arc<Request>, panic: &(dyn Any + Send), wire: &Wire) {
        wire.supervisor.do_send(RequestLost {
            module: self.setup.name.clone(),
            reason: format!("the operator panicked: {}", words(panic)),
        });
        self.end(request, DropReason::Failed, wire);
    }

    fn end(&self, shared: Arc<Request>, reason: DropReason, wire: &Wire) {
        let request = shared.id;
        if !shared.end() {
            return;
        }
        wire.egress.do_send(Dropped {
            request: shared,
            module: Some(self.setup.id),
            reason,
        });
        if self.setup.splits {
            for (id, address) in (0_u32..).zip(&wire.modules) {
                if id != self.setup.id.0 {
                    address.do_send(Fact(ModuleEvent::Cancelled { request }));
                }
            }
        }
    }
}
