//! Lines of event files as JSON: the header of a run, deliveries, tracks that ended, incidents, drops and states of
//! streams, with numbers rounded to their precision. `docs/reference/events.md` specifies them.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use weir_flow::{
    Attribute, DeliveredObject, Delivery, Description, Incident, IncidentValue, KeyPoint, Notice, Point,
    Rect, RunHeader, StreamState, TrackEnd, TrackState,
};

use super::event_shapes::{MaskEntry, MaskForm, RotatedEntry, pixel};

/// Version of the format; incremented if a key changes its meaning or is removed.
pub const SCHEMA: &str = "weir.events/1";

/// A line, distinguished by its `type`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    Header(HeaderLine<'a>),
    Frame(FrameLine<'a>),
    Dropped(DroppedLine<'a>),
    Still(StillLine<'a>),
    State(StateLine<'a>),
    Sink(SinkLine<'a>),
    Track(TrackLine<'a>),
    Incident(Box<IncidentLine<'a>>),
    Described(Box<DescribedLine<'a>>),
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    schema: &'static str,
    run: &'a str,
    graph: &'a str,
    program: &'a str,
    version: &'a str,
    time: String,
    streams: Vec<Stream<'a>>,
}

#[derive(Serialize)]
struct Stream<'a> {
    stream: &'a str,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detect_source: Option<&'a str>,
}

#[derive(Serialize)]
struct FrameLine<'a> {
    stream: &'a str,
    frame: u64,
    time: String,
    pts_ms: f64,
    latency_ms: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    late: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    still: bool,
    width: u32,
    height: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    concealed: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    without: &'a [std::sync::Arc<str>],
    objects: Vec<ObjectLine<'a>>,
}

#[derive(Serialize)]
struct DroppedLine<'a> {
    stream: &'a str,
    frame: u64,
    time: String,
    pts_ms: f64,
    /// None at the source.
    module: Option<&'a str>,
    reason: &'a str,
}

#[derive(Serialize)]
struct StillLine<'a> {
    stream: &'a str,
    frame: u64,
    frames: u64,
    /// Absent if the frames follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_frame: Option<u64>,
    time: String,
    pts_ms: f64,
}

#[derive(Serialize)]
struct StateLine<'a> {
    stream: &'a str,
    time: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct SinkLine<'a> {
    sink: &'a str,
    time: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct TrackLine<'a> {
    stream: &'a str,
    track: u64,
    class: &'a str,
    began: String,
    last_seen: String,
    began_pts_ms: f64,
    last_pts_ms: f64,
    attributes: Attributes<'a>,
}

#[derive(Serialize)]
struct IncidentLine<'a> {
    stream: &'a str,
    id: &'a str,
    transform: &'a str,
    kind: &'a str,
    phase: &'static str,
    time: String,
    pts_ms: f64,
    began: String,
    began_pts_ms: f64,
    track: Option<u64>,
    class: Option<&'a str>,
    score: f32,
    r#box: Option<[f32; 4]>,
    zones: &'a [Arc<str>],
    values: Values<'a, &'static str>,
    attributes: Attributes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestShotEntry>,
}

#[derive(Serialize)]
struct DescribedLine<'a> {
    stream: &'a str,
    incident: &'a str,
    transform: &'a str,
    kind: &'a str,
    track: Option<u64>,
    class: Option<&'a str>,
    began: String,
    time: String,
    sink: &'a str,
    model: &'a str,
    description: &'a str,
    fields: Values<'a, Arc<str>>,
    tokens_in: u64,
    tokens_out: u64,
}

/// The best picture of an incident; the picture itself is no part of a line.
#[derive(Serialize)]
struct BestShotEntry {
    frame: u64,
    pts_ms: f64,
    score: f32,
    r#box: [f32; 4],
}

/// Values by name.
struct Values<'a, N>(&'a [(N, IncidentValue)]);

impl<N: AsRef<str>> Serialize for Values<'_, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            let name = name.as_ref();
            match value {
                IncidentValue::Number(number) => map.serialize_entry(name, &hundredth(*number))?,
                IncidentValue::Text(text) => map.serialize_entry(name, &**text)?,
            }
        }
        map.end()
    }
}

/// State of the track of an object: age in milliseconds, velocity, settled class and attributes.
#[derive(Serialize)]
struct TrackEntry<'a> {
    id: u64,
    age_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stationary_ms: Option<f64>,
    velocity: [f32; 2],
    class: &'a str,
    attributes: Attributes<'a>,
}

#[derive(Serialize)]
struct ObjectLine<'a> {
    id: u32,
    class: &'a str,
    score: f32,
    r#box: [f32; 4],
    parent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    track: Option<TrackEntry<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    candidate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rotated: Option<RotatedEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<MaskEntry>,
    attributes: Attributes<'a>,
}

struct Attributes<'a>(&'a [(Arc<str>, Attribute)]);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, attribute) in self.0 {
            map.serialize_entry(name.as_ref(), &rounded(attribute))?;
        }
        map.end()
    }
}

/// Writes the event line of `delivery`, with its line break.
///
/// # Errors
/// Errors of `out`.
pub fn write_event(delivery: &Delivery, out: impl Write) -> io::Result<()> {
    write_event_with(delivery, MaskForm::default(), out)
}

/// As [`write_event`], with masks in that form.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write_event_with(delivery: &Delivery, masks: MaskForm, mut out: impl Write) -> io::Result<()> {
    let frame = &delivery.frame;
    let size = (frame.image.width, frame.image.height);
    let event = FrameLine {
        stream: &delivery.stream,
        frame: frame.index,
        time: utc(delivery.time_ms),
        pts_ms: tenth(frame.pts_ms),
        latency_ms: tenth(delivery.latency_ms),
        late: delivery.late,
        still: delivery.still,
        width: frame.image.width,
        height: frame.image.height,
        file: frame.file.as_deref(),
        concealed: frame.concealed,
        without: &delivery.without,
        objects: delivery
            .objects
            .iter()
            .map(|delivered| object_line(delivered, size, masks))
            .collect(),
    };
    write_line(&Line::Frame(event), &mut out)
}

/// Writes a line for each track of `stream` that ended, then one for each incident, with their line breaks.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write_analytics(
    stream: &str,
    ended_tracks: &[TrackEnd],
    incidents: &[Incident],
    mut out: impl Write,
) -> io::Result<()> {
    for track in ended_tracks {
        write_line(&Line::Track(track_line(stream, track)), &mut out)?;
    }
    for incident in incidents {
        let line = Box::new(incident_line(stream, incident));
        write_line(&Line::Incident(line), &mut out)?;
    }
    Ok(())
}

/// A track of `stream` that ended as its line says it.
#[must_use]
pub fn track_value(stream: &str, track: &TrackEnd) -> serde_json::Value {
    serde_json::to_value(Line::Track(track_line(stream, track))).unwrap_or_default()
}

/// Attributes by their names, as lines say them.
#[must_use]
pub fn attributes_value(attributes: &[(Arc<str>, Attribute)]) -> serde_json::Value {
    serde_json::to_value(Attributes(attributes)).unwrap_or_default()
}

/// An incident of `stream` as its line says it.
#[must_use]
pub fn incident_value(stream: &str, incident: &Incident) -> serde_json::Value {
    // Nothing in it can fail: names are texts, and numbers that are none are null.
    serde_json::to_value(Line::Incident(Box::new(incident_line(stream, incident)))).unwrap_or_default()
}

/// The description of an incident by a sink of that name as its line says it.
#[must_use]
pub(super) fn described_value(sink: &str, description: &Description) -> serde_json::Value {
    serde_json::to_value(described_line(sink, description)).unwrap_or_default()
}

/// Writes the header line of the file of `stream`, or of all streams of the run.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write_header(run: &RunHeader, stream: Option<&str>, mut out: impl Write) -> io::Result<()> {
    let of_file = run
        .streams
        .iter()
        .filter(|known| stream.is_none_or(|name| name == known.name));
    let header = HeaderLine {
        schema: SCHEMA,
        run: &run.id,
        graph: &run.graph,
        program: &run.program,
        version: &run.version,
        time: utc(run.time_ms),
        streams: of_file
            .map(|known| Stream {
                stream: &known.name,
                source: &known.source,
                detect_source: known.detect_source.as_deref(),
            })
            .collect(),
    };
    write_line(&Line::Header(header), &mut out)
}

/// Writes the line of `notice`, or its lines, with their line breaks.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write_notice(notice: &Notice, mut out: impl Write) -> io::Result<()> {
    let line = match notice {
        Notice::Dropped {
            stream,
            frame,
            pts_ms,
            time_ms,
            module,
            reason,
            ..
        } => Line::Dropped(DroppedLine {
            stream,
            frame: *frame,
            time: utc(*time_ms),
            pts_ms: tenth(*pts_ms),
            module: module.as_deref(),
            reason,
        }),
        Notice::Still {
            stream,
            frame,
            frames,
            last_frame,
            pts_ms,
            time_ms,
        } => Line::Still(StillLine {
            stream,
            frame: *frame,
            frames: *frames,
            last_frame: Some(*last_frame).filter(|last| *last >= frame + frames),
            time: utc(*time_ms),
            pts_ms: tenth(*pts_ms),
        }),
        Notice::State {
            stream,
            state,
            time_ms,
        } => Line::State(StateLine {
            stream,
            time: utc(*time_ms),
            state: state_name(state),
            reason: state.reason(),
        }),
        Notice::Sink {
            sink,
            outage,
            time_ms,
        } => Line::Sink(SinkLine {
            sink,
            time: utc(*time_ms),
            state: if outage.is_some() { "down" } else { "running" },
            reason: outage.as_deref(),
        }),
        Notice::Analytics {
            stream,
            ended_tracks,
            incidents,
        } => return write_analytics(stream, ended_tracks, incidents, out),
        Notice::Described { sink, description } => described_line(sink, description),
    };
    write_line(&line, &mut out)
}

/// The state of a stream as lines name it.
#[must_use]
pub fn state_name(state: &StreamState) -> &'static str {
    match state {
        StreamState::Live => "running",
        StreamState::Connecting | StreamState::Stalled { .. } | StreamState::Waiting { .. } => "down",
        StreamState::Gone { .. } => "ended",
        StreamState::Paused => "paused",
    }
}

fn write_line(line: &Line<'_>, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// The last millisecond of the year 9999.
const MAX_TIME_MS: u64 = 253_402_300_799_999;

/// Milliseconds since 1970 as `2025-11-23T01:02:03.456Z`.
pub(super) fn utc(time_ms: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(time_ms.min(MAX_TIME_MS));
    humantime::format_rfc3339_millis(time).to_string()
}

/// The event line of `delivery`, without a line break.
#[must_use]
pub fn event_line(delivery: &Delivery) -> String {
    let mut line = Vec::new();
    // Writing to memory does not fail, and JSON is text.
    let _ = write_event(delivery, &mut line);
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

/// The entry of an object in a picture of that width and height.
fn object_line(delivered: &DeliveredObject, size: (u32, u32), masks: MaskForm) -> ObjectLine<'_> {
    let object = &delivered.object;
    ObjectLine {
        id: delivered.id,
        class: &object.class,
        score: digits(object.score),
        r#box: corners(object.rect),
        parent: delivered.parent,
        track: delivered.track.as_ref().map(track_entry),
        candidate: object.candidate,
        rotated: RotatedEntry::of(&object.points),
        mask: MaskEntry::of(&object.points, size, masks),
        attributes: Attributes(&delivered.attributes),
    }
}

fn track_entry(track: &TrackState) -> TrackEntry<'_> {
    TrackEntry {
        id: track.id,
        age_ms: tenth(track.age_ms),
        stationary_ms: track.stationary_ms.map(tenth),
        velocity: [track.velocity.x, track.velocity.y].map(pixel),
        class: &track.class,
        attributes: Attributes(&track.attributes),
    }
}

fn track_line<'a>(stream: &'a str, track: &'a TrackEnd) -> TrackLine<'a> {
    TrackLine {
        stream,
        track: track.id,
        class: &track.class,
        began: utc(track.began_ms),
        last_seen: utc(track.last_seen_ms),
        began_pts_ms: tenth(track.began_pts_ms),
        last_pts_ms: tenth(track.last_pts_ms),
        attributes: Attributes(&track.attributes),
    }
}

fn incident_line<'a>(stream: &'a str, incident: &'a Incident) -> IncidentLine<'a> {
    IncidentLine {
        stream,
        id: &incident.id,
        transform: &incident.transform,
        kind: incident.kind,
        phase: incident.phase.name(),
        time: utc(incident.time_ms),
        pts_ms: tenth(incident.pts_ms),
        began: utc(incident.began_ms),
        began_pts_ms: tenth(incident.began_pts_ms),
        track: incident.track,
        class: incident.class.as_deref(),
        score: digits(incident.score),
        r#box: incident.rect.map(corners),
        zones: &incident.zones,
        values: Values(&incident.values),
        attributes: Attributes(&incident.attributes),
        best: incident.best.as_deref().map(|best| BestShotEntry {
            frame: best.frame,
            pts_ms: tenth(best.pts_ms),
            score: digits(best.score),
            r#box: corners(best.rect),
        }),
    }
}

fn described_line<'a>(sink: &'a str, description: &'a Description) -> Line<'a> {
    let incident = &*description.incident;
    Line::Described(Box::new(DescribedLine {
        stream: &description.stream,
        incident: &incident.id,
        transform: &incident.transform,
        kind: incident.kind,
        track: incident.track,
        class: incident.class.as_deref(),
        began: utc(incident.began_ms),
        time: utc(description.time_ms),
        sink,
        model: &description.model,
        description: &description.text,
        fields: Values(&description.fields),
        tokens_in: description.tokens_in,
        tokens_out: description.tokens_out,
    }))
}

fn corners(rect: Rect) -> [f32; 4] {
    [rect.x0, rect.y0, rect.x1, rect.y1].map(pixel)
}

fn rounded(attribute: &Attribute) -> Attribute {
    let point = |point: &KeyPoint| KeyPoint {
        name: point.name.clone(),
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
        Attribute::Number { value } => Attribute::Number {
            value: reading(*value),
        },
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

/// Rounds milliseconds to a tenth.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Rounds what incidents measure to a hundredth.
fn hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}

/// Rounds readings to a tenth, those below 10 to a hundredth and those below 1 to four digits: depths may be small.
fn reading(value: f32) -> f32 {
    match value.abs() {
        size if size < 1.0 => digits(value) + 0.0,
        size if size < 10.0 => (value * 100.0).round() / 100.0,
        _ => pixel(value),
    }
}

/// Rounds scores to four digits.
fn digits(value: f32) -> f32 {
    (value * 1e4).round() / 1e4
}
