//! Detectors of MMDetection with their selection inside, as MMDeploy exports them: RTMDet, Faster R-CNN, RetinaNet and others.
//!
//! Input: letterboxed, with the mean and deviation of the model's configuration. Output: `dets [n, 5]` (left, top, right and bottom in
//! input pixels, score) and `labels [n]` (classes from 0 on); rows without an object have score 0 or class -1.

use weir_flow::{HeadOutput, Inference, Rect, Settings};

use super::detection::DetectionFilter;
use super::input::{Input, ItemTransform};
use super::labels::Labels;
use super::layouts::MAX_SELECTED;
use super::selected::{self, Row};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, UNREAD_NAMES, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "mmdeploy",
    about: "RTMDet and others of MMDetection as MMDeploy exports them, with their selection: letterbox over 114, channels, mean and std by \
            key; dets [n, 5]: corners in input pixels, score; labels [n]; score 0.3, no NMS",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::input::InputDefaults {
        size: (640, 640),
        ..super::input::BYTES
    },
    build,
};

/// Values of a row: corners, score.
const COLUMNS: usize = 5;

struct MmDeploy {
    filter: DetectionFilter,
    classes: Option<usize>,
    /// Positions of the outputs.
    dets: usize,
    labels: usize,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "dets [n, 5] and labels [n]";
    let at = |name: &str| specs.iter().position(|output| output.name == name);
    let (Some(dets), Some(labels)) = (at("dets"), at("labels")) else {
        return Err(unfit(specs, expected));
    };
    let fits = match (&specs[dets].shape[..], &specs[labels].shape[..]) {
        (&[rows, COLUMNS], &[of_labels]) => rows == of_labels && rows <= MAX_SELECTED,
        _ => false,
    };
    if !fits || !specs[dets].readable || specs.len() != 2 {
        return Err(unfit(specs, expected));
    }
    let is_known = ["mean", "std"].iter().all(|key| settings.0.contains_key(*key));
    if !is_known && !settings.0.contains_key(UNREAD_NAMES) {
        return Err(
            "nothing says how its input is normalised: put pipeline.json beside it, or set mean and std as its configuration has them (RTMDet: mean = \
             \"103.53, 116.28, 123.675\", std = \"57.375, 57.12, 58.395\"; Faster R-CNN and RetinaNet: channels = \"rgb\", mean = \
             \"123.675, 116.28, 103.53\", std = \"58.395, 57.12, 57.375\")"
                .to_owned(),
        );
    }
    let named = selected::named_classes(settings)?;
    Ok(Box::new(MmDeploy {
        classes: selected::known_classes(settings, &named),
        filter: selected::filter(settings, 0.3, named)?,
        dets,
        labels,
    }))
}

impl MmDeploy {
    fn rows<'a>(&self, outputs: &[Output<'a>]) -> impl Iterator<Item = Row> + use<'a> {
        let data = |at: usize| Output::elements(outputs, at);
        let rows = data(self.dets).chunks_exact(COLUMNS).take(MAX_SELECTED);
        rows.zip(data(self.labels)).map(|(row, class)| Row {
            class: *class,
            score: row[4],
            rect: Rect::new(row[0], row[1], row[2], row[3]),
        })
    }
}

impl Head for MmDeploy {
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

    fn specs(dets: &[usize], labels: &[usize]) -> Vec<OutputSpec> {
        let spec = |name: &str, shape: &[usize], readable| OutputSpec {
            name: name.to_owned(),
            shape: shape.to_vec(),
            readable,
        };
        vec![spec("dets", dets, true), spec("labels", labels, false)]
    }

    fn settings() -> Settings {
        let labels = Value::Texts(vec!["car".to_owned(), "bus".to_owned()]);
        let number = |text: &str| Value::Text(text.to_owned());
        Settings(
            [
                ("labels".to_owned(), labels),
                ("mean".to_owned(), number("103.53, 116.28, 123.675")),
                ("std".to_owned(), number("57.375, 57.12, 58.395")),
            ]
            .into(),
        )
    }

    fn input() -> Input {
        let port = [Some(1), Some(3), Some(640), Some(640)];
        KIND.input(&Settings::default(), &port).expect("read")
    }

    #[test]
    fn rows_and_their_labels_are_objects() {
        let head = KIND
            .build(&settings(), &input(), &specs(&[4, 5], &[4]))
            .expect("fits");
        assert!(head.runs_one_by_one());
        let dets = [
            [10.0, 20.0, 110.0, 220.0, 0.9],
            [300.0, 20.0, 330.0, 40.0, 0.5],
            [300.0, 20.0, 330.0, 40.0, 0.1],
            [0.0; 5],
        ]
        .concat();
        let outputs = [
            Output { data: &dets },
            Output {
                data: &[1.0, 0.0, 1.0, -1.0],
            },
        ];
        assert_eq!(head.inspect(&outputs, &input()), Ok(None));
        let found = head.decode(&outputs, &ItemTransform::identity(640, 640)).objects;
        let found: Vec<(&str, f32, Rect)> = found
            .iter()
            .map(|found| (&*found.class, found.score, found.rect))
            .collect();
        assert_eq!(
            found,
            [
                ("bus", 0.9, Rect::new(10.0, 20.0, 110.0, 220.0)),
                ("car", 0.5, Rect::new(300.0, 20.0, 330.0, 40.0))
            ]
        );
        let error = head.inspect(&[Output { data: &dets }, Output { data: &[7.0; 4] }], &input());
        assert!(error.expect_err("refused").contains("a class is 7"));
        assert!(
            head.decode(&[Output { data: &[] }; 2], &ItemTransform::identity(640, 640))
                .objects
                .is_empty()
        );
    }

    #[test]
    fn other_shapes_and_a_missing_normalisation_are_refused() {
        for (dets, labels) in [
            (&[300, 4][..], &[300, 91][..]),
            (&[100, 5], &[99]),
            (&[100, 6], &[100]),
            (&[5000, 5], &[5000]),
        ] {
            let error = KIND.build(&settings(), &input(), &specs(dets, labels)).err();
            assert!(error.expect("refused").contains("dets [n, 5]"), "{dets:?}");
        }
        let mut unknown = settings();
        unknown.0.remove("std");
        let error = KIND.build(&unknown, &input(), &specs(&[4, 5], &[4])).err();
        assert!(error.expect("refused").contains("RTMDet: mean"));
    }
}
