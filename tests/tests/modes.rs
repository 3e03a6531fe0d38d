//! Outcome of frames past their deadline, by the mode of their source, and the streams whose frames each sink
//! receives.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::{Arc, Mutex};

use weir_flow::{Catalog, Delivery, Sink, SinkError, SinkFactory};
use weir_runtime::{Pace, RunOptions};

use crate::common::{Parts, assemble, catalog_with_sink, graph, run};

/// Streams and frames of what was taken, and whether each was late.
#[derive(Clone, Default)]
struct RecordingSink(Arc<Mutex<Vec<(String, u64, bool)>>>);

impl SinkFactory for RecordingSink {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for RecordingSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let taken = (delivery.stream.to_string(), delivery.frame.index, delivery.late);
        self.0.lock().unwrap().push(taken);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl RecordingSink {
    fn frames_of(&self, stream: &str) -> Vec<u64> {
        let taken = self.0.lock().unwrap();
        taken
            .iter()
            .filter(|(name, ..)| name == stream)
            .map(|(_, frame, _)| *frame)
            .collect()
    }
}

fn catalog() -> Catalog {
    catalog_with_sink("kept")
}

/// A camera and an archive on one slot that nothing is quick enough for: one batch takes as long as the SLO declares.
fn overloaded(rule: &str) -> String {
    format!(
        r#"
        [app]
        name = "modes"
        slo = "20ms"
        [policy]
        drop = {{ rule = "{rule}" }}
        order = "fcfs"
        [sources.camera]
        uri = "emulated:uniform?rate=1000&frames=50"
        mode = "live"
        [sources.archive]
        uri = "emulated:uniform?rate=1000&frames=50"
        mode = "lossless"
        [devices."emulated:a"]
        slots = 1
        [models.slow]
        device = "emulated:a"
        profile = {{ "1" = "10ms" }}
        [modules.look]
        operator = "emulate"
        model = "slow"
        inputs = ["camera", "archive"]
        [sinks.all]
        type = "kept"
        inputs = ["look"]
        "#
    )
}

#[test]
fn late_frames_of_a_camera_are_withheld_and_of_an_archive_kept() {
    for rule in ["none", "pard"] {
        let kept = RecordingSink::default();
        let parts = Parts {
            sinks: vec![("all", Box::new(kept.clone()))],
            ..Parts::default()
        };
        let options = RunOptions {
            pace: Pace::Max,
            ..RunOptions::default()
        };
        let report = run(assemble(graph(&overloaded(rule), &catalog()), parts), &options);
        let camera = report.streams["camera"].requests;
        let archive = report.streams["archive"].requests;
        assert_eq!((archive.arrived, archive.dropped), (50, 0), "{rule}: {archive:?}");
        assert!(archive.late > 0, "{rule}: a hundred batches of 10 ms on one slot");
        assert_eq!(kept.frames_of("archive"), (0..50).collect::<Vec<_>>(), "{rule}");
        assert_eq!(camera.arrived, 50);
        assert!(camera.late + camera.dropped > 0, "{rule}: {camera:?}");
        let seen = kept.frames_of("camera");
        assert_eq!(
            seen.len() as u64,
            camera.delivered,
            "{rule}: what is late is withheld"
        );
        assert!(seen.is_sorted(), "{rule}: {seen:?}");
    }
}

#[test]
fn a_sink_sees_the_streams_that_lead_to_it() {
    let text = r#"
        [app]
        name = "ways"
        slo = "60s"
        [sources.north]
        uri = "emulated:uniform?rate=1000&frames=9"
        mode = "lossless"
        [sources.south]
        uri = "emulated:uniform?rate=1000&frames=7"
        mode = "lossless"
        [sources.unwatched]
        uri = "emulated:uniform?rate=1000&frames=5"
        mode = "lossless"
        [models.quick]
        device = "emulated:a"
        profile = { "1" = "1ms" }
        [modules.up]
        operator = "emulate"
        model = "quick"
        inputs = ["north"]
        [modules.down]
        operator = "emulate"
        model = "quick"
        inputs = ["south"]
        [sinks.northern]
        type = "kept"
        inputs = ["up"]
        [sinks.both]
        type = "kept"
        inputs = ["up", "down"]
    "#;
    let (northern, both) = (RecordingSink::default(), RecordingSink::default());
    let parts = Parts {
        sinks: vec![
            ("northern", Box::new(northern.clone())),
            ("both", Box::new(both.clone())),
        ],
        ..Parts::default()
    };
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = run(assemble(graph(text, &catalog()), parts), &options);
    let taken = |kept: &RecordingSink| ["north", "south", "unwatched"].map(|name| kept.frames_of(name).len());
    assert_eq!((taken(&northern), taken(&both)), ([9, 0, 0], [9, 7, 0]));
    // Frames that no module takes end, too.
    assert_eq!(report.streams["unwatched"].requests.delivered, 5);
}
