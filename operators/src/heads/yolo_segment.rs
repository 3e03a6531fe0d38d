//! YOLO models that find the pixels of objects, as Ultralytics exports YOLOv8, YOLO11 and YOLO26 for instance segmentation.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Outputs: `[4 + classes + m, boxes]`, centre and size in input pixels,
//! classes and the coefficients of a mask; or `[n, 6 + m]` where the model selects its objects: left, top, right, bottom, score,
//! class, coefficients; and prototypes `[m, height, width]` of the whole input. The logit of a pixel is the sum of the prototypes
//! by these coefficients, resized to the input by bilinear interpolation; the mask has the pixels of the box above 0 (Bolya et al.,
//! YOLACT, 2019, arXiv:1904.02689, section 3).

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, Mask, Point, Points, Rect, Settings};

use super::detection::{Candidate, DetectionFilter};
use super::input::{Input, ItemTransform};
use super::labels::{DeclaredNames, Labels};
use super::selected;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::task_rows::{Extra, RowsRequest, TaskRows};
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yolo-segment",
    about: "YOLO for instance segmentation (v8, 11, 26): RGB /255, letterbox over 114; [4 + classes + 32, boxes], or end to end \
            [n, 38], and prototypes [32, height, width]; objects with their mask; score 0.25, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::yolov5::INPUT_DEFAULTS,
    build,
};

/// Prototypes of all models that Ultralytics trains; another number is read, too, if it is that of the coefficients.
const PROTOTYPES: usize = 32;

struct YoloSegment {
    filter: DetectionFilter,
    rows: TaskRows,
    /// Number of classes, if they are named.
    classes: Option<usize>,
    /// Places of the rows and of the prototypes among the outputs.
    places: (usize, usize),
    /// Columns and rows of a prototype.
    grid: (usize, usize),
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "[4 + classes + 32, boxes] or [n, 38], and prototypes [32, height, width]";
    let place = |rank: usize| {
        let is_of_rank = |output: &OutputSpec| output.readable && output.shape.len() == rank;
        specs.iter().position(is_of_rank)
    };
    let (Some(rows_at), Some(prototypes_at), 2) = (place(2), place(3), specs.len()) else {
        return Err(match lacks_prototypes(settings, specs) {
            true => format!(
                "{}; this is the layout of a segmentation model without its prototypes: export it with both outputs",
                unfit(specs, expected)
            ),
            false => unfit(specs, expected),
        });
    };
    let &[count, height, width] = &specs[prototypes_at].shape[..] else {
        return Err(unfit(specs, expected));
    };
    // Prototypes cover the input, so they have its aspect.
    let (input_width, input_height) = (input.spec.width as usize, input.spec.height as usize);
    if count == 0 || width == 0 || height == 0 || width * input_height != height * input_width {
        return Err(format!(
            "{}; prototypes of {width} by {height} do not cover an input of {input_width} by {input_height}",
            unfit(specs, expected)
        ));
    }
    let request = RowsRequest {
        settings,
        input,
        specs,
        rows: &specs[rows_at],
        expected,
        default: &[],
    };
    let (rows, labels) = TaskRows::read(&request, Extra::Fixed(count))?;
    let classes = selected::known_classes(settings, &labels);
    let filter = match rows.is_selected {
        true => selected::filter(settings, 0.25, labels)?,
        false => DetectionFilter::read(settings, 0.25, 0.45, labels)?,
    };
    Ok(Box::new(YoloSegment {
        filter,
        rows,
        classes,
        places: (rows_at, prototypes_at),
        grid: (width, height),
    }))
}

/// Whether the only output has coefficients behind all named classes.
fn lacks_prototypes(settings: &Settings, specs: &[OutputSpec]) -> bool {
    let classes = DeclaredNames::read(settings).ok();
    let classes = classes
        .and_then(|declared| declared.classes())
        .map(|(classes, _)| classes);
    match specs {
        [only] => classes.is_some_and(|classes| only.shape.contains(&(4 + classes + PROTOTYPES))),
        _ => false,
    }
}

/// Logits of some cells of the prototypes.
struct Logits {
    /// Columns and rows of a whole prototype.
    grid: (usize, usize),
    /// First column and row.
    first: (usize, usize),
    columns: usize,
    rows: usize,
    values: Vec<f32>,
}

impl Logits {
    /// The logits of the cells from `first` to before `end`: the sum of the prototypes by their coefficients.
    fn new(
        prototypes: &[f32],
        grid: (usize, usize),
        coefficients: impl Iterator<Item = f32>,
        (first, end): ((usize, usize), (usize, usize)),
    ) -> Self {
        let (columns, rows) = (end.0 - first.0, end.1 - first.1);
        let mut values = vec![0.0; columns * rows];
        let planes = prototypes.chunks_exact(grid.0 * grid.1);
        for (plane, coefficient) in planes.zip(coefficients) {
            let lines = plane.chunks_exact(grid.0).skip(first.1);
            for (line, sums) in lines.zip(values.chunks_exact_mut(columns)) {
                for (value, sum) in line[first.0..end.0].iter().zip(sums) {
                    *sum += coefficient * value;
                }
            }
        }
        Self {
            grid,
            first,
            columns,
            rows,
            values,
        }
    }

    /// The logit between the centres of four cells, at a place in cells of the prototypes.
    fn at(&self, x: f32, y: f32) -> f32 {
        // The two cells next to a place, and the share of the second; a place beyond the outer centres has the outer cell alone.
        let cells = |place: f32, length: usize, first: usize, count: usize| {
            let place = (place - 0.5).clamp(0.0, (length - 1) as f32);
            let low = place.floor();
            let within = |cell: usize| cell.saturating_sub(first).min(count - 1);
            (within(low as usize), within(low as usize + 1), place - low)
        };
        let (left, right, across) = cells(x, self.grid.0, self.first.0, self.columns);
        let (above, below, down) = cells(y, self.grid.1, self.first.1, self.rows);
        let value = |column: usize, row: usize| self.values[row * self.columns + column];
        let line = |row: usize| value(left, row) * (1.0 - across) + value(right, row) * across;
        line(above) * (1.0 - down) + line(below) * down
    }
}

impl YoloSegment {
    /// The pixels of an object; `None` where there are none.
    fn mask(
        &self,
        prototypes: &[f32],
        coefficients: impl Iterator<Item = f32>,
        rect: &Rect,
        transform: &ItemTransform,
    ) -> Option<Mask> {
        let (columns, rows) = self.grid;
        let scale = (
            columns as f32 / transform.width as f32,
            rows as f32 / transform.height as f32,
        );
        // The cells whose centres are about the box.
        let cells = |low: f32, high: f32, scale: f32, length: usize| {
            let first = ((low * scale - 0.5).floor().max(0.0) as usize).min(length - 1);
            let end = ((high * scale + 1.5).ceil().max(0.0) as usize).clamp(first + 1, length);
            (first, end)
        };
        let (left, right) = cells(rect.x0, rect.x1, scale.0, columns);
        let (top, bottom) = cells(rect.y0, rect.y1, scale.1, rows);
        let logits = Logits::new(
            prototypes,
            self.grid,
            coefficients,
            ((left, top), (right, bottom)),
        );
        // From source pixels to those of the input, which the transform only scales and moves.
        let area = transform.area();
        let to_input =
            |at: f32, start: f32, end: f32, length: u32| (at - start) / (end - start) * length as f32;
        Mask::sample(&transform.rect(rect), |x, y| {
            let x = to_input(x, area.x0, area.x1, transform.width);
            let y = to_input(y, area.y0, area.y1, transform.height);
            rect.contains(Point::new(x, y)) && logits.at(x * scale.0, y * scale.1) > 0.0
        })
    }
}

impl Head for YoloSegment {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        let Some(data) = outputs.get(self.places.0).map(|output| output.data) else {
            return Ok(None);
        };
        let rect = |index| self.rows.rect(data, index);
        self.rows.inspect(data, input, self.classes, rect)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let output = |place: usize| outputs.get(place).map(|output| output.data);
        let (Some(data), Some(prototypes)) = (output(self.places.0), output(self.places.1)) else {
            return Inference::default();
        };
        let found = self.rows.found(data, self.filter.threshold).into_iter();
        let candidates = found.map(|found| Candidate {
            index: found.index,
            ..Candidate::new(found.class, found.score, self.rows.rect(data, found.index))
        });
        // Masks are made of objects that survive suppression alone. One without a pixel is no object, as in Ultralytics.
        self.filter
            .objects_with(candidates.collect(), transform, |candidate| {
                let coefficients = self.rows.extras(data, candidate.index);
                let mask = self.mask(prototypes, coefficients, &candidate.rect, transform)?;
                Some(Points::Mask(Arc::new(mask)))
            })
    }
}
