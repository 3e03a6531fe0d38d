//! Rows of YOLO models that find more than boxes: values of key points, coefficients of a mask or an angle behind the classes.
//!
//! Ultralytics exports all boxes of a grid as `[4 + classes + extra, boxes]`, centre and size in input pixels first; and models that
//! select their objects themselves as `[n, 6 + extra]`: box, score, class, and the extra values.

use weir_flow::{Rect, Settings};

use super::detection::centred_rect;
use super::input::Input;
use super::labels::{DeclaredNames, Labels};
use super::layouts::{BoxValues, Layout, MAX_SELECTED};
use super::selected::{self, Row};
use super::{OutputSpec, unfit};

/// Task of the files that a head reads, as Ultralytics writes it into their metadata.
pub(crate) fn task_of(head: &str) -> Option<&'static str> {
    match head {
        "yolo-pose" => Some("pose"),
        "yolo-segment" => Some("segment"),
        "yolo-obb" => Some("obb"),
        _ => None,
    }
}

/// Values of a row before the extra ones, where the model selected its objects: box, score, class.
const SELECTED: usize = 6;
/// Values of the key points of COCO's persons, 17 of three values.
pub(super) const COCO_POSE: usize = 17 * 3;

/// Extra values of each box.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extra {
    /// A fixed number of values.
    Fixed(usize),
    /// Those of key points, whose number the classes leave over.
    Points,
}

/// An output with its meaning for a head.
pub(super) struct RowsRequest<'a> {
    pub(super) settings: &'a Settings,
    pub(super) input: &'a Input,
    /// All outputs, for errors.
    pub(super) specs: &'a [OutputSpec],
    /// The one with the rows.
    pub(super) rows: &'a OutputSpec,
    /// Layouts that the head reads, in words.
    pub(super) expected: &'a str,
    /// Names of the classes, if nothing else names them.
    pub(super) default: &'a [&'a str],
}

/// A box whose best class reaches the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    /// Number of the box in the output.
    pub(super) index: usize,
    pub(super) class: usize,
    pub(super) score: f32,
}

/// Arrangement of the values of all boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskRows {
    values: BoxValues,
    /// Whether the model selected its objects: a row has one score and its class.
    pub(super) is_selected: bool,
    first_extra: usize,
}

impl TaskRows {
    /// Reads the shape of an output.
    ///
    /// # Errors
    /// The output has another layout; names it where it is known.
    pub(super) fn read(of: &RowsRequest<'_>, extra: Extra) -> Result<(Self, Labels), String> {
        let refused = || unfit(of.specs, of.expected);
        let arranged = BoxValues::arranged(of.input, &of.rows.shape, 4);
        let (mut values, per_cell) = arranged.filter(|_| of.rows.readable).ok_or_else(refused)?;
        let is_selected = values.boxes_first && per_cell.is_none() && values.boxes <= MAX_SELECTED;
        if is_selected {
            let count = values.channels.saturating_sub(SELECTED);
            let fits = match extra {
                Extra::Fixed(expected) => count == expected,
                Extra::Points => count > 0,
            };
            if !fits {
                return Err(refused());
            }
            values.extra = count;
            let labels = selected::named_classes(of.settings)?;
            let rows = Self {
                values,
                is_selected,
                first_extra: SELECTED,
            };
            return Ok((rows, labels));
        }
        // Angles come value after value; box after box, the value beside the classes is an objectness.
        let is_objectness = values.boxes_first && matches!(extra, Extra::Fixed(1));
        if is_objectness || per_cell.is_some_and(|each| each > 1) {
            let layout = match of.specs.len() {
                2 => Layout::ObjectnessSegmentation,
                _ => Layout::Objectness,
            };
            return Err(format!("{}; {}", refused(), layout.found()));
        }
        let declared = DeclaredNames::read(of.settings)?;
        let classes = Self::classes(of, &values, &declared, extra)?;
        if per_cell.is_none() && declared.classes().is_none() {
            return Err(format!(
                "{}; {} boxes are no grid over its input of {} by {}: export the model without suppression, and with all its boxes",
                refused(),
                values.boxes,
                of.input.spec.width,
                of.input.spec.height
            ));
        }
        values.extra = values.channels - 4 - classes;
        let labels = Labels::choose(declared, of.default, classes)?;
        let rows = Self {
            values,
            is_selected,
            first_extra: 4 + classes,
        };
        Ok((rows, labels))
    }

    /// Number of classes of a grid.
    fn classes(
        of: &RowsRequest<'_>,
        values: &BoxValues,
        declared: &DeclaredNames,
        extra: Extra,
    ) -> Result<usize, String> {
        let refused = || unfit(of.specs, of.expected);
        let behind_box = values.channels.checked_sub(4).ok_or_else(refused)?;
        let named = declared.classes();
        let classes = match (extra, named) {
            (Extra::Fixed(count), _) => behind_box.checked_sub(count),
            (Extra::Points, Some((classes, _))) => {
                let has_points = behind_box > classes;
                has_points.then_some(classes)
            }
            // Persons with the key points of COCO.
            (Extra::Points, None) if behind_box == 1 + COCO_POSE => Some(1),
            (Extra::Points, None) => {
                return Err(format!(
                    "{}; nothing says which of {behind_box} values are classes: name all classes by `labels`, or export the model \
                     with its metadata (`names`, `kpt_shape`)",
                    refused()
                ));
            }
        };
        let classes = classes.filter(|classes| *classes > 0).ok_or_else(refused)?;
        if let Some((count, source)) = named.filter(|(count, _)| *count != classes) {
            return Err(format!(
                "{}; {} values a box are 4 of the box, {classes} classes and {} more, and {source} has {count}: give the names of all \
                 classes by `labels`, or export the model anew",
                refused(),
                values.channels,
                behind_box - classes
            ));
        }
        Ok(classes)
    }

    /// Number of extra values of a box.
    pub(super) fn extra(&self) -> usize {
        self.values.extra
    }

    /// Elements from one value of a box to the next, and from one box to the next.
    fn steps(&self) -> (usize, usize) {
        match self.values.boxes_first {
            true => (1, self.values.channels),
            false => (self.values.boxes, 1),
        }
    }

    fn value(&self, data: &[f32], index: usize, channel: usize) -> f32 {
        let steps = self.steps();
        let place = channel * steps.0 + index * steps.1;
        data.get(place).copied().unwrap_or(f32::NAN)
    }

    /// The boxes that reach the threshold, each with its best class.
    pub(super) fn found(&self, data: &[f32], threshold: f32) -> Vec<Found> {
        let boxes = 0..self.values.boxes;
        if self.is_selected {
            let row = |index| (index, self.value(data, index, 4), self.value(data, index, 5));
            let rows = boxes.map(row);
            let kept = rows.filter(|(_, score, class)| *score >= threshold && *class >= 0.0);
            return kept
                .map(|(index, score, class)| Found {
                    index,
                    class: class as usize,
                    score,
                })
                .collect();
        }
        // Class by class: memory is read sequentially.
        let steps = self.steps();
        let mut best = vec![(f32::NEG_INFINITY, 0); self.values.boxes];
        for class in 0..self.first_extra - 4 {
            let scores = data.get((4 + class) * steps.0..).unwrap_or_default();
            for (score, best) in scores.iter().step_by(steps.1).zip(&mut best) {
                if *score > best.0 {
                    *best = (*score, class);
                }
            }
        }
        let each = boxes.zip(best).filter(|(_, (score, _))| *score >= threshold);
        each.map(|(index, (score, class))| Found { index, class, score })
            .collect()
    }

    /// The first four values of a box.
    pub(super) fn four(&self, data: &[f32], index: usize) -> [f32; 4] {
        std::array::from_fn(|channel| self.value(data, index, channel))
    }

    /// The upright box: by its corners where the model selected it, else by centre and size.
    pub(super) fn rect(&self, data: &[f32], index: usize) -> Rect {
        let [a, b, c, d] = self.four(data, index);
        match self.is_selected {
            true => Rect::new(a, b, c, d),
            false => centred_rect(a, b, c, d),
        }
    }

    /// The extra values of a box.
    pub(super) fn extras<'a>(&'a self, data: &'a [f32], index: usize) -> impl Iterator<Item = f32> + 'a {
        let channels = self.first_extra..self.first_extra + self.values.extra;
        channels.map(move |channel| self.value(data, index, channel))
    }

    /// Boxes that say something: all of a grid, and rows with a score.
    pub(super) fn used<'a>(&'a self, data: &'a [f32]) -> impl Iterator<Item = usize> + 'a {
        (0..self.values.boxes).filter(move |index| !self.is_selected || self.value(data, *index, 4) != 0.0)
    }

    /// Looks at boxes, scores and classes of one run.
    ///
    /// # Errors
    /// The layout that the output has, or the value that fits none.
    pub(super) fn inspect(
        &self,
        data: &[f32],
        input: &Input,
        classes: Option<usize>,
        rect: impl Fn(usize) -> Rect,
    ) -> Result<Option<String>, String> {
        if !self.is_selected {
            return self.values.inspect(data, input);
        }
        let rows = self.used(data).map(|index| Row {
            class: self.value(data, index, 5),
            score: self.value(data, index, 4),
            rect: rect(index),
        });
        selected::inspect(rows, classes, input)
    }
}
