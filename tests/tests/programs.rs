//! Transforms that programs of users compute, in the engine: they hold the deliveries of their own streams alone, in order, and
//! what they give reaches the sinks that name them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use weir_flow::{
    Attribute, Catalog, Delivery, Incident, Notice, Phase, ProgramAnswer, ProgramFailure, ProgramFault,
    ProgramIncident, PythonPlace, Settings, Sink, SinkError, SinkFactory, TransformProgram,
    TransformPrograms,
};
use weir_policy::Report;
use weir_runtime::RunOptions;

use crate::common::street::Street;
use crate::common::{Parts, assemble, catalog_with_sink, graph_in, run};

/// Frames of each stream.
const FRAMES: usize = 40;

/// Makes programs that do what the name of their function says.
#[derive(Debug, Default)]
struct Programs {
    /// Received by the program that waits, before its first answer.
    released: Arc<Mutex<Option<Receiver<()>>>>,
}

impl TransformPrograms for Programs {
    fn make(&self, settings: &Settings) -> Result<Box<dyn TransformProgram>, String> {
        Ok(Box::new(Program {
            function: PythonPlace::of(settings).unwrap().function,
            released: Arc::clone(&self.released),
            frames: BTreeMap::new(),
        }))
    }
}

struct Program {
    function: String,
    released: Arc<Mutex<Option<Receiver<()>>>>,
    /// Frames seen, by stream.
    frames: BTreeMap<String, u64>,
}

impl Program {
    fn incident(phase: Phase) -> ProgramIncident {
        ProgramIncident {
            key: "stay".into(),
            phase,
            object: Some(0),
            attributes: Vec::new(),
        }
    }
}

impl TransformProgram for Program {
    fn timeout(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn start(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn on_frame(&mut self, frame: &Delivery) -> Result<ProgramAnswer, ProgramFailure> {
        let seen = self.frames.entry(frame.stream.to_string()).or_default();
        *seen += 1;
        let failure = |fault| ProgramFailure {
            fault,
            reason: "python:mine.fault: as asked".to_owned(),
        };
        match (&*self.function, *seen) {
            ("waits", 1) => {
                let released = self.released.lock().unwrap().take().unwrap();
                released.recv_timeout(Duration::from_secs(60)).unwrap();
            }
            ("fails", 2) => return Err(failure(ProgramFault::Failed)),
            ("loses", 2) => return Err(failure(ProgramFault::Ended)),
            ("panics", 2) => panic!("as asked"),
            _ => {}
        }
        Ok(ProgramAnswer {
            attributes: vec![(
                0,
                vec![("seen".into(), Some(Attribute::Number { value: *seen as f32 }))],
            )],
            incidents: match *seen {
                1 => vec![Self::incident(Phase::Began)],
                _ => Vec::new(),
            },
        })
    }

    fn on_stream_closed(&mut self, stream: &str) -> Result<(), ProgramFailure> {
        self.frames.remove(stream);
        Ok(())
    }
}

/// A delivery or a notice of a sink.
#[derive(Debug, Clone)]
struct Line {
    stream: String,
    /// Number of the frame; `None` for a notice.
    frame: Option<u64>,
    /// Attribute of the first object.
    seen: Option<f32>,
    incidents: Vec<Incident>,
}

#[derive(Clone, Default)]
struct Recording {
    lines: Arc<Mutex<Vec<Line>>>,
    /// Stream whose frames are counted, and a signal when all were delivered.
    complete: Option<(&'static str, Sender<()>)>,
}

impl SinkFactory for Recording {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Recording {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let attributes = delivery.objects.first().map(|object| &object.attributes[..]);
        let seen = attributes
            .unwrap_or_default()
            .iter()
            .find_map(|(name, value)| match value {
                Attribute::Number { value } if &**name == "seen" => Some(*value),
                _ => None,
            });
        let mut lines = self.lines.lock().unwrap();
        lines.push(Line {
            stream: delivery.stream.to_string(),
            frame: Some(delivery.frame.index),
            seen,
            incidents: delivery.incidents.clone(),
        });
        if let Some((stream, complete)) = &self.complete
            && lines.iter().filter(|line| line.stream == *stream).count() == FRAMES
        {
            // It is received once.
            let _ = complete.send(());
        }
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Analytics {
            stream, incidents, ..
        } = notice
        {
            self.lines.lock().unwrap().push(Line {
                stream: stream.to_string(),
                frame: None,
                seen: None,
                incidents: incidents.clone(),
            });
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn text(function: &str) -> String {
    format!(
        r#"
        [app]
        name = "programs"
        slo = "60s"
        [sources.north]
        uri = "emulated:uniform?rate=100&frames={FRAMES}"
        mode = "lossless"
        [sources.south]
        uri = "emulated:uniform?rate=100&frames={FRAMES}"
        mode = "lossless"
        [devices."emulated:a"]
        slots = 2
        [models.any]
        device = "emulated:a"
        profile = {{ "1" = "1ms" }}
        [modules.find]
        operator = "emulate"
        model = "any"
        inputs = ["north", "south"]
        [transforms.mark]
        type = "python:mine.{function}"
        inputs = ["find"]
        streams = ["north"]
        [sinks.shown]
        type = "record"
        inputs = ["find", "mark"]
        [sinks.plain]
        type = "record"
        inputs = ["find"]
        "#
    )
}

fn place() -> (TempDir, Catalog) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.py"), "").unwrap();
    let catalog = Catalog {
        python: Some(folder.path().canonicalize().unwrap()),
        ..catalog_with_sink("record")
    };
    (folder, catalog)
}

fn run_with(function: &str, programs: Programs, [shown, plain]: [&Recording; 2]) -> Report {
    let (folder, catalog) = place();
    let folder: &Path = folder.path();
    let parts = Parts {
        operators: vec![("find", Arc::new(Street))],
        sinks: vec![
            ("shown", Box::new(shown.clone())),
            ("plain", Box::new(plain.clone())),
        ],
        ..Parts::default()
    };
    let options = RunOptions {
        programs: Some(Arc::new(programs)),
        strict: true,
        ..RunOptions::default()
    };
    run(
        assemble(graph_in(folder, &text(function), &catalog), parts),
        &options,
    )
}

/// Numbers of the delivered frames of a stream, in the order of the sink.
fn frames(recording: &Recording, stream: &str) -> Vec<u64> {
    let lines = recording.lines.lock().unwrap();
    let lines = lines.iter().filter(|line| line.stream == stream);
    lines.filter_map(|line| line.frame).collect()
}

fn all_frames() -> Vec<u64> {
    (0..FRAMES as u64).collect()
}

#[test]
fn program_that_waits_holds_its_own_stream_alone() {
    let (release, released) = channel();
    let shown = Recording {
        complete: Some(("south", release)),
        ..Recording::default()
    };
    let programs = Programs {
        released: Arc::new(Mutex::new(Some(released))),
    };
    let report = run_with("waits", programs, [&shown, &Recording::default()]);
    for stream in ["north", "south"] {
        assert_eq!(frames(&shown, stream), all_frames(), "{stream}");
    }
    let lines = shown.lines.lock().unwrap();
    let first_north = lines.iter().position(|line| line.stream == "north").unwrap();
    let south_before = lines[..first_north]
        .iter()
        .filter(|line| line.stream == "south")
        .count();
    assert_eq!(south_before, FRAMES);
    assert_eq!(report.transforms["mark"].answered, FRAMES as u64);
}

#[test]
fn attributes_and_incidents_of_a_program_reach_the_sinks_that_name_it() {
    let (shown, plain) = (Recording::default(), Recording::default());
    run_with("marks", Programs::default(), [&shown, &plain]);
    let lines = shown.lines.lock().unwrap();
    let north = || lines.iter().filter(|line| line.stream == "north");
    let seen: Vec<f32> = north().filter_map(|line| line.seen).collect();
    let expected: Vec<f32> = (1..=FRAMES).map(|number| number as f32).collect();
    assert_eq!(seen, expected);
    let incidents: Vec<&Incident> = north().flat_map(|line| &line.incidents).collect();
    let phases: Vec<Phase> = incidents.iter().map(|it| it.phase).collect();
    assert_eq!(phases, [Phase::Began, Phase::Ended], "its stream ends it");
    assert_eq!(incidents[0].id, incidents[1].id);
    assert_eq!(
        (incidents[0].kind, incidents[0].class.as_deref()),
        ("python", Some("car"))
    );
    assert!(
        lines
            .iter()
            .all(|line| line.stream == "north" || line.seen.is_none())
    );
    drop(lines);
    let lines = plain.lines.lock().unwrap();
    assert!(
        lines
            .iter()
            .all(|line| line.seen.is_none() && line.incidents.is_empty())
    );
}

#[test]
fn program_that_fails_costs_its_own_answer_alone() {
    for (function, reason) in [("fails", "failed"), ("loses", "ended"), ("panics", "failed")] {
        let shown = Recording::default();
        let report = run_with(function, Programs::default(), [&shown, &Recording::default()]);
        assert_eq!(frames(&shown, "north"), all_frames(), "{function}");
        let transform = &report.transforms["mark"];
        assert_eq!(transform.unchanged, [(reason.to_owned(), 1)].into(), "{function}");
        assert_eq!(transform.answered, FRAMES as u64 - 1, "{function}");
        assert!(
            transform.last_failure.as_ref().unwrap().contains("as asked"),
            "{function}"
        );
        assert_eq!(report.requests.dropped, 0, "{function}");
        let lines = shown.lines.lock().unwrap();
        let ended = lines
            .iter()
            .find(|line| line.incidents.iter().any(|it| it.phase == Phase::Ended));
        // The state of a process that is lost goes with it.
        let at = ended.unwrap().frame;
        assert_eq!(at, (function == "loses").then_some(1), "{function}");
    }
}
