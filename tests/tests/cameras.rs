//! Cameras as they are: away at first, gone for a while, mute, asleep, hung. What becomes of their streams, and what the
//! report says of it. And recordings whose clocks jump.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use weir_flow::{
    Batching, Catalog, Delivery, DeviceKind, Frame, Image, Inference, Item, Model, Session, SessionError,
    Sink, SinkError, SinkFactory, Source, SourceError, SourceFactory, SourceInfo, Step, StopFlag,
};
use weir_policy::{ReconnectSpec, Report, StreamStanding};
use weir_runtime::{Clock, Pace, RunError, RunOptions};
use weir_types::Span;

use crate::common::{Parts, assemble, catalog_with_sink, check_books, graph};

/// One stream through one module to a sink that keeps what it takes.
const GRAPH: &str = r#"
    [app]
    name = "cameras"
    slo = "300ms"
    [sources.one]
    uri = "emulated:uniform?rate=400&frames=60"
    [models.quick]
    device = "emulated:a"
    profile = { "1" = "1ms" }
    [modules.look]
    operator = "emulate"
    model = "quick"
    inputs = ["one"]
    [sinks.events]
    type = "kept"
    inputs = ["look"]
"#;

fn catalog() -> Catalog {
    catalog_with_sink("kept")
}

/// Behaviour of a camera during one opening.
#[derive(Clone, Debug)]
enum Behaviour {
    /// It is not there.
    Refuse,
    /// So many frames, stamped as they are made, so many milliseconds apart; then its connection ends.
    Send(u64, u64),
    /// So many frames, then nothing, but the connection stays.
    FallSilent(u64),
    /// Ten frames 20 ms apart, a second and a half of sleep, then all frames of that time at once.
    Sleep,
    /// Frames with these stamps in milliseconds, at once.
    Stamps(Vec<f64>),
    /// It is never open, and looks at no flag.
    HangInOpen(Arc<Mutex<mpsc::Receiver<()>>>),
}

/// A source that does one thing after another as it is opened again and again, the last one for ever.
struct Camera {
    script: Mutex<VecDeque<Behaviour>>,
    live: bool,
}

impl Camera {
    fn boxed(script: impl Into<VecDeque<Behaviour>>) -> Box<dyn SourceFactory> {
        Box::new(Self {
            script: Mutex::new(script.into()),
            live: true,
        })
    }

    fn recording(stamps: &[f64]) -> Box<dyn SourceFactory> {
        Box::new(Self {
            script: Mutex::new([Behaviour::Stamps(stamps.to_vec())].into()),
            live: false,
        })
    }
}

impl SourceFactory for Camera {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let behaviour = {
            let mut script = self.script.lock().unwrap();
            let next = script.pop_front().unwrap();
            if script.is_empty() {
                script.push_back(next.clone());
            }
            next
        };
        match &behaviour {
            Behaviour::Refuse => {
                return Err(SourceError::Open {
                    uri: "camera".into(),
                    reason: "refused by design".into(),
                });
            }
            Behaviour::HangInOpen(until) => {
                let _ = until.lock().unwrap().recv();
            }
            _ => {}
        }
        Ok(Box::new(CameraStream {
            behaviour,
            live: self.live,
            clock: Clock::start(),
            sent: 0,
            stop: stop.clone(),
        }))
    }

    fn is_endless(&self) -> Option<bool> {
        Some(self.live)
    }
}

struct CameraStream {
    behaviour: Behaviour,
    live: bool,
    clock: Clock,
    sent: u64,
    stop: StopFlag,
}

impl CameraStream {
    fn wait_until(&self, ms: f64) {
        while !self.stop.is_raised() && self.clock.now().micros() < (ms * 1e3) as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn frame(&mut self, pts_ms: f64) -> Option<Frame> {
        self.sent += 1;
        let image = Image::from_rgb(2, 2, vec![0; 12]);
        (!self.stop.is_raised()).then(|| Frame::new(self.sent - 1, pts_ms, image))
    }
}

impl Source for CameraStream {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            live: self.live,
            stamped: true,
            fps: Some(50.0),
            ..SourceInfo::default()
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let sent = self.sent;
        Ok(match self.behaviour.clone() {
            Behaviour::Send(frames, apart) if sent < frames => {
                let made = (sent * apart) as f64;
                self.wait_until(made);
                self.frame(made)
            }
            Behaviour::FallSilent(frames) if sent < frames => self.frame(sent as f64 * 20.0),
            Behaviour::FallSilent(_) => {
                self.wait_until(f64::INFINITY);
                None
            }
            Behaviour::Sleep if sent < SLEPT => {
                let made = sent as f64 * 20.0;
                self.wait_until(if sent < 10 { made } else { SLEPT as f64 * 20.0 });
                self.frame(made)
            }
            Behaviour::Stamps(stamps) => match stamps.get(sent as usize) {
                Some(stamp) => self.frame(*stamp),
                None => None,
            },
            _ => None,
        })
    }
}

/// Frames until the sleeping camera has sent its overdue ones.
const SLEPT: u64 = 10 + 75;

/// Keeps numbers and times of what it takes; stops the run after so many.
#[derive(Clone, Default)]
struct RecordingSink {
    taken: Arc<Mutex<Vec<(u64, f64)>>>,
    enough: Option<(usize, StopFlag)>,
}

impl SinkFactory for RecordingSink {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for RecordingSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let mut taken = self.taken.lock().unwrap();
        taken.push((delivery.frame.index, delivery.frame.pts_ms));
        if let Some((enough, stop)) = &self.enough
            && taken.len() >= *enough
        {
            stop.raise();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Runs `camera` until `enough` deliveries are out, or as `options` say.
fn run(
    camera: Box<dyn SourceFactory>,
    enough: Option<usize>,
    options: &RunOptions,
) -> (Report, Vec<(u64, f64)>) {
    let stop = StopFlag::default();
    let kept = RecordingSink {
        enough: enough.map(|enough| (enough, stop.clone())),
        ..RecordingSink::default()
    };
    let parts = Parts {
        sources: vec![("one", camera)],
        sinks: vec![("events", Box::new(kept.clone()))],
        ..Parts::default()
    };
    let report = weir_runtime::run(assemble(graph(GRAPH, &catalog()), parts), options, &stop).unwrap();
    check_books(&report);
    let taken = kept.taken.lock().unwrap().clone();
    let grows = |pair: &[(u64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1;
    assert!(taken.windows(2).all(grows), "{taken:?}");
    (report, taken)
}

/// As ever, but cameras are tried again at once.
fn at_once() -> RunOptions {
    RunOptions {
        pace: Pace::Times(1.0),
        reconnect: ReconnectSpec {
            first: Span::from_millis(10),
            max: Span::from_millis(20),
        },
        ..RunOptions::default()
    }
}

#[test]
fn a_camera_that_is_away_at_first_is_tried_again_like_one_that_dies_later() {
    let script = [
        Behaviour::Refuse,
        Behaviour::Refuse,
        Behaviour::Refuse,
        Behaviour::Send(20, 5),
        Behaviour::Refuse,
        Behaviour::Send(1_000_000, 5),
    ];
    let (report, taken) = run(Camera::boxed(script), Some(60), &at_once());
    let stream = &report.streams["one"];
    let health = stream.health.as_ref().unwrap();
    assert_eq!(stream.error, None);
    assert_eq!(health.state, StreamStanding::Running);
    assert_eq!((health.outages, health.reconnects), (2, 1), "{health:?}");
    assert!(
        health
            .first_outage
            .as_deref()
            .unwrap()
            .contains("refused by design")
    );
    assert!(health.down_s > 0.0 && health.longest_outage_s <= health.down_s);
    assert!(taken.len() >= 60);
}

#[test]
fn a_camera_that_never_comes_is_reported_as_never_reached() {
    let options = RunOptions {
        duration: Some(Duration::from_millis(300)),
        ..at_once()
    };
    let (report, taken) = run(Camera::boxed([Behaviour::Refuse]), None, &options);
    let stream = &report.streams["one"];
    let health = stream.health.as_ref().unwrap();
    assert_eq!((health.state, health.outages), (StreamStanding::NeverReached, 1));
    assert!(health.down_s >= 0.3, "{health:?}");
    assert!(
        health
            .down_because
            .as_deref()
            .unwrap()
            .contains("refused by design")
    );
    assert_eq!((stream.error.as_ref(), taken.len()), (None, 0));
}

#[test]
fn a_camera_that_is_gone_at_the_end_is_reported_as_down() {
    let options = RunOptions {
        duration: Some(Duration::from_millis(700)),
        ..at_once()
    };
    let script = [Behaviour::Send(10, 5), Behaviour::Refuse];
    let (report, _) = run(Camera::boxed(script), None, &options);
    let health = report.streams["one"].health.as_ref().unwrap();
    assert_eq!(
        (health.state, health.outages),
        (StreamStanding::Down, 1),
        "{health:?}"
    );
    assert_eq!(health.first_outage.as_deref(), Some("the connection ended"));
}

#[test]
fn an_outage_is_a_gap_in_numbers_and_times() {
    let away = RunOptions {
        reconnect: ReconnectSpec {
            first: Span::from_secs(4),
            max: Span::from_secs(4),
        },
        ..at_once()
    };
    let script = [Behaviour::Send(30, 20), Behaviour::Send(1_000_000, 20)];
    let (report, taken) = run(Camera::boxed(script), Some(50), &away);
    let health = report.streams["one"].health.as_ref().unwrap();
    let gap = taken
        .windows(2)
        .max_by(|a, b| (a[1].0 - a[0].0).cmp(&(b[1].0 - b[0].0)));
    let [before, after] = gap.unwrap() else {
        unreachable!()
    };
    let (frames, ms) = (after.0 - before.0, after.1 - before.1);
    assert!(ms >= 390.0, "a tenth of four seconds at least: {ms} ms");
    assert!((ms - health.down_s * 1e3).abs() < 200.0, "{ms} ms, {health:?}");
    assert!(
        (frames as f64 - ms / 20.0).abs() <= 3.0,
        "{frames} frames in {ms} ms"
    );
}

#[test]
fn a_camera_that_falls_silent_is_opened_again() {
    let script = [Behaviour::FallSilent(5), Behaviour::Send(1_000_000, 5)];
    let (report, _) = run(Camera::boxed(script), Some(20), &at_once());
    let health = report.streams["one"].health.as_ref().unwrap();
    assert_eq!(
        (health.state, health.outages, health.reconnects),
        (StreamStanding::Running, 1, 1)
    );
    assert!(
        health.silent_s >= 2.0 && health.silent_s == health.down_s,
        "{health:?}"
    );
    assert!(
        health.first_outage.as_deref().unwrap().contains("silent"),
        "{health:?}"
    );
}

#[test]
fn frames_that_slept_in_the_camera_are_not_in_time() {
    let options = RunOptions {
        duration: Some(Duration::from_millis(2_500)),
        ..at_once()
    };
    let (report, taken) = run(
        Camera::boxed([Behaviour::Sleep, Behaviour::Refuse]),
        None,
        &options,
    );
    let stream = &report.streams["one"];
    let health = stream.health.as_ref().unwrap();
    assert_eq!(stream.requests.arrived, SLEPT);
    // Of 75 frames 20 ms apart, the last 15 are younger than the SLO, if the machine was quick.
    assert!(health.stale >= 55, "{health:?}");
    assert!(
        stream.requests.delivered <= SLEPT - health.stale,
        "{:?}",
        stream.requests
    );
    assert!(
        taken.len() as u64 <= SLEPT - health.stale,
        "what is late is withheld"
    );
}

#[test]
fn a_recording_whose_clock_jumps_goes_on_and_says_so() {
    let hour = 3_600_000.0;
    let stamps = [0.0, 20.0, 40.0, hour, hour + 20.0, 0.0, f64::NAN, 1e300, 60.0];
    // Without bounds the first jump alone would hold it for an hour: then the time-out ends it.
    let options = RunOptions {
        duration: Some(Duration::from_secs(20)),
        ..at_once()
    };
    let (report, taken) = run(Camera::recording(&stamps), None, &options);
    let stream = &report.streams["one"];
    let health = stream.health.as_ref().unwrap();
    assert_eq!(stream.requests.arrived, stamps.len() as u64);
    assert_eq!(health.state, StreamStanding::Ended);
    assert_eq!(health.discontinuities, 5, "{taken:?}");
    assert!(taken.last().unwrap().1 < 1_000.0, "{taken:?}");
}

#[test]
fn a_source_that_hangs_in_opening_delays_no_other() {
    let (release, until) = mpsc::channel::<()>();
    let options = RunOptions {
        duration: Some(Duration::from_millis(100)),
        grace: Duration::ZERO,
        ..at_once()
    };
    let camera = Camera::boxed([Behaviour::HangInOpen(Arc::new(Mutex::new(until)))]);
    let (report, _) = run(camera, None, &options);
    let stream = &report.streams["one"];
    assert!(stream.error.as_deref().unwrap().contains("did not stop"));
    assert_eq!(
        stream.health.as_ref().unwrap().state,
        StreamStanding::NeverReached
    );
    drop(release);
}

/// A sink that is never open.
struct Stuck(Mutex<mpsc::Receiver<()>>);

impl SinkFactory for Stuck {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let _ = self.0.lock().unwrap().recv();
        Ok(Box::new(RecordingSink::default()))
    }
}

#[test]
fn a_sink_that_hangs_in_opening_is_an_error() {
    let (release, until) = mpsc::channel::<()>();
    let parts = Parts {
        sinks: vec![("events", Box::new(Stuck(Mutex::new(until))))],
        ..Parts::default()
    };
    let options = RunOptions {
        sink_open_timeout: Duration::from_millis(50),
        ..at_once()
    };
    let assembly = assemble(graph(GRAPH, &catalog()), parts);
    let error = weir_runtime::run(assembly, &options, &StopFlag::default()).unwrap_err();
    assert!(
        error.to_string().contains("sink events: it did not open"),
        "{error}"
    );
    drop(release);
}

/// A model while which is opened a signal comes.
struct Interrupted(StopFlag);

impl Model for Interrupted {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        self.0.raise();
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Session for Interrupted {
    fn run(&mut self, _items: &[Item], _lap: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        unreachable!("nothing is run")
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        unreachable!("nothing is measured")
    }
}

#[test]
fn a_signal_while_models_are_opened_ends_the_run() {
    let stop = StopFlag::default();
    let parts = Parts {
        models: vec![("quick", Arc::new(Interrupted(stop.clone())))],
        sinks: vec![("events", Box::new(RecordingSink::default()))],
        ..Parts::default()
    };
    let assembly = assemble(graph(GRAPH, &catalog()), parts);
    let error = weir_runtime::run(assembly, &at_once(), &stop).unwrap_err();
    assert!(matches!(error, RunError::Stopped), "{error}");
}
