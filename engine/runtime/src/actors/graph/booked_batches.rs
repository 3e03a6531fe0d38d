//! Batches of partitioned models as they set out and come back, and the reports of partition workers.

use weir_control::{BookedPath, Message, ReservationMessage};
use weir_flow::Tensor;
use weir_partition::Event;
use weir_partition::wire::{BatchFailure, BatchKey, StageTimes};
use weir_policy::reservations::{BookingId, PartitionLoad, PlanEvent};
use weir_types::Span;

use super::site::Site;
use crate::fleet::OutboundBatch;

impl Site {
    /// Sends a batch along its path; gives the failure where it cannot be sent.
    pub(super) fn set_out(
        &mut self,
        booking: BookingId,
        key: BatchKey,
        items: u32,
        path: &BookedPath,
    ) -> Option<Message> {
        let partitions = self.partitions.as_mut()?;
        let module = self.modules.get(key.module.index())?;
        let (preprocessor, _) = module.setup.prepost.as_ref()?;
        let running = module.running.get(&key.batch);
        let sent = preprocessor.send(OutboundBatch {
            key,
            items: running.map_or(Vec::new(), |running| running.items.clone()),
            path: partitions.begin(booking, key, (&module.shown_name, items), path),
        });
        self.on_path_failure(key, &sent.err()?)
    }

    /// A partition worker reports.
    pub(super) fn on_worker_event(&mut self, event: Event) -> Vec<Message> {
        let Some(partitions) = &mut self.partitions else {
            return Vec::new();
        };
        let message = match event {
            Event::Up { worker, info } => {
                tracing::info!(worker = partitions.name(worker), class = %info.class, "worker is up");
                partitions.on_worker_info(worker, &info);
                Some(Message::planned(PlanEvent::WorkerUp { worker }))
            }
            Event::Down { worker, reason } => {
                tracing::warn!(worker = partitions.name(worker), "worker lost: {reason}");
                Some(Message::planned(PlanEvent::WorkerDown { worker }))
            }
            Event::Used {
                worker,
                key,
                stage,
                what,
                usage,
            } => partitions.on_used(worker, key, (stage, what, usage)),
            Event::Done { key, times, outputs } => return self.on_path_end(key, &times, outputs),
            Event::Failed { key, failure, .. } => self.on_path_failure(key, &failure),
            Event::Loaded {
                worker, partition, ..
            } => {
                let loaded = PlanEvent::Loaded(PartitionLoad { worker, partition });
                Some(Message::planned(loaded))
            }
            Event::NotLoaded {
                worker,
                partition,
                reason,
            } => {
                let worker_name = partitions.name(worker);
                tracing::error!(worker = worker_name, "a partition cannot be loaded: {reason}");
                let not_loaded = PlanEvent::NotLoaded(PartitionLoad { worker, partition });
                Some(Message::planned(not_loaded))
            }
            Event::Activated { .. } => None,
        };
        message.into_iter().collect()
    }

    /// A batch left its last stage: its outputs are to be decoded.
    fn on_path_end(&mut self, key: BatchKey, times: &[StageTimes], outputs: Vec<Tensor>) -> Vec<Message> {
        let now = self.shared.clock.now();
        let booking = self
            .partitions
            .as_mut()
            .and_then(|partitions| partitions.take(key));
        let Some(booking) = booking else {
            return Vec::new();
        };
        let at = times.last().map_or(now, |last| last.run.to);
        let finished = ReservationMessage::Finished { booking, at };
        let device_time = times.iter().map(|stage| stage.run.span()).sum();
        let lost = self.with(key.module, |site, _| {
            site.on_outputs(key.batch, outputs, device_time)
        });
        let mut messages = vec![Message::Reservations(finished)];
        if let Some(lost) = lost.flatten() {
            messages.extend(self.on_batch_done(lost));
        }
        messages
    }

    /// A batch failed on its path, or was lost with a worker and may run again.
    fn on_path_failure(&mut self, key: BatchKey, failure: &BatchFailure) -> Option<Message> {
        let booking = self.partitions.as_mut()?.take(key)?;
        if let Some(module) = self.modules.get(key.module.index()) {
            let losses = &mut self.shared.losses;
            losses.on_request_lost(&module.setup.name, &failure.to_string());
        }
        let is_lost = !matches!(failure, BatchFailure::Session(_) | BatchFailure::Panicked(_));
        Some(Message::Reservations(ReservationMessage::Failed {
            booking,
            took: Span::ZERO,
            is_lost,
        }))
    }
}
