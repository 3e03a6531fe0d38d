//! Heads of models that read each cell of a picture: semantic segmentation, and values such as a depth or a heat.
//!
//! Input: red, green, blue, stretched, less mean and deviation of ImageNet. Output of a segmentation: scores `[classes, rows, columns]` or
//! `[rows, columns, classes]`, of which the largest is the class of a cell; the class itself `[rows, columns]`; or the probability of
//! the second of two classes `[1, rows, columns]`. Output of values: `[rows, columns]`, also with a size of 1 before or behind. Rows and
//! columns cover the input, at any resolution. The operator `map` makes attributes of them.

use std::sync::Arc;

use weir_flow::{DenseMap, HeadOutput, Inference, KeyKind, KeySpec, MapCells, Settings};

use super::detection::is_no_probability;
use super::input::{Input, ItemTransform, PixelMap};
use super::labels::{DeclaredNames, Labels};
use super::settings::{INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, UNREAD_NAMES, unfit};

pub(super) const CLASSES: HeadKind = HeadKind {
    name: "class-map",
    about: "semantic segmentation: RGB, stretched, mean and std of preprocessor_config.json or by key, else of ImageNet; scores [classes, rows, \
            columns] or [rows, columns, classes], classes [rows, columns], or the probability of the second of two classes [1, rows, columns]",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[&[THRESHOLD], LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::detr::INPUT_DEFAULTS,
    build: build_classes,
};

pub(super) const VALUES: HeadKind = HeadKind {
    name: "value-map",
    about: "depth, heat and other values: RGB, stretched, mean and std of preprocessor_config.json or by key, else of ImageNet; [rows, columns]",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[&[SCALE], INPUT_KEYS],
    input_defaults: super::detr::INPUT_DEFAULTS,
    build: build_values,
};

const THRESHOLD: KeySpec = KeySpec {
    name: "score_threshold",
    kind: KeyKind::Number { min: 0.0, max: 1.0 },
    about: "of a model with one probability a cell: least probability of the second class; default 0.5",
};

const SCALE: KeySpec = KeySpec {
    name: "scale",
    kind: KeyKind::Number { min: -1e6, max: 1e6 },
    about: "factor of the values, such as 0.001 for metres where the model gives millimetres; default 1",
};

/// Cells of a map.
const MAX_CELLS: usize = 1 << 22;
/// Classes of a map.
const MAX_CLASSES: usize = 4096;
/// Outputs for training that exports of torchvision also have.
const AUXILIARY: &str = "aux";

/// Arrangement of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// A plane for each class.
    Planes,
    /// The scores of all classes for each cell.
    Pixels,
    /// One value a cell.
    Single,
}

/// The output with a map, and its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    output: usize,
    arrangement: Arrangement,
    values: usize,
    columns: usize,
    rows: usize,
}

impl Place {
    /// The only map among the outputs.
    fn find(input: &Input, specs: &[OutputSpec]) -> Option<Self> {
        let mut outputs = specs
            .iter()
            .enumerate()
            .filter(|(_, output)| output.name != AUXILIARY);
        let (output, spec) = outputs.next().filter(|_| outputs.next().is_none())?;
        let (arrangement, values, rows, columns) = match spec.shape[..] {
            [1, rows, columns] | [rows, columns, 1] | [rows, columns] => {
                (Arrangement::Single, 1, rows, columns)
            }
            [values, rows, columns] if covers(input, rows, columns) => {
                (Arrangement::Planes, values, rows, columns)
            }
            [rows, columns, values] => (Arrangement::Pixels, values, rows, columns),
            _ => return None,
        };
        let is_bounded = rows
            .checked_mul(columns)
            .is_some_and(|cells| (2..=MAX_CELLS).contains(&cells));
        (covers(input, rows, columns) && is_bounded && values <= MAX_CLASSES).then_some(Self {
            output,
            arrangement,
            values,
            columns,
            rows,
        })
    }
}

/// Whether a grid has the aspect of the input, up to the rounding of its sizes.
pub(super) fn covers(input: &Input, rows: usize, columns: usize) -> bool {
    let (width, height) = (input.spec.width as usize, input.spec.height as usize);
    rows > 1
        && columns > 1
        && (columns.saturating_mul(height)).abs_diff(rows.saturating_mul(width)) <= width.max(height)
}

/// The map of an item that is not warped.
fn map(place: &Place, transform: &ItemTransform, cells: MapCells) -> Inference {
    let PixelMap::Scaled(_) = transform.map else {
        return Inference::default();
    };
    Inference {
        map: DenseMap::new(transform.area(), place.columns, place.rows, cells).map(Arc::new),
        ..Inference::default()
    }
}

struct ClassMap {
    place: Place,
    labels: Labels,
    /// The same as in the labels, shared with all maps.
    names: Arc<[Arc<str>]>,
    /// Least probability of the second class; `None` where cells have the number of their class.
    threshold: Option<f32>,
    /// Whether the names are read.
    is_named: bool,
}

fn build_classes(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [classes, rows, columns], [rows, columns, classes] or [rows, columns] with the aspect of its input";
    let place = Place::find(input, specs).ok_or_else(|| unfit(specs, expected))?;
    let is_float = specs[place.output].readable;
    if place.arrangement != Arrangement::Single && !is_float {
        return Err(unfit(specs, expected));
    }
    let labels = match (place.arrangement, is_float) {
        // Classes cannot be counted by the output.
        (Arrangement::Single, false) => super::selected::named_classes(settings)?,
        (Arrangement::Single, true) => {
            let declared = DeclaredNames::read(settings)?;
            Labels::choose(declared, &["background", "foreground"], 2)?
        }
        _ => Labels::read(settings, &[], place.values)?,
    };
    let is_single = place.arrangement == Arrangement::Single && is_float;
    Ok(Box::new(ClassMap {
        place,
        names: labels.names().into(),
        labels,
        threshold: is_single.then(|| settings.number("score_threshold", 0.5) as f32),
        is_named: !settings.0.contains_key(UNREAD_NAMES),
    }))
}

impl ClassMap {
    /// The class of each cell.
    fn cells(&self, data: &[f32]) -> Box<[u16]> {
        let Place {
            values,
            rows,
            columns,
            ..
        } = self.place;
        let number = |value: f32| value.clamp(0.0, f32::from(u16::MAX)) as u16;
        match (self.place.arrangement, self.threshold) {
            (Arrangement::Single, None) => data.iter().map(|class| number(*class)).collect(),
            (Arrangement::Single, Some(least)) => {
                data.iter().map(|score| u16::from(*score >= least)).collect()
            }
            (Arrangement::Pixels, _) => {
                let best = |scores: &[f32]| super::detection::best(scores).0 as u16;
                data.chunks_exact(values).map(best).collect()
            }
            (Arrangement::Planes, _) => {
                let mut planes = data.chunks_exact(rows * columns);
                let mut most = planes.next().map(<[f32]>::to_vec).unwrap_or_default();
                let mut classes = vec![0_u16; most.len()];
                for (class, plane) in (1..).zip(planes) {
                    for ((score, most), best) in plane.iter().zip(&mut most).zip(&mut classes) {
                        if *score > *most || most.is_nan() {
                            (*most, *best) = (*score, class);
                        }
                    }
                }
                classes.into()
            }
        }
    }
}

impl Head for ClassMap {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], _: &Input) -> Result<Option<String>, String> {
        if self.place.arrangement != Arrangement::Single {
            return Ok(None);
        }
        let data = Output::elements(outputs, self.place.output);
        if self.threshold.is_some() {
            return match data.iter().find(|value| is_no_probability(**value)) {
                Some(value) => Err(format!(
                    "a cell is {value}, and probabilities are from 0 to 1: export the model with the sigmoid, or name the head \
                     value-map if it gives values"
                )),
                None => Ok(None),
            };
        }
        let classes = self.names.len() as f32;
        let is_none =
            |class: &&f32| **class < 0.0 || class.fract() != 0.0 || (self.is_named && **class >= classes);
        match data.iter().filter(|class| class.is_finite()).find(is_none) {
            Some(class) => Err(format!(
                "the class of a cell is {class}, and classes are whole numbers from 0 to {}: give the names of all classes by `labels`",
                classes - 1.0
            )),
            None => Ok(None),
        }
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let data = Output::elements(outputs, self.place.output);
        let cells = MapCells::Classes {
            names: Arc::clone(&self.names),
            cells: self.cells(data),
        };
        map(&self.place, transform, cells)
    }
}

struct ValueMap {
    place: Place,
    scale: f32,
}

fn build_values(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [rows, columns] with the aspect of its input";
    let place = Place::find(input, specs)
        .filter(|place| place.arrangement == Arrangement::Single && specs[place.output].readable)
        .ok_or_else(|| unfit(specs, expected))?;
    Ok(Box::new(ValueMap {
        place,
        scale: settings.number("scale", 1.0) as f32,
    }))
}

impl Head for ValueMap {
    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let data = Output::elements(outputs, self.place.output);
        let cells = data.iter().map(|value| value * self.scale).collect();
        map(&self.place, transform, MapCells::Values(cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{Rect, Value};

    fn input() -> Input {
        let port = [Some(1), Some(3), Some(32), Some(64)];
        CLASSES.input(&Settings::default(), &port).expect("read")
    }

    fn named(labels: &[&str]) -> Settings {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Settings([("labels".to_owned(), Value::Texts(labels))].into())
    }

    fn built(
        kind: &HeadKind,
        settings: &Settings,
        outputs: &[(&str, &[usize], bool)],
    ) -> Result<Box<dyn Head>, String> {
        let spec = |(name, shape, readable): &(&str, &[usize], bool)| OutputSpec {
            name: (*name).to_owned(),
            shape: shape.to_vec(),
            readable: *readable,
        };
        let specs: Vec<OutputSpec> = outputs.iter().map(spec).collect();
        kind.build(settings, &input(), &specs)
    }

    fn map_of(head: &dyn Head, data: &[f32]) -> DenseMap {
        let map = head
            .decode(&[Output { data }], &ItemTransform::identity(64, 32))
            .map;
        DenseMap::clone(&map.expect("a map"))
    }

    fn classes_of(head: &dyn Head, data: &[f32]) -> Vec<u16> {
        match map_of(head, data).cells() {
            MapCells::Classes { cells, .. } => cells.to_vec(),
            MapCells::Values(_) => panic!("values"),
        }
    }

    #[test]
    fn the_largest_score_of_a_cell_is_its_class() {
        let names = named(&["sky", "road", "grass"]);
        let expected = [0, 1, 2, 0, 1, 2, 1, 1];
        // NaN never wins.
        let score = |cell: usize, class: usize| match (cell, class) {
            (7, 0) => f32::NAN,
            _ if usize::from(expected[cell]) == class => 3.0,
            _ => -2.0,
        };
        let planes: Vec<f32> = (0..24).map(|place| score(place % 8, place / 8)).collect();
        let head = built(
            &CLASSES,
            &names,
            &[("logits", &[3, 2, 4], true), ("aux", &[3, 2, 4], true)],
        )
        .expect("fits");
        assert_eq!(classes_of(&*head, &planes), expected);
        let pixels: Vec<f32> = (0..24).map(|place| score(place / 3, place % 3)).collect();
        let head = built(&CLASSES, &names, &[("logits", &[2, 4, 3], true)]).expect("fits");
        assert_eq!(classes_of(&*head, &pixels), expected);
        let whole: Vec<f32> = expected.iter().map(|class| f32::from(*class)).collect();
        for shape in [&[2, 4][..], &[1, 2, 4], &[2, 4, 1]] {
            let head = built(&CLASSES, &names, &[("classes", shape, false)]).expect("fits");
            assert_eq!(head.inspect(&[Output { data: &whole }], &input()), Ok(None));
            assert_eq!(classes_of(&*head, &whole), expected, "{shape:?}");
            let error = head
                .inspect(&[Output { data: &[3.0; 8] }], &input())
                .expect_err("refused");
            assert!(error.contains("the class of a cell is 3"), "{error}");
        }
    }

    #[test]
    fn one_probability_tells_two_classes() {
        let head = built(
            &CLASSES,
            &named(&["background", "person"]),
            &[("p", &[2, 4, 1], true)],
        )
        .expect("fits");
        let data = [0.1, 0.5, 0.9, f32::NAN, 0.0, 1.0, 0.49, 0.51];
        assert_eq!(head.inspect(&[Output { data: &data }], &input()), Ok(None));
        assert_eq!(classes_of(&*head, &data), [0, 1, 1, 0, 0, 1, 0, 1]);
        let error = head
            .inspect(&[Output { data: &[-4.0; 8] }], &input())
            .expect_err("refused");
        assert!(error.contains("with the sigmoid"), "{error}");
    }

    #[test]
    fn values_are_scaled() {
        let settings = Settings([("scale".to_owned(), Value::Number(0.5))].into());
        let head = built(&VALUES, &settings, &[("predicted_depth", &[2, 4], true)]).expect("fits");
        let map = map_of(&*head, &[2.0, 4.0, 6.0, 8.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(map.values(&Rect::new(0.0, 0.0, 64.0, 16.0)), [1.0, 2.0, 3.0, 4.0]);
        assert!(head.decode(&[], &ItemTransform::identity(64, 32)).map.is_none());
    }

    #[test]
    fn outputs_that_do_not_cover_the_input_are_refused() {
        let names = named(&["a", "b", "c"]);
        for outputs in [
            &[("x", &[3, 16, 4][..], true)][..],
            &[("x", &[1000], true)],
            &[("x", &[3, 2, 4], true), ("y", &[3, 2, 4], true)],
            &[("x", &[3, 4096, 8192], true)],
            &[("x", &[5000, 2, 4], true)],
            &[("x", &[3, 2, 4], false)],
            &[("x", &[3, 1, 1], true)],
            &[],
        ] {
            assert!(built(&CLASSES, &names, outputs).is_err(), "{outputs:?}");
            assert!(built(&VALUES, &names, outputs).is_err(), "{outputs:?}");
        }
        assert!(built(&VALUES, &names, &[("x", &[3, 2, 4], true)]).is_err());
        let unnamed = built(&CLASSES, &Settings::default(), &[("x", &[2, 4], false)]).err();
        assert!(unnamed.expect("refused").contains("nothing names its classes"));
        // Sides are rounded: 65 of 513 and 129 of 1025.
        let port = [Some(1), Some(3), Some(513), Some(1025)];
        let input = CLASSES.input(&Settings::default(), &port).expect("read");
        assert!(covers(&input, 65, 129));
    }
}
