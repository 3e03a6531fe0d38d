//! Requests in a module: its operator makes items of them as they arrive; they leave forwarded with its output, or dropped.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::Context;
use weir_flow::{Item, SequenceSpec};
use weir_policy::ModuleEvent;
use weir_types::{DropReason, ModuleId, RequestId, Shortfall};

use super::stage::{self, Found};
use super::{ActorRefs, ModuleActor, PendingRequest};
use crate::actors::burst::PolicyActor;
use crate::actors::messages::{Completed, Deliver, Dropped, RequestLost};
use crate::panic_message::panic_message;
use crate::request::{Request, RequestBranch};

/// Why a request is dropped, and what it was short of.
type Why = (DropReason, Option<Shortfall>);

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
        let Some(mut branch) = joined else { return };
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
        let (stream, sent_at) = (branch.request.stream, branch.request.sent_at);
        let (droppable, slo) = (branch.request.droppable, branch.request.slo);
        let arrived = match &sequences {
            Some(sequences) => ModuleEvent::Prompted {
                request,
                stream,
                sent_at,
                prompts: sequences.iter().map(|spec| spec.prompt.len() as u32).collect(),
                predicted: match &self.setup.lengths {
                    Some(lengths) => lengths.predict(sequences),
                    None => Vec::new(),
                },
                droppable,
                slo,
            },
            None => ModuleEvent::Arrived {
                request,
                stream,
                sent_at,
                items: u32::try_from(items.len()).unwrap_or(u32::MAX),
                droppable,
                slo,
            },
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
        self.on_event(arrived, context);
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

    /// With a reason to fall back the request goes on as far as it has come.
    pub(super) fn forward(&mut self, request: RequestId, fallback: Option<DropReason>, refs: &ActorRefs) {
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
        let stats = &mut self.stats;
        let found = catch_unwind(AssertUnwindSafe(|| match &self.setup.stage {
            Some(stage) => {
                let found = Found {
                    places,
                    inferences,
                    fallback,
                };
                stage::settle(stage, operator, found, &mut branch, stats);
            }
            None => {
                if fallback.is_some() && inferences.iter().any(Option::is_none) {
                    branch.results.go_without(self.setup.report_id.0);
                    stats.on_degraded();
                }
                let inferences = inferences.into_iter().map(Option::unwrap_or_default).collect();
                let output = operator.output(module.0, &items, inferences);
                branch.results.add(module.0, output);
            }
        }));
        if let Err(panic) = found {
            return self.on_operator_panic(branch.request, panic.as_ref(), refs);
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

    /// A request leaves the module.
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
