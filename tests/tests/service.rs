//! An engine that goes on: streams are added, paused, resumed and removed while it runs, and no other stream loses a frame
//! by it.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use weir_flow::{
    Delivery, Frame, Notice, Packet, PacketFormat, PacketObserver, Sink, SinkError, SinkFactory, Source,
    SourceError, SourceFactory, SourceInfo, StopFlag,
};
use weir_graph::SourceNode;
use weir_runtime::{
    Control, Engine, Handle, NewStream, RunOptions, Snapshot, StreamError, StreamPhase, verify,
};

use crate::common::{
    Parts, TWO_STREAMS, assemble, catalog_with_sink, check_books, graph, stream, wait_until,
};

/// Frames, removals and states that a sink received.
#[derive(Debug, Clone, Default)]
struct Delivered(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// Indices of delivered frames by stream, in the order of their delivery.
    frames: BTreeMap<String, Vec<u64>>,
    removed: Vec<String>,
    /// Names of the states that sinks are notified of, by stream.
    states: BTreeMap<String, Vec<&'static str>>,
}

impl SinkFactory for Delivered {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Delivered {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let seen = &mut *self.0.lock().unwrap();
        let stream = seen.frames.entry(delivery.stream.to_string()).or_default();
        stream.push(delivery.frame.index);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::State { stream, state, .. } = notice {
            let seen = &mut *self.0.lock().unwrap();
            let states = seen.states.entry(stream.to_string()).or_default();
            states.push(state.name());
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.0.lock().unwrap().removed.push(stream.to_owned());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Delivered {
    fn frames(&self, stream: &str) -> Vec<u64> {
        self.0
            .lock()
            .unwrap()
            .frames
            .get(stream)
            .cloned()
            .unwrap_or_default()
    }

    fn removed(&self) -> Vec<String> {
        self.0.lock().unwrap().removed.clone()
    }

    fn states(&self, stream: &str) -> Vec<&'static str> {
        let states = &self.0.lock().unwrap().states;
        states.get(stream).cloned().unwrap_or_default()
    }
}

/// Collects what comes out of [`TWO_STREAMS`].
const SINK: &str = r#"
[sinks.out]
type = "collect"
inputs = ["name"]
"#;

fn start(options: RunOptions) -> (Handle, Delivered) {
    let delivered = Delivered::default();
    let handle = start_with(Box::new(delivered.clone()), options);
    (handle, delivered)
}

fn start_with(sink: Box<dyn SinkFactory>, options: RunOptions) -> Handle {
    let catalog = catalog_with_sink("collect");
    let parts = Parts {
        sinks: vec![("out", sink)],
        ..Parts::default()
    };
    let options = RunOptions {
        until_stopped: true,
        ..options
    };
    let text = format!("{TWO_STREAMS}{SINK}");
    let handle = Engine::start(
        assemble(graph(&text, &catalog), parts),
        options,
        &StopFlag::default(),
    );
    handle.unwrap()
}

fn add(control: &Control, name: &str, uri: &str) -> Result<(), StreamError> {
    control.add_stream(NewStream {
        node: SourceNode::new(name, uri),
        factory: None,
        like: None,
    })
}

#[test]
fn streams_come_and_go_under_load_and_no_other_loses_a_frame() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let (handle, delivered) = start(RunOptions {
        record: Some(record.clone()),
        ..RunOptions::default()
    });
    for round in 0..8 {
        let name = format!("guest-{}", round % 2);
        add(&handle, &name, "emulated:uniform?rate=200").unwrap();
        wait_until(&handle, |now| stream(now, &name).requests.delivered >= 10);
        handle.pause_stream(&name).unwrap();
        wait_until(&handle, |now| stream(now, &name).state == StreamPhase::Paused);
        handle.resume_stream(&name).unwrap();
        wait_until(&handle, |now| stream(now, &name).state == StreamPhase::Live);
        let gone = handle.remove_stream(&name).unwrap();
        assert!(gone.requests.arrived >= 10 && gone.requests.in_flight == 0);
        assert!(gone.requests.is_balanced(), "{gone:?}");
    }
    let report = handle.stop().unwrap();
    check_books(&report);
    assert_eq!(report.removed_streams.map(|removed| removed.streams), Some(8));
    assert_eq!(report.requests.in_flight, 0);
    let steady = &report.streams["steady"].requests;
    assert_eq!((steady.dropped, steady.late), (0, 0), "{:?}", report.drops);
    let frames: Vec<u64> = (0..steady.arrived).collect();
    assert_eq!(delivered.frames("steady"), frames, "each once, in order");
    assert_eq!(delivered.removed().len(), 8);
    let verified = verify(&record).unwrap_or_else(|error| panic!("{error}"));
    assert!(verified.steps > 0);
    let log = std::fs::read_to_string(&record).unwrap();
    assert_eq!(
        log.matches("\"stream-removed\"").count(),
        8,
        "once for all modules"
    );
}

#[test]
fn a_paused_stream_sends_nothing_and_goes_on_with_its_number_and_its_counts() {
    let (handle, delivered) = start(RunOptions::default());
    let before = wait_until(&handle, |now| stream(now, "other").requests.delivered >= 3);
    handle.pause_stream("other").unwrap();
    let is_idle = |now: &Snapshot| {
        let other = stream(now, "other");
        other.state == StreamPhase::Paused && other.requests.in_flight == 0
    };
    let paused = wait_until(&handle, is_idle);
    let steady = stream(&paused, "steady").requests.arrived;
    let later = wait_until(&handle, |now| {
        stream(now, "steady").requests.arrived >= steady + 30
    });
    assert_eq!(
        stream(&later, "other").requests,
        stream(&paused, "other").requests
    );
    handle.resume_stream("other").unwrap();
    let sent = stream(&paused, "other").requests.arrived;
    let after = wait_until(&handle, |now| stream(now, "other").requests.delivered > sent);
    assert_eq!(stream(&after, "other").id, stream(&before, "other").id);
    let report = handle.stop().unwrap();
    check_books(&report);
    assert_eq!(
        report.streams["other"]
            .health
            .as_ref()
            .map(|health| health.outages),
        Some(0)
    );
    let frames = delivered.frames("other");
    assert!(frames.is_sorted_by(|one, next| one < next), "{frames:?}");
    assert_eq!(delivered.states("other"), ["live", "paused", "live", "gone"]);
    assert_eq!(delivered.states("steady"), ["live", "gone"]);
}

#[test]
fn a_name_is_used_once_at_a_time_and_a_number_never_again() {
    let (handle, _) = start(RunOptions::default());
    let refused = |name: &str| {
        add(&handle, name, "emulated:uniform?rate=10")
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused("steady"), "the name steady is taken: choose another name");
    assert_eq!(
        refused("find"),
        "the name find is taken by a module of the graph: choose another name"
    );
    assert_eq!(
        refused("out"),
        "the name out is taken by a sink of the graph: choose another name"
    );
    let unknown = handle.remove_stream("nowhere").unwrap_err().to_string();
    assert_eq!(unknown, "there is no stream nowhere: there is other, steady");
    let bad = add(&handle, "bad", "emulated:nothing").unwrap_err().to_string();
    assert!(bad.contains("emulated:nothing"), "{bad}");
    let like = handle.add_stream(NewStream {
        node: SourceNode::new("like", "emulated:uniform?rate=10"),
        factory: None,
        like: Some("south".to_owned()),
    });
    let like = like.unwrap_err().to_string();
    assert_eq!(
        like,
        "the graph has no source south to be like: there is steady, other"
    );

    let first = handle.snapshot().unwrap();
    assert_eq!(first.streams.len(), 2, "nothing was added");
    handle.remove_stream("other").unwrap();
    add(&handle, "other", "emulated:uniform?rate=10").unwrap();
    let again = handle.snapshot().unwrap();
    assert!(stream(&again, "other").id > 1, "{:?}", again.streams);
    check_books(&handle.stop().unwrap());
}

/// A slow sink that observes packets: beginnings and ends of the streams `guest`, in the order in which the sink learns of them.
#[derive(Clone, Default)]
struct SlowRecorder(Arc<Recorded>);

#[derive(Default)]
struct Recorded {
    seen: Mutex<Vec<&'static str>>,
    changed: Condvar,
}

impl Recorded {
    fn push(&self, what: &'static str) {
        self.seen.lock().unwrap().push(what);
        self.changed.notify_all();
    }
}

impl PacketObserver for Recorded {
    fn on_format(&self, _stream: &Arc<str>, _format: &Arc<PacketFormat>) {}

    fn on_packet(&self, _stream: &Arc<str>, _packet: &Packet) {}

    fn on_time_zone(&self, stream: &Arc<str>, _zone: &str) {
        if &**stream == "guest" {
            self.push("began");
        }
    }
}

impl SinkFactory for SlowRecorder {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for SlowRecorder {
    fn accept(&mut self, _delivery: &Delivery) -> Result<(), SinkError> {
        Ok(())
    }

    fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        Some(Arc::clone(&self.0) as _)
    }

    fn on_stream_removed(&mut self, _stream: &str) -> Result<(), SinkError> {
        // Long enough for the next stream to begin, if nothing keeps it from that.
        let seen = self.0.seen.lock().unwrap();
        let is_alone = |seen: &mut Vec<&'static str>| seen.len() < 2;
        let timeout = Duration::from_millis(500);
        let waited = self.0.changed.wait_timeout_while(seen, timeout, is_alone);
        drop(waited.unwrap());
        self.0.push("removed");
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn stream_of_a_name_that_was_removed_begins_after_sinks_have_completed_the_other() {
    let recorder = SlowRecorder::default();
    let handle = start_with(Box::new(recorder.clone()), RunOptions::default());
    add(&handle, "guest", "emulated:uniform?rate=20").unwrap();
    handle.remove_stream("guest").unwrap();
    add(&handle, "guest", "emulated:uniform?rate=20").unwrap();
    check_books(&handle.stop().unwrap());
    let seen = recorder.0.seen.lock().unwrap();
    assert_eq!(*seen, ["began", "removed", "began"]);
}

#[test]
fn an_engine_without_streams_goes_on_and_takes_the_next() {
    let (handle, delivered) = start(RunOptions::default());
    for name in ["steady", "other"] {
        handle.remove_stream(name).unwrap();
    }
    let empty = handle.snapshot().unwrap();
    assert!(empty.streams.is_empty() && !handle.is_finished());
    // One that ends by itself stays until it is removed.
    add(&handle, "short", "emulated:uniform?rate=200&frames=20").unwrap();
    let ended = wait_until(&handle, |now| {
        let short = stream(now, "short");
        short.state == StreamPhase::Gone && short.requests.in_flight == 0
    });
    assert_eq!(stream(&ended, "short").requests.arrived, 20);
    let ended = handle.pause_stream("short").unwrap_err();
    assert!(matches!(ended, StreamError::Ended { .. }), "{ended}");
    assert_eq!(handle.remove_stream("short").unwrap().requests.arrived, 20);
    let control = handle.control();
    check_books(&handle.stop().unwrap());
    assert_eq!(delivered.frames("short").len(), 20);
    assert!(matches!(control.snapshot(), Err(StreamError::Stopping)));
}

/// Hangs until it is released, whatever it is asked: the first gate opens when it does, the second one releases it.
struct Hanging([hang::Gate; 2]);

/// Gates on which a source hangs until the test opens them.
mod hang {
    use std::sync::{Arc, Condvar, Mutex};

    #[derive(Clone, Default)]
    pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

    impl Gate {
        pub(crate) fn open(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_all();
        }

        pub(crate) fn wait(&self) {
            let mut open = self.0.0.lock().unwrap();
            while !*open {
                open = self.0.1.wait(open).unwrap();
            }
        }
    }
}

impl SourceFactory for Hanging {
    fn open(&self, _stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(Hanging(self.0.clone())))
    }
}

impl Source for Hanging {
    fn info(&self) -> SourceInfo {
        SourceInfo::default()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let [hangs, release] = &self.0;
        hangs.open();
        release.wait();
        Ok(None)
    }
}

#[test]
fn a_stream_whose_source_hangs_is_removed_all_the_same() {
    let (handle, _) = start(RunOptions {
        grace: Duration::from_millis(50),
        ..RunOptions::default()
    });
    let gates: [hang::Gate; 2] = Default::default();
    let hanging = NewStream {
        node: SourceNode::new("hanging", "camera"),
        factory: Some(Box::new(Hanging(gates.clone()))),
        like: Some("other".to_owned()),
    };
    handle.add_stream(hanging).unwrap();
    gates[0].wait();
    let gone = handle.remove_stream("hanging").unwrap();
    assert_eq!(
        gone.error.as_deref(),
        Some("its source did not stop when it was asked to")
    );
    gates[1].open();
    assert_eq!(handle.snapshot().unwrap().streams.len(), 2);
    check_books(&handle.stop().unwrap());
}
