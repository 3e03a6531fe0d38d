//! NanoDet-m: a pair of outputs for each of the strides 8, 16 and 32.
//!
//! Input: blue, green, red, stretched, normalised by mean and deviation. Output: classes (probabilities) as `[cells,
//! classes]` and distances as `[cells, 4 * bins]`: a side's distance from the centre of the cell is the expectation of
//! its bins after softmax, times the stride.

use weir_flow::{HeadOutput, Inference, Point, Rect, Settings};

use super::detection::{Candidate, DetectionFilter, best, cell_centre, grid};
use super::input::{BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "nanodet",
    about: "NanoDet-m: BGR less mean over std, stretched; per stride 8, 16, 32 classes and 4 x bins distances; score \
            0.35, NMS 0.5",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        mean: [103.53, 116.28, 123.675],
        std: [57.375, 57.12, 58.395],
        fit: Fit::Stretch,
        size: (320, 320),
        multiple: 32,
        ..BYTES
    },
    build,
};

struct Level {
    stride: u32,
    /// Index of each output.
    classes: usize,
    distances: usize,
}

struct Nanodet {
    filter: DetectionFilter,
    levels: Vec<Level>,
    classes: usize,
    bins: usize,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let (width, height) = (input.spec.width, input.spec.height);
    let expected = format!(
        "for each of the strides 8, 16, 32 of {width} by {height} one named cls* of [cells, classes] and one named \
         dis* or reg* of [cells, 4 x bins]"
    );
    let mut levels = Vec::new();
    let mut sizes = None;
    for stride in [8, 16, 32] {
        let (columns, rows) = grid(width, height, stride);
        let place = |prefix: &[&str]| {
            specs.iter().position(|output| {
                let named = prefix.iter().any(|prefix| output.name.contains(prefix));
                named && output.readable && output.shape.len() == 2 && output.shape[0] == columns * rows
            })
        };
        let (Some(classes), Some(distances)) = (place(&["cls"]), place(&["dis", "reg"])) else {
            return Err(unfit(specs, &expected));
        };
        let level = (specs[classes].shape[1], specs[distances].shape[1]);
        if *sizes.get_or_insert(level) != level || level.0 == 0 || level.1 < 8 || !level.1.is_multiple_of(4) {
            return Err(unfit(specs, &expected));
        }
        levels.push(Level {
            stride,
            classes,
            distances,
        });
    }
    let (classes, distances) = sizes.unwrap_or_default();
    let labels = Labels::read(settings, &[], classes)?;
    Ok(Box::new(Nanodet {
        filter: DetectionFilter::read(settings, 0.35, 0.5, labels)?,
        levels,
        classes,
        bins: distances / 4,
    }))
}

impl Head for Nanodet {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let mut candidates = Vec::new();
        for level in &self.levels {
            let (columns, _) = grid(transform.width, transform.height, level.stride);
            let stride = level.stride as f32;
            let (scores, distances) = (outputs[level.classes].data, outputs[level.distances].data);
            let cells = scores
                .chunks_exact(self.classes)
                .zip(distances.chunks_exact(4 * self.bins));
            for (index, (scores, distances)) in cells.enumerate() {
                let (class, score) = best(scores);
                if score < self.filter.threshold {
                    continue;
                }
                let Point { x, y } = cell_centre(index, columns, level.stride);
                let side =
                    |side: usize| expectation(&distances[side * self.bins..(side + 1) * self.bins]) * stride;
                let rect = Rect::new(x - side(0), y - side(1), x + side(2), y + side(3));
                candidates.push(Candidate::new(class, score, rect));
            }
        }
        self.filter.objects(candidates, transform)
    }
}

/// Expected bin under the softmax of the logits.
fn expectation(logits: &[f32]) -> f32 {
    let most = logits
        .iter()
        .fold(f32::NEG_INFINITY, |most, logit| most.max(*logit));
    let (mut sum, mut weighted) = (0.0, 0.0);
    for (bin, logit) in logits.iter().enumerate() {
        let weight = (logit - most).exp();
        sum += weight;
        weighted += weight * bin as f32;
    }
    weighted / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_expectations_from_the_middle_of_the_cell() {
        let port = [Some(1), Some(3), Some(64), Some(64)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let output = |name: &str, cells: usize, size: usize| OutputSpec {
            name: name.to_owned(),
            shape: vec![cells, size],
            readable: true,
        };
        let specs = [
            output("cls_pred_stride_8", 64, 80),
            output("cls_pred_stride_16", 16, 80),
            output("cls_pred_stride_32", 4, 80),
            output("dis_pred_stride_8", 64, 32),
            output("dis_pred_stride_16", 16, 32),
            output("dis_pred_stride_32", 4, 32),
        ];
        let labels = weir_flow::Value::Texts(vec!["coco".to_owned()]);
        let settings = Settings([("labels".to_owned(), labels)].into());
        let head = KIND.build(&settings, &input, &specs).expect("fits");
        let mut data: Vec<Vec<f32>> = specs
            .iter()
            .map(|output| vec![0.0; output.shape.iter().product()])
            .collect();
        data[1][5 * 80 + 16] = 0.6; // stride 16, column 1, row 1: centre (24, 24)
        for side in 0..4 {
            data[4][5 * 32 + side * 8 + 1] = 50.0; // bin 1 alone
        }
        let outputs: Vec<Output<'_>> = data.iter().map(|data| Output { data }).collect();
        let found = head.decode(&outputs, &ItemTransform::identity(64, 64)).objects;
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&*found[0].class, found[0].rect),
            ("dog", Rect::new(8.0, 8.0, 40.0, 40.0))
        );
        assert!(KIND.build(&Settings::default(), &input, &specs[..5]).is_err());
    }
}
