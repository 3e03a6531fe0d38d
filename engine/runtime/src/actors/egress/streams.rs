//! Streams of the egress: they begin, change their state, end, and are removed while the run goes on.

use std::sync::Arc;

use actix::Handler;
use weir_control::{EgressMessage, Message};
use weir_flow::StreamState;
use weir_policy::HealthTracker;
use weir_types::{StreamId, invariant};

use super::Egress;
use crate::actors::messages::{
    AbandonStream, AddStream, ControlMessage, EndWhenIdle, RemoveStream, ScheduleChanged, SetStreamSlo,
    StreamEnded, StreamPaused, StreamStateChanged,
};
use crate::actors::stream_table::{RemovedStream, StreamEntry, StreamSummary};
use crate::telemetry;

impl Egress {
    /// Has the graphs drop what is in flight of a stream, or of all, and waits for its source no longer.
    pub(super) fn abandon(&mut self, abandoned: Option<StreamId>) {
        for graph in self.graphs.values() {
            let abandon = EgressMessage::Abandon(abandoned);
            graph.do_send(ControlMessage(Message::Egress(abandon)));
        }
        let streams = self.streams.keys().copied();
        let streams = streams.filter(|stream| abandoned.is_none_or(|of| of == *stream));
        for stream in streams.collect::<Vec<StreamId>>() {
            if let Some(entry) = self.streams.get_mut(&stream) {
                entry.summary.get_or_insert_with(|| StreamSummary {
                    error: Some("its source did not stop when it was asked to".to_owned()),
                    ..StreamSummary::default()
                });
            }
            self.remove_if_idle(stream);
        }
        self.signal_if_idle();
    }

    /// So many requests of a stream, or frames that none is made of, ended in that way.
    pub(super) fn record_outcomes(&mut self, stream: StreamId, outcome: &'static str, count: u64) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.outcomes.insert(outcome);
            telemetry::record_outcomes(&entry.name, outcome, count);
        }
    }

    /// Records again what belongs to streams and modules that are there.
    pub(super) fn keep_series(&self) {
        for entry in self.streams.values() {
            for outcome in &entry.outcomes {
                telemetry::record_outcomes(&entry.name, outcome, 0);
            }
            match (&entry.state, entry.paused) {
                (_, Some(_)) => telemetry::keep_stream_state(&entry.name, &StreamState::Paused),
                (Some((state, _)), None) => telemetry::keep_stream_state(&entry.name, state),
                (None, None) => {}
            }
        }
        for module in &self.module_names {
            telemetry::record_batches_lost(module, 0);
        }
        for (kind, _) in invariant::violations().iter() {
            telemetry::record_violations(kind, 0);
        }
    }

    /// Closes what is known over time of a stream that has ended. Removes one that is to be removed once its source has ended and nothing of it is in flight.
    pub(super) fn remove_if_idle(&mut self, stream: StreamId) {
        self.close_ended_analytics(stream);
        let Some(entry) = self.streams.get(&stream) else {
            return;
        };
        if entry.removed.is_none() || entry.summary.is_none() || !entry.passing.is_empty() {
            return;
        }
        let now = self.clock.now();
        let seconds = now.since(entry.added_at).as_secs_f64();
        let Some(mut report) = self.books.close_stream(stream, seconds) else {
            return;
        };
        let Some(entry) = self.streams.remove(&stream) else {
            return;
        };
        entry.counts(now).complete(&mut report);
        self.reorder.remove_stream(stream);
        self.progress.on_stream_removed(stream);
        telemetry::record_stream_removed(&entry.name);
        let pending = Arc::new(());
        for sink in self.sinks.iter_mut() {
            let mut was_shown = false;
            for view in sink.views.values_mut() {
                was_shown |= view.streams.remove(&stream.0);
            }
            if was_shown {
                sink.handle.send_stream_removed(&entry.name, &pending);
            }
        }
        if let Some(removed) = entry.removed {
            // There is no receiver where the run failed meanwhile.
            let _ = removed.send(RemovedStream {
                report,
                sinks: Arc::downgrade(&pending),
            });
        }
        self.signal_if_idle();
    }
}

impl Handler<AddStream> for Egress {
    type Result = ();

    fn handle(&mut self, added: AddStream, _context: &mut Self::Context) {
        for sink in self
            .sinks
            .iter_mut()
            .filter(|sink| added.sinks.contains(&sink.name))
        {
            if let Some(view) = sink.views.get_mut(&added.graph) {
                view.streams.insert(added.stream.0);
            }
        }
        self.progress.on_stream_added(added.stream);
        let entry = StreamEntry::new(added.name, added.own_slo, &self.track_ids, self.clock.now());
        self.streams.insert(added.stream, entry);
    }
}

impl Handler<SetStreamSlo> for Egress {
    type Result = ();

    fn handle(&mut self, SetStreamSlo { stream, own_slo }: SetStreamSlo, _context: &mut Self::Context) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.own_slo = own_slo;
        }
    }
}

impl Handler<StreamStateChanged> for Egress {
    type Result = ();

    fn handle(&mut self, changed: StreamStateChanged, _context: &mut Self::Context) {
        let Some(entry) = self.streams.get_mut(&changed.stream) else {
            return;
        };
        entry
            .health
            .on_state(&changed.state, changed.last_frame, changed.since);
        let change = entry.health.last();
        telemetry::record_stream_state(&entry.name, &change.state);
        self.progress.on_stream_state(changed.stream, change);
        entry.state = Some((changed.state.clone(), changed.since));
        let mut health = self.streams.values().map(|stream| &stream.health);
        if !self.all_down_logged && health.all(HealthTracker::is_down) {
            self.all_down_logged = true;
            tracing::error!(
                "no source delivers frames; retrying until the run is stopped or its duration is over"
            );
        }
        // What comes after another connection is another scene.
        let is_away = matches!(changed.state, StreamState::Waiting { .. });
        let Some(entry) = self.streams.get_mut(&changed.stream) else {
            return;
        };
        if is_away {
            entry.scene_ended = true;
            self.close_ended_analytics(changed.stream);
        } else if entry.scene_ended {
            self.close_analytics(changed.stream);
        }
        self.publish_stream_state(changed.stream, changed.state);
    }
}

impl Handler<StreamEnded> for Egress {
    type Result = ();

    fn handle(&mut self, ended: StreamEnded, _context: &mut Self::Context) {
        let StreamEnded {
            stream,
            counts,
            stale,
            error,
        } = ended;
        self.progress.on_stream_ended(stream);
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        entry.summary = Some(StreamSummary {
            counts,
            stale,
            error: error.clone(),
        });
        if !matches!(entry.notified, Some(StreamState::Gone { .. })) {
            self.publish_stream_state(stream, StreamState::Gone { reason: error });
        }
        self.remove_if_idle(stream);
        self.signal_if_idle();
    }
}

impl Handler<StreamPaused> for Egress {
    type Result = ();

    fn handle(&mut self, paused: StreamPaused, _context: &mut Self::Context) {
        let Some(entry) = self.streams.get_mut(&paused.stream) else {
            return;
        };
        entry.paused = paused.paused.then_some(paused.since);
        entry.health.on_paused(paused.since);
        if paused.paused {
            telemetry::record_stream_state(&entry.name, &StreamState::Paused);
            self.publish_stream_state(paused.stream, StreamState::Paused);
        }
    }
}

impl Handler<ScheduleChanged> for Egress {
    type Result = ();

    fn handle(&mut self, changed: ScheduleChanged, _context: &mut Self::Context) {
        let ScheduleChanged { stream, is_active } = changed;
        let now_ms = self.clock.utc_ms(self.clock.now());
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        entry.is_outside_schedule = !is_active;
        if is_active {
            entry.transforms.on_analysed_again(now_ms);
        } else {
            entry.scene_ended = true;
            self.close_ended_analytics(stream);
        }
    }
}

impl Handler<RemoveStream> for Egress {
    type Result = ();

    fn handle(&mut self, RemoveStream { stream, removed }: RemoveStream, _context: &mut Self::Context) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.removed = Some(removed);
        }
        self.remove_if_idle(stream);
    }
}

impl Handler<AbandonStream> for Egress {
    type Result = ();

    fn handle(&mut self, AbandonStream(abandoned): AbandonStream, _context: &mut Self::Context) {
        self.abandon(Some(abandoned));
    }
}

impl Handler<EndWhenIdle> for Egress {
    type Result = ();

    fn handle(&mut self, _: EndWhenIdle, _context: &mut Self::Context) {
        self.run_end.end_when_idle();
        self.signal_if_idle();
    }
}
