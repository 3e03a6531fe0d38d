//! Ground truth of rendered clips, and its file format.
//!
//! A ground truth file has a JSON line about the clip, then one line for each frame. Objects keep their `id`
//! throughout the clip, so that trackers can be evaluated. Attributes have the names that the applications'
//! graphs give theirs.
//!
//! Renderers write the file and `weir score` reads it. It is a crate of its own so that neither depends on
//! the other.

pub mod report;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// First line of the file: properties of the clip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clip {
    /// Version of the file's form: 1.
    pub truth: u32,
    /// Kind of the world.
    pub world: String,
    /// Number of the seed.
    pub seed: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Frames per second; the mean if the rate varies.
    pub fps: f32,
    /// Frames in the clip.
    pub frames: u64,
}

/// Ground truth of one frame.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FrameTruth {
    /// Index of the frame, from 0.
    pub frame: u64,
    /// Presentation timestamp in milliseconds.
    pub pts_ms: f64,
    /// Objects in the frame.
    pub objects: Vec<TruthObject>,
}

/// A thing in a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TruthObject {
    /// Number of the object, constant throughout the clip.
    pub id: u64,
    /// Class of the object.
    pub class: String,
    /// Bounding box with its hidden parts, clipped to the frame: left, top, right, bottom in pixels.
    pub r#box: [f32; 4],
    /// Fraction of the box that other objects do not hide, 0 to 1.
    pub visible: f32,
    /// True if the object is too small or too hidden to be scored: neither a detection nor a miss counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore: bool,
    /// Id of the object of which it is a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Attributes of the object, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, TruthAttribute>,
}

/// Attribute of an object; its fields determine the variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TruthAttribute {
    /// Text that is written on it.
    Text {
        /// Characters of the text.
        text: String,
    },
    /// One of several classes.
    Class {
        /// Name of the class.
        class: String,
    },
    /// Angle towards the right of the picture.
    Angles {
        /// Angle towards the right of the picture.
        yaw: f32,
        /// Angle towards the top of the picture.
        pitch: f32,
    },
    /// A measured quantity.
    Number {
        /// Value of the quantity.
        value: f32,
    },
    /// Key points in the order of the model, in pixels.
    Points(Vec<TruthPoint>),
    /// Identity of a person; `None` for people in no gallery.
    Match {
        /// Name in the gallery. The key must be present, so that an attribute of another form is not read as
        /// an unknown person.
        #[serde(deserialize_with = "Option::deserialize")]
        r#match: Option<String>,
    },
}

/// A key point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TruthPoint {
    /// To the right, in pixels.
    pub x: f32,
    /// Down, in pixels.
    pub y: f32,
    /// True if it is visible: within the frame and not hidden.
    pub visible: bool,
}

/// The truth about a clip.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// Properties of the clip.
    pub clip: Clip,
    /// Every frame, in order.
    pub frames: Vec<FrameTruth>,
}

/// A truth file cannot be read.
#[derive(Debug, Error)]
pub enum TruthError {
    /// The file itself.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The file is empty.
    #[error("is empty; its first line says what the clip is")]
    Empty,
    /// A line is not valid.
    #[error("line {line}: {reason}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Error of the JSON parser.
        reason: serde_json::Error,
    },
    /// The file has a later version.
    #[error("is of version {0}; this build reads version 1")]
    Version(u32),
}

impl Clip {
    /// Reads the first line of a truth file, and no further.
    ///
    /// # Errors
    /// [`TruthError`]: what is wrong with the line.
    pub fn read(mut from: impl BufRead) -> Result<Self, TruthError> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(TruthError::Empty);
        }
        let clip: Self = parse(line.trim_end_matches(['\r', '\n']), 1)?;
        match clip.truth {
            1 => Ok(clip),
            later => Err(TruthError::Version(later)),
        }
    }
}

/// Parses a line; lines count from 1.
fn parse<T: DeserializeOwned>(text: &str, line: usize) -> Result<T, TruthError> {
    serde_json::from_str(text).map_err(|reason| TruthError::Line { line, reason })
}

impl Truth {
    /// Reads a truth file.
    ///
    /// # Errors
    /// [`TruthError`]: which line is wrong.
    pub fn read(mut from: impl BufRead) -> Result<Self, TruthError> {
        let clip = Clip::read(&mut from)?;
        let frames = from.lines().zip(2..).map(|(text, line)| parse(&text?, line));
        Ok(Self {
            clip,
            frames: frames.collect::<Result<_, TruthError>>()?,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: impl Write) -> std::io::Result<()> {
        let mut lines = TruthWriter::begin(to, &self.clip)?;
        for frame in &self.frames {
            lines.frame(frame)?;
        }
        lines.finish()
    }
}

/// Writes a truth file frame by frame, for clips of any length.
pub struct TruthWriter<W>(W);

impl<W: Write> TruthWriter<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn begin(to: W, clip: &Clip) -> std::io::Result<Self> {
        let mut lines = Self(to);
        lines.line(clip)?;
        Ok(lines)
    }

    /// Writes the line of the next frame.
    ///
    /// # Errors
    /// Those of the file.
    pub fn frame(&mut self, frame: &FrameTruth) -> std::io::Result<()> {
        self.line(frame)
    }

    /// Writes what is still held in memory.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.0.flush()
    }

    fn line(&mut self, line: &impl Serialize) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.0, line)?;
        self.0.write_all(b"\n")
    }
}

impl FrameTruth {
    /// Ground truth of the frame, scaled by `factor`. Objects that become too small to be scored are marked
    /// as ignored.
    #[must_use]
    pub fn scaled(mut self, factor: f32) -> Self {
        for object in &mut self.objects {
            object.r#box = object.r#box.map(|side| side * factor);
            object.ignore |= object.is_too_small();
            for attribute in object.attributes.values_mut() {
                let TruthAttribute::Points(points) = attribute else {
                    continue;
                };
                for point in points {
                    (point.x, point.y) = (point.x * factor, point.y * factor);
                }
            }
        }
        self
    }
}

impl TruthObject {
    /// True if the object is too small to be scored: plates less than 8 pixels high, faces whose shorter side
    /// is less than 16 pixels, and other objects whose shorter side is less than 14 pixels.
    #[must_use]
    pub fn is_too_small(&self) -> bool {
        let [x0, y0, x1, y1] = self.r#box;
        let (width, height) = (x1 - x0, y1 - y0);
        match self.class.as_str() {
            "plate" => height < 8.0,
            "face" => width.min(height) < 16.0,
            _ => width.min(height) < 14.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Truth {
        let mut attributes = BTreeMap::new();
        let mut says = |name: &str, attribute| attributes.insert(name.to_owned(), attribute);
        says(
            "plate",
            TruthAttribute::Text {
                text: "WR 123".to_owned(),
            },
        );
        says(
            "expression",
            TruthAttribute::Class {
                class: "happy".to_owned(),
            },
        );
        says("identity", TruthAttribute::Match { r#match: None });
        says(
            "gaze",
            TruthAttribute::Angles {
                yaw: 3.0,
                pitch: -2.5,
            },
        );
        says("health", TruthAttribute::Number { value: 77.0 });
        let point = TruthPoint {
            x: 1.0,
            y: 2.0,
            visible: true,
        };
        says("keypoints", TruthAttribute::Points(vec![point; 2]));
        Truth {
            clip: Clip {
                truth: 1,
                world: "street".to_owned(),
                seed: 3,
                width: 960,
                height: 540,
                fps: 25.0,
                frames: 1,
            },
            frames: vec![FrameTruth {
                frame: 0,
                pts_ms: 0.0,
                objects: vec![TruthObject {
                    id: 9,
                    class: "car".to_owned(),
                    r#box: [1.0, 2.0, 30.5, 40.0],
                    visible: 1.0,
                    ignore: false,
                    parent: None,
                    attributes,
                }],
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut file = Vec::new();
        example().write(&mut file).expect("memory");
        assert_eq!(Truth::read(file.as_slice()).expect("well formed"), example());
    }

    #[test]
    fn a_broken_line_is_named() {
        let mut file = Vec::new();
        example().write(&mut file).expect("memory");
        file.extend_from_slice(b"{\"frame\": 1}\n");
        let error = Truth::read(file.as_slice()).expect_err("a line lacks keys");
        assert!(error.to_string().starts_with("line 3: "), "{error}");
        for first in ["{\"truth\": 1}\n", "\n", "a poem\r\n"] {
            let error = Truth::read(first.as_bytes()).expect_err("no header");
            let text = error.to_string();
            // In a text of its own, the line is the only one.
            assert!(
                text.starts_with("line 1: ") && text.contains("at line 1 "),
                "{text}"
            );
        }
        assert!(matches!(Truth::read(&b""[..]), Err(TruthError::Empty)));
    }

    #[test]
    fn the_first_line_is_read_by_itself_and_tells_a_later_version() {
        let mut later = example();
        later.clip.truth = 2;
        let mut file = Vec::new();
        later.write(&mut file).expect("memory");
        assert!(matches!(
            Truth::read(file.as_slice()),
            Err(TruthError::Version(2))
        ));
        file.clear();
        example().write(&mut file).expect("memory");
        file.extend_from_slice(b"not looked at");
        assert_eq!(Clip::read(file.as_slice()).expect("well formed"), example().clip);
    }

    #[test]
    fn at_half_the_size_all_is_half_as_large_and_what_gets_too_small_is_ignored() {
        let mut frame = example().frames.remove(0);
        frame.objects[0].r#box = [10.0, 20.0, 50.0, 52.0];
        let half = frame.clone().scaled(0.5);
        assert_eq!(half.objects[0].r#box, [5.0, 10.0, 25.0, 26.0]);
        assert!(!half.objects[0].ignore);
        let TruthAttribute::Points(points) = &half.objects[0].attributes["keypoints"] else {
            panic!("no points");
        };
        assert_eq!((points[0].x, points[0].y), (0.5, 1.0));
        assert!(frame.scaled(0.4).objects[0].ignore);
    }
}
