//! Partition workers and devices: where models are placed, and what is said of it.

use weir_graph::DeviceClass;

use crate::common::{self, VALID, check, read};

/// The valid graph with its reader spread over two workers.
fn planned() -> String {
    VALID
        .replace(
            "[models.detector]",
            "[workers.a]\nclass = \"fast\"\naddress = \"127.0.0.1:7101\"\nbandwidth = \"1Gbps\"\n\
             [workers.b]\nclass = \"slow\"\nslowdown = 3\ncore = 0\n[models.detector]",
        )
        .replace("head = \"ctc\"", "head = \"ctc\"\nplan = \"plan.toml\"")
}

fn check_with(from: &str, to: &str, expected: &[&str]) {
    let text = planned();
    assert!(text.contains(from), "nothing to replace: {from}");
    check(&text.replacen(from, to, 1), expected);
}

#[test]
fn a_model_with_a_plan_is_on_the_workers() {
    let graph = read(&planned()).expect("it is whole");
    let reader = &graph.models()[1];
    assert_eq!(graph.devices()[reader.device].class, DeviceClass::Workers);
    assert_eq!(graph.devices()[reader.device].slot_count(8), 0);
    assert!(reader.plan.as_ref().is_some_and(|plan| plan.is_absolute()));
    let [a, b] = graph.workers() else {
        panic!("two workers: {:?}", graph.workers());
    };
    assert_eq!(
        (a.class.as_str(), a.address.as_deref()),
        ("fast", Some("127.0.0.1:7101"))
    );
    assert_eq!(
        (a.bandwidth_bps, a.slowdown, a.server.as_str()),
        (1_000_000_000, 1.0, "a")
    );
    assert_eq!((b.address.as_deref(), b.slowdown, b.core), (None, 3.0, Some(0)));
}

#[test]
fn invalid_workers_are_reported() {
    check_with("class = \"fast\"\n", "", &["20: worker \"a\" has no `class`"]);
    for address in ["somewhere", "camera:0", "node:", "node:gpu-1:7447"] {
        let given = format!("\"{address}\"");
        let expected = ["22: is neither HOST:PORT nor node:NAME"];
        check_with("\"127.0.0.1:7101\"", &given, &expected);
    }
    check_with("\"1Gbps\"", "\"1GB/s\"", &["23: is not a bandwidth above zero"]);
    check_with(
        "slowdown = 3",
        "slowdown = 0.5",
        &["26: `slowdown` must be 1 or more"],
    );
    check_with(
        "core = 0",
        "core = -1",
        &["27: `core` must be the number of a core"],
    );
    check_with(
        "bandwidth",
        "slowdown = 2\nbandwidth",
        &["23: is for workers in this process"],
    );
    check_with("slowdown = 3", "slowdow = 3", &["26: did you mean \"slowdown\""]);
}

#[test]
fn plans_and_workers_require_each_other() {
    check_with(
        "plan = \"plan.toml\"",
        "plan = \"plam.toml\"",
        &["36: did you mean \"plan.toml\" beside it?"],
    );
    check_with(
        "plan = \"plan.toml\"",
        "device = \"workers\"",
        &["36: has no `plan`"],
    );
    check_with(
        "plan =",
        "device = \"cpu\"\nplan =",
        &["36: has a plan and a device"],
    );
    check_with(
        "plan =",
        "workers = 2\nplan =",
        &["36: has a plan, which replaces `workers`"],
    );
    check_with(
        "plan = \"plan.toml\"",
        "plan = \"labels.txt\"",
        &["36: it is not a plan: line 1"],
    );
    check_with(
        "class = \"slow\"",
        "class = \"fast\"",
        &["36: the plan needs 1 workers of class \"slow\", and there are 0"],
    );
    let other = planned()
        .replace("[models.reader]", "[models.readers]")
        .replace("model = \"reader\"", "model = \"readers\"");
    check(&other, &["33: the plan has no model \"readers\""]);
    let alone = VALID.replace("head = \"ctc\"", "head = \"ctc\"\nplan = \"plan.toml\"");
    check(&alone, &["28: there are no workers"]);
}

#[test]
fn keys_of_gpus_and_of_preparation_are_checked_where_they_are_of_use() {
    let with = |line: &str, expected: &[&str]| common::check_with("workers = 2", line, expected);
    let gpu = "device = \"cuda:0\"\n";
    with(&format!("{gpu}cuda_graphs = true\nprecision = \"tf32\""), &[]);
    with(
        &format!("{gpu}provider = \"tensorrt\"\nprecision = \"fp16\""),
        &[],
    );
    with(
        "precision = \"tf32\"",
        &["23: `precision` is for models on a GPU"],
    );
    with(
        &format!("{gpu}precision = \"fp16\""),
        &["24: `precision = \"fp16\"` is computed by TensorRT"],
    );
    with(
        &format!("{gpu}provider = \"tensorrt\"\ncuda_graphs = true"),
        &["25: `cuda_graphs` is for the provider \"cuda\""],
    );
    with(
        "preparation = { \"1\" = \"8ms\" }",
        &["23: `preparation` is for emulated devices"],
    );
    common::check_with("slots = 2", "slots = 2\nprepare = \"inline\"", &[]);
    common::check_with(
        "slots = 2",
        "prepare = \"later\"",
        &["18: `prepare` cannot be \"later\""],
    );
}
