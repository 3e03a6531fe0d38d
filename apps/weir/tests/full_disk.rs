//! A disk that fills while a service records: each place where an operator looks shows it, and shows its end.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::becomes;
use crate::common::service::Service;
use crate::recording::GRAPH;
use crate::small_disk::SmallDisk;

/// Event lines of the archive.
const EVENTS: &str = "
[sinks.events]
type = \"jsonl\"
path = \"events.jsonl\"
frames = false
inputs = [\"look\"]
";

fn warnings(service: &Service) -> String {
    let state: Value = serde_json::from_str(&service.ask("GET", "/api/state", "").1).unwrap();
    state["warnings"].to_string()
}

#[test]
fn full_disk_of_an_archive_is_in_metrics_readiness_page_and_events_until_there_is_room() {
    let disk_folder = tempfile::tempdir().unwrap();
    let recorded = disk_folder.path().join("disk");
    let Some(disk) = SmallDisk::mount(&recorded, "6m") else {
        return;
    };
    // Room for the lock of the folder alone.
    disk.fill(8 << 10);
    let folder = tempfile::tempdir().unwrap();
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/live-room.mp4");
    let graph = GRAPH
        .replace("CLIP", clip.to_str().unwrap())
        .replace("PATH", recorded.join("{stream}").to_str().unwrap())
        .replace("mode = \"lossless\"", "mode = \"live\"\nloop = true");
    fs::write(folder.path().join("graph.toml"), graph + EVENTS).unwrap();
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let ask = |path: &str| service.ask("GET", path, "");
    let metrics = || ask("/metrics").1;
    let lost = || {
        let text = metrics();
        let line = text.lines().find_map(|line| {
            line.strip_prefix("weir_sink_packets_lost_total{sink=\"all\",stream=\"camera\"} ")
        });
        line.is_some_and(|count| count != "0")
    };
    let is_up = |up: u8| metrics().contains(&format!("weir_sink_up{{sink=\"all\"}} {up}\n"));
    let is_full = |text: &str| text.contains("sink all") && text.contains("the disk is full");
    assert!(becomes(|| is_up(0) && lost()), "{}", metrics());
    let (status, ready) = ask("/readyz");
    assert!(status == 200 && is_full(&ready), "{status} {ready}");
    assert!(is_full(&warnings(&service)), "{}", warnings(&service));
    let events = || fs::read_to_string(service.folder.path().join("events.jsonl")).unwrap_or_default();
    let has_event = |state: &str| {
        let event = format!("\"state\":\"{state}\"");
        events()
            .lines()
            .any(|line| line.contains("\"type\":\"sink\"") && line.contains(&event))
    };
    assert!(becomes(|| has_event("down")), "{}", events());
    disk.make_room();
    assert!(
        becomes(|| is_up(1) && has_event("running")),
        "{} {}",
        metrics(),
        events()
    );
    assert!(!ask("/readyz").1.contains("sink all"));
    service.drain();
}
