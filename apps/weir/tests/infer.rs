//! `POST /api/infer`: pictures of clients pass the models of a graph that serves.

use std::io::Cursor;
use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};
use serde_json::Value;
use weir_flow::{PictureLimits, PictureTaker, Rect, StopFlag};
use weir_operators::ObjectPictures;
use weir_operators::media::{SourceOptions, source};

use crate::common::service::{Service, folder, weir};
use crate::common::{has_runtime, report, stdout};

pub(crate) const STREET: &str = r#"
[app]
name = "pictures"
slo = "20s"
[sources.camera]
uri = "emulated:uniform?rate=1"
[sources.other]
uri = "emulated:uniform?rate=1"
[models.detector]
model = "embedded:street-detector-small"
[modules.objects]
operator = "detect"
model = "detector"
inputs = ["camera"]
[modules.tracks]
operator = "track"
inputs = ["objects"]
[modules.read]
operator = "emulate"
model = "any"
inputs = ["tracks"]
per_track = { every = "10s" }
[models.any]
device = "emulated:a"
profile = { "1" = "1ms" }
[sinks.events]
type = "jsonl"
path = "{stream}.jsonl"
inputs = ["tracks"]
"#;

pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let picture = RgbImage::from_pixel(width, height, Rgb([90, 120, 60]));
    picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// A picture of the street that ships, as JPEG.
pub(crate) fn street() -> Vec<u8> {
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/street-day.mp4");
    let factory = source(&clip.to_string_lossy(), SourceOptions::default());
    let mut clip = factory.open(&StopFlag::default()).unwrap();
    let frame = clip.next().unwrap().unwrap();
    let whole = Rect::new(0.0, 0.0, frame.image.width as f32, frame.image.height as f32);
    let limits = PictureLimits {
        max_side: 960,
        max_bytes: 1 << 20,
    };
    let picture = ObjectPictures::default().take(&frame, &whole, limits).unwrap();
    picture.jpeg().to_vec()
}

fn infer(service: &Service, query: &str, body: &[u8]) -> (u16, String) {
    let head = format!(
        "POST /api/infer{query} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        service.at,
        body.len()
    );
    service.send(&[head.as_bytes(), body].concat(), false)
}

#[test]
fn pictures_of_clients_are_answered_and_seen_by_no_sink() {
    let mut service = Service::start(&[]);
    for (width, height) in [(90, 45), (180, 90)] {
        let (status, answer) = infer(&service, "", &png(width, height));
        assert_eq!(status, 200, "{answer}");
        let line: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            (&line["type"], &line["stream"]),
            (&"frame".into(), &"(pictures)".into())
        );
        assert_eq!(
            (line["width"].as_u64(), line["height"].as_u64()),
            (Some(width.into()), Some(height.into()))
        );
    }
    assert_eq!(infer(&service, "?like=steady", &png(8, 8)).0, 200);
    let (status, answer) = infer(&service, "?like=nowhere", &png(8, 8));
    assert!(status == 400 && answer.contains("nowhere"), "{status} {answer}");
    for wrong in [&b"no picture"[..], &png(90, 45)[..40], b""] {
        let (status, answer) = infer(&service, "", wrong);
        assert!(
            status == 400 && answer.contains("JPEG or PNG"),
            "{status} {answer}"
        );
    }
    let list = stdout(&service.streams(&["list"]));
    assert!(!list.contains("pictures"), "{list}");
    assert_eq!(service.ask("GET", "/readyz", "").0, 200);

    service.drain();
    let report = report(&service.folder.path().join("report.json"));
    let count = |stream: &str| report["streams"][stream]["requests"]["delivered"].as_u64();
    assert_eq!(
        (count("(pictures)"), count("(pictures:steady)")),
        (Some(2), Some(1))
    );
    let written = std::fs::read_dir(service.folder.path()).unwrap();
    let written: Vec<_> = written.map(|entry| entry.unwrap().file_name()).collect();
    assert!(written.iter().any(|name| name == "steady.jsonl"), "{written:?}");
    assert!(
        !written
            .iter()
            .any(|name| name.to_string_lossy().contains("pictures")),
        "{written:?}"
    );
}

#[test]
fn a_picture_has_the_objects_that_detect_finds_in_it_and_no_tracks() {
    if !has_runtime() {
        return;
    }
    let folder = folder();
    std::fs::write(folder.path().join("graph.toml"), STREET).unwrap();
    let picture = street();
    std::fs::write(folder.path().join("street.jpg"), &picture).unwrap();
    let detected = weir(folder.path())
        .args(["detect", "graph.toml", "street.jpg"])
        .output()
        .unwrap();
    let detected: Value = serde_json::from_str(&stdout(&detected)).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    // The second finds what the first did: nothing is followed from one to the next.
    for query in ["", "?like=camera"] {
        let (status, answer) = infer(&service, query, &picture);
        assert_eq!(status, 200, "{answer}");
        let line: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(line["objects"], detected["objects"]);
        assert!(line["objects"].as_array().unwrap().len() > 3, "{answer}");
        assert!(!answer.contains("\"track\""), "{answer}");
    }
    let (status, drawn) = infer(&service, "?draw=true", &picture);
    assert!(status == 200 && drawn.contains("PNG"), "{status}");
    let (status, none) = infer(&service, "?like=other", &picture);
    let none: Value = serde_json::from_str(&none).unwrap();
    assert_eq!((status, none["objects"].as_array().map(Vec::len)), (200, Some(0)));
}
