//! Cascades in the live engine: each item is answered by exactly one stage, and none is lost whatever becomes of a stage.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow::{
    Attribute, Batching, Catalog, DeviceKind, Inference, Item, Model, Session, SessionError, Step,
};
use weir_policy::gears::emulated_certainty;
use weir_policy::{Report, StageCounts};
use weir_runtime::{Pace, RunOptions, verify};

use crate::common::{Parts, assemble, graph, graph_in, run};

const FRAMES: u64 = 300;

/// One source through a cascade of two stages on slots of their own.
fn text(mode: &str, rate: u32, certainty: f64, keys: &str) -> String {
    format!(
        r#"
        [app]
        name = "cascade"
        slo = "250ms"
        [sources.camera]
        uri = "emulated:uniform?rate={rate}&frames={FRAMES}"
        mode = "{mode}"
        [devices."emulated:a"]
        slots = 1
        [devices."emulated:b"]
        slots = 1
        [models.small]
        device = "emulated:a"
        profile = {{ "1" = "1ms", "8" = "2ms" }}
        [models.large]
        device = "emulated:b"
        batch = [1]
        profile = {{ "1" = "25ms" }}
        [modules.read]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = {certainty} }}, {{ model = "large" }}]
        inputs = ["camera"]
        {keys}
        "#
    )
}

fn run_text(text: &str, parts: Parts, options: &RunOptions) -> Report {
    run(assemble(graph(text, &Catalog::default()), parts), options)
}

fn stages(report: &Report) -> [StageCounts; 2] {
    ["read/1", "read/2"].map(|name| report.modules[name].stage.unwrap_or_default())
}

fn at_most(pace: Pace) -> RunOptions {
    RunOptions {
        pace,
        ..RunOptions::default()
    }
}

#[test]
fn what_is_not_certain_is_handed_on_and_nothing_else() {
    let text = text("lossless", 1_000, 0.25, "");
    let report = run_text(&text, Parts::default(), &at_most(Pace::Max));
    let uncertain = (0..FRAMES)
        .filter(|frame| emulated_certainty(*frame, 0) < 0.25)
        .count() as u64;
    let [first, second] = stages(&report);
    assert_eq!((first.handed_on, first.accepted), (uncertain, FRAMES - uncertain));
    assert_eq!((second.handed_on, second.accepted), (0, uncertain));
    assert_eq!(
        (report.modules["read/1"].items, report.modules["read/2"].items),
        (FRAMES, uncertain)
    );
    assert_eq!(report.requests.dropped, 0);
}

#[test]
fn a_stage_that_fails_leaves_the_answer_of_the_stage_before_it() {
    let text = text("lossless", 1_000, 0.25, "").replace("batch = [1]", "batch = [1]\nfail_every = 3");
    let report = run_text(&text, Parts::default(), &at_most(Pace::Max));
    let [first, second] = stages(&report);
    assert_eq!(report.requests.dropped, 0, "{:?}", report.drops);
    assert_eq!(second.failed, report.modules["read/2"].failed);
    assert!(second.failed > 0);
    assert_eq!(second.accepted + second.failed, first.handed_on);
}

/// Three times what the second stage can take.
#[test]
fn what_would_be_late_is_accepted_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let options = RunOptions {
        record: Some(record.clone()),
        ..at_most(Pace::Times(1.0))
    };
    let report = run_text(
        &text("live", 120, 1.0, "on_late = \"accept\""),
        Parts::default(),
        &options,
    );
    let [first, second] = stages(&report);
    let dropped = |module: &str| -> u64 {
        let drops = report.drops.iter().filter(|drop| drop.module == module);
        drops.map(|drop| drop.count).sum()
    };
    assert_eq!(dropped("read/2"), 0, "{:?}", report.drops);
    assert!(second.accepted_late > 0 && second.accepted > 0, "{second:?}");
    assert_eq!(second.accepted + second.accepted_late, first.handed_on);
    assert!(verify(&record).unwrap().steps > 0);

    let report = run_text(&text("live", 120, 1.0, ""), Parts::default(), &options);
    let [_, second] = stages(&report);
    assert_eq!(second.accepted_late, 0);
    assert!(report.requests.dropped > 0, "{:?}", report.requests);
}

/// Gears for the graph of [`text`], in a file beside it; the load of the test goes from the first to the second and back.
fn gears(number: u32) -> String {
    format!(
        r#"
        graph = "cascade"
        number = {number}
        shift = {{ window = "500ms", waiting = 8 }}
        [[gears]]
        up_to = 40
        accuracy = 0.9
        [gears.cascades]
        read = [{{ model = "small", certainty = 0.5 }}, {{ model = "large" }}]
        [[gears]]
        up_to = 400
        accuracy = 0.7
        [gears.cascades]
        read = [{{ model = "small" }}]
        "#
    )
}

/// 20 a second, then 100, then 20 again.
const LOAD: &str = "emulated:trace?file=load.csv";

#[test]
fn the_gear_follows_the_load_and_the_certainty_the_gear() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("gears.toml"), gears(7)).unwrap();
    std::fs::write(at("load.csv"), "t_s,rate_rps\n0,20\n3,100\n6,20\n9,20\n").unwrap();
    let camera = "emulated:uniform?rate=100&frames=300";
    let text = text("live", 100, 0.9, "").replace(camera, LOAD);
    let text = text.replacen("slo =", "gears = \"gears.toml\"\nslo =", 1);
    let graph = graph_in(folder.path(), &text, &Catalog::default());
    let options = RunOptions {
        record: Some(at("record")),
        ..at_most(Pace::Times(1.0))
    };
    let report = run(assemble(graph, Parts::default()), &options);
    let shifted = report.gears.clone().unwrap();
    assert_eq!((shifted.plan, shifted.shifts), (7, 2), "{shifted:?}");
    assert!(
        shifted.seconds_by_gear.iter().all(|seconds| *seconds > 1.0),
        "{shifted:?}"
    );
    let accuracy = shifted.accuracy_expected.unwrap();
    assert!(accuracy > 0.7 && accuracy < 0.9, "{shifted:?}");
    let [first, second] = stages(&report);
    // In the first gear half of the frames are handed on, in the second none.
    assert!(
        first.handed_on > 20 && first.accepted > 2 * first.handed_on,
        "{first:?}"
    );
    assert_eq!(second.accepted, first.handed_on);
    assert!(verify(&at("record")).unwrap().steps > 0);
}

/// Reads the number of the frame, with a certainty that is the number's hash.
struct Reader {
    /// Each such item panics; 0: none.
    panic_every: u64,
    items: Arc<AtomicU64>,
}

impl Model for Reader {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self {
            panic_every: self.panic_every,
            items: Arc::clone(&self.items),
        }))
    }
}

impl Session for Reader {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        on_step(Step::Inferred);
        let read = |item: &Item| {
            let number = self.items.fetch_add(1, Ordering::Relaxed) + 1;
            let fails = self.panic_every > 0 && number.is_multiple_of(self.panic_every);
            assert!(!fails, "the model panics on item {number}");
            Inference {
                attribute: Some(Attribute::Number {
                    value: item.frame.index as f32,
                }),
                certainty: Some(emulated_certainty(item.frame.index, 0)),
                ..Inference::default()
            }
        };
        Ok(items.iter().map(read).collect())
    }

    fn warm_up(&mut self, _: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[test]
fn a_second_stage_that_panics_on_every_tenth_item_loses_no_frame() {
    let reader = |panic_every| -> Arc<dyn Model> {
        Arc::new(Reader {
            panic_every,
            items: Arc::default(),
        })
    };
    let parts = Parts {
        models: vec![("small", reader(0)), ("large", reader(10))],
        ..Parts::default()
    };
    let report = run_text(&text("lossless", 1_000, 0.5, ""), parts, &at_most(Pace::Max));
    let [first, second] = stages(&report);
    assert_eq!(
        (report.requests.dropped, report.requests.arrived),
        (0, FRAMES),
        "{:?}",
        report.drops
    );
    assert!(second.failed > 0, "{second:?}");
    assert_eq!(second.accepted + second.failed, first.handed_on);
    assert_eq!(first.accepted + first.handed_on, FRAMES);
}

/// Counts the items of frames that are so wide, and those of others.
struct CountByWidth {
    width: u32,
    counts: Arc<[AtomicU64; 2]>,
}

impl Model for CountByWidth {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self {
            width: self.width,
            counts: Arc::clone(&self.counts),
        }))
    }
}

impl Session for CountByWidth {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        on_step(Step::Inferred);
        for item in items {
            let is_other = usize::from(item.frame.image.width != self.width);
            self.counts[is_other].fetch_add(1, Ordering::Relaxed);
        }
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm_up(&mut self, _: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[test]
fn a_busy_stream_has_a_gear_of_its_own_and_the_quiet_one_keeps_its_certainty() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let by_stream = gears(3).replace("waiting = 8", "waiting = 8, scope = \"stream\"");
    std::fs::write(at("gears.toml"), by_stream).unwrap();
    let quiet = "[sources.quiet]\nuri = \"emulated:uniform?rate=10&frames=30&size=16x16\"\nmode = \"live\"";
    let text = text("live", 100, 0.9, "")
        .replacen("slo = \"250ms\"", "gears = \"gears.toml\"\nslo = \"5s\"", 1)
        .replace("inputs = [\"camera\"]", "inputs = [\"camera\", \"quiet\"]")
        .replace(
            "[devices.\"emulated:a\"]",
            &format!("{quiet}\n[devices.\"emulated:a\"]"),
        );
    let graph = graph_in(folder.path(), &text, &Catalog::default());
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let large = CountByWidth {
        width: 16,
        counts: Arc::clone(&counts),
    };
    let parts = Parts {
        models: vec![("large", Arc::new(large))],
        ..Parts::default()
    };
    let options = RunOptions {
        record: Some(at("record")),
        ..at_most(Pace::Times(1.0))
    };
    let report = run(assemble(graph, parts), &options);
    let uncertain = |frames: u64| {
        let frames = (0..frames).filter(|frame| emulated_certainty(*frame, 0) < 0.5);
        frames.count() as u64
    };
    let [of_quiet, of_busy] = [0, 1].map(|which| counts[which].load(Ordering::Relaxed));
    assert_eq!(of_quiet, uncertain(30), "every one, in the gear for little load");
    assert!(
        of_busy > 0 && of_busy < uncertain(FRAMES) / 2,
        "{of_busy} until its gear was shifted"
    );
    let shifted = report.gears.unwrap();
    assert!(shifted.shifts >= 1, "{shifted:?}");
    assert!(verify(&at("record")).unwrap().steps > 0);
}

/// A fast detector, and beside it a branch of two modules that takes a third of the frames at most.
fn branched(on_drop: &str) -> String {
    format!(
        r#"
        [app]
        name = "branched"
        slo = "250ms"
        [sources.camera]
        uri = "emulated:uniform?rate=120&frames={FRAMES}"
        mode = "live"
        [devices."emulated:a"]
        slots = 1
        [devices."emulated:b"]
        slots = 1
        [models.fast]
        device = "emulated:a"
        profile = {{ "1" = "1ms", "8" = "2ms" }}
        [models.slow]
        device = "emulated:b"
        batch = [1]
        profile = {{ "1" = "25ms" }}
        [modules.detect]
        operator = "emulate"
        model = "fast"
        inputs = ["camera"]
        [modules.plates]
        operator = "emulate"
        model = "slow"
        inputs = ["detect"]
        {on_drop}
        [modules.text]
        operator = "emulate"
        model = "fast"
        inputs = ["plates"]
        "#
    )
}

#[test]
fn frames_go_on_without_a_branch_that_has_no_time_for_them() {
    let options = at_most(Pace::Times(1.0));
    let dropped = run_text(&branched(""), Parts::default(), &options);
    assert!(dropped.requests.dropped > FRAMES / 3, "{:?}", dropped.requests);
    assert_eq!(dropped.modules["plates"].degraded, 0);

    let degraded = run_text(&branched("on_drop = \"degrade\""), Parts::default(), &options);
    let plates = &degraded.modules["plates"];
    let other = degraded.drops.iter().filter(|drop| drop.module != "plates");
    let other: u64 = other.map(|drop| drop.count).sum();
    assert_eq!(
        degraded.requests.dropped, other,
        "the branch drops nothing: {:?}",
        degraded.drops
    );
    assert!(
        plates.degraded > FRAMES / 3,
        "{} went on without",
        plates.degraded
    );
    assert!(plates.items > 0, "what there is time for is looked at");
}
