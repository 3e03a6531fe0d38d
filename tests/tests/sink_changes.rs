//! Sinks while a run goes on: other settings of an open sink, and outages that are notices.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::{Arc, Mutex};

use weir_flow::{
    Catalog, Delivery, KeyKind, KeySpec, Notice, Settings, Sink, SinkError, SinkFactory, SinkSpec, StopFlag,
};
use weir_runtime::{Assembly, Engine, Handle, RunOptions, Snapshot};

use crate::common::{Parts, TWO_STREAMS, assemble, graph, stream, wait_until};

/// Calls of a sink that a test made, shared by all openings of it.
#[derive(Default)]
struct Calls {
    opened: u32,
    finished: u32,
    settings: Vec<f64>,
    outage: Option<String>,
    notices: Vec<(String, Option<String>)>,
}

#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Calls>>);

impl SinkFactory for Recorded {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        self.0.lock().unwrap().opened += 1;
        Ok(Box::new(self.clone()))
    }

    fn live_keys(&self) -> &'static [&'static str] {
        &["limit"]
    }
}

impl Sink for Recorded {
    fn accept(&mut self, _delivery: &Delivery) -> Result<(), SinkError> {
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Sink { sink, outage, .. } = notice {
            let outage = outage.as_deref().map(str::to_owned);
            self.0.lock().unwrap().notices.push((sink.to_string(), outage));
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn set_settings(&mut self, settings: &Settings) {
        self.0
            .lock()
            .unwrap()
            .settings
            .push(settings.number("limit", 0.0));
    }

    fn outage(&self) -> Option<String> {
        self.0.lock().unwrap().outage.clone()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.lock().unwrap().finished += 1;
        Ok(())
    }
}

const NUMBER: KeyKind = KeyKind::Number { min: 0.0, max: 9.0 };

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "limit",
        kind: NUMBER,
        about: "a key that an open sink takes over",
    },
    KeySpec {
        name: "other",
        kind: NUMBER,
        about: "a key that it does not",
    },
];

fn assembly(keys: &str, sink: &Recorded) -> Assembly {
    let catalog = Catalog {
        sinks: vec![SinkSpec {
            name: "record",
            about: "",
            keys: KEYS,
            check: Default::default(),
        }],
        ..Catalog::default()
    };
    let text = format!("{TWO_STREAMS}[sinks.out]\ntype = \"record\"\ninputs = [\"name\"]\n{keys}\n");
    let parts = Parts {
        sinks: vec![("out", Box::new(sink.clone()))],
        ..Parts::default()
    };
    assemble(graph(&text, &catalog), parts)
}

fn start(keys: &str, sink: &Recorded) -> Handle {
    let options = RunOptions {
        until_stopped: true,
        ..RunOptions::default()
    };
    Engine::start(assembly(keys, sink), options, &StopFlag::default()).unwrap()
}

/// Waits until the sink has seen something.
fn wait_for(sink: &Recorded, seen: impl Fn(&Calls) -> bool) {
    while !seen(&sink.0.lock().unwrap()) {
        std::thread::yield_now();
    }
}

#[test]
fn open_sink_takes_over_other_limits() {
    let sink = Recorded::default();
    let handle = start("limit = 1", &sink);
    let delivered = |now: &Snapshot| stream(now, "steady").requests.delivered;
    wait_until(&handle, |now| delivered(now) >= 5);
    handle.swap(assembly("limit = 2", &sink)).unwrap();
    wait_for(&sink, |calls| calls.settings == [2.0]);
    handle.swap(assembly("limit = 2\nother = 1", &sink)).unwrap_err();
    handle.swap(assembly("", &sink)).unwrap();
    wait_for(&sink, |calls| calls.settings == [2.0, 0.0]);
    {
        let calls = sink.0.lock().unwrap();
        assert_eq!((calls.opened, calls.finished), (1, 0));
    }
    let report = handle.stop().unwrap();
    assert_eq!(report.sinks["out"].written, report.requests.delivered);
}

#[test]
fn outage_of_a_sink_is_a_notice_and_so_is_its_end() {
    let sink = Recorded::default();
    let handle = start("", &sink);
    let full = Some("the disk is full".to_owned());
    sink.0.lock().unwrap().outage.clone_from(&full);
    wait_for(&sink, |calls| calls.notices == [("out".to_owned(), full.clone())]);
    sink.0.lock().unwrap().outage = None;
    wait_for(&sink, |calls| calls.notices.len() == 2);
    assert_eq!(sink.0.lock().unwrap().notices[1], ("out".to_owned(), None));
    handle.stop().unwrap();
}
