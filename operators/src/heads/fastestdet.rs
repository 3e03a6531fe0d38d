//! FastestDet: one grid, one box for each cell.
//!
//! Input: blue, green, red over 255, stretched. Output: `[5 + classes, rows, columns]`: objectness, x and y (tanh, in
//! cells), width and height (sigmoid, relative to the input), classes; score = objectness^0.6 * class^0.4.

use weir_flow::{HeadOutput, Inference, Settings};

use super::detection::{Candidate, DetectionFilter, centred_rect, grid, sigmoid};
use super::input::{BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, single, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "fastestdet",
    about: "FastestDet: BGR /255, stretched; [5 + classes, rows, columns]; score 0.5, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        std: [255.0; 3],
        fit: Fit::Stretch,
        size: (352, 352),
        multiple: 32,
        ..BYTES
    },
    build,
};

/// Pixels of a cell. A grid of another one is a map of a segmentation.
const STRIDE: u32 = 16;

struct Fastestdet {
    filter: DetectionFilter,
    classes: usize,
    rows: usize,
    columns: usize,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [5 + classes, rows, columns] with cells of 16 pixels";
    let shape = single(specs, expected, 3)?;
    let (columns, rows) = grid(input.spec.width, input.spec.height, STRIDE);
    if shape[0] < 6 || shape[1..] != [rows, columns] {
        return Err(unfit(specs, expected));
    }
    let labels = Labels::read(settings, &[], shape[0] - 5)?;
    let filter = DetectionFilter::read(settings, 0.5, 0.45, labels)?;
    Ok(Box::new(Fastestdet {
        filter,
        classes: shape[0] - 5,
        rows: shape[1],
        columns: shape[2],
    }))
}

impl Head for Fastestdet {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(data) = outputs.first().map(|output| output.data) else {
            return Inference::default();
        };
        let cells = self.rows * self.columns;
        let (width, height) = (transform.width as f32, transform.height as f32);
        let mut candidates = Vec::new();
        for index in 0..cells {
            let channel = |channel: usize| data[channel * cells + index];
            let objectness = channel(0).max(0.0).powf(0.6);
            if objectness < self.filter.threshold {
                continue;
            }
            let (class, most) = (0..self.classes).fold((0, f32::NEG_INFINITY), |best, class| {
                let score = channel(5 + class);
                if score > best.1 { (class, score) } else { best }
            });
            let score = objectness * most.max(0.0).powf(0.4);
            if score >= self.filter.threshold {
                let x = ((index % self.columns) as f32 + channel(1).tanh()) / self.columns as f32 * width;
                let y = ((index / self.columns) as f32 + channel(2).tanh()) / self.rows as f32 * height;
                let rect = centred_rect(x, y, sigmoid(channel(3)) * width, sigmoid(channel(4)) * height);
                candidates.push(Candidate::new(class, score, rect));
            }
        }
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Rect;

    #[test]
    fn a_cell_is_decoded() {
        let port = [Some(1), Some(3), Some(64), Some(64)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let specs = [OutputSpec {
            name: "758".to_owned(),
            shape: vec![85, 4, 4],
            readable: true,
        }];
        let labels = weir_flow::Value::Texts(vec!["coco".to_owned()]);
        let settings = Settings([("labels".to_owned(), labels)].into());
        let head = KIND.build(&settings, &input, &specs).expect("fits");
        let mut data = vec![0.0; 85 * 16];
        let half = 0.5_f32.atanh();
        for (channel, value) in [(0, 0.9), (1, half), (2, half), (5 + 2, 0.9)] {
            data[channel * 16 + 5] = value;
        }
        let found = head
            .decode(&[Output { data: &data }], &ItemTransform::identity(64, 64))
            .objects;
        assert_eq!(found.len(), 1);
        assert!((found[0].score - 0.9).abs() < 1e-5);
        assert!(
            found[0].rect.iou(&Rect::new(8.0, 8.0, 40.0, 40.0)) > 0.999,
            "{:?}",
            found[0].rect
        );
    }
}
