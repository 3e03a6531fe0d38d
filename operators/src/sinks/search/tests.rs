//! The files of tracks: what is written is found, damage loses little, and bounds hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use weir_flow::{
    Attribute, BestShot, DeliveredObject, Delivery, Frame, Image, Incident, Notice, Object, Phase, Picture,
    Points, Rect, Settings, Sink, TrackEnd, TrackState, Value,
};

use super::row::ROW_BYTES;
use super::segment::{self, Parts, VectorModel};
use super::store::{Limits, NewTrack, Store};
use super::*;
use crate::edited::{MemoryBound, fuzz};

const LIMITS: Limits = Limits {
    max_bytes: 1 << 30,
    keep_ms: 1 << 40,
};

fn model(digest: &str) -> Option<VectorModel> {
    Some(VectorModel {
        name: "looks".to_owned(),
        digest: digest.to_owned(),
    })
}

fn record(stream: &str, track: u64, time_ms: u64, plate: &str) -> TrackRecord {
    TrackRecord {
        stream: stream.to_owned(),
        track,
        class: if track.is_multiple_of(2) { "car" } else { "van" }.to_owned(),
        score: 0.5,
        began_ms: time_ms.saturating_sub(10),
        time_ms,
        picture_ms: Some(time_ms),
        attributes: BTreeMap::from([("plate".to_owned(), plate.to_owned())]),
        zones: Vec::new(),
    }
}

fn unit(numbers: &[f32]) -> Vec<f32> {
    let length = numbers
        .iter()
        .map(|number| number * number)
        .sum::<f32>()
        .sqrt()
        .max(1e-6);
    numbers.iter().map(|number| number / length).collect()
}

fn add(store: &mut Store, record: TrackRecord, vector: Option<&[f32]>, picture: &[u8]) {
    let now_ms = record.time_ms;
    let track = NewTrack {
        record,
        vector,
        picture,
        before: None,
    };
    let clock_ms = i64::try_from(now_ms).unwrap();
    store.append_at(track, now_ms, (clock_ms, clock_ms)).unwrap();
}

fn found(reader: &SearchReader, by: SearchBy<'_>) -> Vec<u64> {
    let findings = reader.search(&SearchFilter::default(), by, 100).unwrap();
    findings.tracks.iter().map(|found| found.record.track).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn scan_finds_what_a_sort_of_all_tracks_finds(
        tracks in proptest::collection::vec(
            (0..3_usize, proptest::collection::vec(-1.0_f32..1.0, 20), any::<bool>(), 0..1_000_u64), 0..40),
        query in proptest::collection::vec(-1.0_f32..1.0, 20),
        (limit, camera, class) in (1..12_usize, 0..4_usize, 0..3_usize),
        (from, length) in (0..1_000_u64, 0..1_000_u64),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), LIMITS, model("a")).unwrap();
        let streams = ["north", "south", "yard"];
        let query = unit(&query);
        let filter = SearchFilter {
            streams: streams.get(camera).map(|name| (*name).to_owned()).into_iter().collect(),
            class: ["car", "van"].get(class).map(|name| (*name).to_owned()),
            from_ms: Some(from),
            to_ms: Some(from + length),
            hidden: ["yard".to_owned()].into(),
            ..SearchFilter::default()
        };
        let mut expected = Vec::new();
        for (track, (stream, numbers, has_vector, time_ms)) in (0_u64..).zip(&tracks) {
            let record = record(streams[*stream], track, *time_ms, "");
            let vector = unit(numbers);
            let similarity: f32 = vector.iter().zip(&query).map(|(one, other)| one * other).sum();
            let meets = *stream != 2
                && streams.get(camera).is_none_or(|name| *name == record.stream)
                && ["car", "van"].get(class).is_none_or(|name| *name == record.class)
                && record.time_ms >= from
                && record.began_ms < from + length;
            if meets && *has_vector {
                expected.push((track, similarity));
            }
            add(&mut store, record, has_vector.then_some(vector.as_slice()), b"");
        }
        expected.sort_by(|one, other| other.1.total_cmp(&one.1));
        let vector = QueryVector { numbers: query, model: "a".to_owned() };
        let reader = SearchReader::new(folder.path());
        let findings = reader.search(&filter, SearchBy::Vector(&vector), limit).unwrap();
        prop_assert_eq!(findings.compared, expected.len() as u64);
        prop_assert_eq!(findings.tracks.len(), limit.min(expected.len()));
        // Half precision may exchange neighbours.
        for (found, (_, similarity)) in findings.tracks.iter().zip(&expected) {
            prop_assert!((found.similarity.unwrap() - similarity).abs() < 3e-3);
        }
        prop_assert!(!findings.streams.contains("yard"));
    }
}

#[test]
fn tracks_are_found_by_words_by_time_and_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), LIMITS, model("a")).unwrap();
    for track in 0..10 {
        let plate = format!("WR {track}7");
        add(
            &mut store,
            record("north", track, 1_000 * track, &plate),
            Some(&unit(&[1.0, track as f32])),
            b"JPEG",
        );
    }
    let reader = SearchReader::new(folder.path());
    assert_eq!(found(&reader, SearchBy::Time)[..3], [9, 8, 7]);
    let words = |text: &str| found(&reader, SearchBy::Words(&SearchWords::of(text)));
    assert_eq!(words("wr 37"), [3]);
    assert_eq!(words("Van NORTH"), [9, 7, 5, 3, 1]);
    assert_eq!(words("bus"), [0; 0]);
    let known = SearchWords {
        tracks: [("north".to_owned(), 4)].into(),
        ..SearchWords::of("bus")
    };
    assert_eq!(found(&reader, SearchBy::Words(&known)), [4]);
    assert_eq!(reader.picture("north", 4).unwrap().unwrap(), b"JPEG");
    assert_eq!(reader.picture("south", 4).unwrap(), None);
    let TrackVector::Found(vector) = reader.vector_of("north", 9).unwrap() else {
        panic!("no vector")
    };
    assert_eq!(found(&reader, SearchBy::Vector(&vector))[..2], [9, 8]);
    assert_eq!(reader.vector_of("north", 10).unwrap(), TrackVector::NoTrack);
    let only_south = SearchFilter {
        visible: Some(["south".to_owned()].into()),
        ..SearchFilter::default()
    };
    let nothing = reader.search(&only_south, SearchBy::Time, 5).unwrap();
    assert_eq!(
        (nothing.visible, nothing.extent_ms, nothing.streams),
        (0, None, BTreeSet::new())
    );
}

#[test]
fn a_later_row_of_a_track_replaces_the_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), LIMITS, None).unwrap();
    let first = NewTrack {
        record: record("north", 1, 100, "OLD"),
        vector: None,
        picture: b"",
        before: None,
    };
    let before = Some(store.append(first, 100).unwrap());
    let second = NewTrack {
        record: record("north", 1, 200, "NEW"),
        vector: None,
        picture: b"",
        before,
    };
    store.append(second, 200).unwrap();
    let reader = SearchReader::new(folder.path());
    assert_eq!(found(&reader, SearchBy::Time), [1]);
    assert_eq!(found(&reader, SearchBy::Words(&SearchWords::of("old"))), [0; 0]);
    assert_eq!(reader.vector_of("north", 1).unwrap(), TrackVector::NoVector);
}

#[test]
fn vectors_of_different_models_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    for (track, digest) in [(1, "a"), (2, "b"), (3, "b")] {
        let mut store = Store::open(folder.path(), LIMITS, model(digest)).unwrap();
        add(
            &mut store,
            record("north", track, 1_000 * track, ""),
            Some(&[0.6, 0.8]),
            b"",
        );
    }
    let reader = SearchReader::new(folder.path());
    assert_eq!(
        segment::stems(folder.path()).unwrap().len(),
        2,
        "the last segment is continued"
    );
    assert_eq!(reader.newest_model().unwrap().as_deref(), Some("b"));
    let vector = QueryVector {
        numbers: vec![0.6, 0.8],
        model: "b".to_owned(),
    };
    let findings = reader
        .search(&SearchFilter::default(), SearchBy::Vector(&vector), 10)
        .unwrap();
    assert_eq!(
        (findings.compared, findings.other_model, findings.visible),
        (2, 1, 3)
    );
    let longer = QueryVector {
        numbers: vec![1.0, 0.0, 0.0],
        ..vector
    };
    assert_eq!(found(&reader, SearchBy::Vector(&longer)), [0; 0]);
}

#[test]
fn a_torn_row_is_the_only_loss_and_a_damaged_file_is_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), LIMITS, None).unwrap();
    for track in 0..5 {
        add(&mut store, record("north", track, 1_000, ""), None, b"JPEG");
    }
    drop(store);
    let stem = segment::stems(folder.path()).unwrap().remove(0);
    let rows = folder.path().join(format!("{stem}.rows"));
    let aside = folder.path().join(format!("{stem}.rows.broken"));
    let whole = fs::read(&rows).unwrap();
    fs::write(&rows, &whole[..whole.len() - 30]).unwrap();
    let reader = SearchReader::new(folder.path());
    assert_eq!(found(&reader, SearchBy::Time).len(), 4);
    let mut store = Store::open(folder.path(), LIMITS, None).unwrap();
    add(&mut store, record("north", 7, 2_000, ""), None, b"");
    drop(store);
    assert_eq!(found(&reader, SearchBy::Time), [7, 3, 2, 1, 0]);
    assert!(!aside.exists());
    // Damage in the middle.
    let mut damaged = fs::read(&rows).unwrap();
    damaged[2 * ROW_BYTES + 20] ^= 1;
    fs::write(&rows, &damaged).unwrap();
    let mut store = Store::open(folder.path(), LIMITS, None).unwrap();
    add(&mut store, record("north", 8, 3_000, ""), None, b"");
    assert_eq!(found(&reader, SearchBy::Time), [8, 1, 0]);
    assert_eq!(fs::read(&aside).unwrap(), damaged);
}

#[test]
fn oldest_tracks_are_removed_by_size_and_by_age() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_bytes: 1 << 20,
        keep_ms: 160_000,
    };
    let picture = vec![7; 20 << 10];
    let mut store = Store::open(folder.path(), limits, None).unwrap();
    for track in 0..200 {
        add(
            &mut store,
            record("north", track, 100 + track, ""),
            None,
            &picture,
        );
        assert!(
            store.bytes() <= limits.max_bytes + (100 << 10),
            "{}",
            store.bytes()
        );
    }
    let reader = SearchReader::new(folder.path());
    let kept = found(&reader, SearchBy::Time);
    assert!((40..60).contains(&kept.len()) && kept[0] == 199, "{kept:?}");
    let on_disk: u64 = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(on_disk, store.bytes());
    fs::write(folder.path().join("notes.rows"), "of a person").unwrap();
    // One segment spans a sixteenth of the age.
    for (track, time_ms) in [(300, 200_000), (301, 400_000)] {
        add(&mut store, record("north", track, time_ms, ""), None, b"");
    }
    assert_eq!(found(&reader, SearchBy::Time)[0], 301);
    assert!(found(&reader, SearchBy::Time).iter().all(|track| *track >= 300));
    assert!(folder.path().join("notes.rows").exists());
}

#[test]
fn jump_of_the_wall_clock_removes_nothing_until_it_has_held() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_bytes: 1 << 30,
        keep_ms: 160_000,
    };
    let mut store = Store::open(folder.path(), limits, None).unwrap();
    let mut add_at = |track: u64, wall_ms: u64, now_ms: i64| {
        let track = NewTrack {
            record: record("north", track, wall_ms, ""),
            vector: None,
            picture: b"",
            before: None,
        };
        let wall = i64::try_from(wall_ms).unwrap();
        store.append_at(track, wall_ms, (wall, now_ms)).unwrap();
    };
    let year_ms = 365 * 24 * 3_600_000;
    // The clock is settled after ten seconds.
    add_at(1, year_ms, 0);
    add_at(2, year_ms + 12_000, 12_000);
    // A year ahead, and back again.
    add_at(3, 2 * year_ms, 20_000);
    add_at(4, year_ms + 30_000, 30_000);
    let reader = SearchReader::new(folder.path());
    let kept = |expected: &[u64]| {
        let found: BTreeSet<u64> = found(&reader, SearchBy::Time).into_iter().collect();
        assert_eq!(found, expected.iter().copied().collect::<BTreeSet<u64>>());
    };
    kept(&[1, 2, 3, 4]);
    // What is too old goes, also behind the track of the year ahead.
    add_at(5, year_ms + 500_000, 500_000);
    kept(&[3, 5]);
}

#[test]
fn segment_of_another_version_stays_for_its_age() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_bytes: 1 << 30,
        keep_ms: 160_000,
    };
    let first_ms = 1_000_000_000;
    let mut store = Store::open(folder.path(), limits, None).unwrap();
    add(&mut store, record("north", 1, first_ms, ""), None, b"");
    drop(store);
    let stem = segment::stems(folder.path()).unwrap().remove(0);
    let texts = folder.path().join(format!("{stem}.texts"));
    let text = fs::read_to_string(&texts).unwrap();
    fs::write(&texts, text.replacen("\"version\":1", "\"version\":2", 1)).unwrap();
    let mut store = Store::open(folder.path(), limits, None).unwrap();
    for (after_ms, is_there) in [(1_000, true), (20_000, true), (40_000, true), (200_000, false)] {
        add(
            &mut store,
            record("north", after_ms, first_ms + after_ms, ""),
            None,
            b"",
        );
        let stems = segment::stems(folder.path()).unwrap();
        assert_eq!(stems.contains(&stem), is_there, "{after_ms}");
    }
}

/// Makes the texts of a segment that begins at a time fail, as on a full disk.
fn fill_disk(folder: &Path, time_ms: u64) -> PathBuf {
    let stem = crate::sinks::recording::time_name(time_ms, &[]);
    let texts = folder.join(format!("{stem}.texts"));
    std::os::unix::fs::symlink("/dev/full", &texts).unwrap();
    texts
}

#[test]
fn a_segment_that_cannot_be_begun_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let texts = fill_disk(folder.path(), 1_000);
    let mut store = Store::open(folder.path(), LIMITS, None).unwrap();
    let track = NewTrack {
        record: record("north", 1, 1_000, ""),
        vector: None,
        picture: b"",
        before: None,
    };
    let error = store.append(track, 1_000).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(segment::stems(folder.path()).unwrap(), [""; 0]);
    assert!(fs::symlink_metadata(texts).is_err());
    add(&mut store, record("north", 2, 1_000, ""), None, b"");
    assert_eq!(found(&SearchReader::new(folder.path()), SearchBy::Time), [2]);
}

#[test]
fn two_writers_of_a_process_have_segments_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut old = Store::open(folder.path(), LIMITS, None).unwrap();
    add(&mut old, record("north", 1, 1_000, ""), None, b"");
    // As a reload opens the next sink before it closes the last one.
    let mut new = Store::open(folder.path(), LIMITS, None).unwrap();
    add(&mut new, record("north", 2, 1_000, ""), None, b"");
    add(&mut old, record("north", 3, 1_000, ""), None, b"");
    let mut tracks = found(&SearchReader::new(folder.path()), SearchBy::Time);
    tracks.sort_unstable();
    assert_eq!(
        (tracks, segment::stems(folder.path()).unwrap().len()),
        (vec![1, 2, 3], 2)
    );
}

#[test]
fn fuzz_stored_tracks() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), LIMITS, model("a")).unwrap();
    for track in 0..3 {
        add(
            &mut store,
            record("north", track, 1_000, "WR 12"),
            Some(&[0.6, 0.8]),
            b"JPEG",
        );
    }
    drop(store);
    let stem = segment::stems(folder.path()).unwrap().remove(0);
    let part = |extension: &str| folder.path().join(format!("{stem}.{extension}"));
    let bound = MemoryBound {
        base: 8 << 20,
        per_byte: 64,
    };
    let vector = QueryVector {
        numbers: vec![0.6, 0.8],
        model: "a".to_owned(),
    };
    for extension in ["rows", "texts"] {
        let whole = fs::read(part(extension)).unwrap();
        fuzz(
            "stored-tracks",
            300,
            bound,
            vec![whole.clone()],
            &[b"{", b"\n"],
            |bytes| {
                fs::write(part(extension), bytes).unwrap();
                let reader = SearchReader::new(folder.path());
                let words = SearchWords::of("wr");
                for by in [SearchBy::Time, SearchBy::Words(&words), SearchBy::Vector(&vector)] {
                    reader.search(&SearchFilter::default(), by, 5).unwrap();
                }
                reader.picture("north", 1).unwrap();
                reader.vector_of("north", 1).unwrap();
                let parts = Parts::open(folder.path(), &stem).unwrap();
                assert!(parts.is_none_or(|parts| parts.last_ms().is_ok()));
            },
        );
        fs::write(part(extension), whole).unwrap();
    }
}

/// A picture that is there already.
#[derive(Debug)]
struct Encoded(&'static [u8]);

impl Picture for Encoded {
    fn jpeg(&self) -> &[u8] {
        self.0
    }
}

/// An object of a track in a frame, with the vector that the module gave for it.
fn object(track: u64, score: f32, vector: Option<[f32; 2]>) -> DeliveredObject {
    let name: Arc<str> = "looks".into();
    let attribute = |vector: [f32; 2]| Attribute::Match {
        r#match: None,
        cosine: None,
        vector: Some(vector.to_vec()),
    };
    let plate = Attribute::Text {
        text: format!("WR {track}"),
        score: 1.0,
    };
    DeliveredObject {
        id: 0,
        object: Object {
            class: "car".into(),
            score,
            rect: Rect::new(0.0, 0.0, 10.0, 10.0),
            parent: None,
            points: Points::None,
            candidate: false,
        },
        parent: None,
        attributes: vector
            .map(|vector| (name, attribute(vector)))
            .into_iter()
            .collect(),
        track: Some(TrackState {
            id: track,
            class: "car".into(),
            attributes: [(Arc::from("plate"), plate)].into(),
            ..TrackState::default()
        }),
    }
}

fn delivery(time_ms: u64, objects: Vec<DeliveredObject>) -> Delivery {
    Delivery {
        time_ms,
        latency_ms: 1.0,
        objects,
        ..Delivery::new(
            "north",
            Frame::new(0, time_ms as f64, Image::from_rgb(2, 2, vec![0; 12])),
        )
    }
}

fn best_shot(track: u64, time_ms: u64) -> Incident {
    Incident {
        id: "north/pictures/1".into(),
        transform: "pictures".into(),
        kind: "best-shot",
        phase: Phase::Ended,
        track: Some(track),
        class: None,
        score: 0.9,
        rect: None,
        began_ms: 0,
        time_ms,
        began_pts_ms: 0.0,
        pts_ms: time_ms as f64,
        zones: vec!["yard".into()],
        values: Vec::new(),
        attributes: Vec::new(),
        best: Some(Arc::new(BestShot {
            picture: Arc::new(Encoded(b"JPEG")),
            rect: Rect::new(0.0, 0.0, 10.0, 10.0),
            score: 0.9,
            frame: 3,
            pts_ms: time_ms as f64 - 300.0,
        })),
    }
}

fn ended(track: u64, last_seen_ms: u64) -> TrackEnd {
    TrackEnd {
        id: track,
        class: "car".into(),
        began_ms: 1_000,
        last_seen_ms,
        began_pts_ms: 0.0,
        last_pts_ms: 0.0,
        attributes: Vec::new(),
    }
}

fn open_sink(folder: &Path) -> Box<dyn Sink> {
    let text = |text: &str| Value::Text(text.to_owned());
    let settings = Settings(
        [
            ("path", text(&folder.display().to_string())),
            (EMBED_ATTRIBUTE, text("looks")),
            (EMBED_MODEL, text("looks")),
            (EMBED_DIGEST, text("a")),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into(),
    );
    super::super::sink("search", &settings).unwrap().open().unwrap()
}

#[test]
fn a_track_is_stored_with_its_best_picture_and_the_vector_of_its_best_frame() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open_sink(folder.path());
    sink.accept(&delivery(1_000, vec![object(1, 0.5, Some([1.0, 0.0]))]))
        .unwrap();
    sink.accept(&delivery(1_100, vec![object(1, 0.9, Some([0.0, 1.0]))]))
        .unwrap();
    sink.accept(&delivery(1_200, vec![object(1, 0.6, Some([1.0, 0.0]))]))
        .unwrap();
    let reader = SearchReader::new(folder.path());
    assert_eq!(found(&reader, SearchBy::Time), [0; 0], "it goes on");
    let mut last = delivery(1_300, Vec::new());
    last.incidents = vec![best_shot(1, 1_300)];
    last.ended_tracks = vec![ended(1, 1_200)];
    sink.accept(&last).unwrap();
    let findings = reader
        .search(&SearchFilter::default(), SearchBy::Time, 5)
        .unwrap();
    let [found] = &findings.tracks[..] else {
        panic!("{findings:?}")
    };
    let record = &found.record;
    assert_eq!(
        (record.began_ms, record.time_ms, record.picture_ms),
        (1_000, 1_200, Some(1_000))
    );
    assert_eq!(
        (&*record.class, record.score, &record.zones[..]),
        ("car", 0.9, &["yard".to_owned()][..])
    );
    assert_eq!(record.attributes["plate"], "WR 1");
    assert_eq!(reader.picture("north", 1).unwrap().unwrap(), b"JPEG");
    let TrackVector::Found(vector) = reader.vector_of("north", 1).unwrap() else {
        panic!("no vector")
    };
    assert_eq!((vector.numbers, &*vector.model), (vec![0.0, 1.0], "a"));
    assert_eq!(
        (
            sink.counts()["tracks"],
            sink.counts()["vectors"],
            sink.counts()["pictures"]
        ),
        (1, 1, 1)
    );
}

#[test]
fn a_track_that_stays_is_found_after_a_minute_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open_sink(folder.path());
    let reader = SearchReader::new(folder.path());
    for second in 0..=70 {
        sink.accept(&delivery(1_000 * second, vec![object(1, 0.5, None)]))
            .unwrap();
        assert_eq!(
            found(&reader, SearchBy::Time).len(),
            usize::from(second >= 60),
            "{second}"
        );
    }
    let ends = Notice::Analytics {
        stream: "north".into(),
        ended_tracks: vec![ended(1, 70_000)],
        incidents: vec![best_shot(1, 70_000)],
    };
    sink.on_notice(&ends).unwrap();
    assert_eq!(found(&reader, SearchBy::Time), [1]);
    assert!(reader.picture("north", 1).unwrap().is_some());
    assert_eq!(sink.counts()["tracks"], 1);
}

#[test]
fn a_track_that_goes_on_is_tried_again_after_a_failure_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    fill_disk(folder.path(), 60_000);
    let mut sink = open_sink(folder.path());
    for second in 0..=70 {
        let accepted = sink.accept(&delivery(1_000 * second, vec![object(1, 0.5, None)]));
        assert_eq!(accepted.is_err(), second == 60, "{second}");
        assert_eq!(sink.outage().is_some(), (60..65).contains(&second), "{second}");
    }
    assert_eq!((sink.counts()["lost"], sink.counts()["tracks"]), (1, 1));
}

#[test]
fn open_tracks_are_stored_when_their_stream_or_the_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open_sink(folder.path());
    sink.accept(&delivery(1_000, vec![object(1, 0.5, None), object(2, 0.5, None)]))
        .unwrap();
    sink.on_stream_removed("south").unwrap();
    assert_eq!(sink.counts()["tracks"], 0);
    sink.on_stream_removed("north").unwrap();
    assert_eq!(sink.counts()["tracks"], 2);
    sink.accept(&delivery(2_000, vec![object(3, 0.5, None)])).unwrap();
    sink.finish().unwrap();
    assert_eq!(found(&SearchReader::new(folder.path()), SearchBy::Time).len(), 3);
}
