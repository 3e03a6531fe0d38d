//! A stream whose camera reports events: models see its frames while something moves, its events are incidents, and all of it is
//! decided again from the event log.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_flow::{
    CameraEvent, CameraEvents, CameraReport, Delivery, Frame, Image, IncidentValue, Inference, Item,
    ModuleOutput, Notice, Operator, Phase, Region, RequestResults, Sink, SinkError, SinkFactory, Source,
    SourceError, SourceFactory, SourceInfo, StopFlag,
};

use crate::common::gates::run_gated;

const GRAPH: &str = r#"
    [app]
    name = "gate"
    slo = "60s"
    [sources.camera]
    uri = "rtsp://127.0.0.1/camera"
    onvif = "http://127.0.0.1/onvif/device_service"
    mode = "lossless"
    gate = "camera"
    gate_hold = "1s"
    [models.quick]
    device = "emulated:a"
    profile = { "1" = "1ms" }
    [modules.look]
    operator = "emulate"
    model = "quick"
    inputs = ["camera"]
    [transforms.reported]
    type = "camera-event"
    inputs = ["look"]
    events = ["motion", "tns1:RuleEngine/LineDetector"]
    [sinks.events]
    type = "kept"
    inputs = ["reported"]
"#;

/// Frames of a clip, 25 a second.
const FRAMES: u64 = 700;

/// Frames before which the camera reports something.
const STILL: u64 = 50;
const MOVES: u64 = 300;
const STANDS: u64 = 350;
const CROSSED: u64 = 500;
const LOST: u64 = 600;

/// A report, and the sender of its acknowledgement.
type QueuedReport = (CameraReport, Sender<()>);

/// A camera whose reports come between its frames.
struct Camera {
    reports: Sender<QueuedReport>,
    heard: Arc<Mutex<Option<Receiver<QueuedReport>>>>,
}

impl Camera {
    fn new() -> Self {
        let (reports, heard) = channel();
        Self {
            reports,
            heard: Arc::new(Mutex::new(Some(heard))),
        }
    }
}

struct Reports(Mutex<Receiver<QueuedReport>>);

impl CameraEvents for Reports {
    fn run(&self, stop: &StopFlag, report: &mut dyn FnMut(CameraReport)) {
        let reports = self.0.lock().unwrap();
        while !stop.is_raised() {
            if let Ok((next, taken)) = reports.recv_timeout(Duration::from_millis(5)) {
                report(next);
                let _ = taken.send(());
            }
        }
    }
}

impl SourceFactory for Camera {
    fn open(&self, _stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(Frames {
            next: 0,
            reports: self.reports.clone(),
        }))
    }

    fn camera_events(&self) -> Option<Box<dyn CameraEvents>> {
        let reports = self.heard.lock().unwrap().take()?;
        Some(Box::new(Reports(Mutex::new(reports))))
    }
}

struct Frames {
    next: u64,
    reports: Sender<QueuedReport>,
}

impl Frames {
    fn report(&self, report: CameraReport) {
        let (taken, is_taken) = channel();
        self.reports.send((report, taken)).unwrap();
        is_taken.recv_timeout(Duration::from_secs(30)).unwrap();
    }

    fn event(&self, topic: &str, active: Option<bool>) {
        self.report(CameraReport::Event(CameraEvent {
            topic: topic.into(),
            source: "Rule=Yard".into(),
            active,
        }));
    }
}

impl Source for Frames {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            fps: Some(25.0),
            ..SourceInfo::default()
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let index = self.next;
        self.next += 1;
        let motion = "RuleEngine/CellMotionDetector/Motion";
        match index {
            0 => self.report(CameraReport::Subscribed),
            STILL | STANDS => self.event(motion, Some(false)),
            MOVES => self.event(motion, Some(true)),
            CROSSED => self.event("RuleEngine/LineDetector/Crossed", None),
            LOST => self.report(CameraReport::Lost {
                reason: "it is not reached".to_owned(),
            }),
            _ => {}
        }
        let image = Image::from_rgb(64, 36, vec![90; 64 * 36 * 3]);
        Ok((index < FRAMES).then(|| Frame::new(index, index as f64 * 40.0, image)))
    }
}

/// Remembers which frames it was asked about.
#[derive(Clone, Default)]
struct Looker(Arc<Mutex<BTreeSet<u64>>>);

impl Operator for Looker {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        vec![Item::of_frame(frame, Region::Whole)]
    }

    fn output(&self, _module: u32, items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        self.0.lock().unwrap().insert(items[0].frame.index);
        ModuleOutput::default()
    }
}

/// Phases and topics of incidents.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(Phase, String)>>>);

impl Kept {
    fn keep(&self, incidents: &[weir_flow::Incident]) {
        for incident in incidents.iter().filter(|it| it.phase != Phase::Updated) {
            let topic = incident.values.iter().find_map(|(name, value)| match value {
                IncidentValue::Text(topic) if *name == "topic" => Some(topic.to_string()),
                _ => None,
            });
            self.0.lock().unwrap().push((incident.phase, topic.unwrap()));
        }
    }
}

impl SinkFactory for Kept {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Kept {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.keep(&delivery.incidents);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Analytics { incidents, .. } = notice {
            self.keep(incidents);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn models_see_frames_while_the_camera_reports_motion_and_its_events_are_incidents() {
    let (looker, kept) = (Looker::default(), Kept::default());
    let (look, events) = (Arc::new(looker.clone()), Box::new(kept.clone()));
    run_gated(GRAPH, FRAMES, Box::new(Camera::new()), look, events);

    // A second of the hold time has 25 frames. Results come some frames later, until which the last look counts as open.
    let looked = looker.0.lock().unwrap().clone();
    let within = |from: u64, to: u64| looked.range(from..to).count() as u64;
    for (from, to) in [
        (0, STILL + 25),
        (MOVES, STANDS + 25),
        (CROSSED, CROSSED + 26),
        (LOST, FRAMES),
    ] {
        assert_eq!(within(from, to), to - from, "from {from}: {looked:?}");
    }
    for (from, to) in [(200, MOVES), (450, CROSSED), (570, LOST)] {
        assert_eq!(within(from, to), 0, "from {from}: {looked:?}");
    }
    let motion = "RuleEngine/CellMotionDetector/Motion".to_owned();
    let expected = [
        (Phase::Began, motion.clone()),
        (Phase::Ended, motion),
        (Phase::Ended, "RuleEngine/LineDetector/Crossed".to_owned()),
    ];
    assert_eq!(*kept.0.lock().unwrap(), expected);
}
