//! Requests in a module: its operator makes items of them as they arrive; they leave forwarded with its output, or dropped.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::Context;
use weir_flow::Inference;
use weir_policy::ModuleEvent;
use weir_types::{DropReason, ModuleId, RequestId};

use super::{ActorRefs, ModuleActor, PendingRequest};
use crate::actors::burst::PolicyActor;
use crate::actors::messages::{Completed, Deliver, Dropped, RequestLost};
use crate::panic_message::panic_message;
use crate::request::{Request, RequestBranch};

impl ModuleActor {
    pub(super) fn on_branch(&mut self, branch: RequestBranch, branches: u32, context: &mut Context<Self>) {
        if branch.request.has_ended() {
            self.join.cancel(branch.request.id);
            return;
        }
        let request = branch.request.id;
        let joined = self.join.on_branch(request, branches, branch, |joined, branch| {
            joined.results.merge(&branch.results)
        });
        let Some(branch) = joined else { return };
        let operator = &self.setup.operator;
        let items = catch_unwind(AssertUnwindSafe(|| {
            operator.items(&branch.request.frame, &branch.results)
        }));
        let items = match items {
            Ok(items) => items,
            Err(panic) => {
                return self.on_operator_panic(branch.request, panic.as_ref(), &self.setup.actors);
            }
        };
        let arrived = ModuleEvent::Arrived {
            request,
            stream: branch.request.stream,
            sent_at: branch.request.sent_at,
            items: u32::try_from(items.len()).unwrap_or(u32::MAX),
            droppable: branch.request.droppable,
            slo: branch.request.slo,
        };
        let inferences = vec![Inference::default(); items.len()];
        self.pending.insert(
            request,
            PendingRequest {
                branch,
                items,
                inferences,
            },
        );
        self.on_event(arrived, context);
    }

    pub(super) fn forward(&mut self, request: RequestId, refs: &ActorRefs) {
        let Some(PendingRequest {
            mut branch,
            items,
            inferences,
        }) = self.pending.remove(&request)
        else {
            return;
        };
        if branch.request.has_ended() {
            return;
        }
        let module = self.setup.id;
        let operator = &self.setup.operator;
        let found = catch_unwind(AssertUnwindSafe(|| operator.output(module.0, &items, inferences)));
        match found {
            Ok(finding) => branch.results.add(module.0, finding),
            Err(panic) => return self.on_operator_panic(branch.request, panic.as_ref(), refs),
        }
        let route = Arc::clone(&branch.request.route);
        let Some((last, others)) = self.setup.successors.split_last() else {
            refs.egress.do_send(Completed(branch));
            return;
        };
        let branches = |successor: &ModuleId| route.branches[successor.index()];
        for successor in others {
            let deliver = Deliver {
                branch: branch.clone(),
                branches: branches(successor),
            };
            refs.modules[successor.index()].do_send(deliver);
        }
        refs.modules[last.index()].do_send(Deliver {
            branches: branches(last),
            branch,
        });
    }

    /// A drop goes to the ledger and the source (both through the egress), and to siblings that may hold the request.
    pub(super) fn drop_request(&mut self, request: RequestId, reason: DropReason, refs: &ActorRefs) {
        let Some(pending) = self.pending.remove(&request) else {
            return;
        };
        self.end_dropped(pending.branch.request, reason, refs);
    }

    /// The operator panicked on a request, which is dropped; the run goes on.
    fn on_operator_panic(&self, request: Arc<Request>, panic: &(dyn Any + Send), refs: &ActorRefs) {
        refs.supervisor.do_send(RequestLost {
            module: self.setup.name.clone(),
            reason: format!("the operator panicked: {}", panic_message(panic)),
        });
        self.end_dropped(request, DropReason::Failed, refs);
    }

    fn end_dropped(&self, shared: Arc<Request>, reason: DropReason, refs: &ActorRefs) {
        let request = shared.id;
        if !shared.end() {
            return;
        }
        let splits = self.setup.splits || shared.route.splits();
        refs.egress.do_send(Dropped {
            request: shared,
            module: Some(self.setup.report_id),
            reason,
        });
        if splits {
            self.send_to_peers(&ModuleEvent::Cancelled { request });
        }
    }
}
