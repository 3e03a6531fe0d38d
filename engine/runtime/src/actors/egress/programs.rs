//! Deliveries on their way to sinks, through transforms that programs of users compute.
//!
//! A delivery waits for the answers of its programs, and those of its stream after it wait behind it, so that sinks get them in
//! order; other streams do not wait. Every program answers each delivery within a bounded time, if only that it passes
//! unchanged.

use std::sync::Arc;

use actix::Handler;
use weir_analytics::ProgramIncidents;
use weir_flow::{DeliveredObject, Delivery, Incident};
use weir_types::{StreamId, Timestamp};

use super::{Egress, SinkRoute, label};
use crate::actors::passing::{Passing, PassingFrame, PassingNotice, ProgramCall, apply, take_answers};
use crate::objects::assemble;
use crate::program::{Program, ProgramDone, ProgramFrame};
use crate::routes::SinkView;

impl Egress {
    /// Passes a frame through the programs of its stream, to the sinks.
    pub(super) fn pass(&mut self, mut frame: PassingFrame) {
        let stream = frame.request.stream;
        let Some(entry) = self.streams.get(&stream) else {
            return;
        };
        let name = Arc::clone(&entry.name);
        let programs = self.programs.of(frame.request.route.graph, &name);
        let calls = programs.filter_map(|program| self.call(program, &name, &frame));
        let calls: Vec<ProgramCall> = calls.collect();
        if calls.is_empty() && entry.passing.is_empty() {
            return self.send_frame(&name, &frame);
        }
        frame.calls = calls;
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.passing.push_back(Passing::Frame(Box::new(frame)));
        }
        self.send_ready(stream);
    }

    /// Hands a frame over to a program; `None` if it passes unchanged.
    fn call(&self, program: &Program, name: &Arc<str>, frame: &PassingFrame) -> Option<ProgramCall> {
        let (transform, found) = (&program.transform, &frame.found);
        let (objects, refs) = assemble(
            &frame.results,
            |module, object| program.modules.contains(&module) && transform.spec.takes(&object.class),
            |_| true,
            false,
            (found, &transform.trackers),
        );
        let at = self.clock.now();
        let delivery = Arc::new(Delivery {
            ended_tracks: found.ended_by(&transform.trackers).cloned().collect(),
            ..delivery_of((name, at), frame, &self.module_names, objects)
        });
        let submitted = program.submit(ProgramFrame {
            stream: frame.request.stream,
            request: frame.request.id,
            delivery: Arc::clone(&delivery),
            at,
        });
        submitted.then(|| ProgramCall {
            transform: Arc::clone(&transform.name),
            delivery,
            objects: refs,
            answer: None,
        })
    }

    /// Sends the outputs of a stream that are complete, up to the first one that waits for a program.
    fn send_ready(&mut self, stream: StreamId) {
        while let Some(entry) = self.streams.get_mut(&stream) {
            if !entry.passing.front().is_some_and(Passing::is_ready) {
                return;
            }
            let name = Arc::clone(&entry.name);
            match entry.passing.pop_front() {
                Some(Passing::Frame(mut frame)) => {
                    take_answers(&mut frame, &mut entry.program_incidents, &name);
                    self.send_frame(&name, &frame);
                }
                Some(Passing::Notice(mut notice)) => {
                    let programs = entry.program_incidents.values_mut().filter(|_| notice.closes);
                    let ended: Vec<Incident> = programs.flat_map(ProgramIncidents::close).collect();
                    notice.found.incidents.extend(ended);
                    self.send_analytics(notice.graph, (stream, &name), &notice.found);
                }
                None => return,
            }
        }
    }

    /// Sends tracks and incidents without a frame, after the frames before them.
    pub(super) fn pass_notice(&mut self, stream: StreamId, notice: PassingNotice) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.passing.push_back(Passing::Notice(Box::new(notice)));
            self.send_ready(stream);
        }
    }

    /// Has programs forget a stream, of which a graph knows nothing any more.
    pub(super) fn close_programs(&self, graph: u32, stream: &Arc<str>) {
        for program in self.programs.of(graph, stream) {
            program.on_stream_closed(stream);
        }
    }

    /// Sends a frame to the sinks that show it.
    fn send_frame(&mut self, name: &Arc<str>, frame: &PassingFrame) {
        let (request, found) = (&frame.request, &frame.found);
        let now = self.clock.now();
        let mut deliveries: Vec<(&SinkView, bool, Arc<Delivery>)> = Vec::new();
        for SinkRoute { handle, views, .. } in self.sinks.iter_mut() {
            let view = views.get(&request.route.graph);
            let Some(view) = view.filter(|view| view.streams.contains(&request.stream.0)) else {
                continue;
            };
            let candidates = handle.wants_candidates();
            let existing = deliveries
                .iter()
                .find(|(other, with, _)| other.is_given_the_same(view) && *with == candidates)
                .map(|(_, _, delivery)| Arc::clone(delivery));
            let delivery = existing.unwrap_or_else(|| {
                let shows = |module: u32| view.modules.contains(&module);
                let (mut objects, refs) = assemble(
                    &frame.results,
                    |module, _| shows(module),
                    shows,
                    candidates,
                    (found, &view.trackers),
                );
                for transform in &view.transforms {
                    let changes = frame.changes.get(transform).into_iter().flatten();
                    changes.for_each(|change| apply(change, &refs, &mut objects));
                }
                let delivery = Arc::new(Delivery {
                    ended_tracks: found.ended_by(&view.trackers).cloned().collect(),
                    incidents: found.incidents_of(&view.transforms).cloned().collect(),
                    overlays: found.overlays_of(&view.transforms).cloned().collect(),
                    ..delivery_of((name, now), frame, &self.module_names, objects)
                });
                deliveries.push((view, candidates, Arc::clone(&delivery)));
                delivery
            });
            handle.send_delivery(&delivery, &request.permit);
        }
    }

    /// Whether a graph has deliveries that wait for programs.
    fn has_passing(&self, graph: u32) -> bool {
        let streams = self.streams.values();
        let mut passing = streams.flat_map(|entry| &entry.passing);
        passing.any(|passing| passing.graph() == graph)
    }

    /// Takes a graph down, once no delivery of it waits.
    pub(super) fn drop_graph_when_passed(&mut self, number: u32) {
        self.close_graph_analytics(number);
        if self.has_passing(number) {
            self.programs.dropping.insert(number);
        } else {
            self.programs.remove(number);
            self.drop_graph(number);
        }
    }

    /// Takes down graphs of which no delivery waits any more.
    fn drop_passed_graphs(&mut self) {
        let dropping = std::mem::take(&mut self.programs.dropping);
        for number in dropping {
            self.drop_graph_when_passed(number);
        }
    }
}

/// A frame of a stream with these objects, as it is at `now`; without tracks that ended, incidents and drawings.
fn delivery_of(
    (name, now): (&Arc<str>, Timestamp),
    frame: &PassingFrame,
    modules: &[Arc<str>],
    objects: Vec<DeliveredObject>,
) -> Delivery {
    let request = &frame.request;
    let latency = now.since(request.sent_at);
    let name_of = |module: u32| modules.get(module as usize).map(label);
    Delivery {
        stream: Arc::clone(name),
        frame: Arc::clone(&request.frame),
        time_ms: frame.time_ms,
        latency_ms: latency.as_millis_f64(),
        late: latency > request.slo.unwrap_or(request.route.slo),
        still: request.still,
        without: frame.results.without().filter_map(name_of).collect(),
        objects,
        ended_tracks: Vec::new(),
        incidents: Vec::new(),
        overlays: Vec::new(),
    }
}

impl Handler<ProgramDone> for Egress {
    type Result = ();

    fn handle(&mut self, done: ProgramDone, _context: &mut Self::Context) {
        let Some(entry) = self.streams.get_mut(&done.stream) else {
            return;
        };
        let mut frames = entry.passing.iter_mut().filter_map(|passing| match passing {
            Passing::Frame(frame) => Some(frame),
            Passing::Notice(_) => None,
        });
        let frame = frames.find(|frame| frame.request.id == done.request);
        let mut calls = frame.into_iter().flat_map(|frame| &mut frame.calls);
        let call = calls.find(|call| call.transform == done.transform && call.answer.is_none());
        if let Some(call) = call {
            call.answer = Some((done.generation, done.answer));
        }
        self.send_ready(done.stream);
        self.remove_if_idle(done.stream);
        self.drop_passed_graphs();
        self.signal_if_idle();
    }
}
