//! Sinks that record packets: what they write plays, holds what it should, and the books add up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value as Json;
use weir_flow::{
    BestShot, Delivery, Frame, Image, Incident, Packet, PacketFormat, PacketObserver, PacketSubscription,
    PacketTap, Phase, Rect, Settings, Sink, Source, Value,
};
use weir_operators::sinks::sink;

use crate::common::{open, shipped, wait_until};
use crate::small_disk::SmallDisk;

/// 21:30:05 on 23 November 2026, UTC.
pub(crate) const BEGAN_MS: u64 = 1_795_469_405_000;

pub(crate) fn open_sink(kind: &str, folder: &Path, more: &[(&str, Value)]) -> Box<dyn Sink> {
    let path = ("path", Value::Text(folder.display().to_string()));
    let settings = more.iter().chain([&path]);
    let settings = Settings(
        settings
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
    );
    sink(kind, &settings).unwrap().open().unwrap()
}

/// A camera that sends a clip, once.
pub(crate) struct Camera {
    tap: Arc<PacketTap>,
    /// The time, where it follows the frames.
    clock: Option<Arc<AtomicU64>>,
    _recorded: PacketSubscription,
    source: Box<dyn Source>,
}

impl Camera {
    pub(crate) fn new(name: &str, sink: &dyn Sink) -> Self {
        Self::of_source(name, open(&shipped()), sink.packet_observer().unwrap(), 40)
    }

    /// Each packet takes `step_ms`; 0: the time follows the frames.
    pub(crate) fn of_source(
        name: &str,
        mut source: Box<dyn Source>,
        observer: Arc<dyn PacketObserver>,
        step_ms: u64,
    ) -> Self {
        let clock = Arc::new(AtomicU64::new(BEGAN_MS));
        let now = Arc::clone(&clock);
        let tap = PacketTap::new(name, move || now.fetch_add(step_ms, Ordering::Relaxed));
        let recorded = tap.observe(observer);
        source.tap_packets(Arc::clone(&tap));
        Self {
            tap,
            clock: (step_ms == 0).then_some(clock),
            _recorded: recorded,
            source,
        }
    }

    /// Sends frames up to that media time; says whether there are more.
    pub(crate) fn play(&mut self, until_ms: f64) -> bool {
        while let Some(frame) = self.source.next().unwrap() {
            self.tap.on_frame(frame.stamp_ms.unwrap(), frame.pts_ms);
            if let Some(clock) = &self.clock {
                clock.store(BEGAN_MS + frame.pts_ms as u64, Ordering::Relaxed);
            }
            if frame.pts_ms >= until_ms {
                return true;
            }
        }
        false
    }
}

/// Files below a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with(".weir-recording.lock") {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub(crate) fn videos(folder: &Path) -> Vec<PathBuf> {
    let mut found = files(folder);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "mp4"));
    found
}

/// Frames of a video, all of which have to be whole.
pub(crate) fn frames(path: &Path) -> usize {
    let mut source = open(path);
    let mut frames = 0;
    while let Some(frame) = source.next().unwrap() {
        assert!(!frame.concealed, "{}", path.display());
        frames += 1;
    }
    assert_eq!(source.counts().damaged, 0, "{}", path.display());
    // What other players say, where one is there.
    let probed = Command::new("ffprobe")
        .args(["-v", "error", "-count_packets", "-select_streams", "v"])
        .args(["-show_entries", "stream=nb_read_packets", "-of", "csv=p=0"])
        .arg(path)
        .output();
    // It is not asked where it is not installed.
    if let Ok(probed) = probed {
        let text = String::from_utf8(probed.stdout).unwrap();
        assert_eq!(text.trim(), frames.to_string(), "{}", path.display());
        assert!(probed.stderr.is_empty());
    }
    frames
}

pub(crate) fn incident(number: u64, phase: Phase, began_pts_ms: f64, pts_ms: f64) -> Incident {
    Incident {
        id: format!("north/gate/{number}").into(),
        transform: "gate".into(),
        kind: "zone",
        phase,
        track: Some(7),
        class: Some("person".into()),
        score: 0.9,
        rect: Some(Rect::new(1.0, 2.0, 3.0, 4.0)),
        began_ms: BEGAN_MS + began_pts_ms as u64,
        time_ms: BEGAN_MS + pts_ms as u64,
        began_pts_ms,
        pts_ms,
        zones: vec!["door".into()],
        values: Vec::new(),
        attributes: Vec::new(),
        best: (phase == Phase::Ended).then(|| {
            Arc::new(BestShot {
                picture: Arc::new(b"a jpeg".to_vec()),
                rect: Rect::new(1.0, 2.0, 3.0, 4.0),
                score: 0.95,
                frame: 3,
                pts_ms,
            })
        }),
    }
}

fn accept_of(stream: &str, sink: &mut dyn Sink, incident: Incident) {
    let image = Image::from_rgb(16, 16, vec![0; 16 * 16 * 3]);
    let frame = Frame::new(0, incident.pts_ms, image);
    let delivered = Delivery {
        time_ms: incident.time_ms,
        latency_ms: 30.0,
        incidents: vec![incident],
        ..Delivery::new(stream, frame)
    };
    sink.accept(&delivered).unwrap();
}

pub(crate) fn accept(sink: &mut dyn Sink, incident: Incident) {
    accept_of("north", sink, incident);
}

#[test]
fn an_archive_holds_every_packet_in_segments_that_play() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = open_sink("archive", folder.path(), &[("segment", Value::Number(3.0))]);
    let mut camera = Camera::new("north", &*archive);
    camera.play(f64::MAX);
    archive.finish().unwrap();
    let segments = videos(folder.path());
    assert!(segments.len() >= 3, "{segments:?}");
    assert_eq!(segments.iter().map(|path| frames(path)).sum::<usize>(), 300);
    assert_eq!(segments[0], folder.path().join("north/20261123T213005.000Z.mp4"));
    let counts = archive.counts();
    assert_eq!(
        (counts["segments"], counts["packets"]),
        (segments.len() as u64, 300)
    );
    assert_eq!(counts["packets_lost"], 0);
    assert_eq!(
        files(folder.path()).len(),
        segments.len(),
        "nothing is left beside them"
    );
}

#[test]
fn a_killed_archive_plays_and_is_completed_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut archive = open_sink("archive", &before, &[]);
    let mut camera = Camera::new("north", &*archive);
    camera.play(9_000.0);
    // What is on the disk at some moment is what a killed run leaves, without its locks.
    let part = loop {
        let found = before.join("north/20261123T213005.000Z.mp4.part");
        if fs::metadata(&found).is_ok_and(|there| there.len() > 50_000) {
            break found;
        }
        std::thread::yield_now();
    };
    fs::create_dir_all(after.join("north")).unwrap();
    fs::copy(&part, after.join("north/20261123T213005.000Z.mp4.part")).unwrap();
    let mut again = open_sink("archive", &after, &[]);
    again.finish().unwrap();
    assert_eq!(again.counts()["completed"], 1);
    let left = videos(&after);
    assert_eq!(left, [after.join("north/20261123T213005.000Z.mp4")]);
    assert!(left[0].exists());
    let mut source = open(&left[0]);
    assert!(source.next().unwrap().is_some(), "it plays");
    // Another run while one records leaves its file alone.
    let mut beside = open_sink("archive", &before, &[]);
    beside.finish().unwrap();
    assert_eq!(beside.counts()["completed"], 0);
    camera.play(f64::MAX);
    archive.finish().unwrap();
    assert_eq!(frames(&videos(&before)[0]), 300);
}

/// Passes packets on as a camera sends them that makes no key frame after its first.
struct OneKeyFrame {
    sink: Arc<dyn PacketObserver>,
    sent: AtomicU64,
}

impl PacketObserver for OneKeyFrame {
    fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>) {
        self.sink.on_format(stream, format);
    }

    fn on_packet(&self, stream: &Arc<str>, packet: &Packet) {
        let is_first = self.sent.fetch_add(1, Ordering::Relaxed) == 0;
        let mut packet = packet.clone();
        packet.key = is_first;
        self.sink.on_packet(stream, &packet);
    }

    fn on_refused(&self, stream: &Arc<str>, reason: &str) {
        self.sink.on_refused(stream, reason);
    }
}

#[test]
fn a_camera_without_further_key_frames_is_on_the_disk_within_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut archive = open_sink("archive", &before, &[]);
    let observer = OneKeyFrame {
        sink: archive.packet_observer().unwrap(),
        sent: AtomicU64::new(0),
    };
    let mut camera = Camera::of_source("north", open(&shipped()), Arc::new(observer), 40);
    camera.play(f64::MAX);
    let part = before.join("north/20261123T213005.000Z.mp4.part");
    let copy = after.join("north/20261123T213005.000Z.mp4.part");
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    // The clip has 12 s, of which two at most are on their way.
    let left = loop {
        if fs::copy(&part, &copy).is_ok() {
            let mut again = open_sink("archive", &after, &[]);
            again.finish().unwrap();
            if let [video] = &*videos(&after) {
                let played = frames(video);
                if played >= 240 {
                    break played;
                }
                fs::remove_file(video).unwrap();
            }
        }
        std::thread::yield_now();
    };
    assert!((240..300).contains(&left), "{left}");
    archive.finish().unwrap();
    assert_eq!(frames(&videos(&before)[0]), 300);
    assert_eq!(archive.counts()["packets"], 300);
}

#[test]
fn clips_of_a_killed_run_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut clips = open_sink("clips", &before, &[]);
    let mut camera = Camera::new("north", &*clips);
    camera.play(5_000.0);
    accept(&mut *clips, incident(1, Phase::Began, 4_800.0, 5_000.0));
    camera.play(f64::MAX);
    fs::create_dir_all(after.join("north")).unwrap();
    let left = loop {
        // What is on the disk at some moment is what a killed run leaves, without its locks.
        let there = if before.join("north").exists() {
            files(&before)
        } else {
            Vec::new()
        };
        let part = there
            .iter()
            .find(|path| path.extension().is_some_and(|it| it == "part"));
        if part.is_some_and(|part| fs::metadata(part).is_ok_and(|part| part.len() > 50_000)) {
            break there;
        }
        std::thread::yield_now();
    };
    assert_eq!(left.len(), 2, "{left:?}");
    for path in &left {
        fs::copy(path, after.join("north").join(path.file_name().unwrap())).unwrap();
    }
    let mut again = open_sink("clips", &after, &[]);
    again.finish().unwrap();
    let [video] = &*videos(&after) else {
        panic!("one clip: {:?}", files(&after))
    };
    let text = fs::read_to_string(video.with_extension("json")).unwrap();
    let described: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(described["clip"]["end"], "interrupted");
    assert_eq!(
        described["clip"]["file"],
        video.file_name().unwrap().to_str().unwrap()
    );
    assert_eq!(described["schema"], "weir.clip/1");
    assert_eq!(files(&after).len(), 2, "{:?}", files(&after));
    clips.finish().unwrap();
    let names: Vec<_> = files(&before);
    assert_eq!(
        names.len(),
        2,
        "its own description, and nothing of the one before: {names:?}"
    );
}

#[test]
fn a_clip_begins_and_ends_where_it_was_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let seconds = [("before", 1.0), ("after", 2.0)].map(|(key, s)| (key, Value::Number(s)));
    let mut clips = open_sink("clips", folder.path(), &seconds);
    let mut camera = Camera::new("north", &*clips);
    // The longest group of pictures of the clip.
    let group_ms = 2_000.0;
    camera.play(5_000.0);
    accept(&mut *clips, incident(1, Phase::Began, 4_800.0, 5_000.0));
    camera.play(6_000.0);
    accept(&mut *clips, incident(1, Phase::Updated, 4_800.0, 6_000.0));
    accept(&mut *clips, incident(1, Phase::Ended, 4_800.0, 6_000.0));
    // A crossing of a line begins and ends at once.
    accept(&mut *clips, incident(2, Phase::Ended, 6_000.0, 6_000.0));
    camera.play(f64::MAX);
    // The last one has no time left after it.
    accept(&mut *clips, incident(3, Phase::Began, 11_500.0, 11_900.0));
    clips.finish().unwrap();

    let found = videos(folder.path());
    assert_eq!(found.len(), 3, "{:?}", files(folder.path()));
    let check = |path: &Path, begin: f64, end: f64, how: &str| {
        let text = fs::read_to_string(path.with_extension("json")).unwrap();
        let described: Json = serde_json::from_str(&text).unwrap();
        let clip = &described["clip"];
        let (first, last) = (
            clip["first_pts_ms"].as_f64().unwrap(),
            clip["last_pts_ms"].as_f64().unwrap(),
        );
        assert!(first <= begin && first > begin - group_ms, "{begin}: {text}");
        assert!((last - end).abs() <= 41.0, "{end}: {text}");
        assert_eq!(clip["packets"], frames(path) as u64);
        assert_eq!(clip["end"], how);
        assert_eq!(clip["file"], path.file_name().unwrap().to_str().unwrap());
        described
    };
    let first = check(&found[0], 3_800.0, 8_000.0, "complete");
    assert_eq!(first["id"], "north/gate/1");
    assert_eq!(first["phase"], "ended");
    assert_eq!(fs::read(found[0].with_extension("jpg")).unwrap(), b"a jpeg");
    check(&found[1], 5_000.0, 8_000.0, "complete");
    check(&found[2], 10_500.0, 11_960.0, "stream-ended");
    let counts = clips.counts();
    assert_eq!((counts["incidents"], counts["clips"]), (3, 3));
}

#[test]
fn a_killed_clip_plays_and_the_next_run_gives_it_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut clips = open_sink("clips", &before, &[("before", Value::Number(1.0))]);
    let mut camera = Camera::new("north", &*clips);
    camera.play(2_000.0);
    accept(&mut *clips, incident(1, Phase::Began, 2_000.0, 2_000.0));
    camera.play(9_000.0);
    let is_begun = |path: &PathBuf| {
        let is_part = path.extension().is_some_and(|extension| extension == "part");
        is_part && fs::metadata(path).is_ok_and(|there| there.len() > 50_000)
    };
    let part = loop {
        if let Some(part) = files(&before).into_iter().find(is_begun) {
            break part;
        }
        std::thread::yield_now();
    };
    fs::create_dir_all(after.join("north")).unwrap();
    let copy = after.join("north").join(part.file_name().unwrap());
    fs::copy(&part, &copy).unwrap();
    let mut again = open_sink("clips", &after, &[]);
    again.finish().unwrap();
    assert_eq!(videos(&after), [copy.with_extension("")]);
    assert!(
        open(&copy.with_extension("")).next().unwrap().is_some(),
        "it plays"
    );
    camera.play(f64::MAX);
    clips.finish().unwrap();
    assert_eq!(clips.counts()["incidents"], 1);
}

#[test]
fn a_clip_of_an_incident_without_end_ends_and_is_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let seconds = [("before", 1.0), ("max_length", 4.0)].map(|(key, s)| (key, Value::Number(s)));
    let mut clips = open_sink("clips", folder.path(), &seconds);
    let mut camera = Camera::new("north", &*clips);
    camera.play(2_000.0);
    accept(&mut *clips, incident(1, Phase::Began, 2_000.0, 2_000.0));
    camera.play(9_000.0);
    accept(&mut *clips, incident(1, Phase::Updated, 2_000.0, 9_000.0));
    accept(&mut *clips, incident(1, Phase::Ended, 2_000.0, 9_000.0));
    camera.play(f64::MAX);
    clips.finish().unwrap();
    let found = videos(folder.path());
    assert_eq!(found.len(), 1, "{found:?}");
    let described: Json =
        serde_json::from_str(&fs::read_to_string(found[0].with_extension("json")).unwrap()).unwrap();
    assert_eq!(described["clip"]["end"], "max-length");
    assert_eq!(clips.counts()["incidents"], 1);
}

#[test]
fn names_from_outside_stay_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    let mut clips = open_sink("clips", &base, &[]);
    let mut camera = Camera::new("../../etc", &*clips);
    camera.play(1_000.0);
    let crossing = Incident {
        id: "../../etc/a/../../b".into(),
        transform: "../up".into(),
        ..incident(1, Phase::Ended, 500.0, 500.0)
    };
    accept_of("../../etc", &mut *clips, crossing);
    camera.play(f64::MAX);
    clips.finish().unwrap();
    let found = files(folder.path());
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|path| path.starts_with(&base)), "{found:?}");
}

#[test]
fn a_full_disk_is_counted_and_recording_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let Some(_mounted) = SmallDisk::mount(&disk, "1m") else {
        return;
    };
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; 900 << 10]).unwrap();
    let mut archive = open_sink(
        "archive",
        &disk.join("archive"),
        &[("segment", Value::Number(2.0))],
    );
    let mut camera = Camera::new("north", &*archive);
    assert!(archive.outage().is_none() && archive.free_bytes().is_some_and(|free| free < 1 << 20));
    camera.play(6_000.0);
    wait_until("an outage", || archive.counts().get("outages") == Some(&1));
    let outage = archive.outage().expect("it cannot write");
    assert!(outage.contains("the disk is full"), "{outage}");
    fs::remove_file(&filler).unwrap();
    camera.play(f64::MAX);
    let finished = archive.finish();
    let counts = archive.counts();
    let segments = videos(&disk.join("archive"));
    let played: usize = segments.iter().map(|path| frames(path)).sum();
    let unmounted = Command::new("umount").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    finished.unwrap();
    assert_eq!(archive.outage(), None, "segments were written whole again");
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert_eq!(
        of("packets") + of("packets_failed") + of("packets_lost"),
        300,
        "{counts:?}"
    );
    assert_eq!(played as u64, of("packets"), "{segments:?} {counts:?}");
    assert!(of("packets") > 0 && of("packets_failed") > 0, "{counts:?}");
    let lost = of("packets_failed") + of("packets_lost");
    let by_stream = BTreeMap::from([(Arc::from("north"), lost)]);
    assert_eq!(archive.packets_lost(), by_stream);
}

#[test]
fn other_settings_are_taken_over_without_ending_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = open_sink("archive", folder.path(), &[("segment", Value::Number(60.0))]);
    let mut camera = Camera::new("north", &*archive);
    camera.play(1_000.0);
    let changed = [("segment", Value::Number(3.0)), ("max_bytes", Value::Number(1e9))];
    let changed = changed.map(|(key, value)| (key.to_owned(), value));
    archive.set_settings(&Settings(changed.into()));
    camera.play(f64::MAX);
    archive.finish().unwrap();
    let segments = videos(folder.path());
    assert_eq!(segments.iter().map(|path| frames(path)).sum::<usize>(), 300);
    assert!(segments.len() >= 3, "{segments:?}");
    assert!(archive.packets_lost().is_empty());
}

#[test]
fn another_size_begins_a_segment() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = open_sink("archive", folder.path(), &[]);
    let observer = archive.packet_observer().unwrap();
    let formats: Arc<Mutex<Vec<Arc<PacketFormat>>>> = Arc::default();
    let resized = Resized {
        observer,
        formats: Arc::clone(&formats),
    };
    let mut camera = Camera::of_source("north", open(&shipped()), Arc::new(resized), 40);
    camera.play(5_000.0);
    let known = formats.lock().unwrap().first().cloned().unwrap();
    camera.tap.on_format(PacketFormat {
        width: known.width * 2,
        ..PacketFormat::clone(&known)
    });
    camera.play(f64::MAX);
    archive.finish().unwrap();
    let segments = videos(folder.path());
    assert_eq!(segments.len(), 2, "{segments:?}");
    assert!(segments.iter().all(|path| frames(path) > 0));
}

/// Keeps the formats of packets that it passes on.
struct Resized {
    observer: Arc<dyn PacketObserver>,
    formats: Arc<Mutex<Vec<Arc<PacketFormat>>>>,
}

impl PacketObserver for Resized {
    fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>) {
        self.formats.lock().unwrap().push(Arc::clone(format));
        self.observer.on_format(stream, format);
    }

    fn on_packet(&self, stream: &Arc<str>, packet: &Packet) {
        self.observer.on_packet(stream, packet);
    }
}

/// Seconds of processor time that this process has taken.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |field: usize| {
        fields
            .get(field)
            .and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

/// Plays the clip so many times on each of so many cameras side by side, and hands over incidents as their times come; gives
/// processor seconds.
fn play_cameras(
    cameras: usize,
    loops: u32,
    sink: Option<&mut dyn Sink>,
    incidents: &[(usize, Incident)],
) -> f64 {
    let began = processor_seconds();
    let observer = sink.as_ref().map(|sink| sink.packet_observer().unwrap());
    let taps: Vec<Arc<PacketTap>> = (0..cameras)
        .map(|camera| PacketTap::new(&format!("c{camera}"), || BEGAN_MS))
        .collect();
    let _observed: Vec<PacketSubscription> = taps
        .iter()
        .flat_map(|tap| observer.clone().map(|observer| tap.observe(observer)))
        .collect();
    let mut sink = sink;
    let mut next = 0;
    for round in 0..loops {
        let base_ms = f64::from(round) * 12_000.0;
        let mut sources: Vec<Box<dyn Source>> = taps.iter().map(|_| open(&shipped())).collect();
        for (tap, source) in taps.iter().zip(&mut sources) {
            source.tap_packets(Arc::clone(tap));
        }
        for frame in 0..300_u32 {
            for (tap, source) in taps.iter().zip(&mut sources) {
                let frame = source.next().unwrap().unwrap();
                tap.on_frame(frame.stamp_ms.unwrap(), base_ms + frame.pts_ms);
            }
            let now_ms = base_ms + f64::from(frame) * 40.0;
            while let Some((camera, incident)) = incidents
                .get(next)
                .filter(|(_, incident)| incident.pts_ms <= now_ms)
            {
                if let Some(sink) = &mut sink {
                    accept_of(&format!("c{camera}"), &mut **sink, incident.clone());
                }
                next += 1;
            }
        }
    }
    processor_seconds() - began
}

/// `WEIR_CLIPS` says how many incidents there are at 16 cameras; CI takes few at three.
#[test]
fn clips_of_many_cameras_begin_and_end_where_they_should() {
    let given = std::env::var("WEIR_CLIPS")
        .ok()
        .map(|given| given.parse::<u64>().unwrap());
    let (cameras, count, loops) = given.map_or((3, 9, 2), |given| (16, given, 5));
    let folder = tempfile::tempdir().unwrap();
    let seconds = [("before", 2.0), ("after", 2.0)].map(|(key, s)| (key, Value::Number(s)));
    let mut clips = open_sink("clips", folder.path(), &seconds);
    // Spread over the time and the cameras, some at once, some lasting for seconds.
    let span_ms = u64::from(loops) * 12_000 - 6_000;
    let mut incidents = Vec::new();
    let mut expected = std::collections::BTreeMap::new();
    for number in 0..count {
        let began_ms = (number * 7_919 * 40) % span_ms;
        let ended_ms = began_ms + number % 4 * 1_000;
        let (began, ended) = (began_ms as f64, ended_ms as f64);
        let camera = number as usize % cameras;
        let of = |phase, at| Incident {
            id: format!("c{camera}/gate/{number}").into(),
            ..incident(number, phase, began, at)
        };
        if ended > began {
            incidents.push((camera, of(Phase::Began, began)));
        }
        incidents.push((camera, of(Phase::Ended, ended)));
        expected.insert(
            format!("c{camera}/gate/{number}"),
            (began - 2_000.0, ended + 2_000.0),
        );
    }
    incidents.sort_by(|(_, one), (_, other)| one.pts_ms.total_cmp(&other.pts_ms));
    let with = play_cameras(cameras, loops, Some(&mut *clips), &incidents);
    clips.finish().unwrap();
    let counts = clips.counts();
    if given.is_some() {
        let without = play_cameras(cameras, loops, None, &incidents);
        println!("{with:.2} s of processor with clips, {without:.2} s without; {counts:?}");
    }
    assert_eq!(
        (counts["clips"], counts["incidents"]),
        (count, count),
        "{counts:?}"
    );
    let found = videos(folder.path());
    assert_eq!(found.len() as u64, count);
    for path in &found {
        let text = fs::read_to_string(path.with_extension("json")).unwrap();
        let described: Json = serde_json::from_str(&text).unwrap();
        let (begin, end) = expected[described["id"].as_str().unwrap()];
        let of = |key: &str| described["clip"][key].as_f64().unwrap();
        let (first, last) = (of("first_pts_ms"), of("last_pts_ms"));
        assert!(
            first <= begin.max(0.0) && first > begin - 2_000.0,
            "{begin}: {text}"
        );
        assert!((last - end).abs() <= 120.0, "{end}: {text}");
        assert_eq!(described["clip"]["packets"], frames(path) as u64, "{text}");
    }
}
