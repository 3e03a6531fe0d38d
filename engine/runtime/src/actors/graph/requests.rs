//! Requests in a module: its operator makes items of them as they arrive, and its output as they leave.

use std::collections::btree_map::Entry as MapEntry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use weir_control::{EgressMessage, Entry, Message, ModuleMessage, RequestInfo};
use weir_flow::{Inference, Item};
use weir_policy::AreaChanges;
use weir_types::{DropReason, RequestId};

use super::module_site::ModuleSite;
use super::pending::PendingRequest;
use super::prompts::{PromptJob, PromptsMade};
use super::site::{Shared, Site};
use super::stage::{self, Found};
use crate::panic_message::panic_message;
use crate::request::{Request, RequestBranch};
use crate::source::SharedMotionGate;

impl Site {
    /// The prompts of a request are made; it may have ended meanwhile.
    pub(super) fn on_prompts(&mut self, made: PromptsMade) -> Option<Message> {
        if !self.has_request(made.request.id) {
            return None;
        }
        self.with(made.module, |site, shared| site.on_prompts(made, shared))
    }
}

impl ModuleSite {
    /// A request came on one of its branches.
    pub(super) fn on_branch(&mut self, branch: &RequestBranch) {
        match self.arriving.entry(branch.request.id) {
            MapEntry::Occupied(mut before) => before.get_mut().results.merge(&branch.results),
            MapEntry::Vacant(place) => _ = place.insert(branch.clone()),
        }
    }

    /// A request that came on all branches enters: its operator makes items of it. `None` where it has ended, or where
    /// [`Self::on_prompts`] gives its entry later.
    pub(super) fn enter(&mut self, request: RequestInfo, shared: &mut Shared) -> Option<Entry> {
        let mut branch = self.arriving.remove(&request.id)?;
        let setting = self.setting(branch.request.stream);
        let operator = (self.setup.id, self.setup.operator.as_ref());
        let gate = self.setup.gate.as_ref();
        let tiles = setting.and_then(|setting| setting.tiles);
        let made = catch_unwind(AssertUnwindSafe(|| {
            match self.setup.stage.as_ref().zip(setting) {
                Some(stage) => stage::items(stage, operator, gate, &mut branch),
                None => (stage::own_items(operator, gate, tiles, &branch), Vec::new()),
            }
        }));
        let (mut items, places) = match made {
            Ok(made) => made,
            Err(panic) => {
                self.on_operator_panic(&panic_message(panic.as_ref()), shared);
                return Some(Entry::Failed);
            }
        };
        let known_tiles = self.take_known_tiles(&branch.request, &mut items);
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let pending = PendingRequest {
            branch,
            inferences: vec![None; items.len()],
            items,
            known_tiles,
            places,
            sequences: Vec::new(),
        };
        let Some(prompts) = &self.setup.prompts else {
            self.pending.insert(request.id, pending);
            return Some(Entry::Items(count));
        };
        let operator = Arc::clone(&self.setup.operator);
        let job = PromptJob {
            request,
            pending,
            operator,
        };
        // The thread ends after this site.
        prompts.send(job).is_err().then_some(Entry::Failed)
    }

    /// Removes from the items of a request the tiles in which nothing changed since they were read, and gives them with their
    /// earlier findings.
    fn take_known_tiles(&self, request: &Request, items: &mut Vec<Item>) -> Vec<(Item, Inference)> {
        let Some((gate, changes)) = self.tile_gate(request) else {
            return Vec::new();
        };
        gate.take_known_tiles((request.route.graph, self.setup.id), changes, items)
    }

    /// Keeps the findings of tiles that were read, for the next frames of the stream.
    fn keep_tiles(&self, request: &Request, items: &[Item], inferences: &[Option<Inference>]) {
        if let Some((gate, _)) = self.tile_gate(request) {
            gate.on_tiles_read((request.route.graph, self.setup.id), items, inferences);
        }
    }

    /// The gate that keeps the findings of tiles, and the changes up to the frame of the request. `None` if all tiles are read
    /// each time: in a cascade, and where no gate compares pictures.
    fn tile_gate<'r>(&self, request: &'r Request) -> Option<(&'r SharedMotionGate, &'r AreaChanges)> {
        let keeps_tiles = self.setup.reads_tiles && self.setup.stage.is_none();
        let gate = request.gate.as_ref().filter(|_| keeps_tiles)?;
        Some((gate, request.changes.as_deref()?))
    }

    /// The prompts of a request that has not ended are made.
    fn on_prompts(&mut self, made: PromptsMade, shared: &mut Shared) -> Message {
        let PromptsMade { request, made, .. } = made;
        let entry = match made {
            Ok((pending, entry)) => {
                self.pending.insert(request.id, pending);
                entry
            }
            Err(reason) => {
                self.on_operator_panic(&reason, shared);
                Entry::Failed
            }
        };
        Message::Module(self.setup.id, ModuleMessage::Entered(request, entry))
    }

    /// A request leaves with its results: gives it with these, and the message to the machine of the module. With a reason
    /// to fall back it leaves with the results that it has. `None` where it has ended; the drop of the request where its
    /// operator fails.
    pub(super) fn settle(
        &mut self,
        request: RequestId,
        fallback: Option<DropReason>,
        shared: &mut Shared,
    ) -> Option<Result<(RequestBranch, Message), Message>> {
        if fallback.is_some() {
            self.instances.end_request(request);
        }
        let PendingRequest {
            mut branch,
            mut items,
            inferences,
            known_tiles,
            places,
            ..
        } = self.pending.remove(&request)?;
        self.keep_tiles(&branch.request, &items, &inferences);
        let mut found = inferences.iter().flatten();
        if let Some(reason) = found.find_map(|inference| inference.failure.clone()) {
            shared.losses.on_request_lost(&self.setup.name, &reason);
            self.stats.set_failure(&reason);
            return Some(Err(self.failed(request)));
        }
        let setting = self.setting(branch.request.stream);
        let module = self.setup.id;
        let operator = self.setup.operator.as_ref();
        let settled = catch_unwind(AssertUnwindSafe(|| {
            match self.setup.stage.as_ref().zip(setting) {
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
                    let inferences = inferences.into_iter().map(Option::unwrap_or_default);
                    let (known, found): (Vec<_>, Vec<_>) = known_tiles.into_iter().unzip();
                    let inferences = inferences.chain(found).collect();
                    items.extend(known);
                    stage::add_output((module.0, operator), &items, inferences, &mut branch);
                    (None, is_degraded)
                }
            }
        }));
        Some(match settled {
            Ok((stage, is_degraded)) => {
                let left = ModuleMessage::Left { stage, is_degraded };
                Ok((branch, Message::Module(module, left)))
            }
            Err(panic) => {
                self.on_operator_panic(&panic_message(panic.as_ref()), shared);
                Err(self.failed(request))
            }
        })
    }

    /// The drop of a request for which there are no results.
    fn failed(&self, request: RequestId) -> Message {
        Message::Egress(EgressMessage::Dropped {
            request,
            module: self.setup.id,
            reason: DropReason::Failed,
            shortfall: None,
        })
    }

    /// The operator panicked on a request, which is dropped; the run goes on.
    fn on_operator_panic(&self, message: &str, shared: &mut Shared) {
        let reason = format!("the operator panicked: {message}");
        shared.losses.on_request_lost(&self.setup.name, &reason);
    }
}
