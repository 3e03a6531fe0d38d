//! Models on several devices that share the slots of these: one runs at a time, by bids like any other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_graph::{Graph, parse};
use weir_sim::{SimulationResult, WorldSpec, experiment, simulate_streams};
use weir_types::{StreamId, Timestamp};

fn graph(text: &str) -> Graph {
    let catalog = weir_graph::Catalog::default();
    parse(text, Path::new("/graph.toml"), &catalog, &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A cascade of two models of which each is on these devices; all frames go through both.
fn cascade(devices: &str, models: &str) -> Graph {
    let text = format!(
        r#"
        [app]
        name = "several-devices"
        slo = "250ms"
        [sources.camera]
        uri = "emulated:poisson?rate=100"
        {devices}
        [models.small]
        {models}
        batch = [1, 2, 4]
        profile = {{ "1" = "4ms", "2" = "6ms", "4" = "10ms" }}
        [models.large]
        {models}
        batch = [1, 2, 4]
        profile = {{ "1" = "12ms", "2" = "18ms", "4" = "30ms" }}
        [modules.read]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = 0.5 }}, {{ model = "large" }}]
        inputs = ["camera"]
        "#
    );
    graph(&text)
}

fn world(graph: &Graph) -> WorldSpec {
    experiment::world_from_graph(graph).unwrap().0
}

/// Runs 20 seconds at this many frames per second.
fn run(spec: &WorldSpec, rate: u64) -> SimulationResult {
    let at = |number: u64| Timestamp::from_micros(number * 1_000_000 / rate);
    let mut arrivals = (0..20 * rate).map(|number| (at(number), StreamId(0)));
    simulate_streams(spec, "several-devices", &mut arrivals, &mut |_| {})
}

const ALIKE: &str = r#"devices = ["emulated:a", "emulated:b"]"#;

/// Holds whether all slots share one queue or each has its own, as slots of different speed do.
#[test]
fn two_devices_of_one_slot_are_as_good_as_one_of_two() {
    let one = world(&cascade(
        "[devices.\"emulated:a\"]\nslots = 2",
        r#"device = "emulated:a""#,
    ));
    let several = world(&cascade("", ALIKE));
    let mut apart = several.clone();
    for module in &mut apart.modules {
        module.ends = vec![module.profile.clone(); 2];
    }
    let most = experiment::capacity(&one);
    assert!((experiment::capacity(&several) / most - 1.0).abs() < 1e-6);
    for load in [0.5, 0.8, 1.0, 1.5, 2.0] {
        let rate = (most * load) as u64;
        let delivered = |spec: &WorldSpec| run(spec, rate).report.requests.delivered;
        let [of_one, of_several, of_apart] = [&one, &several, &apart].map(delivered);
        assert_eq!(of_several, of_one, "at a load of {load}: one queue, as there");
        assert!(
            of_apart as f64 > 0.97 * of_one as f64,
            "at a load of {load}: {of_apart}, and {of_one} on one device"
        );
    }
}

/// A slot runs one batch at a time, so its busy time cannot exceed the run.
#[test]
fn no_slot_is_busy_for_longer_than_the_run() {
    let spec = world(&cascade("", ALIKE));
    let ran = run(&spec, 400);
    let busy: f64 = ran.report.modules.values().map(|module| module.busy_s).sum();
    let seconds = ran.report.run.duration_s;
    assert!(
        busy <= 2.0 * (seconds + 0.3),
        "{busy} s on two slots in {seconds} s"
    );
    assert!(busy > 1.7 * seconds, "{busy} s on two slots in {seconds} s");
}

/// A slow device for one of two models adds to the throughput of both, compared with the fast device only.
#[test]
fn a_slow_device_that_one_model_may_use_is_used() {
    let chain = |devices: &str| {
        let text = format!(
            r#"
            [app]
            name = "unequal"
            slo = "300ms"
            [sources.camera]
            uri = "emulated:poisson?rate=100"
            [models.find]
            device = "emulated:fast"
            batch = [1, 2, 4]
            profile = {{ "1" = "5ms", "2" = "8ms", "4" = "14ms" }}
            [models.name]
            {devices}
            batch = [1, 2, 4]
            profile = {{ "1" = "5ms", "2" = "8ms", "4" = "14ms" }}
            [modules.find]
            operator = "emulate"
            model = "find"
            inputs = ["camera"]
            [modules.name]
            operator = "emulate"
            model = "name"
            inputs = ["find"]
            "#
        );
        graph(&text)
    };
    let slow = r#"profiles."emulated:slow" = { "1" = "10ms", "2" = "16ms", "4" = "28ms" }"#;
    let both = format!("devices = [\"emulated:fast\", \"emulated:slow\"]\n{slow}");
    let [with, without] = [&both, r#"device = "emulated:fast""#].map(|devices| {
        let ran = run(&world(&chain(devices)), 300);
        ran.report.requests.delivered as f64
    });
    println!("{with} delivered with the slow device, {without} without");
    assert!(
        with > 1.25 * without,
        "{with} with the slow device, {without} without"
    );
}
