//! A model that is cut and spread over partition workers: what comes out is what the whole model would say, workers may be
//! lost and return, parts may fail, and plans may change; nothing is lost to sight.
//!
//! Parts are fakes that add up numbers; their durations are those of emulated devices.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use weir_flow::{
    Batching, Catalog, Delivery, DeviceKind, Element, Frame, HeadSpec, Inference, Item, Model, ModuleOutput,
    Object, Operator, OperatorSpec, PartitionLoader, PartitionSession, PartitionedModel, Points, PrePost,
    Rect, Region, RequestResults, Session, SessionError, Sink, SinkError, SinkFactory, StopFlag, Tensor,
};
use weir_partition::wire::Address;
use weir_partition::{Worker, WorkerOptions};
use weir_planner::{BlockTimes, Blocks, Class, Objective, Plan, Problem, Scheme, ServedModel, solve};
use weir_policy::Report;
use weir_runtime::{Assembly, Clock, Engine, Handle, NextPlan, Partitioning, RunOptions, verify};

use crate::common::{catalog_with_sink, check_books, wait_until};

const BLOCKS: usize = 4;

/// A model of four blocks, each of which adds one to every number; its file has other bytes in each version.
struct Adder {
    version: u8,
}

impl PartitionedModel for Adder {
    fn blocks(&self) -> usize {
        BLOCKS
    }

    fn partition(&self, blocks: Range<usize>) -> Result<Vec<u8>, SessionError> {
        Ok(vec![blocks.len() as u8, self.version])
    }

    fn pre_post(&self) -> Result<Box<dyn PrePost>, SessionError> {
        Ok(Box::new(AdderEnds))
    }
}

struct AdderEnds;

impl PrePost for AdderEnds {
    fn preprocess(&mut self, items: &[Item]) -> Result<Vec<Tensor>, SessionError> {
        let numbers = items.iter().flat_map(|item| item.frame.index.to_le_bytes());
        Ok(vec![Tensor {
            name: "numbers".into(),
            element: Element::I64,
            shape: vec![items.len()],
            data: numbers.collect(),
        }])
    }

    fn postprocess(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, SessionError> {
        let numbers = outputs[0]
            .data
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        let inference = |number: u64| Inference {
            objects: vec![Object {
                class: number.to_string().into(),
                score: 1.0,
                rect: Rect::new(0.0, 0.0, 1.0, 1.0),
                points: Points::None,
                parent: None,
                candidate: false,
            }],
            ..Inference::default()
        };
        assert_eq!(outputs[0].shape, [items.len()]);
        Ok(numbers.map(inference).collect())
    }
}

/// Opens parts that add as many as they have blocks, and fail every `n`th time.
struct Adders {
    fails_every: u64,
}

struct AdderPart {
    adds: u64,
    runs: u64,
    every: u64,
}

impl PartitionLoader for Adders {
    fn load(&self, part: &[u8], _: DeviceKind, _: bool) -> Result<Box<dyn PartitionSession>, SessionError> {
        Ok(Box::new(AdderPart {
            adds: u64::from(part[0]),
            runs: 0,
            every: self.fails_every,
        }))
    }
}

impl PartitionSession for AdderPart {
    fn run(&mut self, mut inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError> {
        self.runs += 1;
        if self.every > 0 && self.runs.is_multiple_of(self.every) {
            return Err(SessionError::Run {
                model: "adder".into(),
                batch: 1,
                reason: "by design".into(),
            });
        }
        for bytes in inputs[0].data.chunks_exact_mut(8) {
            let number = u64::from_le_bytes(bytes.try_into().unwrap()) + self.adds;
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        Ok(inputs)
    }
}

fn loader(fails_every: u64) -> Arc<Adders> {
    Arc::new(Adders { fails_every })
}

/// Stands where the whole model would be; it is never run.
struct NeverOpened;

impl Model for NeverOpened {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        unreachable!("a model with a plan is not opened whole")
    }
}

struct WholeFrames;

impl Operator for WholeFrames {
    fn items(&self, frame: &Arc<Frame>, _: &RequestResults) -> Vec<Item> {
        vec![Item::of_frame(frame, Region::Whole)]
    }

    fn output(&self, _: u32, _: &[Item], inferences: Vec<Inference>) -> ModuleOutput {
        ModuleOutput {
            objects: inferences
                .into_iter()
                .flat_map(|inference| inference.objects)
                .collect(),
            attributes: Vec::new(),
        }
    }
}

/// Called with the frame index of each delivery and the number that the model returned for the frame.
type Callback = Arc<Mutex<dyn FnMut(u64, u64) + Send>>;

struct CallbackSink(Callback);

impl SinkFactory for CallbackSink {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }
}

impl Sink for CallbackSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let said = delivery.objects[0].object.class.parse().unwrap();
        (self.0.lock().unwrap())(delivery.frame.index, said);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn catalog() -> Catalog {
    let head: HeadSpec = weir_operators::heads()
        .into_iter()
        .find(|head| head.name == "yolox")
        .unwrap();
    let detect: OperatorSpec = weir_operators::operators()
        .into_iter()
        .find(|operator| operator.name == "detect")
        .unwrap();
    Catalog {
        operators: vec![detect],
        heads: vec![head],
        ..catalog_with_sink("watch")
    }
}

/// One fast device and two slow ones; a block takes 4 and 8 ms, and two items little more than one.
fn plan(slo_ms: u64) -> Plan {
    let class = |name: &str, count| Class {
        name: name.into(),
        count,
        per_server: 1,
        bandwidth_bps: 1_000_000_000,
        cost: 1.0,
    };
    let times = |class: &str, us: u64| BlockTimes {
        class: class.into(),
        shares: 1,
        batch: vec![1, 2],
        us: vec![vec![us, us * 5 / 4]; BLOCKS],
        whole_us: Vec::new(),
    };
    let problem = Problem {
        classes: vec![class("fast", 1), class("slow", 2)],
        models: vec![ServedModel {
            name: "adder".into(),
            slo: weir_types::Span::from_millis(slo_ms),
            weight: 1.0,
            blocks: Blocks {
                model: "adder".into(),
                layers: (0..BLOCKS as u32).collect(),
                boundary_bytes: vec![8; BLOCKS - 1],
                times: vec![times("fast", 4_000), times("slow", 8_000)],
            },
        }],
        objective: Objective::Throughput,
        scheme: Scheme::Pooled { partitions: 2 },
        margin: 0.4,
        building: 0.0,
        gap: 1e-4,
    };
    let solution = solve(&problem).unwrap();
    Plan { solution, problem }
}

/// A run over workers at these addresses; those without are of this process.
fn run_on(
    folder: &Path,
    frames: u64,
    addresses: [Option<String>; 3],
    loader: Arc<Adders>,
    seen: &Callback,
    next: Option<NextPlan>,
) -> Report {
    let camera = format!("uri = \"emulated:uniform?rate=60&frames={frames}\"\nmode = \"lossless\"");
    run_camera(folder, &camera, addresses, loader, seen, next)
}

fn run_camera(
    folder: &Path,
    camera: &str,
    addresses: [Option<String>; 3],
    loader: Arc<Adders>,
    seen: &Callback,
    next: Option<NextPlan>,
) -> Report {
    let text = graph_text(camera, addresses);
    let mut assembly = assembly(folder, &text, plan(70), seen);
    let partitioning = assembly.partitioning.as_mut().unwrap();
    partitioning.loader = Some(loader);
    partitioning.next_plan = next;
    let options = RunOptions {
        record: Some(folder.join("record")),
        ..RunOptions::default()
    };
    let report = weir_runtime::run(assembly, &options, &StopFlag::default()).unwrap();
    check_books(&report);
    verify(&folder.join("record")).unwrap_or_else(|error| panic!("{error}"));
    report
}

/// The text of a graph over workers at these addresses.
fn graph_text(camera: &str, addresses: [Option<String>; 3]) -> String {
    let mut text = format!(
        "[app]\nname = \"adding\"\nslo = \"400ms\"\n[sources.camera]\n{camera}\n\
         [models.adder]\nmodel = \"adder.onnx\"\nhead = \"yolox\"\nplan = \"plan.toml\"\n\
         [modules.add]\noperator = \"detect\"\nmodel = \"adder\"\ninputs = [\"camera\"]\n\
         [sinks.watch]\ntype = \"watch\"\ninputs = [\"add\"]\n"
    );
    for ((name, class), address) in [("a", "fast"), ("b", "slow"), ("c", "slow")]
        .into_iter()
        .zip(addresses)
    {
        text += &format!("[workers.{name}]\nclass = \"{class}\"\nemulated = true\n");
        text += &address
            .map(|address| format!("address = \"{address}\"\n"))
            .unwrap_or_default();
    }
    text
}

/// A graph whose modules are the model by that plan and emulated ones.
fn assembly(folder: &Path, text: &str, plan: Plan, seen: &Callback) -> Assembly {
    let path = folder.join("plan.toml");
    std::fs::write(&path, weir_graph::planning::plan_text(&plan).unwrap()).unwrap();
    std::fs::write(folder.join("adder.onnx"), b"").unwrap();
    let graph = weir_graph::parse(text, &folder.join("graph.toml"), &catalog(), &|_| None);
    let graph = graph.unwrap_or_else(|problems| panic!("{problems}"));
    let planned: Vec<bool> = graph.models().iter().map(|model| model.plan.is_some()).collect();
    let models = planned.iter().map(|planned| {
        let never_opened: Arc<dyn Model> = Arc::new(NeverOpened);
        planned.then_some(never_opened)
    });
    let cut = planned.iter().map(|planned| {
        let adder: Arc<dyn PartitionedModel> = Arc::new(Adder { version: 0 });
        planned.then_some(adder)
    });
    let operators = graph.modules().iter().map(|module| {
        let whole_frames: Arc<dyn Operator> = Arc::new(WholeFrames);
        planned[module.model].then_some(whole_frames)
    });
    let sinks = graph.sinks().iter().map(|_| {
        let sink: Box<dyn SinkFactory> = Box::new(CallbackSink(Arc::clone(seen)));
        sink
    });
    Assembly {
        sources: vec![None],
        models: models.collect(),
        operators: operators.collect(),
        sinks: sinks.collect(),
        partitioning: Some(Partitioning {
            plan,
            models: cut.collect(),
            loader: Some(loader(0)),
            carrier: None,
            next_plan: None,
        }),
        next_gears: None,
        graph,
    }
}

fn here() -> [Option<String>; 3] {
    [None, None, None]
}

#[test]
fn parts_on_workers_say_what_the_whole_model_would() {
    let folder = tempfile::tempdir().unwrap();
    let seen: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let sink = Arc::clone(&seen);
    let watch: Callback = Arc::new(Mutex::new(move |frame, said| {
        sink.lock().unwrap().push((frame, said))
    }));
    let report = run_on(folder.path(), 60, here(), loader(0), &watch, None);
    let expected: Vec<(u64, u64)> = (0..60).map(|frame| (frame, frame + BLOCKS as u64)).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(report.requests.dropped, 0);
    let reservations = report.reservations.unwrap();
    assert_eq!(reservations.failed + reservations.lost, 0);
    let runs: u64 = reservations.workers.values().map(|worker| worker.runs).sum();
    assert_eq!(runs, 2 * reservations.finished, "each batch runs in two stages");
    assert!(reservations.workers.values().all(|worker| worker.emulated));
}

#[test]
fn overload_is_dropped_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let watch: Callback = Arc::new(Mutex::new(|frame, said| assert_eq!(said, frame + BLOCKS as u64)));
    // Several times what the workers can do: they are booked for as long as a request may take.
    let camera = "uri = \"emulated:poisson?rate=400&frames=600&seed=3\"\nmode = \"live\"";
    let report = run_camera(folder.path(), camera, here(), loader(0), &watch, None);
    assert_eq!(report.requests.in_flight, 0);
    assert!(report.requests.dropped > 150, "{:?}", report.requests);
    let failed = report.drops.iter().find(|drop| drop.reason.name() == "failed");
    assert!(failed.is_none(), "what was sent has room: {:?}", report.drops);
}

#[test]
fn a_part_that_fails_costs_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    let watch: Callback = Arc::new(Mutex::new(|frame, said| assert_eq!(said, frame + BLOCKS as u64)));
    let report = run_on(folder.path(), 60, here(), loader(5), &watch, None);
    assert!(report.requests.dropped > 0);
    assert!(
        report.drops.iter().all(|drop| drop.reason.name() == "failed"),
        "{:?}",
        report.drops
    );
    assert_eq!(report.requests.in_flight, 0);
    assert!(report.reservations.unwrap().failed > 0);
}

#[test]
fn a_worker_that_is_lost_is_done_without_and_used_again() {
    let clock = Clock::start();
    let start = move |at: &str, class: &str| {
        let options = WorkerOptions {
            class: class.into(),
            ..WorkerOptions::default()
        };
        Worker::listen(
            at.parse().unwrap(),
            options,
            loader(0),
            Arc::new(move || clock.now()),
        )
        .unwrap()
    };
    let (a, b, c) = (
        start("127.0.0.1:0", "fast"),
        start("127.0.0.1:0", "slow"),
        start("127.0.0.1:0", "slow"),
    );
    let at = |worker: &Worker| match worker.address() {
        Address::Tcp(address) => address.to_string(),
        Address::Local(_) | Address::Node(_) => unreachable!("it listens"),
    };
    let addresses = [Some(at(&a)), Some(at(&b)), Some(at(&c))];
    let lost_at = at(&c);
    let mut c = Some(c);
    let (mut frames, mut after) = (0_u64, None);
    let watch = move |frame: u64, said: u64| {
        assert_eq!(said, frame + BLOCKS as u64);
        frames += 1;
        if frames == 40 {
            drop(c.take());
        }
        if frames == 80 {
            after = Some(start(&lost_at, "slow"));
        }
        let _ = &after;
    };
    let folder = tempfile::tempdir().unwrap();
    let watch: Callback = Arc::new(Mutex::new(watch));
    let report = run_on(folder.path(), 240, addresses, loader(0), &watch, None);
    assert_eq!(report.requests.in_flight, 0);
    assert!(
        report.drops.iter().all(|drop| drop.reason.name() == "failed"),
        "{:?}",
        report.drops
    );
    assert!(
        report.requests.dropped <= 12,
        "what was lost runs again: {:?}",
        report.requests
    );
    let reservations = report.reservations.unwrap();
    assert_eq!(reservations.workers["c"].downs, 1, "{reservations:?}");
    drop((a, b));
}

#[test]
fn another_plan_comes_into_force_without_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let watch: Callback = Arc::new(Mutex::new(|frame, said| assert_eq!(said, frame + BLOCKS as u64)));
    // With less time only the fast one is left, and nothing is sent on.
    let mut other = Some(plan(40));
    let next = Box::new(move || other.take());
    let report = run_on(folder.path(), 180, here(), loader(0), &watch, Some(next));
    assert_eq!(report.requests.dropped, 0, "{:?}", report.drops);
    let plans = report.reservations.unwrap().plans;
    assert_eq!(plans.len(), 1, "{plans:?}");
    let log = std::fs::read_to_string(folder.path().join("record")).unwrap();
    assert!(log.contains("{\"switch-plan\":{\"plan\":2"), "the log has it");
}

/// Waits until so many more frames are delivered.
fn wait_for_frames(handle: &Handle, frames: u64) {
    let until = handle.snapshot().unwrap().report.requests.delivered + frames;
    wait_until(handle, |now| now.report.requests.delivered >= until);
}

/// Another module and another sink beside the partitioned model.
const MORE: &str = "[models.more]\ndevice = \"emulated:slow\"\nprofile = { \"1\" = \"1ms\" }\n\
                    [modules.before]\noperator = \"emulate\"\nmodel = \"more\"\ninputs = [\"camera\"]\n\
                    [sinks.more]\ntype = \"watch\"\ninputs = [\"add\"]\n";

/// An engine whose frames come at half of what the workers can do.
fn start(folder: &Path, seen: &Callback) -> (Handle, String) {
    let camera = "uri = \"emulated:uniform?rate=60\"\nmode = \"lossless\"";
    let text = graph_text(camera, here());
    let options = RunOptions {
        until_stopped: true,
        record: Some(folder.join("record")),
        ..RunOptions::default()
    };
    let first = assembly(folder, &text, plan(70), seen);
    (Engine::start(first, options, &StopFlag::default()).unwrap(), text)
}

/// Ends an engine: its books balance, its log is decided again, and it has lost no frame.
fn stop(handle: Handle, folder: &Path) -> Report {
    let report = handle.stop().unwrap();
    check_books(&report);
    let requests = &report.requests;
    assert_eq!(requests.dropped + requests.in_flight, 0, "{:?}", report.drops);
    verify(&folder.join("record")).unwrap_or_else(|error| panic!("{error}"));
    report
}

#[test]
fn a_graph_changes_beside_an_unchanged_plan() {
    let folder = tempfile::tempdir().unwrap();
    let seen: Arc<Mutex<BTreeMap<u64, u32>>> = Arc::default();
    let counts = Arc::clone(&seen);
    let watch: Callback = Arc::new(Mutex::new(move |frame, said| {
        assert_eq!(said, frame + BLOCKS as u64);
        *counts.lock().unwrap().entry(frame).or_default() += 1;
    }));
    let (handle, text) = start(folder.path(), &watch);
    wait_for_frames(&handle, 30);
    for round in 0..6 {
        // The modules of the plan have other numbers in every second graph.
        let text = match round % 2 {
            0 => text.replace("[modules.add]", &format!("{MORE}[modules.add]")),
            _ => text.clone(),
        };
        let next = assembly(folder.path(), &text, plan(70), &watch);
        handle.swap(next).unwrap();
        wait_for_frames(&handle, 10);
    }
    let report = stop(handle, folder.path());
    // On a busy machine a frame may be late, and is seen all the same.
    let ended = report.requests.delivered + report.requests.late;
    let seen = seen.lock().unwrap();
    assert!(
        seen.keys().copied().eq(0..ended),
        "each frame is seen: {:?}",
        report.requests
    );
    assert!(
        seen.values().any(|sinks| *sinks == 2),
        "the second sink is shown frames"
    );
    let reservations = report.reservations.unwrap();
    assert!(reservations.plans.is_empty(), "{reservations:?}");
    assert!(reservations.finished * 2 >= ended, "batches of all graphs count");
    let runs: u64 = reservations.workers.values().map(|worker| worker.runs).sum();
    assert_eq!(runs, 2 * reservations.finished, "each batch runs in two stages");
}

#[test]
fn a_changed_plan_is_switched_to_once_the_graph_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let watch: Callback = Arc::new(Mutex::new(|frame, said| assert_eq!(said, frame + BLOCKS as u64)));
    let (handle, text) = start(folder.path(), &watch);
    wait_for_frames(&handle, 20);
    let next = assembly(folder.path(), &(text.clone() + MORE), plan(40), &watch);
    handle.swap(next).unwrap();
    wait_until(&handle, |now| {
        let reservations = now.report.reservations.as_ref();
        reservations.is_some_and(|reservations| reservations.plans.len() == 1)
    });
    wait_for_frames(&handle, 20);
    let back = assembly(folder.path(), &text, plan(40), &watch);
    handle.swap(back).unwrap();
    wait_for_frames(&handle, 20);
    let report = stop(handle, folder.path());
    assert_eq!(report.reservations.unwrap().plans.len(), 1);
}

#[test]
fn other_workers_and_other_partitioned_models_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let watch: Callback = Arc::new(Mutex::new(|frame, said| assert_eq!(said, frame + BLOCKS as u64)));
    let (handle, text) = start(folder.path(), &watch);
    let refused = |text: &str, version: u8| {
        let mut next = assembly(folder.path(), text, plan(70), &watch);
        let models = &mut next.partitioning.as_mut().unwrap().models;
        *models = vec![Some(Arc::new(Adder { version }))];
        handle.swap(next).unwrap_err().to_string()
    };
    let other_workers = text.clone() + "[workers.d]\nclass = \"slow\"\nemulated = true\n";
    let message = refused(&other_workers, 0);
    assert!(
        message.contains("partition workers are added, removed or changed"),
        "{message}"
    );
    let message = refused(&text, 1);
    assert!(message.contains("the file of one, is another"), "{message}");
    let camera = "uri = \"emulated:uniform?rate=60\"\nmode = \"lossless\"";
    let whole = format!("[app]\nname = \"adding\"\nslo = \"400ms\"\n[sources.camera]\n{camera}\n{MORE}");
    let whole = whole.replace("[\"add\"]", "[\"before\"]");
    let mut next = assembly(folder.path(), &whole, plan(70), &watch);
    next.partitioning = None;
    let message = handle.swap(next).unwrap_err().to_string();
    assert!(
        message.contains("nor the last one removed: start it again"),
        "{message}"
    );
    wait_for_frames(&handle, 10);
    stop(handle, folder.path());
}
