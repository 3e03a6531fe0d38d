//! Real cameras: processes that serve RTSP, behind a network that fails. Each comes back by itself, the others lose nothing
//! by it, and what was wrong with which is seen in the states that the engine publishes and reports.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

mod camera;
mod encrypted;
mod proxy;
mod sound;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use camera::{Camera, ClipSpec, write_clip};
use proxy::{Fault, Proxy};
use weir_flow::{
    Connection, Delivery, Notice, Settings, Sink, SinkError, SinkFactory, SourceFactory, StopFlag,
    StreamState, Transport, Value,
};
use weir_operators::media::{SourceOptions, source};
use weir_policy::{ReconnectSpec, Report, StateChange, StreamHealth, StreamStanding};
use weir_runtime::{Clock, Pace, Progress, RunOptions};
use weir_types::Span;

use crate::common::{Parts, assemble, catalog_with_sink, check_books, graph};

/// Timeout of a wait for an event, on a machine however slow. All waits together usually take a quarter of
/// it.
const PATIENCE: Span = Span::from_secs(90);

/// Event of a stream that the sink passes on to the test.
enum Event {
    State(StreamState),
    /// Index and width of a frame that came out.
    Frame(u64, u32),
    /// Index of a frame that was dropped, and why.
    Dropped(u64, &'static str),
}

/// Passes on what it takes.
#[derive(Clone)]
struct EventSink(Sender<(String, Event)>);

impl SinkFactory for EventSink {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for EventSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let event = Event::Frame(delivery.frame.index, delivery.frame.image.width);
        let _ = self.0.send((delivery.stream.to_string(), event));
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let (stream, event) = match notice.clone() {
            Notice::State { stream, state, .. } => (stream, Event::State(state)),
            Notice::Dropped {
                stream,
                frame,
                reason,
                ..
            } => (stream, Event::Dropped(frame, reason)),
            Notice::Still { .. }
            | Notice::Sink { .. }
            | Notice::Analytics { .. }
            | Notice::Described { .. } => return Ok(()),
        };
        let _ = self.0.send((stream.to_string(), event));
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// States and frames of a stream so far.
#[derive(Debug, Default)]
struct Seen {
    states: Vec<StreamState>,
    frames: BTreeSet<u64>,
    dropped: BTreeMap<&'static str, u64>,
    /// Width of the last frame.
    width: u32,
}

impl Seen {
    fn is_live(&self) -> bool {
        self.states.last() == Some(&StreamState::Live)
    }
}

/// A run on cameras, watched while it goes on.
struct Run {
    events: Receiver<(String, Event)>,
    seen: BTreeMap<String, Seen>,
    stop: StopFlag,
    progress: std::sync::Arc<Progress>,
    thread: JoinHandle<Report>,
}

impl Run {
    /// Runs these streams through a model that costs nothing.
    fn start(cameras: Vec<(&'static str, Box<dyn SourceFactory>)>) -> Self {
        let mut text = "[app]\nname = \"cameras\"\nslo = \"1s\"\n".to_owned();
        let names: Vec<&str> = cameras.iter().map(|(name, _)| *name).collect();
        for name in &names {
            // What is given takes its place.
            text += &format!("[sources.{name}]\nuri = \"rtsp://127.0.0.1/live\"\n");
        }
        text += &format!(
            "[models.quick]\ndevice = \"emulated:a\"\nprofile = {{ \"1\" = \"1ms\" }}\n\
             [modules.look]\noperator = \"emulate\"\nmodel = \"quick\"\ninputs = {names:?}\n\
             [sinks.events]\ntype = \"kept\"\ninputs = [\"look\"]\n"
        );
        let catalog = catalog_with_sink("kept");
        let (sender, events) = mpsc::channel();
        let parts = Parts {
            sources: cameras,
            sinks: vec![("events", Box::new(EventSink(sender)))],
            ..Parts::default()
        };
        let graph = graph(&text, &catalog);
        let (stop, options) = (
            StopFlag::default(),
            RunOptions {
                pace: Pace::Times(1.0),
                reconnect: ReconnectSpec {
                    first: Span::from_millis(200),
                    max: Span::from_secs(1),
                },
                ..RunOptions::default()
            },
        );
        let (stopping, progress) = (stop.clone(), std::sync::Arc::clone(&options.progress));
        let thread = std::thread::spawn(move || {
            weir_runtime::run(assemble(graph, parts), &options, &stopping).unwrap()
        });
        Self {
            events,
            seen: BTreeMap::new(),
            stop,
            progress,
            thread,
        }
    }

    /// Waits until this holds of a stream.
    fn wait_for(&mut self, stream: &str, what: &str, holds: impl Fn(&Seen) -> bool) {
        let clock = Clock::start();
        while !self.seen.get(stream).is_some_and(&holds) {
            let event = self.events.recv_timeout(Duration::from_secs(1));
            assert!(
                clock.now().micros() < PATIENCE.micros() && !self.thread.is_finished(),
                "{stream} did not become {what}: {:?}, {:?}",
                self.seen.get(stream).map(|seen| &seen.states),
                self.progress.stream_states(),
            );
            if let Ok((name, event)) = event {
                self.take(name, event);
            }
        }
    }

    fn take(&mut self, stream: String, event: Event) {
        let seen = self.seen.entry(stream).or_default();
        match event {
            Event::State(state) => seen.states.push(state),
            Event::Frame(index, width) => {
                seen.frames.insert(index);
                seen.width = width;
            }
            Event::Dropped(index, reason) => {
                seen.frames.insert(index);
                *seen.dropped.entry(reason).or_default() += 1;
            }
        }
    }

    fn finish(mut self) -> (Report, BTreeMap<String, Seen>) {
        self.stop.raise();
        while let Ok((name, event)) = self.events.recv() {
            self.take(name, event);
        }
        let report = self.thread.join().unwrap();
        check_books(&report);
        (report, self.seen)
    }
}

/// Each stream that something happens to.
const FAULTY: [&str; 6] = ["killed", "frozen", "resized", "garbled", "soundonly", "scrambled"];

/// Each stream that gives all its frames: one over a slow link gives old ones.
const UNHARMED: [&str; 3] = ["steady", "datagrams", "delayed"];

/// Cameras that ask for a user by Digest, which are read through a relay.
const PROTECTED: [&str; 4] = ["killed", "frozen", "garbled", "steady"];

/// Their user, as the camera's script takes it.
const USER: &str = "user=admin:geheim";

fn camera_source(name: &str, port: u16, transport: Transport) -> Box<dyn SourceFactory> {
    // Sound shows that a camera is there while its pictures are missing.
    let sound = Value::Text("video+audio".to_owned());
    let options = SourceOptions {
        connection: Connection {
            transport,
            options: Settings([("allowed_media_types".to_owned(), sound)].into()),
            ..Connection::default()
        },
        ..SourceOptions::default()
    };
    let user = if PROTECTED.contains(&name) {
        "admin:geheim@"
    } else {
        ""
    };
    source(&format!("rtsp://{user}127.0.0.1:{port}/live"), options)
}

/// Name of the camera that takes the place of that of `resized`.
const RESIZED_LATER: &str = "resized-later";

/// Cameras by the name of their stream, and proxies before all but the one that sends datagrams.
struct Cameras {
    proxies: BTreeMap<&'static str, Proxy>,
    cameras: BTreeMap<&'static str, Camera>,
    /// Clip of the camera that is killed.
    killed_clip: PathBuf,
}

impl Cameras {
    fn start(folder: &Path) -> Self {
        let clip = |name, fps, size, sound| {
            let spec = ClipSpec {
                name,
                fps,
                size,
                sound,
            };
            write_clip(folder, spec)
        };
        let slow = clip("slow", 15, (320, 180), false);
        let fast = clip("fast", 30, (320, 180), false);
        let small = clip("small", 20, (160, 90), false);
        let sound = clip("sound", 25, (320, 180), true);
        let cameras = BTreeMap::from([
            ("killed", Camera::start(&slow, &[USER])),
            ("frozen", Camera::start(&fast, &[USER])),
            ("resized", Camera::start(&slow, &[])),
            (RESIZED_LATER, Camera::start(&small, &[])),
            ("garbled", Camera::start(&fast, &[USER])),
            ("soundonly", Camera::start(&sound, &["sound"])),
            ("scrambled", Camera::start(&slow, &[])),
            ("steady", Camera::start(&fast, &[USER])),
            ("datagrams", Camera::start(&slow, &[])),
            ("delayed", Camera::start(&small, &[])),
        ]);
        let proxied = FAULTY.into_iter().chain(["steady", "delayed"]);
        let proxies = proxied.map(|name| (name, Proxy::start(cameras[name].port)));
        Self {
            proxies: proxies.collect(),
            cameras,
            killed_clip: slow,
        }
    }

    fn sources(&self) -> Vec<(&'static str, Box<dyn SourceFactory>)> {
        let proxied = self.proxies.iter();
        let sources = proxied.map(|(name, proxy)| (*name, camera_source(name, proxy.port, Transport::Tcp)));
        let port = self.cameras["datagrams"].port;
        let datagrams = ("datagrams", camera_source("datagrams", port, Transport::Udp));
        sources.chain([datagrams]).collect()
    }

    /// Sets the fault of each stream in [`FAULTY`], and slows the link of `delayed`.
    fn fail(&mut self) {
        self.cameras.get_mut("killed").unwrap().kill();
        self.cameras["frozen"].freeze();
        self.proxies["resized"].switch(self.cameras[RESIZED_LATER].port);
        self.proxies["garbled"].set(Fault::Garbage);
        self.proxies["soundonly"].set(Fault::NoPictures);
        self.proxies["scrambled"].set(Fault::Scrambled);
        self.proxies["delayed"].set(Fault::Slow);
    }

    /// Ends the fault of a stream in [`FAULTY`]; `resized` keeps its other size.
    fn mend(&mut self, stream: &'static str) {
        match stream {
            "killed" => {
                let killed = Camera::start(&self.killed_clip, &[USER]);
                self.proxies[stream].switch(killed.port);
                self.cameras.insert(stream, killed);
            }
            "frozen" => self.cameras[stream].thaw(),
            "resized" => {}
            _ => self.proxies[stream].set(Fault::None),
        }
    }
}

/// The first state after the stream was live for the first time.
fn first_outage(health: &StreamHealth) -> &StreamState {
    let mut states = health.changes.iter().map(|StateChange { state, .. }| state);
    states.find(|state| **state == StreamState::Live);
    states.next().unwrap()
}

/// Checks that a stream runs again, and that its first outage was reported with the reason of its fault.
fn check_recovered(stream: &str, health: &StreamHealth) {
    assert_eq!(health.state, StreamStanding::Running, "{stream}: {health:?}");
    assert_eq!(health.last.state, StreamState::Live, "{stream}: {health:?}");
    assert!(
        health.outages >= 1 && health.reconnects >= 1,
        "{stream}: {health:?}"
    );
    let stalled = |word: &str| {
        let state = first_outage(health);
        let found = state.name() == "stalled" && state.reason().unwrap().contains(word);
        assert!(found, "{stream}: {health:?}");
    };
    // Two seconds, and at most as much as the server sent ahead.
    let stalled_for = |word: &str| {
        stalled(word);
        let reason = first_outage(health).reason().unwrap();
        let length = reason.split(word).nth(1).unwrap();
        let length = length.split([' ', ':', ',', ';']).next().unwrap();
        let waited: Span = length.parse().unwrap_or_else(|_| panic!("{reason}"));
        let usual = Span::from_secs(2)..=Span::from_secs(5);
        assert!(usual.contains(&waited), "{stream}: {reason}");
    };
    match stream {
        "killed" | "resized" => assert_eq!(first_outage(health).name(), "waiting", "{health:?}"),
        "frozen" => stalled_for("no data for "),
        "soundonly" => stalled_for("no pictures for "),
        "scrambled" => stalled("decoded whole"),
        // What becomes of bytes without sense is a matter of chance.
        _ => assert!(first_outage(health).is_down(), "{health:?}"),
    }
}

/// Checks that a stream was never down, and that its frames came out or were dropped for a usual reason.
fn check_undisturbed(stream: &str, health: &StreamHealth, seen: &Seen) {
    assert_eq!(health.outages, 0, "{stream}: {health:?}");
    assert!(
        !seen.states.iter().any(StreamState::is_down),
        "{stream}: {:?}",
        seen.states
    );
    // Its frames are numbered without a gap; what did not come out was dropped because
    // the machine had no time, or the run ended.
    let first = seen.frames.first().unwrap();
    assert_eq!(
        seen.frames.last().unwrap() - first + 1,
        seen.frames.len() as u64,
        "{stream}"
    );
    let known = [
        "infeasible",
        "over-budget",
        "shed",
        "stream-full",
        "memory-full",
        "not-decoded",
        "late",
        "stopped",
    ];
    assert!(
        seen.dropped.keys().all(|reason| known.contains(reason)),
        "{:?}",
        seen.dropped
    );
}

#[test]
fn cameras_that_fail_come_back_by_themselves_and_others_lose_nothing() {
    if !camera::are_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut cameras = Cameras::start(folder.path());
    let mut run = Run::start(cameras.sources());

    for stream in FAULTY.into_iter().chain(UNHARMED) {
        run.wait_for(stream, "live", Seen::is_live);
    }
    // Until a group of pictures is known, those that cannot be decoded have half a minute.
    run.wait_for("scrambled", "far enough", |seen| seen.frames.len() > 40);

    cameras.fail();
    for stream in FAULTY {
        run.wait_for(stream, "down", |seen| {
            seen.states.iter().any(StreamState::is_down)
        });
        cameras.mend(stream);
    }
    for stream in FAULTY {
        run.wait_for(stream, "live again", |seen| {
            seen.is_live() && seen.states.len() > 2
        });
    }
    run.wait_for("resized", "smaller", |seen| seen.width == 160);
    run.wait_for("delayed", "late", |seen| seen.dropped.values().sum::<u64>() > 5);
    cameras.proxies["delayed"].set(Fault::None);
    // What is not disturbed goes on all the while.
    let so_far = run.seen["steady"].frames.len();
    run.wait_for("steady", "older", |seen| seen.frames.len() > so_far);
    let (report, seen) = run.finish();
    drop(cameras);

    let health = |stream: &str| report.streams[stream].health.as_ref().unwrap();
    assert!(health("delayed").stale > 0);
    for stream in FAULTY {
        check_recovered(stream, health(stream));
    }
    for stream in UNHARMED {
        check_undisturbed(stream, health(stream), &seen[stream]);
    }
}
