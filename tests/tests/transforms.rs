//! Transforms in the engine: sinks that name them get their incidents, with deliveries and when a stream ends.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::{Arc, Mutex};

use weir_flow::{Catalog, Delivery, Incident, IncidentValue, Notice, Phase, Sink, SinkError, SinkFactory};
use weir_runtime::RunOptions;

use crate::common::street::Street;
use crate::common::{Parts, assemble, catalog_with_sink, graph, run};

/// Incidents by stream, by deliveries and by notices; and how many overlays the last delivery had.
type Recorded = (Vec<(String, Incident)>, usize);

#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Recorded>>);

impl Recording {
    fn extend(&self, stream: &str, incidents: &[Incident]) {
        let incidents = incidents.iter().map(|it| (stream.to_owned(), it.clone()));
        self.0.lock().unwrap().0.extend(incidents);
    }
}

impl SinkFactory for Recording {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Recording {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.extend(&delivery.stream, &delivery.incidents);
        self.0.lock().unwrap().1 = delivery.overlays.len();
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Analytics {
            stream, incidents, ..
        } = notice
        {
            self.extend(stream, incidents);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

const GRAPH: &str = r#"
[app]
name = "transforms"
slo = "5s"
[sources.north]
uri = "emulated:uniform?rate=100&frames=60"
mode = "lossless"
[sources.south]
uri = "emulated:uniform?rate=100&frames=60"
mode = "lossless"
[devices."emulated:a"]
slots = 2
[models.any]
device = "emulated:a"
profile = { "1" = "1ms" }
[modules.find]
operator = "emulate"
model = "any"
inputs = ["north", "south"]
[modules.tracks]
operator = "track"
inputs = ["find"]
[transforms.gate]
type = "line"
inputs = ["tracks"]
units = "pixels"
points = [[80, 0], [80, 300]]
directions = ["left", "right"]
[transforms.post]
type = "zone"
inputs = ["tracks"]
classes = ["person"]
units = "pixels"
points = [[450, 50], [600, 50], [600, 300], [450, 300]]
[sinks.both]
type = "record"
inputs = ["gate", "post"]
[sinks.gate-only]
type = "record"
inputs = ["gate"]
[sinks.neither]
type = "record"
inputs = ["tracks"]
"#;

#[test]
fn sinks_get_the_incidents_of_the_transforms_that_they_name_and_the_end_of_a_stream_ends_them() {
    let catalog = Catalog {
        tracker_keys: weir_analytics::TRACKER_KEYS,
        ..catalog_with_sink("record")
    };
    let (both, gate, neither) = (Recording::default(), Recording::default(), Recording::default());
    let parts = Parts {
        operators: vec![("find", Arc::new(Street))],
        sinks: vec![
            ("both", Box::new(both.clone())),
            ("gate-only", Box::new(gate.clone())),
            ("neither", Box::new(neither.clone())),
        ],
        ..Parts::default()
    };
    run(assemble(graph(GRAPH, &catalog), parts), &RunOptions::default());

    let (both, overlays) = both.0.lock().unwrap().clone();
    assert_eq!(overlays, 2);
    for stream in ["north", "south"] {
        let of = |kind: &str| -> Vec<Incident> {
            let of = both.iter().filter(|(name, it)| name == stream && it.kind == kind);
            of.map(|(_, it)| it.clone()).collect()
        };
        let [crossing] = &of("line")[..] else {
            panic!("{both:?}")
        };
        assert_eq!(
            (crossing.phase, crossing.class.as_deref()),
            (Phase::Ended, Some("car"))
        );
        // From the right of the line, seen from its first point, which is left in the picture, to the other side.
        assert_eq!(
            crossing.values[0],
            ("direction", IncidentValue::Text("right".into()))
        );
        assert!((crossing.pts_ms - 300.0).abs() < 5.0, "{}", crossing.pts_ms);
        let visit = of("zone");
        let phases: Vec<Phase> = visit.iter().map(|it| it.phase).collect();
        assert_eq!(phases, [Phase::Began, Phase::Ended]);
        assert_eq!(visit[0].id, visit[1].id);
        assert!((visit[1].pts_ms - 590.0).abs() < 1.0, "{}", visit[1].pts_ms);
    }
    let kinds = |recording: &Recording| {
        let recorded = recording.0.lock().unwrap();
        let kinds = recorded.0.iter().map(|(_, it)| it.kind);
        (kinds.collect::<Vec<_>>(), recorded.1)
    };
    assert_eq!(kinds(&gate), (vec!["line"; 2], 1));
    assert_eq!(kinds(&neither), (vec![], 0));
}

/// Each camera has its own zones, beside one detector; and sinks have some cameras.
#[test]
fn transforms_and_sinks_are_of_the_streams_that_they_name() {
    let catalog = Catalog {
        tracker_keys: weir_analytics::TRACKER_KEYS,
        ..catalog_with_sink("record")
    };
    let text = GRAPH
        .replace("[transforms.gate]", "[transforms.gate]\nstreams = [\"north\"]")
        .replace("[transforms.post]", "[transforms.post]\nstreams = [\"s*\"]")
        .replace("[sinks.gate-only]", "[sinks.gate-only]\nstreams = [\"south\"]");
    let (both, gate) = (Recording::default(), Recording::default());
    let parts = Parts {
        operators: vec![("find", Arc::new(Street))],
        sinks: vec![
            ("both", Box::new(both.clone())),
            ("gate-only", Box::new(gate.clone())),
            ("neither", Box::new(Recording::default())),
        ],
        ..Parts::default()
    };
    run(assemble(graph(&text, &catalog), parts), &RunOptions::default());
    let of = |recording: &Recording| {
        let recorded = recording.0.lock().unwrap();
        let mut found: Vec<(String, &str)> = recorded
            .0
            .iter()
            .map(|(stream, it)| (stream.clone(), it.kind))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let (north, south) = ("north".to_owned(), "south".to_owned());
    assert_eq!(of(&both), [(north, "line"), (south, "zone")]);
    assert_eq!(
        of(&gate),
        [],
        "its line is on the stream that the sink is not given"
    );
}
