//! A track as transforms see it: where it is now, and where it was seen before.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{Attribute, Frame, PictureTaker, Rect};

use super::camera_states::CameraStates;
use super::geometry::{Anchor, Position};
use crate::track::FrameTime;

/// A track that has not ended.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) track: u64,
    /// The tracker that follows it.
    pub(crate) tracker: u32,
    pub(crate) class: Arc<str>,
    pub(crate) score: f32,
    pub(crate) rect: Rect,
    /// Time of the last observation.
    pub(crate) at: FrameTime,
    /// Time and box of the observation before.
    pub(crate) before: Option<(FrameTime, Rect)>,
    /// Whether the left, right or lower edge of the frame cuts it: its box is then that of a part of it.
    pub(crate) is_cut: bool,
    /// Whether the upper edge does.
    pub(crate) is_cut_above: bool,
    /// Whether it has not moved for a while.
    pub(crate) is_stationary: bool,
    pub(crate) zones: Vec<Arc<str>>,
    pub(crate) attributes: Vec<(Arc<str>, Attribute)>,
}

impl Subject {
    /// The way of its anchor from the observation before to this one; to this one alone where it is the first.
    pub(crate) fn step(&self, anchor: Anchor) -> Step {
        let to = anchor.of(&self.rect);
        match &self.before {
            Some((since, rect)) => Step {
                from: Some((*since, anchor.of(rect))),
                at: self.at,
                to,
            },
            None => Step {
                from: None,
                at: self.at,
                to,
            },
        }
    }

    /// Whether the anchor is that of a part of it alone. What is cut above still stands where it stands.
    pub(crate) fn is_displaced(&self, anchor: Anchor) -> bool {
        self.is_cut || (self.is_cut_above && anchor == Anchor::Center)
    }

    /// Pictures have this many times the width and height that they had.
    pub(crate) fn on_resize(&mut self, x: f32, y: f32) {
        self.rect = self.rect.scaled(x, y);
        if let Some((_, rect)) = &mut self.before {
            *rect = rect.scaled(x, y);
        }
    }

    /// Half the sum of the sides of its box, by which distances are measured that mean the same near and far.
    pub(crate) fn size(&self) -> f64 {
        f64::from(self.rect.width() + self.rect.height()) / 2.0
    }
}

/// The way of an anchor between two observations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) from: Option<(FrameTime, Position)>,
    pub(crate) at: FrameTime,
    pub(crate) to: Position,
}

/// The pixels of a frame, and a way to take pictures from them.
#[derive(Debug, Clone, Copy)]
pub struct FramePixels<'a> {
    /// Frame whose pixels are used.
    pub frame: &'a Frame,
    /// Measures and copies parts of it.
    pub taker: &'a dyn PictureTaker,
}

/// Input of transforms for one frame.
pub(crate) struct View<'a> {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) now: FrameTime,
    /// All tracks that have not ended.
    pub(crate) subjects: &'a BTreeMap<u64, Subject>,
    /// Those that were seen in this frame.
    pub(crate) present: &'a [u64],
    /// Pixels of the frame, if pictures can be taken.
    pub(crate) pixels: Option<FramePixels<'a>>,
    /// States that the camera reports.
    pub(crate) camera: &'a CameraStates,
}

impl<'a> View<'a> {
    /// The tracks that were seen in this frame, in the order of their ids.
    pub(crate) fn seen(&self) -> impl Iterator<Item = &'a Subject> {
        let (subjects, present) = (self.subjects, self.present);
        present.iter().filter_map(move |track| subjects.get(track))
    }
}
