//! Deliveries that wait for transforms which programs of users compute, and these programs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use actix::Recipient;
use weir_analytics::transforms::TransformKind;
use weir_analytics::{AnalyticsPlan, FrameAnalytics, FrameTime, ProgramIncidents};
use weir_flow::{
    AttributeChange, DeliveredObject, Delivery, ObjectRef, ProgramAnswer, RequestResults, TransformPrograms,
};
use weir_policy::TransformReport;

use crate::clock::Clock;
use crate::program::{Program, ProgramDone};
use crate::request::Request;

/// The programs of all graphs.
#[derive(Default)]
pub(in crate::actors) struct Programs {
    makes: Option<Arc<dyn TransformPrograms>>,
    /// By the number of the graph. One that stays the same goes on in the next graph.
    by_graph: BTreeMap<u32, Vec<Arc<Program>>>,
    /// Counts of those that no graph has any more.
    ended: BTreeMap<String, TransformReport>,
    /// Graphs that are taken down once no delivery of theirs waits.
    pub(in crate::actors) dropping: BTreeSet<u32>,
}

impl Programs {
    pub(in crate::actors) fn new(makes: Option<Arc<dyn TransformPrograms>>) -> Self {
        Self {
            makes,
            ..Self::default()
        }
    }

    /// Starts the programs of a graph.
    pub(in crate::actors) fn start(
        &mut self,
        graph: u32,
        plan: &AnalyticsPlan,
        clock: Clock,
        on_done: &Recipient<ProgramDone>,
    ) {
        let mut programs = Vec::new();
        for transform in &plan.transforms {
            let TransformKind::Python(settings) = &transform.spec.kind else {
                continue;
            };
            let trackers = transform.trackers.iter();
            let followed = trackers.filter_map(|tracker| plan.trackers.get(*tracker as usize));
            let mut modules = transform.modules.clone();
            modules.extend(followed.flat_map(|tracker| &tracker.modules));
            let mut known = self.by_graph.values().flatten();
            let same = known.find(|known| known.transform == *transform && known.modules == modules);
            if let Some(same) = same {
                programs.push(Arc::clone(same));
                continue;
            }
            let Some(makes) = &self.makes else { continue };
            let on_done = on_done.clone();
            let started = makes.make(settings).and_then(|program| {
                let named = (transform.clone(), modules);
                Program::start(named, program, clock, move |done| on_done.do_send(done))
                    .map_err(|error| format!("cannot start a thread: {error}"))
            });
            match started {
                Ok(program) => programs.push(Arc::new(program)),
                Err(reason) => {
                    tracing::error!(transform = &*transform.name, "{reason}; frames pass unchanged");
                }
            }
        }
        if !programs.is_empty() {
            self.by_graph.insert(graph, programs);
        }
    }

    /// The programs of a graph that see a stream.
    pub(in crate::actors) fn of(&self, graph: u32, stream: &str) -> impl Iterator<Item = &Program> {
        let programs = self.by_graph.get(&graph).into_iter().flatten();
        let programs = programs.map(|program| &**program);
        programs.filter(move |program| program.transform.streams.follow(stream))
    }

    /// Ends those that no other graph has.
    pub(in crate::actors) fn remove(&mut self, graph: u32) {
        let removed = self.by_graph.remove(&graph).unwrap_or_default();
        for program in removed {
            let others = self.by_graph.values().flatten();
            if others.into_iter().any(|other| Arc::ptr_eq(other, &program)) {
                continue;
            }
            let name = program.transform.name.to_string();
            self.ended.entry(name).or_default().merge(program.report());
        }
    }

    pub(in crate::actors) fn reports(&self) -> BTreeMap<String, TransformReport> {
        let mut reports = self.ended.clone();
        let mut seen: Vec<&Arc<Program>> = Vec::new();
        for program in self.by_graph.values().flatten() {
            if seen.iter().any(|other| Arc::ptr_eq(other, program)) {
                continue;
            }
            seen.push(program);
            let name = program.transform.name.to_string();
            reports.entry(name).or_default().merge(program.report());
        }
        reports
    }
}

/// A delivery that a program sees.
#[derive(Debug)]
pub(in crate::actors) struct ProgramCall {
    pub(in crate::actors) transform: Arc<str>,
    pub(in crate::actors) delivery: Arc<Delivery>,
    /// Objects of the delivery by their numbers.
    pub(in crate::actors) objects: Vec<ObjectRef>,
    /// Number of the process and its answer, once there.
    pub(in crate::actors) answer: Option<(u64, Option<ProgramAnswer>)>,
}

/// A frame on its way to sinks.
#[derive(Debug)]
pub(in crate::actors) struct PassingFrame {
    pub(in crate::actors) request: Arc<Request>,
    pub(in crate::actors) results: RequestResults,
    pub(in crate::actors) found: FrameAnalytics,
    /// Arrival of the frame (UTC).
    pub(in crate::actors) time_ms: u64,
    pub(in crate::actors) calls: Vec<ProgramCall>,
    /// Attributes that programs gave, by transform.
    pub(in crate::actors) changes: BTreeMap<Arc<str>, Vec<(ObjectRef, Vec<AttributeChange>)>>,
}

impl PassingFrame {
    pub(in crate::actors) fn new(
        request: Arc<Request>,
        results: RequestResults,
        found: FrameAnalytics,
        time_ms: u64,
    ) -> Self {
        Self {
            request,
            results,
            found,
            time_ms,
            calls: Vec::new(),
            changes: BTreeMap::new(),
        }
    }
}

/// Output of a stream that waits for its turn.
#[derive(Debug)]
pub(in crate::actors) enum Passing {
    Frame(Box<PassingFrame>),
    /// Tracks and incidents without a frame.
    Notice(Box<PassingNotice>),
}

/// Tracks and incidents without a frame, on their way to sinks.
#[derive(Debug)]
pub(in crate::actors) struct PassingNotice {
    pub(in crate::actors) graph: u32,
    pub(in crate::actors) found: FrameAnalytics,
    /// Whether all incidents of the stream end.
    pub(in crate::actors) closes: bool,
}

impl Passing {
    pub(in crate::actors) fn graph(&self) -> u32 {
        match self {
            Self::Frame(frame) => frame.request.route.graph,
            Self::Notice(notice) => notice.graph,
        }
    }

    pub(in crate::actors) fn is_ready(&self) -> bool {
        match self {
            Self::Frame(frame) => frame.calls.iter().all(|call| call.answer.is_some()),
            Self::Notice(_) => true,
        }
    }
}

/// Puts the answers of programs for a frame in force.
pub(in crate::actors) fn take_answers(
    frame: &mut PassingFrame,
    open: &mut BTreeMap<Arc<str>, ProgramIncidents>,
    stream: &Arc<str>,
) {
    let at = FrameTime {
        pts_ms: frame.request.frame.pts_ms,
        time_ms: frame.time_ms,
    };
    let began_s = frame.time_ms / 1000;
    for call in std::mem::take(&mut frame.calls) {
        let Some((generation, answer)) = call.answer else {
            continue;
        };
        let transform = &call.transform;
        let incidents = open
            .entry(Arc::clone(transform))
            .or_insert_with(|| ProgramIncidents::new(Arc::clone(stream), Arc::clone(transform), began_s));
        frame
            .found
            .incidents
            .extend(incidents.on_generation(generation, at));
        let Some(answer) = answer else { continue };
        let found = incidents.on_answer(answer.incidents, &call.delivery, at);
        frame.found.incidents.extend(found);
        let changes = answer.attributes.into_iter().filter_map(|(number, named)| {
            let object = call.objects.get(number as usize)?;
            Some((*object, named))
        });
        frame.changes.entry(call.transform).or_default().extend(changes);
    }
}

/// Gives an object the attributes that a program gave it. `refs` are the names of the objects, ascending.
pub(in crate::actors) fn apply(
    (object, named): &(ObjectRef, Vec<AttributeChange>),
    refs: &[ObjectRef],
    objects: &mut [DeliveredObject],
) {
    let place = refs.binary_search(object).ok();
    let Some(delivered) = place.and_then(|place| objects.get_mut(place)) else {
        return;
    };
    for (name, attribute) in named {
        delivered.attributes.retain(|(known, _)| known != name);
        delivered.attributes.extend(
            attribute
                .iter()
                .map(|attribute| (Arc::clone(name), attribute.clone())),
        );
    }
}

/// Outputs of a stream that wait for programs, in their order: as many frames as the stream may have in flight, because each
/// holds the permit of its request.
pub(in crate::actors) type PassingOutputs = VecDeque<Passing>;
