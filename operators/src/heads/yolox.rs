//! YOLOX: anchor-free grids of strides 8, 16 and 32 (and 64 for P6 models).
//!
//! Input: blue, green, red as bytes 0 to 255, letterboxed at the top left over 114. Output: raw `[cells, 5 + classes]`:
//! centre = (xy + cell) * stride, size = exp(wh) * stride, score = objectness * class, both already probabilities.

use weir_flow::{HeadOutput, Inference, Settings};

use super::detection::{Candidate, DetectionFilter, best, cell, centred_rect, finite_range, grid};
use super::input::{BYTES, Input, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, single};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yolox",
    about: "YOLOX: BGR 0-255, letterbox over 114; raw [cells, 5 + classes] of strides 8, 16, 32; score 0.3, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::input::InputDefaults {
        multiple: 32,
        ..BYTES
    },
    build,
};

struct Yolox {
    filter: DetectionFilter,
    strides: &'static [u32],
    channels: usize,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let (width, height) = (input.spec.width, input.spec.height);
    let cells = |strides: &[u32]| -> usize {
        strides
            .iter()
            .map(|stride| grid(width, height, *stride))
            .map(|(columns, rows)| columns * rows)
            .sum()
    };
    let expected = format!(
        "one of [{}, 5 + classes] for its input of {width} by {height}",
        cells(&[8, 16, 32])
    );
    let shape = single(specs, &expected, 2)?;
    let strides: &[u32] = match shape[0] {
        rows if rows == cells(&[8, 16, 32]) => &[8, 16, 32],
        rows if rows == cells(&[8, 16, 32, 64]) => &[8, 16, 32, 64],
        _ => return Err(super::unfit(specs, &expected)),
    };
    if shape[1] < 6 {
        return Err(super::unfit(specs, &expected));
    }
    let labels = Labels::read(settings, &[], shape[1] - 5)?;
    Ok(Box::new(Yolox {
        filter: DetectionFilter::read(settings, 0.3, 0.45, labels)?,
        strides,
        channels: shape[1],
    }))
}

impl Head for Yolox {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        let Some(output) = outputs.first() else {
            return Ok(None);
        };
        let span = |column: usize| {
            let (low, high) = finite_range(output.data.chunks_exact(self.channels).map(|row| row[column]));
            (high - low).max(0.0)
        };
        // Offsets of cells are some cells at most, while the centres of decoded boxes are all over the input.
        let (width, height) = (input.spec.width as f32, input.spec.height as f32);
        if span(0) > width / 2.0 && span(1) > height / 2.0 {
            return Err(
                "its boxes are decoded already: use the head yolov5, as it is for YOLOv6, and with channels = \"bgr\" and std = \"1\" \
                 for YOLOX (which has raw cells without --decode_in_inference)"
                    .to_owned(),
            );
        }
        Ok(None)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let mut rows = output.data.chunks_exact(self.channels);
        let mut candidates = Vec::new();
        for &stride in self.strides {
            let (columns, lines) = grid(transform.width, transform.height, stride);
            let stride = stride as f32;
            for (index, row) in rows.by_ref().take(columns * lines).enumerate() {
                // Few cells pass, and no class can raise the score: most cells cost one comparison.
                let objectness = row[4];
                if objectness < self.filter.threshold {
                    continue;
                }
                let (class, probability) = best(&row[5..]);
                let score = objectness * probability;
                if score >= self.filter.threshold {
                    let at = cell(index, columns);
                    let (x, y) = ((row[0] + at.x) * stride, (row[1] + at.y) * stride);
                    let rect = centred_rect(x, y, row[2].exp() * stride, row[3].exp() * stride);
                    candidates.push(Candidate::new(class, score, rect));
                }
            }
        }
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{Rect, Value};

    #[test]
    fn a_cell_of_each_stride_is_decoded() {
        let input = Input::read(
            &KIND.input_defaults,
            &Settings::default(),
            &[Some(1), Some(3), Some(64), Some(64)],
        )
        .expect("read");
        let shape = vec![64 + 16 + 4, 85];
        let specs = [OutputSpec {
            name: "output".to_owned(),
            shape,
            readable: true,
        }];
        let labels = Value::Texts(vec!["coco".to_owned()]);
        let coco = Settings([("labels".to_owned(), labels)].into());
        let head = KIND.build(&coco, &input, &specs).expect("fits");
        let mut data = vec![0.0; 84 * 85];
        let mut set = |row: usize, class: usize, objectness: f32| {
            data[row * 85..row * 85 + 5].copy_from_slice(&[0.5, 0.5, 0.0, (2.0_f32).ln(), objectness]);
            data[row * 85 + 5 + class] = 0.8;
        };
        set(9, 16, 0.9); // stride 8, column 1, row 1
        set(64 + 3, 2, 0.5); // stride 16, column 3, row 0
        set(80 + 2, 0, 0.2); // stride 32, too faint
        let outputs = [Output { data: &data }];
        let found = head.decode(&outputs, &ItemTransform::identity(64, 64)).objects;
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&*found[0].class, found[0].rect),
            ("dog", Rect::new(8.0, 4.0, 16.0, 20.0))
        );
        assert!((found[0].score - 0.72).abs() < 1e-6);
        assert_eq!(
            (&*found[1].class, found[1].rect),
            ("car", Rect::new(48.0, 0.0, 64.0, 24.0))
        );
    }

    #[test]
    fn other_shapes_are_refused() {
        let input = Input::read(
            &KIND.input_defaults,
            &Settings::default(),
            &[Some(1), Some(3), Some(64), Some(64)],
        )
        .expect("read");
        let specs = [OutputSpec {
            name: "output".to_owned(),
            shape: vec![90, 85],
            readable: true,
        }];
        let reason = KIND
            .build(&Settings::default(), &input, &specs)
            .err()
            .expect("refused");
        assert!(
            reason.contains("output [90, 85]") && reason.contains("[84, 5 + classes]"),
            "{reason}"
        );
    }
}
