//! Scores of delivered events against the ground truth of a clip. The module is pure: frames with ground
//! truth and reported objects go in, figures come out; files and runs are left to the command.
//!
//! Every figure is given twice: over all frames that arrived, where a frame that was not delivered has no findings and
//! its objects are missed, and over delivered frames alone. `docs/explain/score.md` defines each.

mod answers;
mod attributes;
mod choice;
pub(crate) mod coco;
mod curve;
mod detection;
mod event;
mod matching;
mod measure;
mod observed;
mod points;
mod reports;
mod share;
mod table;
mod text;
mod tracking;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weir_truth::Truth;

use attributes::AttributeFigures;
use detection::ClassFigures;
use reports::Reports;
use tracking::Tracking;

pub(crate) use answers::{rate_frame, rate_objects};
pub(crate) use curve::{ClassPoint, Curves, MatchCurve};
pub(crate) use event::{AttributeValue, Detection, Event, Events, read_events};
pub(crate) use observed::{Observed, PlayedStream, observe};
pub(crate) use table::table;

/// Scores of a run, over all frames and over delivered frames.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Score {
    /// Over all frames that arrived.
    pub(crate) all: Figures,
    pub(crate) delivered: Figures,
    /// Attributes in the ground truth that no event has.
    pub(crate) not_looked_for: Vec<String>,
    /// Scores of attributes `report`; `None` if no event has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reports: Option<Reports>,
    /// Figures by threshold, if `--curve` requested them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) curves: Option<Curves>,
}

/// The figures over some frames.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) frames: u64,
    /// Mean of the classes' average precision at an IoU of 0.5; none where nothing is there to be found.
    pub(crate) mean_ap: Option<f64>,
    /// By class of the truth.
    pub(crate) classes: BTreeMap<String, ClassFigures>,
    /// Detections of classes that the truth never has.
    pub(crate) unknown_classes: BTreeMap<String, u64>,
    /// By attribute that was looked for.
    pub(crate) attributes: BTreeMap<String, AttributeFigures>,
    /// Of a tracker, where events say a track.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tracking: Option<Tracking>,
}

/// Classes and attributes of the whole truth, and those of them that the events have anywhere.
struct Scope<'a> {
    classes: BTreeSet<&'a str>,
    attributes: BTreeSet<&'a str>,
    not_looked_for: BTreeSet<&'a str>,
    tracks: bool,
}

impl<'a> Scope<'a> {
    fn new(truths: &[&'a Truth], frames: &[Observed<'a>]) -> Self {
        let objects = || {
            let frames = truths.iter().flat_map(|truth| &truth.frames);
            frames.flat_map(|frame| &frame.objects)
        };
        let detections = || frames.iter().filter_map(|frame| frame.seen).flatten();
        let said: BTreeSet<&str> = detections()
            .flat_map(|seen| seen.attributes.keys())
            .map(String::as_str)
            .collect();
        let real = objects().filter(|object| !object.ignore);
        let (attributes, not_looked_for) = real
            .flat_map(|object| object.attributes.keys())
            .map(String::as_str)
            .partition(|name| said.contains(name));
        Self {
            classes: objects().map(|object| object.class.as_str()).collect(),
            attributes,
            not_looked_for,
            tracks: detections().any(|seen| seen.track.is_some()),
        }
    }

    fn figures(&self, frames: &[Observed<'_>]) -> Figures {
        let classes = detection::classes(&self.classes, frames);
        let pairs: Vec<Vec<Option<usize>>> = frames.iter().map(matching::pair).collect();
        Figures {
            frames: frames.len() as u64,
            mean_ap: detection::mean(&classes),
            classes,
            unknown_classes: detection::unknown(&self.classes, frames),
            attributes: attributes::figures(&self.attributes, frames, &pairs),
            tracking: self.tracks.then(|| tracking::tracking(frames, &pairs)),
        }
    }
}

/// Holds what was said of `frames` against their truth. `truths` are those of the whole clips: they say which classes
/// and attributes there are. Frames of one sequence stand in order. With `curves`, figures over thresholds are part of it.
pub(crate) fn score<'a>(truths: &[&'a Truth], frames: &[Observed<'a>], curves: bool) -> Score {
    let scope = Scope::new(truths, frames);
    let delivered: Vec<Observed<'a>> = frames
        .iter()
        .filter(|frame| frame.seen.is_some())
        .cloned()
        .collect();
    let names = scope.not_looked_for.iter();
    Score {
        all: scope.figures(frames),
        delivered: scope.figures(&delivered),
        not_looked_for: names.map(|name| (*name).to_owned()).collect(),
        reports: reports::figures(&delivered),
        curves: curves.then(|| curve::curves(&scope, &delivered)),
    }
}
