//! Runs of a stream with a gate.

use std::sync::Arc;

use weir_flow::{Catalog, Operator, SinkFactory, SourceFactory};
use weir_policy::Counts;
use weir_runtime::{RunOptions, verify};

use super::{Parts, as_fast_as_it_goes, assemble, catalog_with_sink, graph, run};

/// Runs the frames of `camera` through the operator of the module `look` to the sink `events`, of the type `kept`. Each frame is
/// delivered or still, and all of it is decided again from the event log.
pub(crate) fn run_gated(
    text: &str,
    frames: u64,
    camera: Box<dyn SourceFactory>,
    look: Arc<dyn Operator>,
    events: Box<dyn SinkFactory>,
) -> Counts {
    let catalog = Catalog {
        tracker_keys: weir_analytics::TRACKER_KEYS,
        ..catalog_with_sink("kept")
    };
    let parts = Parts {
        sources: vec![("camera", camera)],
        operators: vec![("look", look)],
        sinks: vec![("events", events)],
        ..Parts::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let options = RunOptions {
        record: Some(log.clone()),
        ..as_fast_as_it_goes()
    };
    let counts = run(assemble(graph(text, &catalog), parts), &options).requests;
    assert!(counts.is_balanced() && counts.arrived == frames, "{counts:?}");
    assert_eq!(counts.delivered + counts.still, frames);
    let verified = verify(&log).unwrap();
    assert!(verified.events > frames, "{verified:?}");
    counts
}
