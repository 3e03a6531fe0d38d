//! Models on several devices of unequal speed.

use weir_graph::{DeviceClass, Graph, parse};
use weir_types::Span;

use crate::common::{VALID, check, environment, folder, generating, read};

fn read_generating(toml: &str) -> Result<Graph, String> {
    let folder = folder();
    let path = folder.path().join("graph.toml");
    parse(toml, &path, &generating(), &environment).map_err(|problems| problems.to_string())
}

/// The valid graph with its detector as these lines, from line 22 on, have it.
fn text(lines: &str) -> String {
    VALID.replace("batch = [1, 2, 4]\nworkers = 2", lines)
}

fn with(lines: &str, expected: &[&str]) {
    check(&text(lines), expected);
}

#[test]
fn a_model_has_an_end_on_each_of_its_devices() {
    let text = text(
        "devices = [\"cpu:one\", \"emulated:t4\", \"cuda:1\"]\nbatch = [1, 2]\n\
         profiles.\"emulated:t4\" = { \"1\" = \"4ms\", \"2\" = \"6ms\" }\n[devices.\"cpu:one\"]\nslowdown = 2.5",
    );
    let graph = read(&text).expect("it is whole");
    let model = &graph.models()[0];
    assert!(!graph.is_emulated(model), "others compute");
    let of = |(device, profile): (usize, &[(u32, Span)])| {
        let device = &graph.devices()[device];
        (
            device.name.clone(),
            device.class.clone(),
            device.slowdown,
            profile.len(),
        )
    };
    let ends: Vec<_> = model.ends().map(of).collect();
    assert_eq!(
        ends,
        [
            ("cpu:one".to_owned(), DeviceClass::Cpu, 2.5, 0),
            (
                "emulated:t4".to_owned(),
                DeviceClass::Emulated("t4".to_owned()),
                1.0,
                2
            ),
            ("cuda:1".to_owned(), DeviceClass::Cuda(1), 1.0, 0),
        ]
    );
    assert_eq!(
        graph.devices()[model.device].slot_count(8),
        1,
        "a part is one slot"
    );
    // The reader, which names none, is on the whole of the CPU.
    let reader = &graph.models()[1];
    assert_eq!(graph.devices()[reader.device].slot_count(8), 2);
}

#[test]
fn a_model_that_generates_may_be_on_workers_of_a_class() {
    let text = |devices: &str| {
        format!(
            "[app]\nslo = \"1s\"\n[sources.a]\nuri = \"emulated:uniform?rate=1\"\n[workers.x]\nclass = \"edge\"\n\
             address = \"127.0.0.1:7101\"\n[workers.y]\nclass = \"edge\"\naddress = \"127.0.0.1:7102\"\n[workers.z]\n\
             class = \"other\"\n[models.m]\ndevices = [{devices}]\nhead = \"generate\"\nmodel = \"reader.onnx\"\n\
             [modules.r]\noperator = \"say\"\nmodel = \"m\"\ninputs = [\"a\"]\n"
        )
    };
    let graph = read_generating(&text("\"workers:edge\", \"cpu\"")).expect("it is whole");
    let names: Vec<&str> = graph.models()[0]
        .ends()
        .map(|(device, _)| &*graph.devices()[device].name)
        .collect();
    assert_eq!(names, ["worker:x", "worker:y", "cpu"]);
    for (devices, expected) in [
        ("\"workers:edg\"", "there is no worker of class \"edg\""),
        ("\"worker:w\"", "there is no worker \"w\""),
        ("\"worker:z\"", "worker \"z\" runs in this process"),
    ] {
        let problems = read_generating(&text(devices)).expect_err("it is none");
        assert!(problems.contains(expected), "{problems}");
        assert!(problems.contains(":14"), "its line: {problems}");
    }
}

#[test]
fn what_does_not_fit_is_reported() {
    with("devices = []", &["22: `devices` must name 1 to 512 devices"]);
    with(
        "devices = [\"cpu\", \"cpu\"]",
        &["22: `devices` names \"cpu\" twice"],
    );
    with(
        "devices = [\"cpu\", \"gpu\"]",
        &["22: there is no device \"gpu\""],
    );
    with(
        "devices = [\"cpu\"]\ndevice = \"cpu\"",
        &["23: model \"detector\" has `devices` and `device` | leave one of them out"],
    );
    with(
        "devices = [\"cpu\", \"emulated:t4\"]",
        &["20: model \"detector\" has no `profile`"],
    );
    with(
        "devices = [\"cpu:a\", \"cpu:b\"]\nprofiles.\"cpu:c\" = { \"1\" = \"4ms\" }",
        &["23: `profiles` has one for \"cpu:c\", which is not among `devices`"],
    );
    with(
        "devices = [\"cpu:a\"]\nbatch = [1, 4]\nprofiles.\"cpu:a\" = { \"1\" = \"4ms\" }",
        &["24: `profiles` of \"cpu:a\" ends at batches of 1, but model \"detector\" may run 4"],
    );
    with(
        "devices = [\"cpu:a\"]\nprofiles = 3",
        &["23: `profiles` cannot be a whole number"],
    );
    with(
        "devices = [\"cpu:a\", \"cpu:b\"]\nworkers = 2",
        &[
            "23: 2 workers do not fit on device \"cpu:a\" with 1 slots",
            "23: 2 workers do not fit on device \"cpu:b\" with 1 slots",
        ],
    );
    with(
        "[devices.\"emulated:t4\"]\nslowdown = 2",
        &["23: device \"emulated:t4\" takes as long as its profile says"],
    );
}
