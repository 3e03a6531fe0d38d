//! What a graph asks to be known over time, in the form that the analytics take.

use std::sync::Arc;

use weir_analytics::{AnalyticsPlan, TrackerPlan, TrackerSettings};
use weir_graph::Graph;

/// The trackers of a graph.
pub(crate) fn analytics_plan(graph: &Graph) -> Arc<AnalyticsPlan> {
    let trackers = graph.trackers().iter().map(|node| TrackerPlan {
        modules: node.modules.iter().map(|module| *module as u32).collect(),
        settings: TrackerSettings::from(&node.settings),
    });
    Arc::new(AnalyticsPlan {
        trackers: trackers.collect(),
    })
}
