//! Batches of a module: sent to a worker, and the results of all.

use crossbeam_channel::{Sender, TrySendError};
use weir_control::{BatchEnd, Message, ModuleMessage};
use weir_flow::{Inference, Item};
use weir_policy::{BatchSlice, SlotEvent};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, SlotId, Span, Timestamp};

use super::module_site::{ModuleSite, RunningBatch};
use super::overdue::SlotWatch;
use super::site::{Shared, Site};
use crate::batch::{BatchLaunched, BatchResult, Job, StepTimes};
use crate::telemetry;
use crate::timeline::Lane;

impl Site {
    /// The run of a batch begins on a slot that prepares ahead: another one may be prepared there.
    pub(super) fn on_launched(&mut self, launched: BatchLaunched) -> Option<Message> {
        let message = self.with(launched.module, |site, _| site.launch(launched));
        message.flatten()
    }

    /// A batch came back, well or not.
    pub(super) fn on_batch_done(&mut self, result: BatchResult) -> Vec<Message> {
        let messages = self.with(result.module, |site, shared| site.on_batch_done(result, shared));
        messages.unwrap_or_default()
    }
}

impl ModuleSite {
    /// Sends a batch to the worker of its slot; gives its result where it cannot be sent.
    pub(super) fn run(
        &mut self,
        (slot, expected): (SlotId, Span),
        batch: BatchId,
        slices: Vec<BatchSlice>,
    ) -> Option<BatchResult> {
        let items = self.items_of(&slices);
        let useful_until = self.useful_until(&slices);
        telemetry::record_waits(&self.setup.name, &slices);
        self.setup.tracer.on_batch_started(&self.setup.name, &slices);
        let job = Job {
            module: self.setup.id,
            model: self.setup.model,
            batch,
            items,
            useful_until,
        };
        let sent = send(self.setup.jobs.get(&slot), slot, job);
        let running = RunningBatch {
            slices,
            items: Vec::new(),
            is_launched: false,
            watch: Some(SlotWatch::new(slot, expected)),
        };
        self.running.insert(batch, running);
        let reason = sent.err()?;
        Some(BatchResult {
            slot,
            module: self.setup.id,
            batch,
            took: Span::ZERO,
            steps: StepTimes::default(),
            lost: false,
            result: Err(reason.to_owned()),
        })
    }

    /// The latest deadline of its requests; none where one of them is never dropped.
    fn useful_until(&self, slices: &[BatchSlice]) -> Option<Timestamp> {
        let deadline = |slice: &BatchSlice| {
            let request = &self.pending.get(&slice.request)?.branch.request;
            let slo = request.slo.unwrap_or(self.setup.slo);
            request.droppable.then_some(request.sent_at + slo)
        };
        let latest = |one: Option<Timestamp>, other: Option<Timestamp>| Some(one?.max(other?));
        slices.iter().map(deadline).reduce(latest)?
    }

    /// The items of a batch, in its order.
    pub(super) fn items_of(&self, slices: &[BatchSlice]) -> Vec<Item> {
        let of_slice = |slice: &BatchSlice| {
            let (first, count) = (slice.first as usize, slice.count as usize);
            let pending = self.pending.get(&slice.request)?;
            pending.items.get(first..first + count)
        };
        slices.iter().filter_map(of_slice).flatten().cloned().collect()
    }

    fn launch(&mut self, launched: BatchLaunched) -> Option<Message> {
        let BatchLaunched {
            slot,
            batch,
            prepared,
            ..
        } = launched;
        let running = self.running.get_mut(&batch)?;
        if std::mem::replace(&mut running.is_launched, true) {
            return None;
        }
        let launched = ModuleMessage::Launched {
            slot,
            batch,
            prepared,
        };
        Some(Message::Module(self.setup.id, launched))
    }

    fn on_batch_done(&mut self, result: BatchResult, shared: &mut Shared) -> Vec<Message> {
        let BatchResult {
            slot,
            module,
            batch,
            took,
            steps,
            lost,
            result,
        } = result;
        let mut messages = Vec::new();
        if self.setup.overlaps && self.setup.prepost.is_none() {
            // One that could not be sent to its worker; of all others the worker has sent word.
            messages.extend(self.launch(BatchLaunched {
                slot,
                module,
                batch,
                prepared: steps.prepared,
            }));
        }
        // Every batch that was sent comes back once: also from a slot that is out of use, or on a path that was lost.
        let running = self.running.remove(&batch);
        invariant!(
            running.is_some(),
            Kind::Batches,
            "batch {} of module {} comes back from slot {} and was not sent; {} were",
            batch.0,
            module.0,
            slot.0,
            self.running.len()
        );
        let Some(RunningBatch { slices, watch, .. }) = running else {
            return messages;
        };
        if watch.is_some_and(|watch| watch.is_overdue()) && self.on_overdue_returned(slot, shared) {
            messages.push(Message::Slots(SlotEvent::Up { slot }));
        }
        let items = slices.iter().map(|slice| u64::from(slice.count)).sum();
        self.count_on_slot(slot, items, took);
        telemetry::record_batch(&self.setup.name, took, &steps);
        self.setup
            .tracer
            .on_batch_done(&self.setup.name, &slices, took, result.is_err());
        if self.setup.prepost.is_none() {
            let now = shared.clock.now();
            let items = slices.iter().map(|slice| slice.count).sum();
            let time = (now.saturating_sub(took), now);
            self.setup
                .timeline
                .record(Lane::Slot(slot), &self.shown_name, time, items);
        }
        let on_path = self.setup.prepost.is_some();
        let end = match result {
            Ok(inferences) => {
                self.check_outputs(&inferences);
                self.store_inferences(&slices, inferences);
                if on_path {
                    BatchEnd::Out
                } else {
                    BatchEnd::Done(slot)
                }
            }
            Err(reason) if on_path => {
                shared.losses.on_request_lost(&self.setup.name, &reason);
                self.stats.set_failure(&reason);
                if lost {
                    BatchEnd::LostOnPath
                } else {
                    BatchEnd::FailedOnPath
                }
            }
            Err(reason) => {
                shared.losses.on_batch_lost(&self.setup.name, slot, &reason);
                self.stats.set_failure(&reason);
                BatchEnd::Failed(slot)
            }
        };
        let ended = ModuleMessage::BatchEnded { batch, took, end };
        messages.push(Message::Module(module, ended));
        messages
    }

    fn check_outputs(&mut self, inferences: &[Inference]) {
        if !self.setup.has_model {
            return;
        }
        for warning in self.outputs.on_batch(inferences) {
            tracing::warn!(target: telemetry::OUTPUTS_TARGET, "module {}: {warning}", self.setup.name);
            self.stats.add_warning(warning);
        }
    }

    /// Stores inferences with their requests, where these have not ended.
    fn store_inferences(&mut self, slices: &[BatchSlice], inferences: Vec<Inference>) {
        let mut inferences = inferences.into_iter();
        for slice in slices {
            let own = inferences.by_ref().take(slice.count as usize);
            let Some(pending) = self.pending.get_mut(&slice.request) else {
                own.for_each(drop);
                continue;
            };
            for (place, inference) in (slice.first as usize..).zip(own) {
                if let Some(slot) = pending.inferences.get_mut(place) {
                    *slot = Some(inference);
                }
            }
        }
    }
}

/// Sends a job to the worker of `slot`. Its channel of one is free: a slot runs one batch at a time.
///
/// # Errors
/// Why the batch cannot run.
fn send(jobs: Option<&Sender<Job>>, slot: SlotId, job: Job) -> Result<(), &'static str> {
    let sent = jobs.map(|jobs| jobs.try_send(job));
    invariant!(
        matches!(sent, Some(Ok(()) | Err(TrySendError::Disconnected(_)))),
        Kind::Slots,
        "a batch is sent to slot {}, which {}",
        slot.0,
        if sent.is_some() {
            "has one waiting"
        } else {
            "is of another module"
        }
    );
    match sent {
        Some(Ok(())) => Ok(()),
        Some(Err(TrySendError::Full(_))) => Err("another batch waits for the slot"),
        Some(Err(TrySendError::Disconnected(_))) | None => Err("the worker of the slot is gone"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use actix::{AsyncContext, Context};
    use crossbeam_channel::bounded;
    use weir_types::ModuleId;
    use weir_types::invariant::counted;

    use super::*;
    use crate::actors::graph::{ModuleSetup, SiteSetup, SlotSessions};
    use crate::clock::Clock;
    use crate::emulated::EmulatedOperator;
    use crate::request_traces::RequestTracer;

    /// A site of one module without slots or requests.
    fn idle_site() -> Site {
        let module = ModuleSetup {
            id: ModuleId(0),
            report_id: ModuleId(0),
            name: "idle".to_owned(),
            model: 0,
            operator: Arc::new(EmulatedOperator::default()),
            successors: Vec::new(),
            jobs: BTreeMap::new(),
            instances: BTreeMap::new(),
            prompts: None,
            lengths: None,
            slo: Span::from_secs(1),
            devices: Vec::new(),
            tracer: RequestTracer::default(),
            prepost: None,
            overlaps: false,
            has_model: false,
            gate: None,
            stage: None,
            reads_tiles: false,
            is_scaled: false,
            timeline: Arc::default(),
        };
        Site::new(SiteSetup {
            graph: 0,
            modules: vec![module],
            sessions: SlotSessions::default(),
            clock: Clock::start(),
            // No actor is behind it.
            egress: Context::new().address(),
            partitions: None,
            cooldown: Span::ZERO,
            is_recorded: false,
        })
    }

    #[test]
    fn a_batch_that_comes_back_without_having_been_sent_is_a_violation() {
        let result = BatchResult {
            slot: SlotId(0),
            module: ModuleId(0),
            batch: BatchId(9),
            took: Span::ZERO,
            steps: StepTimes::default(),
            lost: false,
            result: Ok(Vec::new()),
        };
        let (messages, violations) = counted(|| idle_site().on_batch_done(result));
        assert_eq!(messages, []);
        assert_eq!(violations.iter().collect::<Vec<_>>(), [(Kind::Batches, 1)]);
    }

    fn job(batch: u64) -> Job {
        Job {
            module: ModuleId(0),
            model: 0,
            batch: BatchId(batch),
            items: Vec::new(),
            useful_until: None,
        }
    }

    #[test]
    fn a_batch_for_a_slot_that_has_one_waiting_fails_and_is_a_violation() {
        let (jobs, queue) = bounded(1);
        let slot = SlotId(3);
        assert_eq!(send(Some(&jobs), slot, job(1)), Ok(()));
        for refusing in [Some(&jobs), None] {
            let (sent, violations) = counted(|| send(refusing, slot, job(2)));
            assert!(sent.is_err());
            assert_eq!(violations.iter().collect::<Vec<_>>(), [(Kind::Slots, 1)]);
        }
        assert_eq!(queue.recv().map(|job| job.batch), Ok(BatchId(1)));
        drop(queue);
        let lost = send(Some(&jobs), slot, job(3));
        assert!(
            lost.is_err(),
            "a worker that ended is lost, which is no violation"
        );
    }
}
