//! Commands to a run that goes on: streams are added, paused, resumed and removed, and its state is shown.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use weir_control::{GearMessage, Message};
use weir_flow::Cause;
use weir_graph::ModuleNode;
use weir_policy::{ModuleEvent, ModuleStats, StreamShare};
use weir_types::{Span, Timestamp};

use super::live_streams::{LiveStream, LiveStreams};
use super::{RunContext, StartedRun, StreamContext};
use crate::actors::{AbandonStream, AddStream, RemoveStream, StreamCounts, TakeCounts, TakeLoads, TakeStats};
use crate::command::{Command, NewStream, StreamError};
use crate::prepare::GraphInForce;
use crate::routes::{Entrance, Route, Scene};
use crate::snapshot::{ModuleSnapshot, SinkSnapshot, Snapshot, StreamPhase, StreamSnapshot};
use crate::stream_setup::StreamSetup;

impl RunContext<'_> {
    /// Carries out a command, and answers it. An answer without a receiver is discarded.
    pub(super) async fn on_command(
        &self,
        command: Command,
        started: &mut StartedRun,
        live: &mut LiveStreams,
        threads: &mut Vec<JoinHandle<()>>,
    ) {
        match command {
            Command::Add(new, entered, answer) => {
                let _ = answer.send(self.add_stream(*new, entered, &started.streams, live));
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
            Command::ObservePackets(name, observer, answer) => {
                let _ = answer.send(live.get(&name).map(|stream| stream.tap.observe(observer)));
            }
            Command::Change(name, change, answer) => {
                let _ = answer.send(self.change_stream(&name, change, &started.streams, live));
            }
            Command::ApplyGears(gears, answer) => {
                started.streams.actors.tell(GearMessage::Applied(gears));
                let _ = answer.send(Ok(()));
            }
            Command::ApplyPolicy(policy, answer) => {
                let _ = answer.send(self.apply_policy(&policy, &started.streams));
            }
            Command::Graph(answer) => {
                let plan = self.plan_in_force(started).await;
                let _ = answer.send(plan.map(|plan| GraphInForce {
                    graph: Arc::clone(&self.in_force().graph),
                    plan,
                    processor: Arc::clone(&self.processor),
                }));
            }
            Command::Swap(prepared, answer) => {
                let _ = answer.send(self.swap(*prepared, started, live, threads).await);
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
        entered: Option<Vec<String>>,
        context: &StreamContext,
        live: &mut LiveStreams,
    ) -> Result<(), StreamError> {
        if self.stop.is_raised() {
            return Err(StreamError::Stopping);
        }
        let NewStream { node, factory, like } = new;
        live.check_new(&node.name)?;
        self.check_name(&node.name)?;
        let in_force = self.in_force();
        let named = like.clone();
        let entrance = match &entered {
            Some(names) => self.entrance_into(names)?,
            None => self.entrance(like)?,
        };
        let route = Arc::new(Route::new(
            (in_force.number, &in_force.graph),
            &entrance,
            &in_force.specs.topology,
            Scene::new(&in_force.graph, &node, named.as_deref()),
        ));
        self.check_share(&node.name, node.share)?;
        self.check_slo(&node.name, node.mode, node.slo, &route)?;
        let id = live.next_id();
        let streams = live.len() + 1;
        let setup = StreamSetup::new(&node, factory, (u64::from(id.0), streams), in_force.limits)?;
        let memory = live.memory_share(streams);
        let views = (0..).zip(&context.views);
        // Before any message of its source.
        context.actors.egress.do_send(AddStream {
            stream: id,
            name: node.name.as_str().into(),
            own_slo: node.slo,
            graph: in_force.number,
            sinks: views
                .filter(|(sink, (_, view))| route.reaches((*sink, view), &node.name))
                .map(|(_, (name, _))| name.clone())
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
        let stream = LiveStream {
            like: named,
            entered,
            ..stream
        };
        live.insert(node.name, stream);
        live.share_memory();
        Ok(())
    }

    /// Sources, templates, modules and sinks share their names.
    fn check_name(&self, name: &str) -> Result<(), StreamError> {
        let graph = Arc::clone(&self.in_force().graph);
        let is_module = graph.modules().iter().any(|module| module.label() == name);
        let is_sink = graph.sinks().iter().any(|sink| sink.name == name);
        let is_template = graph.templates().iter().any(|template| template == name);
        let by = match (is_module, is_sink, is_template) {
            (true, ..) => "module",
            (_, true, _) => "sink",
            (.., true) => "template",
            _ => return Ok(()),
        };
        Err(StreamError::NameTaken {
            name: name.to_owned(),
            by: Some(by),
        })
    }

    /// Into the modules and sinks of those names.
    fn entrance_into(&self, names: &[String]) -> Result<Entrance, StreamError> {
        let graph = Arc::clone(&self.in_force().graph);
        let modules = graph.modules().iter().map(ModuleNode::label);
        let sinks = graph.sinks().iter().map(|sink| sink.name.as_str());
        let known: Vec<&str> = modules.chain(sinks).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(StreamError::UnknownInput { name: name.clone() });
        }
        Ok(Entrance::into_named(&graph, names))
    }

    fn entrance(&self, like: Option<String>) -> Result<Entrance, StreamError> {
        let graph = Arc::clone(&self.in_force().graph);
        let Some(name) = like else {
            return Ok(Entrance::of_any_source(&graph));
        };
        match graph.source_index(&name) {
            Some(source) => Ok(Entrance::of_source(&graph, source)),
            None => Err(StreamError::UnknownSource {
                name,
                known: graph.source_names().map(str::to_owned).collect(),
            }),
        }
    }

    /// Completes removals, and informs the policy of the streams that are gone.
    pub(super) fn complete_removals(&self, context: &StreamContext, live: &mut LiveStreams, now: Timestamp) {
        if !live.has_removals() {
            return;
        }
        for stream in live.poll_removals(self.options.grace, &context.actors.egress, now) {
            let removed = ModuleEvent::StreamRemoved { stream };
            context.actors.tell(Message::Modules(removed));
        }
    }

    /// The state now; `None` where an actor has ended.
    async fn snapshot(&self, started: &StartedRun, live: &LiveStreams) -> Option<Snapshot> {
        let actors = &started.streams.actors;
        let mut counts = actors.egress.send(TakeCounts).await.ok()?;
        for draining in &started.draining {
            // One that has ended has sent its counts.
            let stats = draining.actors.graph.send(TakeStats).await;
            counts.graphs.add(stats.unwrap_or_default());
        }
        counts.graphs.add(actors.graph.send(TakeStats).await.ok()?);
        let mut modules = Vec::new();
        let in_force = self.in_force();
        let loads = actors.graph.send(TakeLoads).await.ok()?;
        let ids = in_force.report_ids.iter();
        for ((id, load), node) in ids.zip(loads).zip(in_force.graph.modules()) {
            let stats = counts.graphs.modules.get(id).map(ModuleStats::totals);
            modules.push(ModuleSnapshot::new(
                &in_force.graph,
                node,
                load,
                stats.unwrap_or_default(),
            ));
        }
        let now = self.clock.now();
        let streams = counts.streams.iter().map(|(id, stream)| {
            let (state, since, reason) = phase(stream, started.began);
            let shown = live.any(&stream.name);
            let frozen_since = shown.and_then(|shown| shown.control.frozen_since());
            StreamSnapshot {
                name: stream.name.to_string(),
                id: id.0,
                source: shown.map(|shown| shown.source.clone()).unwrap_or_default(),
                detect_source: shown.and_then(|shown| shown.detect_source.clone()),
                state,
                for_s: now.since(since).as_secs_f64(),
                frozen_s: frozen_since
                    .filter(|_| state == StreamPhase::Live)
                    .map(|since| now.since(since).as_secs_f64()),
                outside_schedule: state == StreamPhase::Live
                    && shown.is_some_and(|shown| shown.control.is_outside_schedule()),
                lost_s: lost_since(stream).map(|since| now.since(since).as_secs_f64()),
                cause: reason.as_deref().and_then(Cause::of_source),
                reason,
                slo_ms: stream.own_slo.map(Span::as_millis_f64),
                share: shown.map(|shown| shown.share).unwrap_or_default(),
                groups: shown.map(|shown| shown.groups.clone()).unwrap_or_default(),
                requests: counts.ledger.stream(*id),
            }
        });
        let streams = streams.collect();
        let sinks = std::mem::take(&mut counts.sinks);
        let mut report = self.report_of(counts, started.began);
        report.sinks = sinks;
        report.decoding = started.streams.decoding.report();
        report.invariants = self.violations.counts();
        Some(Snapshot {
            stopping: self.stop.is_raised(),
            streams,
            slo_ms: in_force.graph.slo().as_millis_f64(),
            modules,
            sinks: SinkSnapshot::all(&in_force.graph),
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

/// Start of the outage of a stream that is to deliver frames; `None` if they arrive, or if it is paused or removed.
fn lost_since(stream: &StreamCounts) -> Option<Timestamp> {
    let (since, _) = stream.outage.as_ref()?;
    (stream.paused.is_none() && !stream.is_removed).then_some(*since)
}

/// Phase of a stream, the time of its last change, and the reason if no frames arrive.
fn phase(stream: &StreamCounts, began: Timestamp) -> (StreamPhase, Timestamp, Option<String>) {
    let (state, since) = match &stream.state {
        Some((state, since)) => (Some(state), *since),
        None => (None, began),
    };
    let (phase, reason) = StreamPhase::of_source(state);
    // The reason of an outage holds while the source is opened again.
    let reason = reason.or_else(|| stream.outage.as_ref().map(|(_, reason)| reason.clone()));
    match stream.paused {
        _ if stream.is_removed => (StreamPhase::Removing, since, reason),
        Some(since) => (StreamPhase::Paused, since, None),
        None => (phase, since, reason),
    }
}
