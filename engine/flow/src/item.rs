//! The unit of a batch, and the inference made of it.

use std::fmt;
use std::sync::Arc;

use crate::dense_map::DenseMap;
use crate::frame::Frame;
use crate::geometry::Rect;
use crate::results::{Attribute, Object, ObjectRef, Points};

/// The pixels of the frame that an item covers.
#[derive(Debug, Clone, PartialEq)]
pub enum Region {
    /// The whole frame.
    Whole,
    /// A box of it, with landmarks to align it by. The box may exceed the frame; pixels outside are filled.
    Crop {
        /// Box in source pixels.
        rect: Rect,
        /// Landmarks to align by, in source pixels.
        points: Points,
    },
}

/// Unit of a batch: a frame, or a crop of one.
#[derive(Debug, Clone)]
pub struct Item {
    /// Shared with the other items of the request.
    pub frame: Arc<Frame>,
    /// Pixels of the frame.
    pub region: Region,
    /// The object that the crop was made for.
    pub object: Option<ObjectRef>,
    /// Class of that object; `None` where the item is a frame, or its operator does not name it.
    pub class: Option<Arc<str>>,
}

impl Item {
    /// An item that is made for no object.
    #[must_use]
    pub fn of_frame(frame: &Arc<Frame>, region: Region) -> Self {
        Self {
            frame: Arc::clone(frame),
            region,
            object: None,
            class: None,
        }
    }

    /// The box of the picture that it covers.
    #[must_use]
    pub fn bounds(&self) -> Rect {
        match &self.region {
            Region::Whole => self.frame.image.bounds(),
            Region::Crop { rect, .. } => *rect,
        }
    }
}

/// Certainty of a detector about a box: of its object, or that it holds none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxCertainty {
    /// Box in source pixels.
    pub rect: Rect,
    /// Certainty, 0 to 1.
    pub certainty: f32,
}

/// Decoded output of a model for one item.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inference {
    /// Objects found in the item, in source pixels. The operator sets their `parent`.
    pub objects: Vec<Object>,
    /// Attribute of the object that the item was made for.
    pub attribute: Option<Attribute>,
    /// Attributes with names of their own, of models that name what they give.
    pub named: Vec<(Arc<str>, Attribute)>,
    /// Classes or values of the cells of a grid over the picture, of models that read each cell.
    pub map: Option<Arc<DenseMap>>,
    /// Certainty of the answer, 0 to 1, by the measure that the model's head is set to; `None` if the head
    /// gives none. An answer that cannot be right, such as a text that is no plate, has certainty 0.
    pub certainty: Option<f32>,
    /// Number of tokens that a generative model generated for it.
    pub tokens: Option<u32>,
    /// Certainty of each box that a detector decided on, including boxes too weak to be objects. Empty for
    /// other models, and if certainty is not requested.
    pub boxes: Vec<BoxCertainty>,
    /// True if any output of the item is infinite or NaN.
    pub not_finite: bool,
    /// Sign that the outputs of a detector have another layout than its head decodes.
    pub implausible: Option<Implausible>,
    /// Reason why there is no result for this item; its request is dropped as failed, and those of other items of the batch are not.
    pub failure: Option<Arc<str>>,
}

/// A sign that the outputs of a detector have another layout than its head decodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Implausible {
    /// A score above 1.
    Score(f32),
    /// All boxes are smaller than a pixel of the model's input.
    SmallBoxes,
    /// Number of boxes that reached the threshold.
    Boxes(usize),
}

impl fmt::Display for Implausible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Score(score) => write!(
                formatter,
                "a score is {score}, and none is above 1: export the model with probabilities, or use another head"
            ),
            Self::SmallBoxes => write!(
                formatter,
                "all boxes are smaller than a pixel of its input: export the model with boxes in pixels, or use another head"
            ),
            Self::Boxes(boxes) => write!(
                formatter,
                "{boxes} boxes of one item reach the threshold: check the head, the keys of the input, and the threshold"
            ),
        }
    }
}

/// Inference of a model that only gives an attribute.
impl From<Option<Attribute>> for Inference {
    fn from(attribute: Option<Attribute>) -> Self {
        Self {
            attribute,
            ..Self::default()
        }
    }
}
