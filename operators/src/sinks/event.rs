//! The event line: what one delivery says, as JSON, with numbers rounded to what they mean.

use std::io::{self, Write};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use weir_flow::{Attribute, Delivery, KeyPoint, Labelled, Point};

#[derive(Serialize)]
struct Event<'a> {
    stream: &'a str,
    frame: u64,
    pts_ms: f64,
    latency_ms: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    late: bool,
    objects: Vec<Seen<'a>>,
}

#[derive(Serialize)]
struct Seen<'a> {
    id: u32,
    class: &'a str,
    score: f32,
    r#box: [f32; 4],
    parent: Option<u32>,
    attributes: Attributes<'a>,
}

struct Attributes<'a>(&'a Labelled);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.attributes.len()))?;
        for (name, attribute) in &self.0.attributes {
            map.serialize_entry(name.as_ref(), &rounded(attribute))?;
        }
        map.end()
    }
}

/// Writes the event line of `delivery`, with its line break.
///
/// # Errors
/// Those of `out`.
pub fn write_event(delivery: &Delivery, mut out: impl Write) -> io::Result<()> {
    let event = Event {
        stream: &delivery.stream,
        frame: delivery.frame.index,
        pts_ms: tenth(delivery.frame.pts_ms),
        latency_ms: tenth(delivery.latency_ms),
        late: delivery.late,
        objects: delivery.objects.iter().map(seen).collect(),
    };
    serde_json::to_writer(&mut out, &event)?;
    out.write_all(b"\n")
}

/// The event line of `delivery`, without a line break.
#[must_use]
pub fn event_line(delivery: &Delivery) -> String {
    let mut line = Vec::new();
    // Writing to memory does not fail, and JSON is text.
    let _ = write_event(delivery, &mut line);
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

fn seen(labelled: &Labelled) -> Seen<'_> {
    let object = &labelled.object;
    let rect = object.rect;
    Seen {
        id: labelled.id,
        class: &object.class,
        score: digits(object.score),
        r#box: [rect.x0, rect.y0, rect.x1, rect.y1].map(pixel),
        parent: labelled.parent,
        attributes: Attributes(labelled),
    }
}

fn rounded(attribute: &Attribute) -> Attribute {
    let point = |point: &KeyPoint| KeyPoint {
        at: Point::new(pixel(point.at.x), pixel(point.at.y)),
        score: digits(point.score),
    };
    match attribute {
        Attribute::Text { text, score } => Attribute::Text {
            text: text.clone(),
            score: digits(*score),
        },
        Attribute::Class { class, score } => Attribute::Class {
            class: class.clone(),
            score: digits(*score),
        },
        Attribute::Angles { yaw, pitch, roll } => Attribute::Angles {
            yaw: pixel(*yaw),
            pitch: pixel(*pitch),
            roll: pixel(*roll),
        },
        Attribute::Direction { yaw, pitch } => Attribute::Direction {
            yaw: pixel(*yaw),
            pitch: pixel(*pitch),
        },
        Attribute::Number { value } => Attribute::Number { value: pixel(*value) },
        Attribute::Match {
            r#match,
            cosine,
            vector,
        } => Attribute::Match {
            r#match: r#match.clone(),
            cosine: cosine.map(digits),
            vector: vector.clone(),
        },
        Attribute::Points(points) => Attribute::Points(points.iter().map(point).collect()),
        Attribute::Iris { eyes, radius } => Attribute::Iris {
            eyes: eyes.iter().map(point).collect(),
            radius: radius.iter().copied().map(pixel).collect(),
        },
    }
}

/// Milliseconds to a tenth.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Pixels, degrees and values to a tenth; adding nought turns -0.0 into 0.0.
fn pixel(value: f32) -> f32 {
    (value * 10.0).round() / 10.0 + 0.0
}

/// Scores to four digits.
fn digits(value: f32) -> f32 {
    (value * 1e4).round() / 1e4
}
