//! Detectors with their selection inside: YOLOv10 and YOLO26 as they are exported, and other YOLO models with `nms=True`.
//! `[n, 6]`, or `[n, 38]` and `[n, 57]` of models that find masks or key points too, of which the boxes are read.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: left, top, right and bottom in input pixels, score, class.

use weir_flow::{HeadOutput, Inference, Rect, Settings};

use super::detection::{DetectionFilter, is_no_probability};
use super::input::{Input, ItemTransform};
use super::labels::Labels;
use super::layouts::{Layout, MAX_SELECTED, boxes_per_cell};
use super::selected::{self, Row};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "end2end",
    about: "YOLOv10, YOLO26, exports with nms=True: RGB /255, letterbox over 114; [n, 6]: corners in input pixels, score, class; \
            score 0.25, no NMS",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::yolov5::INPUT_DEFAULTS,
    build,
};

/// Values of a row that are read: four corners, score, class.
const READ: usize = 6;

struct End2End {
    filter: DetectionFilter,
    /// Values of a row.
    columns: usize,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "rows of 6 values, [n, 6]: left, top, right, bottom, score, class";
    let prototypes = |output: &&OutputSpec| output.shape.len() == 3 && output.shape[0] == 32;
    let rows: Vec<&OutputSpec> = specs.iter().filter(|output| !prototypes(output)).collect();
    let [
        OutputSpec {
            shape,
            readable: true,
            ..
        },
    ] = &rows[..]
    else {
        return Err(unfit(specs, expected));
    };
    let &[rows, columns] = &shape[..] else {
        return Err(unfit(specs, expected));
    };
    if columns == READ + 1 {
        return Err(format!(
            "{}; {}",
            unfit(specs, expected),
            Layout::EndToEndBatch.found()
        ));
    }
    // 32 coefficients of a mask, or 17 key points of three values; and no grid, which other heads decode.
    let is_known = [READ, READ + 32, READ + 17 * 3].contains(&columns);
    if !is_known || rows > MAX_SELECTED || boxes_per_cell(input, rows).is_some() {
        return Err(unfit(specs, expected));
    }
    let labels = selected::named_classes(settings)?;
    Ok(Box::new(End2End {
        filter: selected::filter(settings, 0.25, labels)?,
        columns,
    }))
}

impl Head for End2End {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], _input: &Input) -> Result<Option<String>, String> {
        let Some(data) = self.rows(outputs) else {
            return Ok(None);
        };
        let rows = || data.chunks_exact(self.columns).filter(|row| row[4] != 0.0);
        if let Some(row) = rows().find(|row| is_no_probability(row[4])) {
            return Err(format!(
                "its fifth value is {}, and scores are from 0 to 1: it is another layout than left, top, right, bottom, score, class",
                row[4]
            ));
        }
        let classes = self.filter.labels.names().len() as f32;
        let is_class = |value: f32| value >= 0.0 && value < classes && value.fract() == 0.0;
        if let Some(row) = rows().find(|row| !is_class(row[5])) {
            return Err(format!(
                "its sixth value is {}, and classes are whole numbers from 0 to {}: give the names of all classes by `labels`, \
                 or it is another layout",
                row[5],
                classes - 1.0
            ));
        }
        let largest = rows()
            .flat_map(|row| &row[..4])
            .fold(0.0_f32, |most, value| most.max(*value));
        let are_corners = rows().all(|row| row[2] >= row[0] && row[3] >= row[1]);
        if rows().count() > 1 && largest <= 2.0 {
            let layout = match are_corners {
                true => Layout::Relative,
                false => Layout::Queries,
            };
            return Err(format!("its boxes are from 0 to {largest}; {}", layout.found()));
        }
        if !are_corners {
            return Err("its boxes end before they begin: they are no corners".to_owned());
        }
        Ok(None)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(data) = self.rows(outputs) else {
            return Inference::default();
        };
        let rows = data.chunks_exact(self.columns).map(|row| Row {
            class: row[5],
            score: row[4],
            rect: Rect::new(row[0], row[1], row[2], row[3]),
        });
        selected::objects(&self.filter, rows, transform)
    }
}

impl End2End {
    /// The output with the rows: prototypes of masks are no whole number of them, and come after or before.
    fn rows<'a>(&self, outputs: &[Output<'a>]) -> Option<&'a [f32]> {
        let mut of_rows = outputs.iter().filter(|output| {
            let rows = output.data.len() / self.columns;
            rows <= MAX_SELECTED && output.data.len() == rows * self.columns
        });
        of_rows.next().map(|output| output.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Value;

    fn named(classes: usize) -> Settings {
        let names = (0..classes).map(|class| format!("c{class}")).collect();
        Settings([("labels".to_owned(), Value::Texts(names))].into())
    }

    fn input() -> Input {
        let port = [Some(1), Some(3), Some(640), Some(640)];
        KIND.input(&Settings::default(), &port).expect("read")
    }

    fn build_of(shapes: &[&[usize]], settings: &Settings) -> Result<Box<dyn Head>, String> {
        let spec = |(index, shape): (usize, &&[usize])| OutputSpec {
            name: format!("output{index}"),
            shape: shape.to_vec(),
            readable: true,
        };
        let specs: Vec<OutputSpec> = shapes.iter().enumerate().map(spec).collect();
        KIND.build(settings, &input(), &specs)
    }

    fn found(head: &dyn Head, outputs: &[Vec<f32>]) -> Vec<(String, f32, Rect)> {
        let outputs: Vec<Output<'_>> = outputs.iter().map(|data| Output { data }).collect();
        let objects = head.decode(&outputs, &ItemTransform::identity(640, 640)).objects;
        let object = |object: &weir_flow::Object| (object.class.to_string(), object.score, object.rect);
        objects.iter().map(object).collect()
    }

    /// A row, filled up to so many columns.
    fn row(values: [f32; 6], columns: usize) -> Vec<f32> {
        let mut row = vec![9.0; columns];
        row[..6].copy_from_slice(&values);
        row
    }

    #[test]
    fn rows_are_objects_as_they_stand() {
        for (shapes, columns) in [
            (vec![&[3, 6][..]], 6),
            (vec![&[3, 38][..], &[32, 160, 160]], 38),
            (vec![&[3, 57][..]], 57),
        ] {
            let head = build_of(&shapes, &named(3)).expect("fits");
            let data: Vec<f32> = [
                [10.0, 20.0, 110.0, 220.0, 0.9, 2.0],
                // As much as the one before, and of another class: what is selected is not suppressed again.
                [12.0, 20.0, 112.0, 220.0, 0.8, 2.0],
                [300.0, 20.0, 310.0, 40.0, 0.1, 1.0],
            ]
            .into_iter()
            .flat_map(|values| row(values, columns))
            .collect();
            let mut outputs = vec![data];
            outputs.extend(shapes.get(1).map(|_| vec![0.5; 32 * 160 * 160]));
            assert_eq!(
                found(&*head, &outputs),
                [
                    ("c2".to_owned(), 0.9, Rect::new(10.0, 20.0, 110.0, 220.0)),
                    ("c2".to_owned(), 0.8, Rect::new(12.0, 20.0, 112.0, 220.0)),
                ]
            );
            let views: Vec<Output<'_>> = outputs.iter().map(|data| Output { data }).collect();
            assert_eq!(head.inspect(&views, &input()), Ok(None));
        }
    }

    #[test]
    fn other_layouts_are_refused() {
        for (shape, words) in [
            (&[300, 7][..], "picture, left, top"),
            (&[8400, 6], "rows of 6 values"),
            (&[2000, 6], "rows of 6 values"),
            (&[300, 84], "rows of 6 values"),
            (&[6, 8400], "rows of 6 values"),
            (&[6], "rows of 6 values"),
        ] {
            let error = build_of(&[shape], &named(3)).err().expect("refused");
            assert!(error.contains(words), "{shape:?}: {error}");
        }
        let unnamed = build_of(&[&[300, 6]], &Settings::default())
            .err()
            .expect("refused");
        assert!(unnamed.contains("nothing names its classes"), "{unnamed}");
    }

    #[test]
    fn values_of_other_layouts_are_refused() {
        let head = build_of(&[&[2, 6]], &named(3)).expect("fits");
        let inspect = |rows: [[f32; 6]; 2]| {
            let data: Vec<f32> = rows.concat();
            head.inspect(&[Output { data: &data }], &input())
        };
        let good = [10.0, 20.0, 110.0, 220.0, 0.9, 2.0];
        for (row, words) in [
            // Class before score.
            ([10.0, 20.0, 110.0, 220.0, 2.0, 0.9], "fifth value is 2"),
            ([10.0, 20.0, 110.0, 220.0, 0.9, 7.0], "sixth value is 7"),
            ([10.0, 20.0, 110.0, 220.0, 0.9, 0.5], "sixth value is 0.5"),
            // Centre and size.
            ([110.0, 220.0, 40.0, 50.0, 0.9, 2.0], "no corners"),
        ] {
            let error = inspect([good, row]).expect_err("refused");
            assert!(error.contains(words), "{error}");
        }
        let relative = [0.1, 0.2, 0.3, 0.4, 0.9, 2.0];
        let error = inspect([relative, relative]).expect_err("refused");
        assert!(error.contains("relative to the picture"), "{error}");
        let query = [0.5, 0.5, 0.1, 0.2, 0.9, 2.0];
        let error = inspect([query, query]).expect_err("refused");
        assert!(error.contains("use the head rtdetr"), "{error}");
        assert_eq!(inspect([good, [0.0; 6]]), Ok(None), "a row without an object");
    }
}
