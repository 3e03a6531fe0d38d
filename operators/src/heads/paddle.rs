//! PaddleDetection with its post-processing inside: PP-YOLOE, PicoDet, RT-DETR as paddle2onnx exports them.
//!
//! Input: red, green, blue, stretched; `im_shape` is filled with the size of the input and `scale_factor` with 1, so that boxes come in
//! input pixels. Output: rows of class, score, left, top, right, bottom, and their number.

use weir_flow::{HeadOutput, Inference, Rect, Settings};

use super::detection::DetectionFilter;
use super::input::{Input, ItemTransform};
use super::labels::Labels;
use super::layouts::MAX_SELECTED;
use super::selected::{self, Row};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, INPUTS, Output, OutputSpec, UNREAD_NAMES, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "paddle",
    about: "PaddleDetection (PP-YOLOE, PicoDet, RT-DETR) with post-processing: RGB, stretched, mean and std of infer_cfg.yml or by key; \
            [n, 6]: class, score, corners; score 0.5, no NMS",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::detr::INPUT_DEFAULTS,
    build,
};

/// Values of a row: class, score, corners.
const COLUMNS: usize = 6;

struct Paddle {
    filter: DetectionFilter,
    classes: Option<usize>,
    rows: usize,
    /// Position of the number of rows.
    count: Option<usize>,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "rows of 6 values, [n, 6]: class, score, left, top, right, bottom, and the input scale_factor or im_shape";
    let is_paddle = settings.texts(INPUTS).is_some_and(|names| {
        names
            .iter()
            .any(|name| name == "scale_factor" || name == "im_shape")
    });
    let is_rows = |output: &OutputSpec| output.readable && output.shape.last() == Some(&COLUMNS);
    let rows = specs.iter().position(is_rows).filter(|_| is_paddle);
    let Some(rows) = rows else {
        return Err(unfit(specs, expected));
    };
    let is_single = |output: &OutputSpec| output.shape.iter().product::<usize>() == 1;
    let count = specs.iter().position(is_single);
    if specs[rows].shape.iter().product::<usize>() > MAX_SELECTED * COLUMNS {
        return Err(unfit(specs, expected));
    }
    let is_unread = settings.0.contains_key(UNREAD_NAMES);
    if !is_unread && !["mean", "std"].iter().all(|key| settings.0.contains_key(*key)) {
        return Err(
            "nothing says how its input is normalised: put infer_cfg.yml beside it, or set mean and std (PP-YOLOE and PicoDet: mean = \
             \"123.675, 116.28, 103.53\", std = \"58.395, 57.12, 57.375\"; PP-YOLOE+ and RT-DETR: mean = \"0\", std = \"255\")"
                .to_owned(),
        );
    }
    let labels = selected::named_classes(settings)?;
    Ok(Box::new(Paddle {
        classes: selected::known_classes(settings, &labels),
        filter: selected::filter(settings, 0.5, labels)?,
        rows,
        count,
    }))
}

impl Paddle {
    fn rows<'a>(&self, outputs: &[Output<'a>]) -> impl Iterator<Item = Row> + use<'a> {
        let data = Output::elements(outputs, self.rows);
        let count = self
            .count
            .and_then(|count| outputs.get(count)?.data.first().copied());
        // Rows behind the number are left over from before.
        let count = count.map_or(MAX_SELECTED, |count| {
            count.clamp(0.0, MAX_SELECTED as f32) as usize
        });
        data.chunks_exact(COLUMNS).take(count).map(|row| Row {
            class: row[0],
            score: row[1],
            rect: Rect::new(row[2], row[3], row[4], row[5]),
        })
    }
}

impl Head for Paddle {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn runs_one_by_one(&self) -> bool {
        true
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        selected::inspect(self.rows(outputs), self.classes, input)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        selected::objects(&self.filter, self.rows(outputs), transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Value;

    #[test]
    fn rows_are_read_up_to_their_number() {
        let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        let mut settings = Settings(
            [
                (INPUTS.to_owned(), texts(&["scale_factor"])),
                ("labels".to_owned(), texts(&["a", "b"])),
            ]
            .into(),
        );
        let specs =
            [("boxes", vec![4, 6], true), ("count", vec![1], false)].map(|(name, shape, readable)| {
                OutputSpec {
                    name: name.to_owned(),
                    shape,
                    readable,
                }
            });
        let port = [Some(1), Some(3), Some(320), Some(320)];
        let input = KIND.input(&Settings::default(), &port).expect("read");
        let error = KIND.build(&settings, &input, &specs).err().expect("refused");
        assert!(error.contains("infer_cfg.yml"), "{error}");
        for key in ["mean", "std"] {
            settings.0.insert(key.to_owned(), Value::Text("1".to_owned()));
        }
        let head = KIND.build(&settings, &input, &specs).expect("fits");
        assert!(head.runs_one_by_one());
        let rows = [
            [1.0, 0.9, 10.0, 20.0, 110.0, 220.0],
            [0.0, 0.2, 10.0, 20.0, 110.0, 220.0],
            [0.0, 0.8, 10.0, 20.0, 110.0, 120.0],
            [0.0, 0.7, 0.0, 0.0, 5.0, 5.0],
        ];
        let data = rows.concat();
        let outputs = [Output { data: &data }, Output { data: &[3.0] }];
        assert_eq!(head.inspect(&outputs, &input), Ok(None));
        let found = head.decode(&outputs, &ItemTransform::identity(320, 320)).objects;
        let found: Vec<(&str, f32, Rect)> = found
            .iter()
            .map(|found| (&*found.class, found.score, found.rect))
            .collect();
        assert_eq!(
            found,
            [
                ("b", 0.9, Rect::new(10.0, 20.0, 110.0, 220.0)),
                ("a", 0.8, Rect::new(10.0, 20.0, 110.0, 120.0))
            ]
        );
        let score_first = [0.9, 1.0, 10.0, 20.0, 110.0, 220.0];
        let error = head.inspect(&[Output { data: &score_first }, Output { data: &[1.0] }], &input);
        assert!(error.expect_err("refused").contains("a class is 0.9"));
    }
}
