//! An engine whose policy, whose streams' shares and whose graph change while it runs: no stream loses a frame by it, and what
//! was decided is decided again.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_flow::{Catalog, Delivery, Sink, SinkError, SinkFactory, StopFlag};
use weir_graph::SourceNode;
use weir_policy::{Mailboxes, Policy, StreamShare};
use weir_runtime::{Engine, Handle, NewStream, RunOptions, Snapshot, StreamChange, StreamError, verify};
use weir_types::Span;

use crate::common::sinks::Outcomes;
use crate::common::{
    Parts, TWO_STREAMS, assemble, catalog_with_sink, check_books, graph, stream, wait_until,
};

fn start(options: RunOptions) -> Handle {
    let options = RunOptions {
        until_stopped: true,
        ..options
    };
    let assembly = assemble(graph(TWO_STREAMS, &Catalog::default()), Parts::default());
    Engine::start(assembly, options, &StopFlag::default()).unwrap()
}

/// Waits until so many more frames of a stream are delivered.
fn wait_for_frames(handle: &Handle, name: &str, frames: u64) {
    let delivered = |now: &Snapshot| stream(now, name).requests.delivered;
    let until = delivered(&handle.snapshot().unwrap()) + frames;
    wait_until(handle, |now| delivered(now) >= until);
}

#[test]
fn policies_and_shares_change_under_load_and_no_stream_loses_a_frame() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let handle = start(RunOptions {
        record: Some(record.clone()),
        ..RunOptions::default()
    });
    let presets = ["naive", "weir", "upper", "back", "lower", "sf", "pard", "weir"];
    for (round, preset) in (1..).zip(presets) {
        handle.apply_policy(Policy::preset(preset).unwrap()).unwrap();
        let change = StreamChange {
            slo: Some((round % 2 == 0).then_some(Span::from_secs(4))),
            weight: Some(f64::from(round + 1)),
            reserve: Some((round % 3 == 0).then_some(5.0)),
            ..StreamChange::default()
        };
        handle.change_stream("other", change.clone()).unwrap();
        wait_for_frames(&handle, "steady", 10);
        let now = handle.snapshot().unwrap();
        assert_eq!(
            now.policy,
            Policy::preset(preset).unwrap().or_mailboxes(Mailboxes::Pool)
        );
        let other = stream(&now, "other");
        assert_eq!(Some(other.share.weight), change.weight);
        assert_eq!(Some(other.share.reserve), change.reserve);
        let slo = other.slo_ms.map(|ms| Span::from_millis(ms as u64));
        assert_eq!(Some(slo), change.slo);
    }
    let report = handle.stop().unwrap();
    check_books(&report);
    assert_eq!(report.run.policy, "weir");
    assert_eq!(report.streams["other"].slo_ms, Some(4_000.0));
    let lost = (
        report.requests.dropped,
        report.requests.late,
        report.requests.in_flight,
    );
    assert_eq!(lost, (0, 0, 0), "{:?}", report.drops);
    verify(&record).unwrap_or_else(|error| panic!("{error}"));
    let log = std::fs::read_to_string(&record).unwrap();
    let facts = |event: &str| log.matches(&format!("\"event\":\"{event}\"")).count();
    assert_eq!(
        facts("policy-applied"),
        2 * presets.len(),
        "one for all modules, and one for the arbiter"
    );
    assert_eq!(facts("stream-share-changed"), presets.len());
    // A log whose policy was changed is not decided the same.
    let changed = log.replacen("\"event\":\"policy-applied\"", "\"event\":\"tick\"", 1);
    std::fs::write(&record, changed.replace("\"rule\":\"weir\"", "\"rule\":\"none\"")).unwrap();
    assert!(verify(&record).is_err());
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let handle = start(RunOptions::default());
    let before = handle.snapshot().unwrap();
    let paper = handle.apply_policy(Policy::preset("pard-paper").unwrap());
    assert!(matches!(paper, Err(StreamError::FixedPolicy { .. })), "{paper:?}");
    let change = |change: StreamChange| handle.change_stream("other", change).unwrap_err().to_string();
    let weight = StreamChange {
        weight: Some(0.0),
        ..StreamChange::default()
    };
    let message = change(weight);
    assert!(
        message.contains("weight must lie between 0.001 and 1000"),
        "{message}"
    );
    let slo = StreamChange {
        slo: Some(Some(Span::from_millis(3))),
        ..StreamChange::default()
    };
    let message = change(slo);
    assert!(message.contains("take 4ms alone"), "{message}");
    let nobody = handle.change_stream("nobody", StreamChange::default());
    assert!(matches!(nobody, Err(StreamError::Unknown { .. })), "{nobody:?}");
    let mut node = SourceNode::new("late", "emulated:uniform?rate=1");
    node.slo = Some(Span::from_millis(3));
    let added = handle.add_stream(NewStream {
        node,
        factory: None,
        like: None,
    });
    assert!(matches!(added, Err(StreamError::SloTooShort { .. })), "{added:?}");
    let after = handle.snapshot().unwrap();
    assert_eq!(
        (after.policy, after.streams.len()),
        (before.policy.clone(), before.streams.len())
    );
    assert_eq!(stream(&before, "other").share, StreamShare::default());
    handle.stop().unwrap();
}

#[test]
fn streams_are_added_with_an_objective_and_a_share_and_a_reserve_beyond_the_machine_is_said() {
    let handle = start(RunOptions::default());
    let share = StreamShare {
        weight: 2.0,
        reserve: Some(9_000.0),
    };
    let mut node = SourceNode::new("guest", "emulated:uniform?rate=50");
    (node.slo, node.share) = (Some(Span::from_secs(3)), share);
    let stream_to_add = NewStream {
        node,
        factory: None,
        like: None,
    };
    handle.add_stream(stream_to_add).unwrap();
    wait_for_frames(&handle, "guest", 5);
    let now = handle.snapshot().unwrap();
    let guest = stream(&now, "guest");
    assert_eq!((guest.share, guest.slo_ms), (share, Some(3_000.0)));
    assert!(
        now.warnings[0].contains("of what the machine can do"),
        "{:?}",
        now.warnings
    );
    let less = StreamChange {
        reserve: Some(None),
        ..StreamChange::default()
    };
    handle.change_stream("guest", less).unwrap();
    assert!(handle.snapshot().unwrap().warnings.is_empty());
    let gone = handle.remove_stream("guest").unwrap();
    assert_eq!(gone.slo_ms, Some(3_000.0));
    check_books(&handle.stop().unwrap());
}

/// Indices of the frames that a sink was given, by stream, and whether it was completed.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Taken>>);

/// Frames that a sink accepted, by stream.
#[derive(Default)]
struct Taken {
    frames: BTreeMap<String, Vec<u64>>,
    is_finished: bool,
}

impl SinkFactory for Collected {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Collected {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let frames = &mut self.0.lock().unwrap().frames;
        let stream = frames.entry(delivery.stream.to_string()).or_default();
        stream.push(delivery.frame.index);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.lock().unwrap().is_finished = true;
        Ok(())
    }
}

impl Collected {
    fn frames(&self, stream: &str) -> Vec<u64> {
        let taken = self.0.lock().unwrap();
        taken.frames.get(stream).cloned().unwrap_or_default()
    }

    fn is_finished(&self) -> bool {
        self.0.lock().unwrap().is_finished
    }
}

/// [`TWO_STREAMS`] with a sink, and with more in it: another module, another sink, another objective, by bits.
fn variant(number: u32) -> String {
    let mut text = TWO_STREAMS.to_owned();
    text += "[sinks.out]\ntype = \"collect\"\ninputs = [\"name\"]\n";
    if number & 1 > 0 {
        text += "[modules.more]\noperator = \"emulate\"\nmodel = \"first\"\ninputs = [\"find\"]\n";
    }
    if number & 2 > 0 {
        text += "[sinks.extra]\ntype = \"collect\"\ninputs = [\"find\"]\n";
    }
    if number & 4 > 0 {
        text = text.replacen("slo = \"5s\"", "slo = \"6s\"", 1);
    }
    text
}

/// The variant with sinks that collect; the extra one is another each time.
fn variant_parts(number: u32, out: &Collected, extra: &Collected) -> weir_runtime::Assembly {
    let parts = Parts {
        sinks: vec![("out", Box::new(out.clone())), ("extra", Box::new(extra.clone()))],
        ..Parts::default()
    };
    assemble(graph(&variant(number), &catalog_with_sink("collect")), parts)
}

#[test]
fn graphs_are_swapped_under_load_and_no_frame_is_lost_or_counted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let options = RunOptions {
        record: Some(record.clone()),
        until_stopped: true,
        ..RunOptions::default()
    };
    let (out, none) = (Collected::default(), Collected::default());
    let handle = Engine::start(variant_parts(0, &out, &none), options, &StopFlag::default()).unwrap();
    handle.change_stream("other", weight(3.0)).unwrap();
    wait_for_frames(&handle, "steady", 10);
    let rounds = [1, 3, 6, 2, 5, 7, 0, 1];
    let mut extras = Vec::new();
    for number in rounds {
        let extra = Collected::default();
        handle.swap(variant_parts(number, &out, &extra)).unwrap();
        wait_for_frames(&handle, "steady", 20);
        let now = handle.snapshot().unwrap();
        assert_eq!(stream(&now, "other").share.weight, 3.0);
        extras.push((number, extra));
    }
    handle.apply_policy(Policy::preset("weir").unwrap()).unwrap();
    wait_for_frames(&handle, "other", 5);
    let report = handle.stop().unwrap();
    check_books(&report);
    let lost = (
        report.requests.dropped,
        report.requests.late,
        report.requests.in_flight,
    );
    assert_eq!(lost, (0, 0, 0), "{:?}", report.drops);
    for name in ["steady", "other"] {
        let frames: Vec<u64> = (0..report.streams[name].requests.arrived).collect();
        assert_eq!(out.frames(name), frames, "each once, in order");
    }
    assert!(out.is_finished());
    // Every frame passes these two in all graphs, and their counts go on.
    for module in ["find", "name"] {
        assert_eq!(report.modules[module].items, report.requests.arrived);
    }
    let more = report.modules["more"].items;
    assert!(more > 0 && more < report.requests.arrived, "{more}");
    for (number, extra) in extras {
        let frames = extra.frames("steady");
        // One of the graph before it goes on where that has it, too.
        assert!(number & 2 > 0 || frames.is_empty(), "{number}: {frames:?}");
        assert!(frames.is_sorted_by(|one, next| one < next));
    }
    verify(&record).unwrap_or_else(|error| panic!("{error}"));
    let log = std::fs::read_to_string(&record).unwrap();
    let graphs = log.matches("{\"graph\":{\"number\"").count();
    assert_eq!(graphs, rounds.len());
}

fn weight(weight: f64) -> StreamChange {
    StreamChange {
        weight: Some(weight),
        ..StreamChange::default()
    }
}

#[test]
fn over_a_swap_under_overload_each_frame_is_in_the_sink_of_its_own_graph_alone() {
    // Twice what the slots can do, of one stream.
    let text = TWO_STREAMS.replace("{ \"1\" = \"2ms\", \"16\" = \"10ms\" }", "{ \"1\" = \"20ms\" }");
    let text = text.replace("\"steady\", \"other\"", "\"steady\"");
    let text = text.replace("[sources.other]\nuri = \"emulated:uniform?rate=20\"\n", "");
    let text = text.replacen("slo = \"5s\"", "slo = \"200ms\"", 1);
    let assembly = |name: &'static str, outcomes: &Outcomes| {
        let text = format!("{text}[sinks.{name}]\ntype = \"collect\"\ninputs = [\"name\"]\n");
        let parts = Parts {
            sinks: vec![(name, Box::new(outcomes.clone()))],
            ..Parts::default()
        };
        assemble(graph(&text, &catalog_with_sink("collect")), parts)
    };
    let options = RunOptions {
        until_stopped: true,
        ..RunOptions::default()
    };
    let outcomes: [Outcomes; 3] = Default::default();
    let handle = Engine::start(assembly("first", &outcomes[0]), options, &StopFlag::default()).unwrap();
    wait_for_frames(&handle, "steady", 20);
    for (name, outcomes) in ["second", "third"].into_iter().zip(&outcomes[1..]) {
        handle.swap(assembly(name, outcomes)).unwrap();
        wait_for_frames(&handle, "steady", 20);
    }
    let report = handle.stop().unwrap();
    check_books(&report);
    assert!(report.requests.dropped > 0, "{:?}", report.requests);
    let of = |outcomes: &Outcomes| outcomes.0.lock().unwrap().clone();
    let mut all: Vec<u64> = outcomes.iter().flat_map(of).collect();
    all.sort_unstable();
    let frames: Vec<u64> = (0..report.requests.arrived).collect();
    assert_eq!(all, frames, "each once");
}

#[test]
fn a_graph_that_cannot_be_made_ready_is_refused_and_the_one_in_force_goes_on() {
    let (out, none) = (Collected::default(), Collected::default());
    let options = RunOptions {
        until_stopped: true,
        ..RunOptions::default()
    };
    let handle = Engine::start(variant_parts(0, &out, &none), options, &StopFlag::default()).unwrap();
    // The sink is open, and would have to skip from now on.
    let skips = variant(1).replacen("[sinks.out]", "[sinks.out]\nwhen_slow = \"skip\"", 1);
    let parts = Parts {
        sinks: vec![("out", Box::new(out.clone()))],
        ..Parts::default()
    };
    let refused = handle.swap(assemble(graph(&skips, &catalog_with_sink("collect")), parts));
    assert!(matches!(refused, Err(StreamError::Graph(_))), "{refused:?}");
    wait_for_frames(&handle, "steady", 10);
    let report = handle.stop().unwrap();
    check_books(&report);
    assert!(!report.modules.contains_key("more"));
}
