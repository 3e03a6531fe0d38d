//! Reading of archives: segments with their times, and ranges as one MP4.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tempfile::TempDir;
use weir_flow::{Settings, StopFlag, Value};
use weir_operators::media::{PictureIndex, index_pictures};
use weir_operators::sinks::{ArchiveReader, ExportError, SegmentCache, SegmentFile};

use crate::common::{open, shipped};
use crate::recording::{Camera, open_sink, videos};

/// 21:30:05 on 23 November 2026, UTC.
const BEGAN_MS: u64 = 1_795_469_405_000;

/// Three segments of four seconds, with key frames every two: two that follow each other, and one after a gap.
const NAMES: [(&str, u64); 3] = [
    ("20261123T213005.000Z", 0),
    ("20261123T213009.000Z", 4_000),
    ("20261123T213100.000Z", 55_000),
];

/// A folder with the archive of the camera `north`.
fn archive() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let recorded = tempfile::tempdir().unwrap();
    let mut sink = open_sink("archive", recorded.path(), &[("segment", Value::Number(3.0))]);
    let mut camera = Camera::new("north", &*sink);
    camera.play(f64::MAX);
    sink.finish().unwrap();
    fs::create_dir(folder.path().join("north")).unwrap();
    let segments = videos(recorded.path());
    assert_eq!(segments.len(), NAMES.len(), "{segments:?}");
    for (path, (name, _)) in segments.iter().zip(NAMES) {
        fs::copy(path, segment(&folder, name)).unwrap();
    }
    folder
}

fn segment(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(format!("north/{name}.mp4"))
}

fn reader(folder: &TempDir) -> ArchiveReader {
    ArchiveReader::of_stream(folder.path(), "north")
}

/// Begins and ends in milliseconds.
type Ranges = Vec<(u64, u64)>;

/// Begin and end of segments, and gaps, from the begin of the archive on.
fn listed(folder: &TempDir, from: u64, to: u64) -> (Ranges, Ranges) {
    let range = (BEGAN_MS + from, BEGAN_MS + to);
    let listing = reader(folder).list(range, &SegmentCache::default()).unwrap();
    let since = |(from, to): (u64, u64)| (from - BEGAN_MS, to - BEGAN_MS);
    let segments = listing.segments.iter();
    (
        segments
            .map(|found| since((found.name.start_ms, found.end_ms)))
            .collect(),
        listing.gaps.into_iter().map(since).collect(),
    )
}

/// Exports a range, and indexes its pictures.
fn exported(folder: &TempDir, from: u64, to: u64) -> (PictureIndex, (u64, u64), Vec<u8>) {
    let mut export = reader(folder).export((BEGAN_MS + from, BEGAN_MS + to)).unwrap();
    let mut bytes = Vec::new();
    export.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, export.length());
    let path = folder.path().join("export.mp4");
    fs::write(&path, &bytes).unwrap();
    // Each picture decodes.
    let mut source = open(&path);
    let mut frames = 0;
    while let Some(frame) = source.next().unwrap() {
        assert!(!frame.concealed);
        frames += 1;
    }
    let index = index_pictures(&path, &StopFlag::default()).unwrap();
    assert_eq!(index.pictures.len(), frames);
    assert_eq!(index.truncation, None);
    let (from, to) = export.extent();
    (index, (from - BEGAN_MS, to - BEGAN_MS), bytes)
}

#[test]
fn segments_have_the_times_of_their_pictures_and_gaps_are_between_them() {
    let folder = archive();
    let all = [(0, 4_000), (4_000, 8_000), (55_000, 59_000)];
    assert_eq!(listed(&folder, 0, 59_000), (all.to_vec(), vec![(8_000, 55_000)]));
    assert_eq!(listed(&folder, 3_999, 4_001), (all[..2].to_vec(), Vec::new()));
    assert_eq!(
        listed(&folder, 5_000, 20_000),
        (all[1..2].to_vec(), vec![(8_000, 20_000)])
    );
    assert_eq!(
        listed(&folder, 20_000, 30_000),
        (Vec::new(), vec![(20_000, 30_000)])
    );
    let names = reader(&folder).names().unwrap();
    let extent = reader(&folder).extent(&names, &SegmentCache::default()).unwrap();
    assert_eq!(extent, Some((BEGAN_MS, BEGAN_MS + 59_000)));
    let nearest = reader(&folder).nearest(&names, BEGAN_MS + 20_000).unwrap();
    assert_eq!(nearest, Some((BEGAN_MS + 4_000, BEGAN_MS + 8_000)));
    let listing = reader(&folder)
        .list((BEGAN_MS, BEGAN_MS + 1), &SegmentCache::default())
        .unwrap();
    let first = &listing.segments[0];
    assert!(
        first.mime.starts_with("video/mp4; codecs=\"avc1."),
        "{}",
        first.mime
    );
    assert!((first.frame_ms - 40.0).abs() < 0.5, "{}", first.frame_ms);
    assert_eq!(
        first.bytes,
        fs::metadata(segment(&folder, NAMES[0].0)).unwrap().len()
    );
    assert_eq!(
        ArchiveReader::of_stream(folder.path(), "south").names().unwrap(),
        []
    );
}

#[test]
fn a_camera_whose_clock_runs_slow_leaves_no_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open_sink("archive", folder.path(), &[("segment", Value::Number(5.0))]);
    // A picture that states 40 ms comes each 60 ms.
    let observer = sink.packet_observer().unwrap();
    let mut camera = Camera::of_source("north", open(&shipped()), observer, 60);
    camera.play(f64::MAX);
    sink.finish().unwrap();
    let segments = vec![(0, 6_000), (9_000, 15_000)];
    assert_eq!(listed(&folder, 0, 18_000), (segments.clone(), Vec::new()));
    let (index, extent, _) = exported(&folder, 0, 18_000);
    assert_eq!((index.pictures.len(), extent), (300, (0, 12_000)));
    // The time of a copy says nothing.
    let first = fs::File::options()
        .write(true)
        .open(segment(&folder, NAMES[0].0))
        .unwrap();
    first.set_modified(UNIX_EPOCH).unwrap();
    assert_eq!(listed(&folder, 0, 18_000), (segments, vec![(6_000, 9_000)]));
}

#[test]
fn a_torn_segment_is_there_as_far_as_it_plays() {
    let folder = archive();
    let (path, length) = (segment(&folder, NAMES[1].0), |path: &Path| {
        fs::metadata(path).unwrap().len()
    });
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(length(&path) * 3 / 4).unwrap();
    let torn = (vec![(4_000, 6_000)], vec![(6_000, 10_000)]);
    assert_eq!(listed(&folder, 4_000, 10_000), torn);
    let there = SegmentFile::playable(&fs::File::open(&path).unwrap())
        .unwrap()
        .unwrap();
    assert!(there < length(&path), "{there}");
    // The same while it is written.
    let part = path.with_extension("mp4.part");
    fs::rename(&path, &part).unwrap();
    assert_eq!(listed(&folder, 4_000, 10_000), torn);
    let listing = reader(&folder).list((BEGAN_MS + 4_000, BEGAN_MS + 5_000), &SegmentCache::default());
    assert!(listing.unwrap().segments[0].name.unfinished);
    assert!(reader(&folder).open(NAMES[1].0).unwrap().unwrap().unfinished);
    let (index, extent, _) = exported(&folder, 0, 10_000);
    assert_eq!((index.pictures.len(), extent), (150, (0, 6_000)));
    // Of any length, and with any byte wrong, it is read without a panic.
    let whole = fs::read(segment(&folder, NAMES[0].0)).unwrap();
    let path = segment(&folder, NAMES[0].0);
    for step in 0..200 {
        let mut wrong = whole[..whole.len().min(step * 9)].to_vec();
        fs::write(&path, &wrong).unwrap();
        let _ = reader(&folder).export((BEGAN_MS, BEGAN_MS + 3_000));
        wrong.resize(whole.len(), 0xff);
        wrong[step * 9..].copy_from_slice(&whole[step * 9..]);
        wrong[step * 7] ^= 0x5a;
        fs::write(&path, &wrong).unwrap();
        let _ = reader(&folder).export((BEGAN_MS, BEGAN_MS + 3_000));
        let _ = reader(&folder).list((BEGAN_MS, BEGAN_MS + 3_000), &SegmentCache::default());
    }
}

#[test]
fn other_files_and_links_are_no_segments() {
    let folder = archive();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("20261123T213200.000Z.mp4");
    fs::copy(segment(&folder, NAMES[0].0), &secret).unwrap();
    std::os::unix::fs::symlink(&secret, segment(&folder, "20261123T213200.000Z")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("south")).unwrap();
    for other in [
        "holiday.mp4",
        "20261123T213005.000Z-gate-7.mp4",
        "20261123T213300.000Z.jpg",
    ] {
        fs::copy(&secret, folder.path().join("north").join(other)).unwrap();
    }
    fs::create_dir(segment(&folder, "20261123T213400.000Z")).unwrap();
    assert_eq!(listed(&folder, 0, 900_000).0.len(), NAMES.len());
    let open = |id: &str| reader(&folder).open(id).unwrap().is_some();
    assert!(open(NAMES[0].0));
    for id in [
        "20261123T213200.000Z",
        "20261123T213005.000Z-gate-7",
        "20261123T213400.000Z",
        "holiday",
        "../north/20261123T213005.000Z",
        "20261123T213005.000Z.mp4",
        "",
        "/etc/hostname",
    ] {
        assert!(!open(id), "{id}");
    }
    assert_eq!(
        ArchiveReader::of_stream(folder.path(), "south").names().unwrap(),
        []
    );
    assert_eq!(
        ArchiveReader::of_stream(folder.path(), "../north")
            .names()
            .unwrap(),
        []
    );
    // By the settings of the sink, as an engine finds it.
    let path = (
        "path".to_owned(),
        Value::Text(folder.path().join("{stream}").display().to_string()),
    );
    let settings = Settings([path].into());
    let found = ArchiveReader::of_sink(&settings, &["north".to_owned()], "north").unwrap();
    assert_eq!(found.names().unwrap().len(), NAMES.len());
}

#[test]
fn an_export_begins_with_a_key_frame_and_keeps_the_times() {
    let folder = archive();
    let (index, extent, _) = exported(&folder, 2_500, 5_000);
    assert_eq!((index.pictures.len(), extent), (75, (2_000, 5_000)));
    let (first, last) = (index.pictures[0], index.pictures[74]);
    assert_eq!(first, (0.0, true));
    assert!((last.0 - 2_960.0).abs() < 1.0, "{last:?}");
    // Over a gap, the time goes on. A reader of recordings skips it, so the length of the file is looked at.
    let (index, extent, bytes) = exported(&folder, 0, 59_000);
    assert_eq!((index.pictures.len(), extent), (300, (0, 59_000)));
    assert!(index.pictures[200].1);
    let scale_and_length = [&1_000_u32.to_be_bytes()[..], &59_000_u64.to_be_bytes()].concat();
    assert!(bytes.windows(12).any(|window| window == scale_and_length));
    // 2 082 844 800 s after 1904, 1970 began.
    let created = (BEGAN_MS / 1_000 + 2_082_844_800).to_be_bytes();
    assert!(bytes.windows(8).any(|window| window == created));
    // Before the first segment it begins with that.
    let (index, extent, _) = exported(&folder, 0, 100);
    assert_eq!((index.pictures.len(), extent.0), (3, 0));
}

#[test]
fn exports_that_cannot_be_are_refused_with_the_reason() {
    let folder = archive();
    let export = |from: u64, to: u64| reader(&folder).export((BEGAN_MS + from, BEGAN_MS + to));
    let nearest = |at: u64| match export(at, at + 1_000).unwrap_err() {
        ExportError::Empty { nearest } => nearest.map(|(from, to)| (from - BEGAN_MS, to - BEGAN_MS)),
        other => panic!("{other:?}"),
    };
    assert_eq!(nearest(10_000), Some((4_000, 8_000)));
    assert_eq!(nearest(50_000), Some((55_000, 59_000)));
    assert_eq!(nearest(99_000), Some((55_000, 59_000)));
    assert!(matches!(export(0, 7 * 3_600_000), Err(ExportError::TooLong)));
    // The camera sends another size from the second segment on.
    let path = segment(&folder, NAMES[1].0);
    let mut bytes = fs::read(&path).unwrap();
    let entry = (40..bytes.len() - 4)
        .find(|at| &bytes[*at..*at + 4] == b"avc1")
        .unwrap();
    bytes[entry + 4 + 25] ^= 0x10;
    fs::write(&path, bytes).unwrap();
    match export(0, 8_000).unwrap_err() {
        ExportError::Changed { at_ms } => assert_eq!(at_ms, BEGAN_MS + 4_000),
        other => panic!("{other:?}"),
    }
    assert!(export(0, 4_000).is_ok());
}

#[test]
fn a_segment_that_is_removed_meanwhile_ends_the_export_with_an_error() {
    let folder = archive();
    let mut export = reader(&folder).export((BEGAN_MS, BEGAN_MS + 59_000)).unwrap();
    fs::remove_file(segment(&folder, NAMES[2].0)).unwrap();
    let error = export.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("was removed"), "{error}");
}
