//! Detectors by transformers without their selection: class scores and boxes of each query, as Hugging Face (DETR, RT-DETR, D-FINE) and
//! RF-DETR export them.
//!
//! Input: red, green, blue, stretched. Output: logits `[queries, classes]`, and centre and size relative to the input `[queries, 4]`.
//! With one column more than classes, the last is "no object" and scores are by softmax; else each is by a sigmoid of its own.

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, Settings};

use super::detection::{
    Candidate, DetectionFilter, best, centred_rect, expect_logits, finite_range, sigmoid,
};
use super::input::{BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::labels::{DeclaredNames, Labels, coco_by_number};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, selected, unfit};
use crate::pixels::Channels;

pub(super) const KIND: HeadKind = HeadKind {
    name: "detr",
    about: "DETR, RT-DETR, D-FINE of Hugging Face (logits, pred_boxes) and RF-DETR (dets, labels): RGB, stretched, mean and std of \
            preprocessor_config.json or by key, RF-DETR's of ImageNet; relative boxes; score 0.5, no NMS",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: INPUT_DEFAULTS,
    build,
};

/// Mean and deviation of ImageNet.
pub(super) const INPUT_DEFAULTS: InputDefaults = InputDefaults {
    channels: Channels::Rgb,
    mean: [123.675, 116.28, 103.53],
    std: [58.395, 57.12, 57.375],
    fit: Fit::Stretch,
    size: (640, 640),
    ..BYTES
};

/// Names of the outputs: logits, boxes.
const PORTS: [(&str, &str); 3] = [("logits", "pred_boxes"), ("pred_logits", "pred_boxes"), RF_DETR];
const RF_DETR: (&str, &str) = ("labels", "dets");
/// Queries of one item.
const MAX_QUERIES: usize = 2000;

struct Detr {
    filter: DetectionFilter,
    /// Positions of the outputs.
    logits: usize,
    boxes: usize,
    columns: usize,
    scores: Scores,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scores {
    /// Of each class by itself: a query may give several objects.
    Sigmoid,
    /// Of all columns together, of which the last is no class.
    Softmax,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "logits [queries, classes] and pred_boxes [queries, 4], or dets [queries, 4] and labels [queries, classes]";
    let at = |name: &str| {
        specs
            .iter()
            .position(|output| output.name == name && output.readable)
    };
    let found = PORTS
        .iter()
        .find_map(|ports| Some((ports, at(ports.0)?, at(ports.1)?)));
    let Some((ports, logits, boxes)) = found else {
        return Err(unfit(specs, expected));
    };
    let (&[queries, columns], &[of_boxes, 4]) = (&specs[logits].shape[..], &specs[boxes].shape[..]) else {
        return Err(unfit(specs, expected));
    };
    if queries != of_boxes || queries > MAX_QUERIES || columns == 0 {
        return Err(unfit(specs, expected));
    }
    let is_rf_detr = *ports == RF_DETR;
    let declared = DeclaredNames::read(settings)?;
    let is_known = ["mean", "std"].iter().all(|key| settings.0.contains_key(*key));
    if !is_rf_detr && !is_known && !declared.are_unread() {
        return Err(
            "nothing says how its input is normalised: put preprocessor_config.json beside it, or set mean and std (DETR: mean = \
             \"123.675, 116.28, 103.53\", std = \"58.395, 57.12, 57.375\"; RT-DETR and D-FINE: mean = \"0\", std = \"255\")"
                .to_owned(),
        );
    }
    let (labels, scores) = classes(settings, declared, columns, is_rf_detr)?;
    Ok(Box::new(Detr {
        filter: selected::filter(settings, 0.5, labels)?,
        logits,
        boxes,
        columns,
        scores,
    }))
}

/// Names of the classes of so many columns, and the kind of their scores.
fn classes(
    settings: &Settings,
    declared: DeclaredNames,
    columns: usize,
    is_rf_detr: bool,
) -> Result<(Labels, Scores), String> {
    // The columns of COCO are numbered as its annotations.
    if let Some(names) = coco_by_number(settings) {
        let names: Vec<Arc<str>> = std::iter::once(Arc::from("0")).chain(names).collect();
        if columns == names.len() {
            return Ok((Labels::of(&names), Scores::Sigmoid));
        }
        if columns == names.len() + 1 && !is_rf_detr {
            return Ok((Labels::of(&names), Scores::Softmax));
        }
    }
    let Some((count, source)) = declared.classes() else {
        if declared.are_unread() {
            return Ok((Labels::choose(declared, &[], columns)?, Scores::Sigmoid));
        }
        let of_coco = match columns {
            80 | 91 => ", labels = [\"coco\"] if it was trained on COCO",
            81 | 92 if !is_rf_detr => ", labels = [\"coco\"] if it was trained on COCO",
            _ => "",
        };
        return Err(format!(
            "nothing names the classes of its {columns} columns: name them by `labels` or `labels_file`{of_coco}, or put config.json \
             beside it; with one name less than columns the last is \"no object\""
        ));
    };
    match columns.checked_sub(count) {
        Some(0) => Ok((Labels::choose(declared, &[], count)?, Scores::Sigmoid)),
        Some(1) if !is_rf_detr => Ok((Labels::choose(declared, &[], count)?, Scores::Softmax)),
        Some(1) => Err(format!(
            "it has {columns} columns and {source} {count} classes: RF-DETR has one column more than classes, the first or the last by \
             its version; name all {columns} by `labels`, in their order"
        )),
        _ => Err(format!(
            "it has {columns} columns of classes, and {source} has {count}: give the names of all classes by `labels`, or export the \
             model anew"
        )),
    }
}

impl Detr {
    /// Logits and box of each query.
    fn queries<'a>(&self, outputs: &[Output<'a>]) -> impl Iterator<Item = (&'a [f32], &'a [f32])> + use<'a> {
        let data = |at: usize| Output::elements(outputs, at);
        let logits = data(self.logits).chunks_exact(self.columns);
        logits.zip(data(self.boxes).chunks_exact(4))
    }

    /// The best class of a query, and its share of all columns.
    fn share(logits: &[f32]) -> (usize, f32) {
        let (_, most) = best(logits);
        let sum: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
        let (class, logit) = best(&logits[..logits.len() - 1]);
        (class, (logit - most).exp() / sum)
    }
}

impl Head for Detr {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], _: &Input) -> Result<Option<String>, String> {
        let sides = self.queries(outputs).flat_map(|(_, rect)| rect);
        let (low, high) = finite_range(sides.copied());
        if low < -1.0 || high > 2.0 {
            return Err(format!(
                "its boxes are from {low} to {high}, and those of a transformer are from 0 to 1, relative to the input"
            ));
        }
        let logits = self.queries(outputs).flat_map(|(logits, _)| logits);
        expect_logits("class scores", finite_range(logits.copied()))?;
        Ok(None)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let (width, height) = (transform.width as f32, transform.height as f32);
        let mut candidates = Vec::new();
        for (logits, sides) in self.queries(outputs) {
            let rect = centred_rect(
                sides[0] * width,
                sides[1] * height,
                sides[2] * width,
                sides[3] * height,
            );
            let mut add = |class: usize, score: f32| {
                if score >= self.filter.threshold {
                    candidates.push(Candidate::new(class, score, rect));
                }
            };
            match self.scores {
                Scores::Sigmoid => {
                    for (class, logit) in logits.iter().enumerate() {
                        add(class, sigmoid(*logit));
                    }
                }
                Scores::Softmax => {
                    let (class, score) = Self::share(logits);
                    add(class, score);
                }
            }
        }
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests;
