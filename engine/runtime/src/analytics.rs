//! Trackers and transforms per stream. The egress updates them with each delivery; modules that run per track
//! read them before they select items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use weir_analytics::transforms::StreamTransform;
use weir_analytics::{
    AnalyticsPlan, FrameAnalytics, Parts, PerTrack, StreamAnalytics, TrackIds, TrackerPlan, TrackerSettings,
};
use weir_flow::{Item, RequestResults, Settings};
use weir_graph::{Graph, PerTrackNode};
use weir_types::{RequestId, StreamId};

use crate::lock::lock;
use crate::request::Request;

/// The trackers and transforms of a graph.
pub(crate) fn analytics_plan(graph: &Graph) -> Arc<AnalyticsPlan> {
    let index = |name: &str| graph.modules().iter().position(|module| module.name == name);
    let classes = |settings: &Settings, key: &str| {
        let named = texts(settings, key).iter();
        named.map(|class| class.as_str().into()).collect()
    };
    let trackers = graph.trackers().iter().map(|node| TrackerPlan {
        modules: node.modules.iter().map(|module| *module as u32).collect(),
        classes: classes(&node.settings, "classes"),
        confirmed: classes(&node.settings, "confirm_candidates"),
        appearance: node
            .settings
            .text("appearance")
            .and_then(index)
            .map(|module| module as u32),
        settings: TrackerSettings::from(&node.settings),
        // The graph was checked for what cannot be read.
        parts: Parts::read(texts(&node.settings, "parts")).unwrap_or_default(),
        streams: node.streams.clone(),
    });
    let transforms = graph.transforms().iter().map(|node| {
        let trackers = node.trackers.iter().copied();
        let followed: BTreeSet<usize> = trackers
            .flat_map(|tracker| graph.trackers()[tracker].modules.iter().copied())
            .collect();
        let modules = node.modules.iter().filter(|module| !followed.contains(module));
        StreamTransform {
            name: node.name.as_str().into(),
            spec: node.spec.clone(),
            modules: modules.map(|module| *module as u32).collect(),
            trackers: node.trackers.iter().map(|tracker| *tracker as u32).collect(),
            streams: node.streams.clone(),
        }
    });
    Arc::new(AnalyticsPlan {
        trackers: trackers.collect(),
        transforms: transforms.collect(),
    })
}

fn texts<'a>(settings: &'a Settings, key: &str) -> &'a [String] {
    settings.texts(key).unwrap_or_default()
}

/// One stream, by the graph of that number.
type OfStream = (u32, Arc<Mutex<StreamAnalytics>>);

/// Trackers of each stream. A stream has a lock of its own: a module that asks waits for one frame of that stream at most,
/// which the egress takes in.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedAnalytics(Arc<Mutex<BTreeMap<StreamId, OfStream>>>);

impl SharedAnalytics {
    fn get(&self, stream: StreamId) -> Option<OfStream> {
        lock(&self.0).get(&stream).cloned()
    }

    /// Number of the graph by which a stream is known.
    pub(crate) fn graph_of(&self, stream: StreamId) -> Option<u32> {
        self.get(stream).map(|(graph, _)| graph)
    }

    /// Streams that are known by that graph.
    pub(crate) fn streams_of(&self, graph: u32) -> Vec<StreamId> {
        let streams = lock(&self.0);
        let known = streams.iter().filter(|(_, (of, _))| *of == graph);
        known.map(|(id, _)| *id).collect()
    }

    /// Takes in the next frame of a stream, which has a name.
    pub(crate) fn on_frame(
        &self,
        (request, name): (&Request, &str),
        plan: &Arc<AnalyticsPlan>,
        (results, time_ms): (&RequestResults, u64),
        ids: &mut TrackIds,
    ) -> FrameAnalytics {
        let analytics = {
            let mut streams = lock(&self.0);
            let new = || {
                let analytics = StreamAnalytics::new(plan, name);
                (request.route.graph, Arc::new(Mutex::new(analytics)))
            };
            let (_, analytics) = streams.entry(request.stream).or_insert_with(new);
            Arc::clone(analytics)
        };
        lock(&analytics).on_frame(&request.frame, time_ms, results, ids)
    }

    /// The frame of that request is not delivered.
    pub(crate) fn on_dropped(&self, stream: StreamId, request: RequestId) {
        if let Some((_, analytics)) = self.get(stream) {
            lock(&analytics).on_dropped(request.0);
        }
    }

    /// Forgets a stream: the number of its graph, and what ended with it.
    pub(crate) fn close(&self, stream: StreamId) -> Option<(u32, FrameAnalytics)> {
        let (graph, analytics) = lock(&self.0).remove(&stream)?;
        Some((graph, lock(&analytics).close()))
    }
}

/// Selects the items that a per-track module runs on.
pub(crate) struct TrackGate {
    rule: PerTrack,
    module: u32,
    graph: u32,
    analytics: SharedAnalytics,
}

impl TrackGate {
    pub(crate) fn new(node: &PerTrackNode, module: u32, graph: u32, analytics: SharedAnalytics) -> Self {
        Self {
            rule: PerTrack {
                tracker: node.tracker,
                every_ms: node.every.as_millis_f64(),
                until: node.until.unwrap_or(f32::INFINITY),
                once: node.once,
            },
            module,
            graph,
            analytics,
        }
    }

    /// Leaves out the items of tracks that are known well enough for now.
    pub(crate) fn retain_wanted(&self, request: &Request, results: &RequestResults, items: &mut Vec<Item>) {
        if request.route.scene.is_of_single_pictures() {
            return;
        }
        let known = self.analytics.get(request.stream);
        let Some((_, analytics)) = known.filter(|(graph, _)| *graph == self.graph) else {
            // Nothing was delivered yet: what is there has no track.
            items.retain(|item| item.object.is_none() || !self.rule.once);
            return;
        };
        let mut analytics = lock(&analytics);
        items.retain(|item| {
            item.object.is_none_or(|object| {
                let of = (results, object);
                analytics.wants(&self.rule, self.module, of, (request.frame.pts_ms, request.id.0))
            })
        });
    }
}
