//! Models whose workers open and close with the load.

use weir_policy::AutoscaleRule;
use weir_types::Span;

use crate::common::{VALID, check, generating, read};

/// A graph whose detector is alone on a part of the CPU, with these lines from line 22 on.
fn text(lines: &str) -> String {
    VALID.replace(
        "batch = [1, 2, 4]\nworkers = 2",
        &format!("{lines}\ndevice = \"cpu:one\"\n[devices.\"cpu:one\"]\nslots = 4"),
    )
}

fn with(lines: &str, expected: &[&str]) {
    check(&text(lines), expected);
}

#[test]
fn workers_follow_the_load_within_their_bounds() {
    let graph = read(&text(
        "scaling = { least = 2, most = 3, headroom = 1.5, patience = \"1m\" }",
    ));
    let model = graph.expect("it is whole").models()[0].clone();
    let rule = AutoscaleRule {
        min_workers: 2,
        max_workers: 3,
        headroom: 1.5,
        scale_down_delay: Span::from_secs(60),
    };
    assert_eq!((model.scaling, model.workers), (Some(rule), Some(3)));
}

#[test]
fn workers_of_a_smaller_machine_are_as_many_as_its_slots() {
    let graph = read(&text("scaling = {}")).expect("it is whole");
    let model = &graph.models()[0];
    let rule = model.scaling_on(4).expect("it scales");
    assert_eq!((rule.min_workers, rule.max_workers), (1, 4));
    assert_eq!((rule.headroom, rule.scale_down_delay), (1.2, Span::from_secs(30)));
    let graph = read(&text("scaling = { least = 3 }")).expect("it is whole");
    let rule = graph.models()[0].scaling_on(2).expect("it scales");
    assert_eq!((rule.min_workers, rule.max_workers), (2, 2));
}

#[test]
fn what_does_not_fit_is_reported() {
    with(
        "scaling = { least = 3, most = 2 }",
        &["22: `least` is 3 and `most` is 2 | `least` workers are always open"],
    );
    with(
        "scaling = { most = 5 }",
        &["22: 5 workers do not fit on device \"cpu:one\" with 4 slots | lower `most`"],
    );
    with(
        "scaling = { headroom = 0.5 }",
        &["22: `headroom` must lie between 1 and 10, not 0.5"],
    );
    with(
        "workers = 2\nscaling = {}",
        &["22: model \"detector\" has `scaling` and `workers` | leave one of them out"],
    );
    with(
        "scaling = { speed = 2 }",
        &["22: `scaling` of model \"detector\" has no key \"speed\" | keys: least, most, headroom, patience"],
    );
}

#[test]
fn workers_that_follow_the_load_have_their_device_alone() {
    let shared = VALID.replace("workers = 2", "scaling = { most = 2 }");
    check(
        &shared,
        &[
            "23: the workers of model \"detector\" open and close with the load on device \"cpu\", which also has model \"reader\" | \
           give one of them a device of its own",
        ],
    );
    let twice = text("scaling = {}").replace(
        "[sinks.events]",
        "[modules.again]\noperator = \"detect\"\nmodel = \"detector\"\ninputs = [\"north\"]\n[sinks.events]",
    );
    check(
        &twice,
        &[
            "22: model \"detector\" serves modules \"detect\" and \"again\", and workers that follow the load serve one",
        ],
    );
}

#[test]
fn all_workers_fit_into_the_memory_of_their_device() {
    let limited = |lines: &str| text(lines).replace("slots = 4", "slots = 4\nmemory = \"60MiB\"");
    assert!(read(&limited("scaling = { most = 3 }\nmemory = \"20MiB\"")).is_ok());
    check(
        &limited("scaling = {}\nmemory = \"20MiB\""),
        &[
            "22: up to 4 workers of model \"detector\" take 80.0 MiB, and device \"cpu:one\" has 60.0 MiB | lower `most`",
        ],
    );
    check(
        &limited("scaling = {}"),
        &[
            "22: device \"cpu:one\" has `memory`, and it is not known how much of it the workers of model \"detector\" take | set \
           `memory` of the model",
        ],
    );
}

#[test]
fn instances_of_a_model_that_generates_are_as_many_as_it_says() {
    let text = "[app]\nslo = \"1s\"\n[sources.a]\nuri = \"emulated:uniform?rate=1\"\n[models.m]\nhead = \"generate\"\n\
                model = \"reader.onnx\"\nscaling = {}\n[modules.r]\noperator = \"say\"\nmodel = \"m\"\ninputs = [\"a\"]\n";
    let folder = crate::common::folder();
    let path = folder.path().join("graph.toml");
    let problems = weir_graph::parse(text, &path, &generating(), &|_| None).expect_err("it generates");
    let problems = problems.to_string();
    assert!(
        problems.contains("model \"m\" generates, and the number of its instances is fixed"),
        "{problems}"
    );
}
