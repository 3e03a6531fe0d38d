//! What a model's batch counts, and what comes out for each.

use std::sync::Arc;

use crate::frame::Frame;
use crate::geometry::Rect;
use crate::results::{Attribute, Object, ObjectRef, Points};

/// Which pixels of the frame an item is.
#[derive(Debug, Clone, PartialEq)]
pub enum Region {
    /// The whole frame.
    Whole,
    /// A box of it, with the points by which a head may align it. The box may reach over the edge: outside is fill.
    Crop {
        /// Source pixels.
        rect: Rect,
        /// Points to align by, in source pixels.
        points: Points,
    },
}

/// One unit of a batch: a frame, or a crop of one.
#[derive(Debug, Clone)]
pub struct Item {
    /// The frame, shared.
    pub frame: Arc<Frame>,
    /// Which part of it.
    pub region: Region,
    /// The object that the crop was made for.
    pub object: Option<ObjectRef>,
}

/// What a model said of one item.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inference {
    /// Objects found in it, in source pixels; their `parent` is left to the module, which knows the item's object.
    pub objects: Vec<Object>,
    /// What it says of the item's own object.
    pub attribute: Option<Attribute>,
    /// Whether the model gave numbers for the item that are none: infinite, or not a number.
    pub not_finite: bool,
}

/// Of a model that finds no objects but says something of the item's own.
impl From<Option<Attribute>> for Inference {
    fn from(attribute: Option<Attribute>) -> Self {
        Self {
            attribute,
            ..Self::default()
        }
    }
}
