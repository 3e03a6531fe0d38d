//! Recordings that are kept within their limits: on a small disk, while nothing is recorded, and beside one with a wrong date.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_flow::{PacketTap, Sink, Value};

use crate::common::{open, shipped, wait_until};
use crate::recording::{frames, open_sink, videos};
use crate::small_disk::SmallDisk;

#[allow(clippy::disallowed_methods, reason = "segments are named after the clock")]
fn utc_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_millis() as u64
}

/// Records the clip once, as a camera sends it now.
fn record(archive: &dyn Sink) {
    let tap = PacketTap::new("north", utc_ms);
    let _recorded = tap.observe(archive.packet_observer().unwrap());
    let mut source = open(&shipped());
    source.tap_packets(Arc::clone(&tap));
    while let Some(frame) = source.next().unwrap() {
        tap.on_frame(frame.stamp_ms.unwrap(), frame.pts_ms);
    }
}

#[test]
fn archive_on_a_disk_smaller_than_max_bytes_keeps_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let Some(_mounted) = SmallDisk::mount(&disk, "3m") else {
        return;
    };
    let recorded = disk.join("archive");
    let keys = [("segment", Value::Number(2.0)), ("max_bytes", Value::Number(1e9))];
    let mut archive = open_sink("archive", &recorded, &keys);
    for _ in 0..6 {
        record(&*archive);
    }
    archive.finish().unwrap();
    let counts = archive.counts();
    let segments = videos(&recorded);
    let played: usize = segments.iter().map(|path| frames(path)).sum();
    assert!(
        counts["files_removed"] > 0 && played > 300,
        "{counts:?} {segments:?}"
    );
    assert_eq!(archive.outage(), None);
    // The last two seconds that were recorded are there.
    assert!(frames(segments.last().unwrap()) >= 50, "{segments:?}");
}

/// Writes a segment of `north` with that name and so many bytes.
fn place(folder: &Path, name: &str, bytes: usize) {
    let north = folder.join("north");
    fs::create_dir_all(&north).unwrap();
    fs::write(north.join(format!("{name}.mp4")), vec![0; bytes]).unwrap();
}

#[test]
fn old_recordings_are_removed_while_nothing_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let names = [5_000, 4_000].map(|ago_ms| {
        let at = UNIX_EPOCH + Duration::from_millis(utc_ms() - ago_ms);
        humantime::format_rfc3339_millis(at)
            .to_string()
            .replace(['-', ':'], "")
    });
    names.iter().for_each(|name| place(folder.path(), name, 100));
    let mut archive = open_sink("archive", folder.path(), &[("keep", Value::Number(7.0))]);
    let placed = names.map(|name| folder.path().join(format!("north/{name}.mp4")));
    wait_until("old recordings are gone", || {
        placed.iter().all(|path| !path.exists())
    });
    archive.finish().unwrap();
}

#[test]
fn recording_of_the_far_future_does_not_push_out_those_of_now() {
    let folder = tempfile::tempdir().unwrap();
    place(folder.path(), "99991231T235900.000Z", 1 << 20);
    let keys = [
        ("segment", Value::Number(2.0)),
        ("max_bytes", Value::Number(1.5e6)),
    ];
    let mut archive = open_sink("archive", folder.path(), &keys);
    for _ in 0..2 {
        record(&*archive);
    }
    archive.finish().unwrap();
    let segments = videos(folder.path());
    let of_now = segments
        .iter()
        .filter(|path| !path.ends_with("99991231T235900.000Z.mp4"));
    assert!(of_now.clone().count() >= 6, "{segments:?}");
    assert!(of_now.map(|path| frames(path)).sum::<usize>() >= 300);
}
