//! Results of modules: objects, and attributes of objects that this or an earlier module found.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::geometry::{Point, Rect};
use crate::mask::Mask;
use crate::rotated::RotatedRect;

/// A point of an object with its confidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyPoint {
    /// Name, if the model's file or its classes give one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Position in source pixels.
    pub at: Point,
    /// Confidence, 0 to 1.
    pub score: f32,
}

/// Geometry of an object beyond its upright box.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Points {
    /// The detector gives no more than the box.
    #[default]
    None,
    /// Eyes, nose, mouth corners; each pair from left to right in the image.
    Face([Point; 5]),
    /// Corners of a quadrilateral such as a plate: top left, top right, bottom right, bottom left in reading direction.
    Corners([Point; 4]),
    /// Key points in the model's order. The module that found the object makes them its attribute `keypoints`.
    Pose(Vec<KeyPoint>),
    /// The box at an angle; the upright one is around it.
    Rotated(RotatedRect),
    /// The pixels of the object.
    Mask(Arc<Mask>),
}

/// Identifies an object within a request by the module that found it and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Index of the module in its graph.
    pub module: u32,
    /// Index among the module's objects of this request.
    pub index: u32,
}

/// A detected object.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Class name from the model's labels.
    pub class: Arc<str>,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Box in source pixels.
    pub rect: Rect,
    /// Object in whose crop it was found.
    pub parent: Option<ObjectRef>,
    /// Landmarks, angle or mask, in source pixels.
    pub points: Points,
    /// True if its score is below the operating threshold of its class. Such an object is no event and no
    /// input of later modules, but trackers use it, and evaluations over all thresholds.
    pub candidate: bool,
}

/// A property of an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Attribute {
    /// Text that was recognised.
    Text {
        /// Characters in reading order.
        text: String,
        /// Mean confidence of the characters.
        score: f32,
    },
    /// One of several classes.
    Class {
        /// Name of the class.
        class: Arc<str>,
        /// Probability, 0 to 1.
        score: f32,
    },
    /// Head pose in degrees.
    Angles {
        /// Rotation to the side.
        yaw: f32,
        /// Rotation up and down.
        pitch: f32,
        /// Rotation in the image plane.
        roll: f32,
    },
    /// Gaze direction in degrees, seen from the camera.
    Direction {
        /// Angle towards the right of the picture.
        yaw: f32,
        /// Angle towards the top of the picture.
        pitch: f32,
    },
    /// A reading of a gauge.
    Number {
        /// Value in the unit of the gauge.
        value: f32,
    },
    /// Nearest entry of a gallery.
    Match {
        /// Name of the entry; `None` if none reaches the threshold or the gallery is empty.
        r#match: Option<Arc<str>>,
        /// Cosine similarity to the nearest entry.
        cosine: Option<f32>,
        /// The embedding, L2-normalised; in events only where requested.
        #[serde(skip_serializing_if = "Option::is_none")]
        vector: Option<Vec<f32>>,
    },
    /// Key points in the model's order.
    Points(Vec<KeyPoint>),
    /// Irises of the eyes that were cropped.
    Iris {
        /// Centres, left to right in the image.
        eyes: Vec<KeyPoint>,
        /// Radius of each in source pixels.
        radius: Vec<f32>,
    },
}

impl Attribute {
    /// The word that it is shown and searched by, such as a text, a class or a name; `None` if it is none.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Class { class, .. } => Some(class),
            Self::Match {
                r#match: Some(name), ..
            } => Some(name),
            // It was compared with a gallery, and no entry is near enough.
            Self::Match { cosine: Some(_), .. } => Some("unknown"),
            _ => None,
        }
    }
}

/// An attribute for an object of this or an earlier module.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectAttribute {
    /// The object that it describes.
    pub object: ObjectRef,
    /// Name in events.
    pub name: Arc<str>,
    /// Value of the attribute.
    pub attribute: Attribute,
}

/// Output of one module for one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModuleOutput {
    /// Objects that the module found.
    pub objects: Vec<Object>,
    /// Attributes of new and of earlier objects.
    pub attributes: Vec<ObjectAttribute>,
}
