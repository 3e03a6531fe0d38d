//! Devices whose memory does not hold all their models: emulated, as the simulator has them, and the nets that ship.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says what it finds")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use weir::Zoo;
use weir_flow::{
    Batching, Catalog, DeviceKind, Inference, Item, Model, PreparedModel, Session, SessionError,
    SourceFactory, Step, StopFlag,
};
use weir_graph::{SourceMode, SourceNode};
use weir_policy::{Report, StreamReport};
use weir_runtime::{Assembly, Pace, RunOptions, verify};
use weir_sim::experiment::world_from_graph;
use weir_sim::{simulate, simulate_streams};
use weir_types::{Span, StreamId, Timestamp};

use crate::common::first_frames::FirstFrames;
use crate::common::{Parts, assemble, graph, run};

/// Five modules in a row with a model each, of which the device holds two; `slots` run batches.
fn five(rate: f64, frames: u64, mode: &str, slots: u32) -> String {
    let mut text = format!(
        r#"
        [app]
        name = "five"
        slo = "3s"
        [sources.camera]
        uri = "emulated:poisson?rate={rate}&frames={frames}&seed=3"
        mode = "{mode}"
        [devices."emulated:small"]
        slots = {slots}
        memory = "40MiB"
        "#
    );
    for place in 0..5 {
        let before = match place {
            0 => "camera".to_owned(),
            _ => format!("module-{}", place - 1),
        };
        text += &format!(
            r#"
            [models.model-{place}]
            device = "emulated:small"
            batch = [1, 2, 4, 8]
            profile = {{ "1" = "6ms", "8" = "24ms" }}
            memory = "20MiB"
            open_cold = "40ms"
            open_warm = "15ms"
            [modules.module-{place}]
            operator = "emulate"
            model = "model-{place}"
            inputs = ["{before}"]
            "#
        );
    }
    text
}

#[test]
fn every_frame_passes_all_models_of_a_device_that_holds_two_of_five() {
    let folder = tempfile::tempdir().unwrap();
    for slots in [1, 2] {
        let log = folder.path().join(format!("log-{slots}"));
        let options = RunOptions {
            pace: Pace::Max,
            record: Some(log.clone()),
            strict: true,
            ..RunOptions::default()
        };
        let graph = graph(&five(100.0, 120, "lossless", slots), &Catalog::default());
        let report = run(assemble(graph, Parts::default()), &options);
        let counts = &report.requests;
        assert_eq!((counts.arrived, counts.dropped, counts.in_flight), (120, 0, 0));
        for module in report.modules.values() {
            assert_eq!((module.items, module.failed), (120, 0));
        }
        let residency = report.residency.unwrap();
        println!("{slots} slots: {residency:?}");
        assert!(residency.opened_cold >= 5);
        assert!(
            residency.opened_warm > 0,
            "what was open once is opened from host memory"
        );
        assert_eq!(residency.models.len(), 5);
        let opened: u64 = residency
            .models
            .values()
            .map(|model| model.opened_cold + model.opened_warm)
            .sum();
        assert_eq!(opened, residency.opened_cold + residency.opened_warm);
        assert_eq!(most_open(&log, |_| true), 2);
        assert!(verify(&log).unwrap().steps > 0);
    }
}

/// The most sessions that were open at once of the models that `is_own` says, as the log has it: in the order in which the
/// arbiter heard of them.
pub(crate) fn most_open(log: &Path, is_own: impl Fn(u64) -> bool) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    let (mut open, mut most) = (0_usize, 0);
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).unwrap();
        let is_own = |fact: &Value| fact["model"].as_u64().is_some_and(&is_own);
        let change = &line["control"]["message"]["slots"];
        let is_closed = change["event"] == "closed" || change["event"] == "open-failed";
        open -= usize::from(is_closed && is_own(change));
        for acted in line["control"]["effects"].as_array().into_iter().flatten() {
            let session = &acted["effect"]["session"];
            open += usize::from(session["effect"] == "open" && is_own(session));
            most = most.max(open);
        }
    }
    most
}

#[test]
fn two_devices_of_one_graph_each_keep_to_their_own_memory() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut text = five(100.0, 120, "lossless", 1);
    text += r#"
        [devices."emulated:other"]
        slots = 2
        memory = "20MiB"
    "#;
    for place in [1, 3] {
        let model = format!("[models.model-{place}]\n            device = \"emulated:small\"");
        assert!(text.contains(&model));
        text = text.replace(&model, &model.replace("small", "other"));
    }
    let options = RunOptions {
        pace: Pace::Max,
        record: Some(log.clone()),
        strict: true,
        ..RunOptions::default()
    };
    let report = run(
        assemble(graph(&text, &Catalog::default()), Parts::default()),
        &options,
    );
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.dropped, counts.in_flight), (120, 0, 0));
    let is_other = |model: u64| model == 1 || model == 3;
    assert_eq!(most_open(&log, |model| !is_other(model)), 2);
    assert_eq!(most_open(&log, is_other), 1);
    let residency = report.residency.unwrap();
    assert!(residency.models.values().all(|model| model.opened_cold > 0));
    assert!(verify(&log).unwrap().steps > 0);
}

#[test]
fn without_host_memory_every_opening_is_from_the_file() {
    let text = five(100.0, 120, "lossless", 1)
        .replace("memory = \"40MiB\"", "memory = \"40MiB\"\nhost_memory = \"1MiB\"");
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = run(
        assemble(graph(&text, &Catalog::default()), Parts::default()),
        &options,
    );
    let residency = report.residency.unwrap();
    assert!(residency.opened_cold > 5);
    assert_eq!(residency.opened_warm, 0);
}

/// The same decisions in virtual time open about as often as the live engine does.
#[test]
fn openings_are_as_many_as_simulated() {
    let graph = graph(&five(12.0, 90, "live", 1), &Catalog::default());
    let (world, streams) = world_from_graph(&graph).unwrap();
    let mut arrivals = streams[0].arrivals(0).unwrap().map(|at| Timestamp::ZERO + at);
    let simulated = simulate(&world, "five", &mut arrivals, &mut |_| {}).report;
    let live = run(assemble(graph, Parts::default()), &RunOptions::default());
    let opened = |report: &Report| {
        let residency = report.residency.as_ref().unwrap();
        residency.opened_cold + residency.opened_warm
    };
    let (live_count, simulated_count) = (opened(&live), opened(&simulated));
    println!(
        "live {live_count} openings and {:?}, simulated {simulated_count} and {:?}",
        live.requests, simulated.requests
    );
    assert!(simulated_count > 20);
    // Tests share the machine: the bench holds live and simulated to a tenth.
    let ratio = live_count as f64 / simulated_count as f64;
    assert!((0.6..1.67).contains(&ratio), "{live_count} {simulated_count}");
}

/// Live cameras and archives in virtual time, on a device that holds two of five models: what became of both.
fn beside_archives(archives: f64, queues: &str) -> (StreamReport, StreamReport) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/emulated-memory.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let text = text
        .replace("drop = \"weir\" ", &format!("{queues}drop = \"weir\" "))
        .replace("[sources.counter]", "[sources.archive]\nslo = \"10m\"")
        .replace("\"counter\"", "\"archive\"")
        .replace("${RATE:-20}&seed=6", &format!("{archives}&seed=6"))
        .replace("${RATE:-20}", "20");
    let (mut world, streams) = world_from_graph(&graph(&text, &Catalog::default())).unwrap();
    // A queued source has a few frames on their way, and gives the next as one comes out.
    world.max_in_flight = Some(16);
    let mut arrivals = Vec::new();
    for (stream, source) in (0..).map(StreamId).zip(&streams) {
        let times = source.arrivals(0).unwrap().map(|at| Timestamp::ZERO + at);
        let sent = times.take_while(|at| *at < Timestamp::ZERO + Span::from_secs(60));
        arrivals.extend(sent.map(|at| (at, stream)));
    }
    if archives < 1.0 {
        arrivals.retain(|(_, stream)| *stream == StreamId(0));
    }
    arrivals.sort_by_key(|(at, stream)| (*at, stream.0));
    let mut report = simulate_streams(&world, "box", &mut arrivals.into_iter(), &mut |_| {}).report;
    let mut of = |name: &str| report.streams.remove(name).unwrap();
    (of("stream-0"), of("stream-1"))
}

/// Fraction of a stream's requests that were delivered in time.
fn in_time(stream: &StreamReport) -> f64 {
    stream.requests.delivered as f64 / stream.requests.arrived as f64
}

#[test]
fn archives_take_what_cameras_leave_and_make_two_in_a_hundred_of_their_frames_late_at_most() {
    for queues in ["", "queues = \"virtual\"\n", "queues = \"edf\"\n"] {
        let (alone, _) = beside_archives(0.1, queues);
        let (beside, archive) = beside_archives(200.0, queues);
        println!(
            "{queues:?}: {:.3} of camera frames in time alone (99 % within {:.0} ms), {:.3} beside archives ({:.0} ms), {} archive frames",
            in_time(&alone),
            alone.latency_ms.p99,
            in_time(&beside),
            beside.latency_ms.p99,
            archive.requests.delivered
        );
        assert!(in_time(&beside) >= 0.98 * in_time(&alone), "{queues}");
        assert!(archive.requests.delivered > 600, "{queues}");
        assert_eq!(archive.requests.late, 0, "{queues}");
    }
}

/// A model that is opened only now and then.
struct Stubborn(Arc<AtomicU64>);

impl Model for Stubborn {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Blank))
    }

    fn open_cold(
        &self,
        _device: DeviceKind,
    ) -> Result<(Box<dyn Session>, Option<PreparedModel>), SessionError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        if number % 2 == 1 {
            return Err(SessionError::Load {
                model: "stubborn".to_owned(),
                reason: "its disk is gone".to_owned(),
            });
        }
        Ok((Box::new(Blank), None))
    }
}

struct Blank;

impl Session for Blank {
    fn run(
        &mut self,
        items: &[Item],
        _on_step: &mut dyn FnMut(Step),
    ) -> Result<Vec<Inference>, SessionError> {
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[test]
fn a_model_that_cannot_be_opened_costs_its_batches_and_not_the_run() {
    let text = five(1000.0, 200, "lossless", 1);
    let openings = Arc::new(AtomicU64::new(0));
    let parts = Parts {
        models: vec![("model-1", Arc::new(Stubborn(Arc::clone(&openings))))],
        ..Parts::default()
    };
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = run(assemble(graph(&text, &Catalog::default()), parts), &options);
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.in_flight), (200, 0));
    let residency = report.residency.unwrap();
    let failed = residency.models["model-1"].failed;
    assert_eq!(failed, openings.load(Ordering::Relaxed) / 2);
    assert!(failed > 0 && counts.dropped > 0);
    assert!(report.drops.iter().all(|drop| drop.reason.name() == "failed"));
    assert_eq!(report.modules["module-1"].failed, failed);
}

/// Sessions of all models that are there now, and were there at most.
#[derive(Default)]
struct Sessions {
    now: AtomicU64,
    most: AtomicU64,
}

/// A session that is counted for as long as it is there, and panics on a batch now and then.
struct Counted {
    sessions: Arc<Sessions>,
    batches: Arc<AtomicU64>,
    panics: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.sessions.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session for Counted {
    fn run(
        &mut self,
        items: &[Item],
        _on_step: &mut dyn FnMut(Step),
    ) -> Result<Vec<Inference>, SessionError> {
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics || number % 3 != 1, "as the test wants it");
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

/// A model whose sessions are counted.
struct CountedModel {
    sessions: Arc<Sessions>,
    batches: Arc<AtomicU64>,
    panics: bool,
}

impl Model for CountedModel {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        let now = self.sessions.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.sessions.most.fetch_max(now, Ordering::Relaxed);
        Ok(Box::new(Counted {
            sessions: Arc::clone(&self.sessions),
            batches: Arc::clone(&self.batches),
            panics: self.panics,
        }))
    }
}

#[test]
fn a_session_that_panics_gives_its_memory_back() {
    const NAMES: [&str; 5] = ["model-0", "model-1", "model-2", "model-3", "model-4"];
    let text = five(1000.0, 200, "lossless", 1);
    let sessions = Arc::new(Sessions::default());
    let batches: Vec<Arc<AtomicU64>> = NAMES.iter().map(|_| Arc::default()).collect();
    let models = NAMES.iter().zip(&batches).map(|(name, batches)| {
        let model = CountedModel {
            sessions: Arc::clone(&sessions),
            batches: Arc::clone(batches),
            panics: *name == "model-1",
        };
        (*name, Arc::new(model) as Arc<dyn Model>)
    });
    let parts = Parts {
        models: models.collect(),
        ..Parts::default()
    };
    let options = RunOptions {
        pace: Pace::Max,
        strict: true,
        ..RunOptions::default()
    };
    let report = run(assemble(graph(&text, &Catalog::default()), parts), &options);
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.in_flight), (200, 0));
    let failed = report.modules["module-1"].failed;
    assert_eq!(failed, (batches[1].load(Ordering::Relaxed) + 1) / 3);
    assert!(
        failed > 0 && counts.dropped > 0 && counts.delivered > 0,
        "{counts:?}"
    );
    assert!(report.drops.iter().all(|drop| drop.reason.name() == "failed"));
    // The device holds two of the five, also while one is built again after a panic.
    assert_eq!(sessions.most.load(Ordering::Relaxed), 2);
    assert_eq!(sessions.now.load(Ordering::Relaxed), 0);
    assert!(
        report
            .residency
            .unwrap()
            .models
            .values()
            .all(|model| model.failed == 0)
    );
}

/// The five nets of live video on the first frames of their clip, with their graph edited; files of sinks go to `out`.
fn live_assembly(out: &Path, edit: impl Fn(&str) -> String) -> Assembly {
    std::fs::create_dir_all(out).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps/live-video/demo.toml");
    let text = edit(&std::fs::read_to_string(&file).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let zoo = Zoo::in_folder(folder.path().to_owned()).unwrap();
    let graph = match weir_graph::parse(&text, &file, &weir::catalog(&zoo), &|_| None) {
        Ok(graph) => graph,
        Err(problems) => panic!("{problems}"),
    };
    let clip = file.with_file_name("../../videos/live-room.mp4");
    let graph = graph.with_streams(vec![SourceNode {
        mode: SourceMode::Lossless,
        mode_given: true,
        ..SourceNode::new("room", clip.display().to_string())
    }]);
    let mut assembly = weir::assemble(graph, &zoo, Some(out), None).unwrap();
    assembly.sources = vec![assembly.sources.remove(0).map(|source| {
        let count = 12;
        Box::new(FirstFrames { count, source }) as Box<dyn SourceFactory>
    })];
    assembly
}

/// The objects of a frame, with tracks numbered from 0: their ids begin at the time of the run.
fn with_small_ids(mut objects: Value) -> Value {
    let ids = |objects: &Value| {
        let all = objects.as_array().into_iter().flatten();
        all.filter_map(|object| object["track"]["id"].as_u64()).min()
    };
    if let Some(first) = ids(&objects) {
        for object in objects.as_array_mut().into_iter().flatten() {
            if let Some(id) = object["track"]["id"].as_u64() {
                object["track"]["id"] = (id - first).into();
            }
        }
    }
    objects
}

/// Runs the graph of live video, and returns the objects of each frame and the report.
fn live_video(out: &Path, edit: impl Fn(&str) -> String) -> (Vec<Value>, Report) {
    let options = RunOptions {
        pace: Pace::Max,
        strict: true,
        ..RunOptions::default()
    };
    let report = run(live_assembly(out, edit), &options);
    let lines = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let frames = lines.filter(|line| line["type"] == "frame");
    let objects = frames.map(|line| with_small_ids(line["objects"].clone()));
    (objects.collect(), report)
}

#[test]
fn the_nets_that_ship_say_the_same_in_memory_for_two_of_five() {
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all");
    let two = folder.path().join("two");
    let (expected, report) = live_video(&all, str::to_owned);
    assert!(report.residency.is_none());
    let (found, report) = live_video(&two, |text| {
        let text = text.replace("batch = [", "memory = \"10MiB\"\nbatch = [");
        format!("{text}\n[devices.cpu]\nslots = 1\nmemory = \"20MiB\"\n")
    });
    let residency = report.residency.unwrap();
    println!("{residency:?}");
    assert_eq!(expected.len(), 12);
    assert_eq!(found, expected);
    assert!(residency.opened_cold >= 5 && residency.models.len() == 5);
    assert!(residency.models.values().all(|model| model.failed == 0));
}

#[test]
fn a_model_that_is_measured_larger_than_its_device_is_refused_with_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let assembly = live_assembly(folder.path(), |text| {
        format!("{text}\n[devices.cpu]\nslots = 1\nmemory = \"64KiB\"\n")
    });
    let ran = weir_runtime::run(assembly, &RunOptions::default(), &StopFlag::default());
    let said = ran.map(|_| ()).map_err(|error| error.to_string());
    println!("{said:?}");
    assert!(said.is_err_and(|said| said.contains("as measured, and device cpu has 0 MiB")));
}

/// Errors in `memory` are reported with their place in the text, before anything runs.
#[test]
fn memory_that_no_run_could_keep_is_refused() {
    let check = |from: &str, to: &str, said: &str| {
        let text = five(10.0, 10, "live", 1).replacen(from, to, 1);
        let path = Path::new("graph.toml");
        let problems = weir_graph::parse(&text, path, &Catalog::default(), &|_| None);
        let problems = problems.map(|_| ()).map_err(|problems| problems.to_string());
        assert!(
            problems.clone().is_err_and(|problems| problems.contains(said)),
            "{to}: {problems:?}"
        );
    };
    check(
        "memory = \"40MiB\"",
        "memory = \"10MiB\"",
        "model \"model-0\" takes 20.0 MiB and device \"emulated:small\" has 10.0 MiB: it could never be opened",
    );
    check(
        "memory = \"40MiB\"",
        "memory = \"much\"",
        "is not an amount of memory",
    );
    check(
        "memory = \"40MiB\"",
        "host_memory = \"1MiB\"",
        "without `memory` all are open",
    );
    check("memory = \"20MiB\"", "", "has no `memory`");
    check(
        "memory = \"40MiB\"",
        "memory = \"40MiB\"\nprepare = \"overlap\"",
        "prepares ahead",
    );
    check(
        "slo = \"3s\"",
        "slo = \"3s\"\n[policy]\nmailbox = \"worker\"",
        "mailbox = \"worker\"",
    );
}
