//! Hundreds of streams and dozens of graphs come and go in one engine: threads and memory stay where they were. The only test of its program,
//! since both belong to the process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;

use std::time::Duration;

use common::{Parts, assemble, graph};
use weir_flow::{Catalog, StopFlag};
use weir_graph::SourceNode;
use weir_runtime::{Engine, Handle, NewStream, RunOptions};

const GRAPH: &str = r#"
    [app]
    name = "churn"
    slo = "2s"
    [sources.steady]
    uri = "emulated:uniform?rate=50"
    [devices."emulated:a"]
    slots = 1
    [models.first]
    device = "emulated:a"
    profile = { "1" = "1ms", "16" = "5ms" }
    [modules.find]
    operator = "emulate"
    model = "first"
    inputs = ["steady"]
"#;

/// Memory that may have come to be in use between two moments.
const MAX_GROWTH_BYTES: u64 = 8 << 20;

/// Adds and removes that many streams, one after the other; each sends what it can meanwhile.
fn change(handle: &Handle, streams: u32) {
    for number in 0..streams {
        let uri = "emulated:uniform?rate=1000&size=320x240";
        let node = SourceNode::new(format!("guest-{number}"), uri);
        let stream = NewStream {
            node,
            factory: None,
            like: None,
        };
        handle.add_stream(stream).unwrap();
        let gone = handle.remove_stream(&format!("guest-{number}")).unwrap();
        assert!(gone.requests.is_balanced() && gone.requests.in_flight == 0);
    }
}

/// Swaps the graph that many times, each for one like it.
fn swap(handle: &Handle, graphs: u32) {
    for _ in 0..graphs {
        let assembly = assemble(graph(GRAPH, &Catalog::default()), Parts::default());
        handle.swap(assembly).unwrap();
    }
}

/// Waits until there are so many threads and handles: one that has been joined may be listed for a moment yet, and a graph that
/// another one took the place of ends when nothing of it is in flight.
fn wait_for(before: (usize, usize)) {
    let returned = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        (threads(), handles()) == before
    });
    assert!(returned, "{:?}, and {before:?} before", (threads(), handles()));
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn handles() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes << 10
}

#[test]
fn streams_and_graphs_that_come_and_go_leave_threads_handles_and_memory_where_they_were() {
    let options = RunOptions {
        until_stopped: true,
        ..RunOptions::default()
    };
    let assembly = assemble(graph(GRAPH, &Catalog::default()), Parts::default());
    let handle = Engine::start(assembly, options, &StopFlag::default()).unwrap();
    // What is allocated once is there then.
    change(&handle, 50);
    let before = (threads(), handles());
    swap(&handle, 5);
    wait_for(before);
    let bytes = resident_bytes();
    change(&handle, 450);
    swap(&handle, 40);
    wait_for(before);
    let grown = resident_bytes().saturating_sub(bytes);
    assert!(grown < MAX_GROWTH_BYTES, "{grown} bytes more");
    let report = handle.stop().unwrap();
    let removed = report.removed_streams.unwrap();
    assert_eq!(removed.streams, 500);
    assert!(report.requests.is_balanced() && removed.requests.is_balanced());
    let steady = report.streams["steady"].requests;
    assert_eq!(steady.arrived + removed.requests.arrived, report.requests.arrived);
}
