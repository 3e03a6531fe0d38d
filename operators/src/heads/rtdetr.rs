//! RT-DETR as Ultralytics exports it, and RT-DETR, D-FINE and DEIM with their post-processing.
//!
//! Input: red, green, blue over 255, stretched. Output: `[queries, 4 + classes]`, centre and size relative to the input and
//! probabilities; or, as Ultralytics 8.4 writes it, `[n, 6]`, the same box, score and class; or `labels [n]`, `boxes [n, 4]` (corners in
//! pixels) and `scores [n]`, for which `orig_target_sizes` is filled with the size of the input.

use weir_flow::{HeadOutput, Inference, Rect, Settings};

use super::detection::{Candidate, DetectionFilter, best, centred_rect, finite_range, is_no_probability};
use super::input::{BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::labels::{DeclaredNames, Labels};
use super::layouts::{Layout, MAX_SELECTED, boxes_per_cell};
use super::selected::{self, Row};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, INPUTS, Output, OutputSpec, unfit};
use crate::pixels::Channels;

pub(super) const KIND: HeadKind = HeadKind {
    name: "rtdetr",
    about: "RT-DETR of Ultralytics ([queries, 4 + classes] or [n, 6], relative boxes; score 0.25) and RT-DETR, D-FINE, DEIM \
            with their post-processing (labels, boxes, scores; score 0.5): RGB /255, stretched; no NMS",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        std: [255.0; 3],
        fit: Fit::Stretch,
        size: (640, 640),
        ..BYTES
    },
    build,
};

/// Queries of the smallest transformer, by far.
const MIN_QUERIES: usize = 10;

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    match specs {
        [only] => Queries::build(settings, input, only),
        _ => Selected::build(settings, specs),
    }
}

/// Values of a row with a box, a score and a class.
const SELECTED_COLUMNS: usize = 6;

/// Queries as Ultralytics writes them: a box with the probabilities of all classes, or with the best score and its class.
struct Queries {
    filter: DetectionFilter,
    columns: usize,
    /// Number of classes; `None` if it is unknown.
    classes: Option<usize>,
    /// Whether a row has a score and a class; `None` if only values distinguish them from probabilities of two classes.
    is_selected: Option<bool>,
}

impl Queries {
    fn build(settings: &Settings, input: &Input, output: &OutputSpec) -> Result<Box<dyn Head>, String> {
        let expected = "[queries, 4 + classes] or [n, 6] with relative boxes, or labels, boxes and scores";
        let refused = || unfit(std::slice::from_ref(output), expected);
        let &[queries, columns] = &output.shape[..] else {
            return Err(refused());
        };
        if !output.readable
            || columns < 5
            || !(MIN_QUERIES..=MAX_SELECTED).contains(&queries)
            || [queries, columns]
                .iter()
                .any(|size| boxes_per_cell(input, *size).is_some())
        {
            return Err(refused());
        }
        let declared = DeclaredNames::read(settings)?;
        // A depth, or another map of a picture.
        if declared.classes().is_none() && super::maps::covers(input, queries, columns) {
            return Err(refused());
        }
        let is_sized = settings.texts(INPUTS).is_some_and(|names| !names.is_empty());
        let is_selected = match declared.classes() {
            _ if columns != SELECTED_COLUMNS || is_sized => Some(false),
            Some((classes, _)) if classes + 4 != columns => Some(true),
            _ => None,
        };
        if let Some((classes, source)) = declared.classes()
            && classes + 4 != columns
            && is_selected == Some(false)
        {
            return Err(format!(
                "{}; {columns} values a query are {} classes, and {source} has {classes}",
                refused(),
                columns - 4
            ));
        }
        let named = declared.classes().map(|(classes, _)| classes);
        let count = named.unwrap_or(columns - 4);
        let classes = (named.is_some() || !declared.are_unread()).then_some(count);
        let labels = Labels::choose(declared, &[], count)?;
        Ok(Box::new(Self {
            filter: selected::filter(settings, 0.25, labels)?,
            columns,
            classes,
            is_selected,
        }))
    }

    /// Whether a row of these outputs has a score and a class.
    fn is_selected(&self, outputs: &[Output<'_>]) -> bool {
        let are_whole = || self.rows(outputs).all(|row| row[5].fract() == 0.0);
        self.is_selected.unwrap_or_else(are_whole)
    }

    /// Checks the values of rows with a relative box, a score and a class.
    ///
    /// # Errors
    /// The value that is none of such a row.
    fn inspect_selected(&self, outputs: &[Output<'_>]) -> Result<Option<String>, String> {
        let rows = || self.rows(outputs).filter(|row| row[4] != 0.0);
        if let Some(row) = rows().find(|row| is_no_probability(row[4])) {
            return Err(format!(
                "its fifth value is {}, and scores are from 0 to 1: it is another layout than centre, size, score, class",
                row[4]
            ));
        }
        let is_known = |class: f32| self.classes.is_none_or(|classes| class < classes as f32);
        let is_class = |class: f32| class >= 0.0 && class.fract() == 0.0 && is_known(class);
        if let Some(row) = rows().find(|row| !is_class(row[5])) {
            return Err(format!(
                "its sixth value is {}, and classes are whole numbers from 0 on, as many as are named: give the names of all classes \
                 by `labels`, or it is another layout",
                row[5]
            ));
        }
        // Centres and sizes of that many queries never all look so.
        if rows().count() >= MIN_QUERIES && rows().all(|row| row[2] > row[0] && row[3] > row[1]) {
            return Err(Layout::Corners.found());
        }
        Ok(None)
    }

    fn rows<'a>(&self, outputs: &[Output<'a>]) -> std::slice::ChunksExact<'a, f32> {
        Output::elements(outputs, 0).chunks_exact(self.columns)
    }
}

impl Head for Queries {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], _: &Input) -> Result<Option<String>, String> {
        let range = |from: usize, to: usize| {
            let values = self.rows(outputs).flat_map(move |row| &row[from..to]);
            finite_range(values.copied())
        };
        let (low, high) = range(0, 4);
        let other = match self.columns {
            7 => format!("; {}", Layout::EndToEndBatch.found()),
            _ => String::new(),
        };
        if low < -1.0 || high > 2.0 {
            return Err(format!(
                "its boxes are from {low} to {high}, and those of a transformer are from 0 to 1, relative to the input{other}"
            ));
        }
        if (low, high) == (0.0, 0.0) && range(4, self.columns) == (0.0, 0.0) {
            return Err(format!(
                "all its values for a blank picture are 0, and the boxes of a transformer never are{other}"
            ));
        }
        if self.is_selected(outputs) {
            return self.inspect_selected(outputs);
        }
        let (low, high) = range(4, self.columns);
        if low < -0.01 || high > 1.01 {
            return Err(format!(
                "its scores are from {low} to {high}; {}",
                Layout::Logits.found()
            ));
        }
        Ok(None)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let (width, height) = (transform.width as f32, transform.height as f32);
        let is_selected = self.is_selected(outputs);
        let found = self.rows(outputs).filter_map(|row| {
            let (class, score) = match is_selected {
                true => (row[5] as usize, row[4]),
                false => best(&row[4..]),
            };
            let rect = || centred_rect(row[0] * width, row[1] * height, row[2] * width, row[3] * height);
            (score >= self.filter.threshold).then(|| Candidate::new(class, score, rect()))
        });
        self.filter.objects(found.collect(), transform)
    }
}

/// Objects that the post-processing in the file has selected.
struct Selected {
    filter: DetectionFilter,
    classes: Option<usize>,
    /// Positions of labels, boxes and scores.
    ports: [usize; 3],
}

impl Selected {
    fn build(settings: &Settings, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
        let expected = "[queries, 4 + classes] or [n, 6] with relative boxes; or labels [n], boxes [n, 4] and scores [n], and the input \
                        orig_target_sizes";
        let sized = settings.texts(INPUTS).is_some_and(|names| !names.is_empty());
        let Some(ports) = triple(specs).filter(|_| sized) else {
            return Err(unfit(specs, expected));
        };
        let labels = selected::named_classes(settings)?;
        Ok(Box::new(Self {
            classes: selected::known_classes(settings, &labels),
            filter: selected::filter(settings, 0.5, labels)?,
            ports,
        }))
    }

    fn rows<'a>(&self, outputs: &[Output<'a>]) -> impl Iterator<Item = Row> + use<'a> {
        rows(self.ports, outputs)
    }
}

/// Positions of the outputs `labels`, `boxes` and `scores`, where their shapes fit together.
pub(super) fn triple(specs: &[OutputSpec]) -> Option<[usize; 3]> {
    let at = |name: &str| specs.iter().position(|output| output.name == name);
    let ports = [at("labels")?, at("boxes")?, at("scores")?];
    // Without a batch, a single row looks like one.
    let elements = ports.map(|port| specs[port].shape.iter().product::<usize>());
    let fits = specs[ports[1]].readable
        && specs[ports[2]].readable
        && elements[0] == elements[2]
        && elements[1] == 4 * elements[0];
    fits.then_some(ports)
}

/// Rows of labels, boxes (corners) and scores.
pub(super) fn rows<'a>(ports: [usize; 3], outputs: &[Output<'a>]) -> impl Iterator<Item = Row> + use<'a> {
    let [labels, boxes, scores] = ports.map(|port| Output::elements(outputs, port));
    let each = labels.iter().zip(scores).zip(boxes.chunks_exact(4));
    each.map(|((class, score), sides)| Row {
        class: *class,
        score: *score,
        rect: Rect::new(sides[0], sides[1], sides[2], sides[3]),
    })
}

impl Head for Selected {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        selected::inspect(self.rows(outputs), self.classes, input)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        selected::objects(&self.filter, self.rows(outputs), transform)
    }
}

#[cfg(test)]
mod tests;
