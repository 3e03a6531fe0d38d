//! Event lines, read back. What scoring does not need is passed over, so that lines of other versions are read, too.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

/// Objects that were reported for a frame.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Event {
    pub(crate) stream: String,
    /// Index of the frame in its stream, going on over the rounds of a loop.
    pub(crate) frame: u64,
    #[serde(default)]
    pub(crate) objects: Vec<Detection>,
}

/// A thing that was found.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Detection {
    pub(crate) class: String,
    /// Confidence, 0 to 1.
    pub(crate) score: f32,
    /// Left, top, right, bottom in source pixels.
    pub(crate) r#box: [f32; 4],
    /// True if the score is below the operating threshold of the class.
    #[serde(default)]
    pub(crate) candidate: bool,
    /// The tracker's number for it.
    #[serde(default, deserialize_with = "track_number")]
    pub(crate) track: Option<i64>,
    /// Attributes of the object, by name.
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, AttributeValue>,
}

/// The number of a track, of all that events say of it, or as it stands alone.
fn track_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Number(i64),
        State { id: i64 },
    }
    let form = Option::<Form>::deserialize(deserializer)?;
    Ok(form.map(|(Form::Number(id) | Form::State { id })| id))
}

/// A reported attribute; the form of its JSON decides the variant.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub(crate) enum AttributeValue {
    Text(String),
    /// One out of several.
    Class(String),
    /// The nearest entry of a gallery.
    Match {
        /// Name of the entry; `None` if it is not near enough.
        name: Option<String>,
        /// Cosine of the nearest entry; `None` without an entry.
        cosine: Option<f64>,
    },
    /// A direction, such as that of a face.
    Angles {
        /// Angle towards the right of the picture, in degrees.
        yaw: f64,
        /// Upward angle, in degrees.
        pitch: f64,
    },
    Number(f64),
    /// Key points, in source pixels.
    Points(Vec<[f64; 2]>),
    /// A form that no truth has.
    Other,
}

impl From<Value> for AttributeValue {
    fn from(value: Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| value.get(key).and_then(Value::as_f64);
        if let Value::Array(points) = &value {
            let points: Option<Vec<_>> = points.iter().map(point).collect();
            return points.map_or(Self::Other, Self::Points);
        }
        if let Some(text) = text("text") {
            return Self::Text(text);
        }
        if let Some(class) = text("class") {
            return Self::Class(class);
        }
        if value.get("match").is_some() {
            return Self::Match {
                name: text("match"),
                cosine: number("cosine"),
            };
        }
        if let (Some(yaw), Some(pitch)) = (number("yaw"), number("pitch")) {
            return Self::Angles { yaw, pitch };
        }
        number("value").map_or(Self::Other, Self::Number)
    }
}

fn point(value: &Value) -> Option<[f64; 2]> {
    let at = value.get("at")?;
    Some([at.get("x")?.as_f64()?, at.get("y")?.as_f64()?])
}

/// Events cannot be read.
#[derive(Debug, Error)]
pub(crate) enum EventError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// A line is not an event.
    #[error("line {line} is no event: {reason}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Error of the JSON parser.
        reason: serde_json::Error,
    },
    /// A frame occurs twice.
    #[error("line {line} repeats frame {frame} of stream {stream}: give the events of one run and one sink")]
    Twice { line: usize, frame: u64, stream: String },
}

/// Events by stream and frame.
pub(crate) type Events = BTreeMap<String, BTreeMap<u64, Vec<Detection>>>;

/// Keys that decide the type of a line.
#[derive(Deserialize)]
struct Kind {
    /// Type of the line; `frame` by default.
    #[serde(default)]
    r#type: Option<String>,
    /// Id of the run, in a header.
    #[serde(default)]
    run: Option<String>,
}

/// Reads the event lines of the last run in a file, and gives how many runs the file holds; a file without headers is one
/// run. Empty lines and those of other types are passed over, and so is the torn last line of a run that was cut off,
/// where another run follows.
///
/// # Errors
/// [`EventError`]: which line is wrong.
pub(crate) fn read_events(from: impl BufRead) -> Result<(Events, usize), EventError> {
    let mut events = Events::new();
    let (mut last, mut runs) = (None, 0);
    let mut torn = None;
    for (line, text) in (1..).zip(from.lines()) {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let kind: Result<Kind, _> = serde_json::from_str(&text);
        let kind = match (kind, torn.take()) {
            (Ok(kind), None) => kind,
            (Ok(kind), Some(_)) if kind.r#type.as_deref() == Some("header") => kind,
            (_, Some(error)) => return Err(error),
            (Err(reason), None) => {
                torn = Some(EventError::Line { line, reason });
                continue;
            }
        };
        match kind.r#type.as_deref() {
            None | Some("frame") => {}
            Some("header") => {
                // A file that was put aside and the next one begin with the same run.
                let run = Some(kind.run.unwrap_or_default());
                if last != run {
                    (last, runs) = (run, runs + 1);
                    events.clear();
                }
                continue;
            }
            Some(_) => continue,
        }
        let event: Event = serde_json::from_str(&text).map_err(|reason| EventError::Line { line, reason })?;
        let frame = event.frame;
        let frames = events.entry(event.stream.clone()).or_default();
        if frames.insert(frame, event.objects).is_some() {
            let stream = event.stream;
            return Err(EventError::Twice { line, frame, stream });
        }
    }
    torn.map_or(Ok((events, runs.max(1))), Err)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_track_is_a_number_or_what_a_tracker_says_of_it() {
        let line = json!({"stream": "s", "frame": 0, "objects": [
            {"class": "car", "score": 0.9, "box": [0, 0, 9, 9], "track": {"id": 7, "age_ms": 40.0, "attributes": {}}},
            {"class": "car", "score": 0.9, "box": [0, 0, 9, 9], "track": 8},
            {"class": "car", "score": 0.9, "box": [0, 0, 9, 9]}]});
        let (events, _) = read_events(line.to_string().as_bytes()).expect("an event");
        let tracks = events["s"][&0].iter().map(|thing| thing.track);
        assert_eq!(tracks.collect::<Vec<_>>(), [Some(7), Some(8), None]);
    }

    #[test]
    fn attributes_are_recognised_by_their_form() {
        let check = |value: Value, said: AttributeValue| assert_eq!(AttributeValue::from(value), said);
        check(
            json!({"text": "A1", "score": 0.5}),
            AttributeValue::Text("A1".into()),
        );
        check(
            json!({"class": "happy", "score": 0.5}),
            AttributeValue::Class("happy".into()),
        );
        check(
            json!({"match": "p01", "cosine": 0.5}),
            AttributeValue::Match {
                name: Some("p01".into()),
                cosine: Some(0.5),
            },
        );
        check(
            json!({"match": null, "cosine": null}),
            AttributeValue::Match {
                name: None,
                cosine: None,
            },
        );
        let angles = AttributeValue::Angles { yaw: 1.0, pitch: 2.0 };
        check(json!({"yaw": 1, "pitch": 2.0, "roll": 3.0}), angles.clone());
        check(json!({"yaw": 1.0, "pitch": 2.0}), angles);
        check(json!({"value": 7}), AttributeValue::Number(7.0));
        let points = AttributeValue::Points(vec![[1.0, 2.0]]);
        check(json!([{"at": {"x": 1.0, "y": 2.0}, "score": 0.5}]), points);
        check(json!({"eyes": [], "radius": []}), AttributeValue::Other);
        check(json!(null), AttributeValue::Other);
    }

    #[test]
    fn unknown_keys_are_passed_over_and_wrong_lines_named() {
        let good = r#"{"stream": "a", "frame": 0, "new": 1, "objects": [{"class": "car", "score": 1, "box": [0, 0, 1, 1], "id": 3}]}"#;
        let read = |text: String| read_events(text.as_bytes());
        let (events, _) = read(format!("{good}\n\n")).expect("well formed");
        assert_eq!(events["a"][&0][0].class, "car");
        let torn = read(format!("{good}\n{}\n", &good[..40])).expect_err("torn");
        assert!(torn.to_string().starts_with("line 2 is no event: "), "{torn}");
        let twice = read(format!("{good}\n{good}\n")).expect_err("twice");
        assert!(
            twice.to_string().contains("line 2 repeats frame 0 of stream a"),
            "{twice}"
        );
    }
}
