//! Requests in a module: its operator makes items of them as they arrive; they leave forwarded with its output, or dropped.

use std::any::Any;
use std::collections::btree_map::Entry as MapEntry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::Context;
use weir_control::{Entry, ModuleMessage, RequestInfo};
use weir_flow::{Item, SequenceSpec};
use weir_policy::ModuleEvent;
use weir_types::{DropReason, ModuleId, RequestId, Shortfall};

use super::stage::{self, Found};
use super::{ActorRefs, LeavingRequest, ModuleActor, PendingRequest};
use crate::actors::messages::{Completed, Deliver, Dropped, RequestLost};
use crate::panic_message::panic_message;
use crate::request::{Request, RequestBranch};

/// Why a request is dropped, and what it was short of.
type Why = (DropReason, Option<Shortfall>);

impl ModuleActor {
    /// A request came on one of so many branches.
    pub(super) fn on_branch(&mut self, branch: RequestBranch, branches: u32, context: &mut Context<Self>) {
        let request = &branch.request;
        let id = request.id;
        if request.has_ended() {
            self.flow.forget(id);
            self.arriving.remove(&id);
            return;
        }
        let info = RequestInfo {
            id,
            stream: request.stream,
            sent_at: request.sent_at,
            slo: request.slo,
            droppable: request.droppable,
            route: 0,
        };
        match self.arriving.entry(id) {
            MapEntry::Occupied(mut before) => before.get_mut().results.merge(&branch.results),
            MapEntry::Vacant(place) => _ = place.insert(branch),
        }
        self.with_flow(context, |flow, _, out| flow.on_branch(info, branches, out));
    }

    /// A request that came on all branches enters: its operator makes items of it.
    pub(super) fn enter(&mut self, info: RequestInfo, context: &mut Context<Self>) {
        let request = info.id;
        let Some(mut branch) = self.arriving.remove(&request) else {
            return;
        };
        let (operator, gate) = (self.setup.operator.as_ref(), self.setup.gate.as_ref());
        let items = catch_unwind(AssertUnwindSafe(|| match &self.setup.stage {
            Some(stage) => stage::items(stage, operator, gate, &mut branch),
            None => (stage::own_items(operator, gate, &branch), Vec::new()),
        }));
        let (items, places) = match items {
            Ok(items) => items,
            Err(panic) => {
                return self.on_operator_panic(branch.request, panic.as_ref(), &self.setup.actors);
            }
        };
        let sequences = match self.sequences_of(&items, &branch) {
            Ok(sequences) => sequences,
            Err(panic) => {
                return self.on_operator_panic(branch.request, panic.as_ref(), &self.setup.actors);
            }
        };
        let entry = match &sequences {
            Some(sequences) => Entry::Prompts {
                prompts: sequences.iter().map(|spec| spec.prompt.len() as u32).collect(),
                predicted: match &self.setup.lengths {
                    Some(lengths) => lengths.predict(sequences),
                    None => Vec::new(),
                },
            },
            None => Entry::Items(u32::try_from(items.len()).unwrap_or(u32::MAX)),
        };
        if let Some(stage) = &self.setup.stage {
            stage.switch.on_arrived(branch.request.stream, items.len());
        }
        let inferences = vec![None; items.len()];
        self.pending.insert(
            request,
            PendingRequest {
                branch,
                items,
                inferences,
                places,
                sequences: sequences.unwrap_or_default(),
            },
        );
        self.take(ModuleMessage::Entered(info, entry), context);
    }

    /// The sequence of each item, where the model generates.
    fn sequences_of(
        &self,
        items: &[Item],
        branch: &RequestBranch,
    ) -> Result<Option<Vec<SequenceSpec>>, Box<dyn Any + Send>> {
        if self.instances.is_empty() {
            return Ok(None);
        }
        let operator = self.setup.operator.as_ref();
        let made = catch_unwind(AssertUnwindSafe(|| operator.sequences(items, &branch.results)))?;
        let bounded = made.into_iter().map(|spec| self.instances.bounded(spec));
        Ok(Some(bounded.collect()))
    }

    /// A request leaves with its results. With a reason to fall back it leaves with those that it has.
    pub(super) fn leave(
        &mut self,
        request: RequestId,
        fallback: Option<DropReason>,
        context: &mut Context<Self>,
    ) {
        self.leaving = None;
        if fallback.is_some() {
            self.instances.end_request(request);
        }
        let Some(PendingRequest {
            mut branch,
            items,
            inferences,
            places,
            ..
        }) = self.take_pending(request)
        else {
            return;
        };
        if branch.request.has_ended() {
            return;
        }
        let module = self.setup.id;
        let operator = self.setup.operator.as_ref();
        let found = catch_unwind(AssertUnwindSafe(|| match &self.setup.stage {
            Some(stage) => {
                let found = Found {
                    places,
                    inferences,
                    fallback,
                };
                (Some(stage::settle(stage, operator, found, &mut branch)), false)
            }
            None => {
                let is_degraded = fallback.is_some() && inferences.iter().any(Option::is_none);
                if is_degraded {
                    branch.results.go_without(self.setup.report_id.0);
                }
                let inferences = inferences.into_iter().map(Option::unwrap_or_default).collect();
                let output = operator.output(module.0, &items, inferences);
                branch.results.add(module.0, output);
                (None, is_degraded)
            }
        }));
        match found {
            Ok((stage, is_degraded)) => {
                let branches = self.setup.successors.len();
                self.leaving = Some(LeavingRequest { branch, branches });
                self.take(ModuleMessage::Left { stage, is_degraded }, context);
            }
            Err(panic) => self.on_operator_panic(branch.request, panic.as_ref(), &self.setup.actors),
        }
    }

    /// Sends the request that leaves on to a module, or to the end.
    pub(super) fn go_on(&mut self, to: Option<ModuleId>, refs: &ActorRefs) {
        let Some(mut leaving) = self.leaving.take() else {
            return;
        };
        let Some(to) = to else {
            refs.egress.do_send(Completed(leaving.branch));
            return;
        };
        let branches = leaving.branch.request.route.branches[to.index()];
        let module = &refs.modules[to.index()];
        leaving.branches = leaving.branches.saturating_sub(1);
        if leaving.branches == 0 {
            let branch = leaving.branch;
            module.do_send(Deliver { branch, branches });
        } else {
            let branch = leaving.branch.clone();
            module.do_send(Deliver { branch, branches });
            self.leaving = Some(leaving);
        }
    }

    /// Takes a request out of the module.
    pub(super) fn take_pending(&mut self, request: RequestId) -> Option<PendingRequest> {
        let pending = self.pending.remove(&request)?;
        if let Some(stage) = &self.setup.stage {
            stage
                .switch
                .on_left(pending.branch.request.stream, pending.items.len());
        }
        Some(pending)
    }

    /// A drop goes to the ledger and the source (both through the egress), and to siblings that may hold the request.
    pub(super) fn drop_request(&mut self, request: RequestId, why: Why, refs: &ActorRefs) {
        let Some(pending) = self.take_pending(request) else {
            return;
        };
        self.end_dropped(pending.branch.request, why, refs);
    }

    /// The operator panicked on a request, which is dropped; the run goes on.
    fn on_operator_panic(&self, request: Arc<Request>, panic: &(dyn Any + Send), refs: &ActorRefs) {
        refs.supervisor.do_send(RequestLost {
            module: self.setup.name.clone(),
            reason: format!("the operator panicked: {}", panic_message(panic)),
        });
        self.end_dropped(request, (DropReason::Failed, None), refs);
    }

    fn end_dropped(&self, shared: Arc<Request>, (reason, shortfall): Why, refs: &ActorRefs) {
        let request = shared.id;
        if !shared.end() {
            return;
        }
        let splits = self.setup.splits || shared.route.splits();
        refs.egress.do_send(Dropped {
            request: shared,
            module: Some(self.setup.report_id),
            reason,
            shortfall,
        });
        if splits {
            self.send_to_peers(&ModuleEvent::Cancelled { request });
        }
    }
}
