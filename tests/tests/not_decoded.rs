//! Frames that a source leaves out of decoding: they arrived, were dropped for that reason, and keep their places.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::{Arc, Mutex};

use weir_flow::{
    Delivery, Frame, Image, Notice, Sink, SinkError, SinkFactory, Source, SourceCounts, SourceError,
    SourceFactory, SourceInfo, StopFlag,
};
use weir_runtime::{Pace, RunOptions};
use weir_types::DropReason;

use crate::common::{Parts, assemble, catalog_with_sink, graph, run};

const GRAPH: &str = r#"
    [app]
    name = "not-decoded"
    slo = "60s"
    [sources.camera]
    uri = "emulated:uniform?rate=400&frames=60"
    [sources.other]
    uri = "emulated:uniform?rate=400&frames=60"
    [models.quick]
    device = "emulated:a"
    profile = { "1" = "1ms" }
    [modules.look]
    operator = "emulate"
    model = "quick"
    inputs = ["camera", "other"]
    [sinks.events]
    type = "kept"
    inputs = ["look"]
"#;

/// Frames that come out, of so many; the others are left out.
const DECODED: [u64; 4] = [0, 4, 5, 9];
const FRAMES: u64 = 12;

/// A source that leaves out most of its frames.
#[derive(Clone, Copy, Default)]
struct Thinned {
    next: usize,
    not_decoded: u64,
}

impl SourceFactory for Thinned {
    fn open(&self, _stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(*self))
    }
}

impl Source for Thinned {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            fps: Some(100.0),
            ..SourceInfo::default()
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let index = DECODED.get(self.next).copied();
        self.next += 1;
        self.not_decoded = index.unwrap_or(FRAMES) - DECODED.len().min(self.next - 1) as u64;
        let image = Image::from_rgb(2, 2, vec![0; 12]);
        Ok(index.map(|index| Frame::new(index, index as f64 * 10.0, image)))
    }

    fn counts(&self) -> SourceCounts {
        SourceCounts {
            not_decoded: self.not_decoded,
            ..SourceCounts::default()
        }
    }
}

/// Number, media time and outcome of a frame.
type Fate = (u64, f64, &'static str);

/// Keeps what became of the frames of the camera, in the order in which it learns of it.
#[derive(Clone, Default)]
struct Fates(Arc<Mutex<Vec<Fate>>>);

impl SinkFactory for Fates {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Fates {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        if &*delivery.stream == "camera" {
            let frame = (delivery.frame.index, delivery.frame.pts_ms, "delivered");
            self.0.lock().unwrap().push(frame);
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Dropped {
            stream,
            frame,
            pts_ms,
            reason,
            ..
        } = notice
            && &**stream == "camera"
        {
            self.0.lock().unwrap().push((*frame, *pts_ms, reason));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn frames_that_are_not_decoded_arrived_and_were_dropped_in_their_places() {
    let catalog = catalog_with_sink("kept");
    let fates = Fates::default();
    let parts = Parts {
        sources: vec![("camera", Box::new(Thinned::default()))],
        sinks: vec![("events", Box::new(fates.clone()))],
        ..Parts::default()
    };
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = run(assemble(graph(GRAPH, &catalog), parts), &options);
    let camera = &report.streams["camera"];
    let left_out = FRAMES - DECODED.len() as u64;
    assert_eq!(
        (
            camera.requests.arrived,
            camera.requests.delivered,
            camera.requests.dropped
        ),
        (FRAMES, DECODED.len() as u64, left_out)
    );
    assert_eq!(report.streams["other"].requests.delivered, 60);
    assert_eq!(camera.health.as_ref().unwrap().not_decoded, left_out);
    let drops = report.drops.iter();
    let drops: Vec<_> = drops
        .map(|drop| (drop.module.as_str(), drop.reason, drop.count))
        .collect();
    assert_eq!(drops, [("source", DropReason::NotDecoded, left_out)]);

    let fates = fates.0.lock().unwrap();
    let delivered = fates.iter().filter(|(.., fate)| *fate == "delivered");
    assert_eq!(delivered.map(|(frame, ..)| *frame).collect::<Vec<_>>(), DECODED);
    let mut all = fates.clone();
    all.sort_by_key(|(frame, ..)| *frame);
    let expected = (0..FRAMES).map(|frame| {
        let fate = if DECODED.contains(&frame) {
            "delivered"
        } else {
            "not-decoded"
        };
        (frame, frame as f64 * 10.0, fate)
    });
    assert_eq!(all, expected.collect::<Vec<_>>());
}
