//! What modules found: objects, and attributes of objects that other modules found.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::geometry::{Point, Rect};

/// A named point with its confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KeyPoint {
    /// Where, in source pixels.
    pub at: Point,
    /// Confidence, 0 to 1.
    pub score: f32,
}

/// Points that a detector gives with an object, by which it can be aligned.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Points {
    /// None given.
    #[default]
    None,
    /// Eyes, nose, mouth corners; left to right in the image.
    Face([Point; 5]),
    /// Corners of a flat thing (a plate): top left, top right, bottom right, bottom left as the thing is read.
    Corners([Point; 4]),
}

/// Names an object within a request: the module that found it, and which of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Index of the module in its graph.
    pub module: u32,
    /// Index among the module's objects of this request.
    pub index: u32,
}

/// A thing seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its class, as the model's labels name it.
    pub class: Arc<str>,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Where, in source pixels.
    pub rect: Rect,
    /// The object in whose crop it was found.
    pub parent: Option<ObjectRef>,
    /// Points to align it by.
    pub points: Points,
}

/// Something known about an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Attribute {
    /// Text that was read.
    Text {
        /// The characters.
        text: String,
        /// Mean confidence of the characters.
        score: f32,
    },
    /// One class out of several.
    Class {
        /// Its name.
        class: Arc<str>,
        /// Its probability.
        score: f32,
    },
    /// Direction of a head in degrees.
    Angles {
        /// To the side.
        yaw: f32,
        /// Up and down.
        pitch: f32,
        /// Tilted.
        roll: f32,
    },
    /// Where eyes look in degrees, as the camera sees it.
    Direction {
        /// To the right of the picture.
        yaw: f32,
        /// Up.
        pitch: f32,
    },
    /// A value that was read off something.
    Number {
        /// The value, in the unit of what shows it.
        value: f32,
    },
    /// Nearest entry of a gallery; `None` where nothing is near enough or the gallery is empty.
    Match {
        /// Name of the entry.
        r#match: Option<Arc<str>>,
        /// Cosine similarity to the nearest entry.
        cosine: Option<f32>,
        /// The embedding itself, L2-normalised; left out of events unless asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        vector: Option<Vec<f32>>,
    },
    /// Key points in the model's order.
    Points(Vec<KeyPoint>),
    /// Irises: centre and radius of each eye looked at, in source pixels.
    Iris {
        /// The irises, left to right in the image.
        eyes: Vec<KeyPoint>,
        /// Radius of each.
        radius: Vec<f32>,
    },
}

/// An attribute for an object of this or an earlier module.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectAttribute {
    /// Whose.
    pub object: ObjectRef,
    /// Under which name it appears in events.
    pub name: Arc<str>,
    /// What.
    pub attribute: Attribute,
}

/// All that one module found in one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModuleOutput {
    /// New objects.
    pub objects: Vec<Object>,
    /// Attributes of objects.
    pub attributes: Vec<ObjectAttribute>,
}

/// All that is known of a request so far, by module. Branches that ran in parallel merge by union.
#[derive(Debug, Clone, Default)]
pub struct RequestResults {
    outputs: BTreeMap<u32, Arc<ModuleOutput>>,
}

impl RequestResults {
    /// Adds what `module` found.
    pub fn add(&mut self, module: u32, output: ModuleOutput) {
        self.outputs.insert(module, Arc::new(output));
    }

    /// Takes in all that another branch knows.
    pub fn merge(&mut self, other: &Self) {
        for (module, output) in &other.outputs {
            self.outputs.entry(*module).or_insert_with(|| Arc::clone(output));
        }
    }

    /// What each module found, in the order of modules.
    pub fn outputs(&self) -> impl Iterator<Item = (u32, &ModuleOutput)> {
        self.outputs
            .iter()
            .map(|(module, output)| (*module, output.as_ref()))
    }

    /// All objects in the order of modules, with their names.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectRef, &Object)> {
        self.outputs().flat_map(|(module, output)| {
            (0_u32..)
                .zip(&output.objects)
                .map(move |(index, object)| (ObjectRef { module, index }, object))
        })
    }

    /// The object of that name.
    #[must_use]
    pub fn object(&self, of: ObjectRef) -> Option<&Object> {
        self.outputs.get(&of.module)?.objects.get(of.index as usize)
    }
}
