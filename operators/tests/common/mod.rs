//! Deliveries as tests make them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::{
    Attribute, DeliveredObject, Delivery, Frame, Image, Object, Points, Rect, Settings, Source, StopFlag,
    Value,
};
use weir_operators::media::{SourceOptions, source};
use weir_operators::{RuntimeLibraryError, find_runtime};

/// A picture that moves a little from frame to frame.
pub(crate) fn picture(index: u64, width: u32, height: u32) -> Image {
    let mut samples = Vec::new();
    for y in 0..height {
        for x in 0..width {
            samples.extend([(x * 2) as u8, (y * 2) as u8, (index * 5) as u8]);
        }
    }
    Image::from_rgb(width, height, samples)
}

pub(crate) fn delivery(
    stream: &str,
    index: u64,
    pts_ms: f64,
    image: Image,
    objects: Vec<DeliveredObject>,
) -> Delivery {
    let frame = Arc::new(Frame::new(index, pts_ms, image));
    Delivery {
        latency_ms: 31.24,
        objects,
        ..Delivery::new(stream, frame)
    }
}

pub(crate) fn object(
    id: u32,
    class: &str,
    rect: Rect,
    attributes: Vec<(&str, Attribute)>,
) -> DeliveredObject {
    let object = Object {
        class: class.into(),
        score: 0.831_26,
        rect,
        parent: None,
        points: Points::None,
        candidate: false,
    };
    let attributes = attributes
        .into_iter()
        .map(|(name, attribute)| (name.into(), attribute))
        .collect();
    DeliveredObject {
        id,
        object,
        parent: (id > 0).then_some(0),
        attributes,
        track: None,
    }
}

pub(crate) fn settings(path: &Path) -> Settings {
    Settings(BTreeMap::from([(
        "path".to_owned(),
        Value::Text(path.display().to_string()),
    )]))
}

/// True where ONNX Runtime is installed; a path to something else is no reason to skip.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
pub(crate) fn has_runtime() -> bool {
    match find_runtime() {
        Ok(_) => true,
        Err(error @ RuntimeLibraryError::NotInstalled) => {
            eprintln!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// One test at a time asks for files to be opened again, which all sinks of the process hear.
pub(crate) fn reopening() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a condition holds, and fails if it does not hold within a minute.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it never came: {what}");
}

/// A clip that ships with the program: 300 frames at 25 a second, of which none refers to a later one.
pub(crate) fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../videos/live-room.mp4")
}

pub(crate) fn open(path: &Path) -> Box<dyn Source> {
    let factory = source(path.to_str().unwrap(), SourceOptions::default());
    factory.open(&StopFlag::default()).unwrap()
}

/// A hash of the samples of a frame, without what is beyond the picture in a row: that is the decoder's own.
pub(crate) fn samples_hash(frame: &Frame) -> u64 {
    let mut hasher = DefaultHasher::new();
    for plane in 0..3 {
        let (samples, stride) = frame.image.planes.plane(plane);
        let chroma = u32::from(plane > 0);
        let width = frame.image.width.div_ceil(1 << chroma) as usize;
        let height = frame.image.height.div_ceil(1 << chroma) as usize;
        for row in samples.chunks(stride).take(height) {
            row[..width].hash(&mut hasher);
        }
    }
    hasher.finish()
}
