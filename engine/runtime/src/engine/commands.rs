//! Commands to a run that goes on: streams are added, paused, resumed and removed, and its state is shown.

use std::sync::Arc;

use tokio::sync::oneshot;
use weir_policy::{ModuleEvent, StreamShare};
use weir_types::{Span, Timestamp};

use super::live_streams::{LiveStream, LiveStreams};
use super::{RunContext, StartedRun, StreamContext};
use crate::actors::{
    AbandonStream, AddStream, PolicyEvent, RemoveStream, StreamCounts, TakeCounts, TakeStats,
};
use crate::command::{Command, NewStream, StreamError};
use crate::routes::{Entrance, Route};
use crate::snapshot::{Snapshot, StreamPhase, StreamSnapshot};
use crate::stream_setup::StreamSetup;

impl RunContext<'_> {
    /// Carries out a command, and answers it. An answer without a receiver is discarded.
    pub(super) async fn on_command(&self, command: Command, started: &StartedRun, live: &mut LiveStreams) {
        match command {
            Command::Add(new, answer) => {
                let _ = answer.send(self.add_stream(*new, &started.streams, live));
            }
            Command::Remove(name, answer) => {
                live.remove(&name, answer, &started.streams.actors.egress, self.clock.now());
            }
            Command::Pause(name, answer) => {
                let _ = answer.send(running(live, &name).map(|stream| stream.control.pause()));
            }
            Command::Resume(name, answer) => {
                let _ = answer.send(running(live, &name).map(|stream| stream.control.resume()));
            }
            Command::Change(name, change, answer) => {
                let _ = answer.send(self.change_stream(&name, change, &started.streams, live));
            }
            Command::ApplyPolicy(policy, answer) => {
                let _ = answer.send(self.apply_policy(&policy, &started.streams));
            }
            Command::Snapshot(answer) => {
                let snapshot = self.snapshot(started, live).await;
                let _ = answer.send(snapshot.map(Box::new).ok_or(StreamError::Stopping));
            }
        }
    }

    fn add_stream(
        &self,
        new: NewStream,
        context: &StreamContext,
        live: &mut LiveStreams,
    ) -> Result<(), StreamError> {
        if self.stop.is_raised() {
            return Err(StreamError::Stopping);
        }
        let NewStream { node, factory, like } = new;
        live.check_new(&node.name)?;
        self.check_name(&node.name)?;
        let entrance = self.entrance(like)?;
        let route = Arc::new(Route::new(self.graph, &entrance, &self.specs.topology));
        self.check_share(&node.name, node.share)?;
        self.check_slo(&node.name, node.mode, node.slo, &route)?;
        let id = live.next_id();
        let streams = live.len() + 1;
        let setup = StreamSetup::new(&node, factory, (u64::from(id.0), streams), self.limits)?;
        let memory = live.memory_share(streams);
        let views = (0..).zip(&context.views);
        // Before any message of its source.
        context.actors.egress.do_send(AddStream {
            stream: id,
            name: node.name.as_str().into(),
            own_slo: node.slo,
            sinks: views
                .filter(|(sink, view)| route.reaches(*sink, view))
                .map(|(sink, _)| sink)
                .collect(),
        });
        if node.share != StreamShare::default() {
            let share = node.share;
            self.publish_share(id, share, context);
        }
        let stream = self.start_source((id, &node, setup, memory), &route, context);
        let stream = stream.inspect_err(|_| {
            let (removed, _) = oneshot::channel();
            context
                .actors
                .egress
                .do_send(RemoveStream { stream: id, removed });
            context.actors.egress.do_send(AbandonStream(id));
        })?;
        live.insert(node.name, stream);
        live.share_memory();
        Ok(())
    }

    /// Sources, modules and sinks share their names.
    fn check_name(&self, name: &str) -> Result<(), StreamError> {
        let is_module = self.graph.modules().iter().any(|module| module.name == name);
        let is_sink = self.graph.sinks().iter().any(|sink| sink.name == name);
        let by = match (is_module, is_sink) {
            (true, _) => "module",
            (_, true) => "sink",
            _ => return Ok(()),
        };
        Err(StreamError::NameTaken {
            name: name.to_owned(),
            by: Some(by),
        })
    }

    fn entrance(&self, like: Option<String>) -> Result<Entrance, StreamError> {
        let Some(name) = like else {
            return Ok(Entrance::of_any_source(self.graph));
        };
        let sources = self.graph.sources();
        match sources.iter().position(|source| source.name == name) {
            Some(source) => Ok(Entrance::of_source(self.graph, source)),
            None => Err(StreamError::UnknownSource {
                name,
                known: sources.iter().map(|source| source.name.clone()).collect(),
            }),
        }
    }

    /// Completes removals, and informs the policy of the streams that are gone.
    pub(super) fn complete_removals(&self, context: &StreamContext, live: &mut LiveStreams, now: Timestamp) {
        if !live.has_removals() {
            return;
        }
        for stream in live.poll_removals(self.options.grace, &context.actors.egress, now) {
            for module in &context.actors.modules {
                module.do_send(PolicyEvent(ModuleEvent::StreamRemoved { stream }));
            }
        }
    }

    /// The state now; `None` where an actor has ended.
    async fn snapshot(&self, started: &StartedRun, live: &LiveStreams) -> Option<Snapshot> {
        let actors = &started.streams.actors;
        let mut counts = actors.egress.send(TakeCounts).await.ok()?;
        for (spec, module) in self.specs.modules.iter().zip(&actors.modules) {
            let stats = module.send(TakeStats).await.ok()?;
            counts.stats.modules.insert(spec.id, stats);
        }
        let now = self.clock.now();
        let streams = counts.streams.iter().map(|(id, stream)| {
            let (state, since, reason) = phase(stream, started.began);
            let shown = live.any(&stream.name);
            StreamSnapshot {
                name: stream.name.to_string(),
                id: id.0,
                source: shown.map(|shown| shown.source.clone()).unwrap_or_default(),
                state,
                for_s: now.since(since).as_secs_f64(),
                reason,
                slo_ms: stream.own_slo.map(Span::as_millis_f64),
                share: shown.map(|shown| shown.share).unwrap_or_default(),
                requests: counts.ledger.stream(*id),
            }
        });
        let streams = streams.collect();
        let sinks = std::mem::take(&mut counts.sinks);
        let mut report = self.report_of(counts, started.began);
        let names = self.graph.sinks().iter().map(|sink| sink.name.clone());
        report.sinks = names.zip(sinks).collect();
        report.decoding = started.streams.decoding.report();
        report.invariants = self.violations.counts();
        Some(Snapshot {
            stopping: self.stop.is_raised(),
            streams,
            policy: self.policy.borrow().clone(),
            warnings: self.reserve_warning(live).into_iter().collect(),
            report,
        })
    }
}

/// A stream whose source has not ended.
fn running<'a>(live: &'a LiveStreams, name: &str) -> Result<&'a LiveStream, StreamError> {
    let stream = live.get(name)?;
    if stream.thread.is_finished() {
        return Err(StreamError::Ended {
            name: name.to_owned(),
        });
    }
    Ok(stream)
}

/// What a stream is doing, since when, and why.
fn phase(stream: &StreamCounts, began: Timestamp) -> (StreamPhase, Timestamp, Option<String>) {
    let (state, since) = match &stream.state {
        Some((state, since)) => (Some(state), *since),
        None => (None, began),
    };
    let (phase, reason) = StreamPhase::of_source(state);
    match stream.paused {
        _ if stream.is_removed => (StreamPhase::Removing, since, reason),
        Some(since) => (StreamPhase::Paused, since, None),
        None => (phase, since, reason),
    }
}
