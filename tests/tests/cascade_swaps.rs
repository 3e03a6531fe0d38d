//! A graph with a cascade is swapped for others and its gears change while frames come: sessions open beside those that run, and
//! every item is answered by one stage.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;

use weir_flow::{Catalog, StopFlag};
use weir_graph::{Graph, parse_gears};
use weir_policy::gears::Gears;
use weir_runtime::{Engine, Handle, RunOptions, Snapshot, verify};

use crate::common::{Parts, assemble, check_books, graph, stream, wait_until};

/// A cascade of two stages and a module behind it; further ones by bits: another module, regions, another objective.
fn variant(number: u32) -> Graph {
    let more = "[modules.more]\noperator = \"emulate\"\nmodel = \"small\"\ninputs = [\"read\"]\n";
    let text = format!(
        r#"
        [app]
        name = "cascade"
        slo = "{slo}"
        [sources.camera]
        uri = "emulated:uniform?rate=80"
        [sources.other]
        uri = "emulated:uniform?rate=20"
        [devices."emulated:a"]
        slots = 2
        [models.small]
        device = "emulated:a"
        profile = {{ "1" = "1ms", "16" = "4ms" }}
        [models.large]
        device = "emulated:a"
        profile = {{ "1" = "4ms", "16" = "20ms" }}
        [modules.read]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = 0.6 }}, {{ model = "large" }}]
        inputs = ["camera", "other"]
        {regions}
        {more}
        "#,
        slo = if number & 4 > 0 { "6s" } else { "5s" },
        regions = if number & 2 > 0 {
            "escalate = \"regions\""
        } else {
            ""
        },
        more = if number & 1 > 0 { more } else { "" },
    );
    graph(&text, &Catalog::default())
}

/// Two gears around the load of 100 a second, so that it shifts; `number` is odd for gears of streams.
fn gears(number: u32, graph: &Graph) -> Gears {
    let (scope, up_to) = if number % 2 == 1 {
        ("stream", 40 + number)
    } else {
        ("graph", 95 + number)
    };
    let text = format!(
        r#"
        graph = "cascade"
        number = {number}
        shift = {{ window = "200ms", dwell = "100ms", scope = "{scope}" }}
        [[gears]]
        up_to = {up_to}
        [gears.cascades]
        read = [{{ model = "small", certainty = 0.8 }}, {{ model = "large", items = 3, wait = "30ms" }}]
        [[gears]]
        up_to = 1000
        [gears.cascades]
        read = [{{ model = "small", certainty = 0.2 }}, {{ model = "large" }}]
        "#
    );
    parse_gears(&text, Path::new("gears.toml"), graph).unwrap()
}

/// Waits until so many more frames of the first stream have come.
fn wait_for_frames(handle: &Handle, frames: u64) {
    let arrived = |now: &Snapshot| stream(now, "camera").requests.arrived;
    let until = arrived(&handle.snapshot().unwrap()) + frames;
    wait_until(handle, |now| arrived(now) >= until);
}

#[test]
fn gears_shift_and_sessions_open_and_every_item_has_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let options = RunOptions {
        record: Some(record.clone()),
        until_stopped: true,
        ..RunOptions::default()
    };
    let first = assemble(variant(0), Parts::default());
    let handle = Engine::start(first, options, &StopFlag::default()).unwrap();
    wait_for_frames(&handle, 10);
    for number in [1, 3, 6, 2, 5, 0] {
        let graph = variant(number);
        for plan in [2 * number + 1, 2 * number + 2] {
            handle.apply_gears(Some(gears(plan, &graph))).unwrap();
            wait_for_frames(&handle, 12);
        }
        // Its models open while the one before it runs.
        handle.swap(assemble(graph, Parts::default())).unwrap();
        wait_for_frames(&handle, 6);
    }
    handle.apply_gears(None).unwrap();
    let report = handle.stop().unwrap();
    check_books(&report);
    let lost = (
        report.requests.dropped,
        report.requests.late,
        report.requests.in_flight,
    );
    assert_eq!(lost, (0, 0, 0), "{:?}", report.drops);
    assert!(report.gears.unwrap().shifts >= 6);
    let stages = ["read/1", "read/2"].map(|name| {
        let module = &report.modules[name];
        (module.items, module.stage.unwrap_or_default())
    });
    for (items, counts) in stages {
        let all = counts.handed_on + counts.accepted + counts.accepted_late + counts.failed;
        assert_eq!(all, items, "{counts:?}");
    }
    let [(of_first, first), (of_second, second)] = stages;
    assert_eq!(of_first, report.requests.arrived, "each frame once");
    // In regions one that is handed on is several items.
    assert!(first.handed_on > 0 && of_second >= first.handed_on);
    assert_eq!((second.handed_on, second.accepted), (0, of_second));
    verify(&record).unwrap_or_else(|error| panic!("{error}"));
}
