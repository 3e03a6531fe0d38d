//! Benchmark of the search of tracks: milliseconds a query and memory at 10,000, 100,000 and 1,000,000 stored tracks with vectors of 512
//! numbers, and how often the nearest tracks of the shipped clips show the same object.
//!
//! The scan is exact, so its recall is 1 up to half precision. The second part measures what an embedding is worth: each object of the
//! ground truth is seen as tracks of [`TRACKLET_MS`], and each is searched by its looks. It needs the asset pack (`WEIR_ASSETS`).
//! `--tracks N` bounds the first part, `--folder DIR` says where tracks are stored. `--clips DIR` adds clips with their ground truth to the
//! second part, `NAME.mp4` with `NAME.truth.jsonl`, such as `make clips` renders.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use weir_flow::{
    Attribute, DeliveredObject, Delivery, DeviceKind, Frame, Image, Item, Object, Points, Rect, Region,
    Session, Settings, Sink, StopFlag, TrackEnd, TrackState, Value,
};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks::{
    EMBED_ATTRIBUTE, EMBED_DIGEST, EMBED_MODEL, QueryVector, SearchBy, SearchFilter, SearchReader,
    SearchWords, sink,
};
use weir_operators::{LoadRequest, ModelFile, load};
use weir_truth::{Truth, TruthAttribute, TruthObject};

const DIMENSIONS: usize = 512;
const COUNTS: [u64; 3] = [10_000, 100_000, 1_000_000];
const QUERIES: usize = 5;
const NEAREST: usize = 10;

/// Length of a track in the second part, in milliseconds; every fifth frame is embedded.
const TRACKLET_MS: f64 = 2_000.0;
const SAMPLE: u64 = 5;

/// Shortest side of a box that is embedded, in pixels, and the part of it that must be visible.
const MIN_SIDE: f32 = 24.0;
const MIN_VISIBLE: f32 = 0.6;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let after = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1)
    };
    let max: u64 = after("--tracks").map_or(Ok(COUNTS[2]), |count| count.parse())?;
    let folder = after("--folder").map_or_else(std::env::temp_dir, PathBuf::from);
    println!(
        "{:>9} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "tracks", "stored/s", "vector ms", "words ms", "newest ms", "MB disk", "MB peak"
    );
    for count in COUNTS.into_iter().filter(|count| *count <= max) {
        speed(&folder, count)?;
    }
    match std::env::var_os("WEIR_ASSETS") {
        Some(assets) => looks(&folder, Path::new(&assets), after("--clips").map(Path::new)),
        None => {
            println!("looks: skipped, WEIR_ASSETS is not set");
            Ok(())
        }
    }
}

/// A folder that is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(within: &Path, name: &str) -> Self {
        Self(within.join(format!("weir-bench-search-{}-{name}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open_sink(folder: &Path) -> anyhow::Result<Box<dyn Sink>> {
    let text = |text: &str| Value::Text(text.to_owned());
    let keys = [
        ("path", text(&folder.to_string_lossy())),
        ("max_bytes", Value::Number(1e12)),
        (EMBED_ATTRIBUTE, text("looks")),
        (EMBED_MODEL, text("looks")),
        (EMBED_DIGEST, text("bench")),
    ];
    let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
    Ok(sink("search", &settings)?.open()?)
}

/// A track that is seen in one frame and ends.
fn delivery(
    frame: &Arc<Frame>,
    (stream, track): (&str, u64),
    class: &str,
    vector: Vec<f32>,
    plate: &str,
) -> Delivery {
    let time_ms = 1_000 * track;
    let attributes = [(
        Arc::from("plate"),
        Attribute::Text {
            text: plate.to_owned(),
            score: 1.0,
        },
    )];
    let object = DeliveredObject {
        id: 0,
        object: Object {
            class: class.into(),
            score: 0.9,
            rect: Rect::new(0.0, 0.0, 2.0, 2.0),
            parent: None,
            points: Points::None,
            candidate: false,
        },
        parent: None,
        attributes: vec![(
            "looks".into(),
            Attribute::Match {
                r#match: None,
                cosine: None,
                vector: Some(vector),
            },
        )],
        track: Some(TrackState {
            id: track,
            class: class.into(),
            ..TrackState::default()
        }),
    };
    Delivery {
        time_ms,
        latency_ms: 1.0,
        objects: vec![object],
        ended_tracks: vec![TrackEnd {
            id: track,
            class: class.into(),
            began_ms: time_ms,
            last_seen_ms: time_ms,
            began_pts_ms: 0.0,
            last_pts_ms: 0.0,
            attributes: attributes.into(),
        }],
        ..Delivery::new(stream, Arc::clone(frame))
    }
}

/// Numbers that repeat with each run.
struct Random(u64);

impl Random {
    /// The next one, -1 to 1 (xorshift64*).
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
        drawn as f32 / (1 << 23) as f32 - 1.0
    }

    fn unit(&mut self) -> Vec<f32> {
        unit((0..DIMENSIONS).map(|_| self.next()).collect())
    }
}

fn unit(numbers: Vec<f32>) -> Vec<f32> {
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    numbers
        .into_iter()
        .map(|number| number / length.max(1e-6))
        .collect()
}

fn speed(within: &Path, count: u64) -> anyhow::Result<()> {
    let folder = Folder::new(within, &count.to_string());
    let frame = Arc::new(Frame::new(0, 0.0, Image::from_rgb(2, 2, vec![0; 12])));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let began = Instant::now();
    let mut sink = open_sink(&folder.0)?;
    for track in 0..count {
        let plate = format!("WR {track:07}");
        let stream = ["north", "south", "yard", "door"][track as usize % 4];
        sink.accept(&delivery(&frame, (stream, track), "car", random.unit(), &plate))?;
    }
    sink.finish()?;
    drop(sink);
    let stored = began.elapsed();
    let reader = SearchReader::new(&folder.0);
    let filter = SearchFilter::default();
    // The peak from now on: the system resets it on this write.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let before = memory("VmRSS:");
    let words = SearchWords::of(&format!("wr {:07}", count / 2));
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut bytes = 0;
    for _ in 0..QUERIES {
        let vector = QueryVector {
            numbers: random.unit(),
            model: "bench".to_owned(),
        };
        for (by, times) in [SearchBy::Vector(&vector), SearchBy::Words(&words), SearchBy::Time]
            .into_iter()
            .zip(&mut times)
        {
            let began = Instant::now();
            let found = reader.search(&filter, by, NEAREST)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            anyhow::ensure!(
                found.visible == count && !found.tracks.is_empty(),
                "{count} tracks are not all there"
            );
            bytes = found.bytes;
        }
    }
    let [vector, words, newest] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let peak = memory("VmHWM:").saturating_sub(before) as f64 / 1e3;
    println!(
        "{count:>9} {:>10.0} {vector:>10.2} {words:>10.2} {newest:>10.2} {:>9.0} {peak:>9.1}",
        count as f64 / stored.as_secs_f64(),
        bytes as f64 / 1e6
    );
    Ok(())
}

/// A number of kilobytes in the status of this process.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

/// A track of an object of the ground truth.
struct Tracklet {
    clip: String,
    /// Identity where the ground truth has one, else the number of the object in its clip.
    object: String,
    class: String,
    vector: Vec<f32>,
    /// Width times height of the box that the vector is of.
    area: f32,
}

fn looks(within: &Path, assets: &Path, more: Option<&Path>) -> anyhow::Result<()> {
    let text = |text: &str| Value::Text(text.to_owned());
    let keys = [
        ("align", text("none")),
        ("channels", text("bgr")),
        ("mean", text("0")),
        ("std", text("1")),
    ];
    let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
    let model = load(&LoadRequest {
        name: "person-reid",
        file: ModelFile::Path(assets.join("models/person_reid_retail_0288.onnx")),
        head: "embed",
        settings: &settings,
        max_batch: 1,
        dump: None,
    })?;
    let mut session = model.open(DeviceKind::Cpu)?;
    println!(
        "\nlooks: person-reid on boxes of the ground truth, tracks of {} s",
        TRACKLET_MS / 1e3
    );
    println!(
        "{:>34} {:>7} {:>8} {:>12} {:>13} {:>12}",
        "", "tracks", "objects", "first same", "same of 10", "class of 10"
    );
    let persons: &[&str] = &["person"];
    let vehicles: &[&str] = &["car", "truck", "bus", "bicycle", "motorcycle"];
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../videos");
    for (name, clips, classes) in [
        ("persons of two rooms", ["live-room", "live-evening"], persons),
        (
            "vehicles by day and at dusk",
            ["street-day", "street-dusk"],
            vehicles,
        ),
        ("persons in the street", ["street-day", "street-dusk"], persons),
    ] {
        let mut tracks = Vec::new();
        for clip in clips {
            tracks.extend(tracklets(session.as_mut(), &shipped, clip, classes)?);
        }
        evaluate(within, name, &tracks)?;
    }
    if let Some(more) = more {
        let mut tracks = Vec::new();
        for clip in clips_in(more)? {
            for classes in [persons, vehicles] {
                tracks.extend(tracklets(session.as_mut(), more, &clip, classes)?);
            }
        }
        evaluate(within, "all in the clips of --clips", &tracks)?;
    }
    Ok(())
}

/// Names of the clips with ground truth in a folder, in order.
fn clips_in(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut clips = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name();
        let clip = name.to_str().and_then(|name| name.strip_suffix(".truth.jsonl"));
        clips.extend(clip.map(str::to_owned));
    }
    clips.sort();
    Ok(clips)
}

fn tracklets(
    session: &mut dyn Session,
    videos: &Path,
    clip: &str,
    classes: &[&str],
) -> anyhow::Result<Vec<Tracklet>> {
    let path = videos.join(format!("{clip}.truth.jsonl"));
    let truth = Truth::read(BufReader::new(std::fs::File::open(&path)?))
        .with_context(|| path.display().to_string())?;
    let uri = videos.join(format!("{clip}.mp4"));
    let mut frames = source(&uri.to_string_lossy(), SourceOptions::default()).open(&StopFlag::default())?;
    let mut best: BTreeMap<(u64, u64), Tracklet> = BTreeMap::new();
    for in_frame in &truth.frames {
        let Some(frame) = frames.next()? else { break };
        if in_frame.frame % SAMPLE != 0 {
            continue;
        }
        let frame = Arc::new(frame);
        for object in &in_frame.objects {
            if !is_seen(object) || !classes.contains(&object.class.as_str()) {
                continue;
            }
            let [x0, y0, x1, y1] = object.r#box;
            let area = (x1 - x0) * (y1 - y0);
            let key = (object.id, (in_frame.pts_ms / TRACKLET_MS) as u64);
            if best.get(&key).is_some_and(|best| best.area >= area) {
                continue;
            }
            let item = Item {
                frame: Arc::clone(&frame),
                region: Region::Crop {
                    rect: Rect::new(x0, y0, x1, y1),
                    points: Points::None,
                },
                object: None,
                class: None,
            };
            let inference = session.run(&[item], &mut |_| ())?.into_iter().next();
            let attribute = inference.and_then(|inference| inference.attribute);
            let Some(Attribute::Match {
                vector: Some(vector), ..
            }) = attribute
            else {
                continue;
            };
            let identity = identity(object.id, &in_frame.objects);
            best.insert(
                key,
                Tracklet {
                    clip: clip.to_owned(),
                    object: identity.unwrap_or_else(|| format!("{clip}/{}", object.id)),
                    class: object.class.clone(),
                    vector,
                    area,
                },
            );
        }
    }
    Ok(best.into_values().collect())
}

fn is_seen(object: &TruthObject) -> bool {
    let [x0, y0, x1, y1] = object.r#box;
    !object.ignore && object.visible >= MIN_VISIBLE && (x1 - x0).min(y1 - y0) >= MIN_SIDE
}

/// The identity of a person by its face, if it is in the gallery.
fn identity(person: u64, objects: &[TruthObject]) -> Option<String> {
    let mut faces = objects.iter().filter(|object| object.parent == Some(person));
    faces.find_map(|face| match face.attributes.get("identity") {
        Some(TruthAttribute::Match { r#match }) => r#match.clone(),
        _ => None,
    })
}

/// Searches each track by its looks, and compares the nearest tracks with the ground truth.
fn evaluate(within: &Path, name: &str, tracks: &[Tracklet]) -> anyhow::Result<()> {
    let folder = Folder::new(within, "looks");
    let frame = Arc::new(Frame::new(0, 0.0, Image::from_rgb(2, 2, vec![0; 12])));
    let mut sink = open_sink(&folder.0)?;
    for (number, track) in (0_u64..).zip(tracks) {
        sink.accept(&delivery(
            &frame,
            (&track.clip, number),
            &track.class,
            track.vector.clone(),
            "",
        ))?;
    }
    sink.finish()?;
    let reader = SearchReader::new(&folder.0);
    let (mut first, mut same, mut class, mut queries) = (0, 0.0, 0.0, 0);
    for (number, track) in (0_u64..).zip(tracks) {
        let others = tracks.iter().filter(|other| other.object == track.object).count() - 1;
        let vector = QueryVector {
            numbers: track.vector.clone(),
            model: "bench".to_owned(),
        };
        let found = reader.search(&SearchFilter::default(), SearchBy::Vector(&vector), NEAREST + 1)?;
        let nearest = found.tracks.iter().map(|found| found.record.track);
        let nearest: Vec<&Tracklet> = nearest
            .filter(|found| *found != number)
            .take(NEAREST)
            .filter_map(|found| tracks.get(usize::try_from(found).ok()?))
            .collect();
        if others == 0 || nearest.is_empty() {
            continue;
        }
        queries += 1;
        let is_same = |other: &&&Tracklet| other.object == track.object;
        first += usize::from(nearest.first().filter(is_same).is_some());
        same += nearest.iter().filter(is_same).count() as f64 / others.min(NEAREST) as f64;
        let alike = nearest.iter().filter(|other| other.class == track.class).count();
        class += alike as f64 / nearest.len() as f64;
    }
    let objects: std::collections::BTreeSet<&str> = tracks.iter().map(|track| &*track.object).collect();
    let share = |sum: f64| 100.0 * sum / f64::from(queries.max(1));
    println!(
        "{name:>34} {:>7} {:>8} {:>11.1}% {:>12.1}% {:>11.1}%",
        tracks.len(),
        objects.len(),
        share(first as f64),
        share(same),
        share(class)
    );
    Ok(())
}
