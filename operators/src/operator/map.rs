//! The operator `map`: a model reads each cell of the frame, and the map is summed up as attributes of the frame, of named places in it,
//! and of objects that earlier modules found.

use std::sync::Arc;

use weir_flow::{
    Attribute, DenseMap, Frame, Inference, Item, KeyKind, KeySpec, MapCells, Model, ModuleOutput, Object,
    ObjectAttribute, ObjectRef, Operator, Point, Points, Rect, Region, RequestResults,
};

use super::error::OperatorError;
use super::output::{note_named, whole_frame};
use super::{ConfiguredOperator, OperatorRequest, crops};
use crate::heads::labels::Labels;

/// Keys of the operator.
pub(super) const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "places",
        kind: KeyKind::Texts,
        about: "parts of the frame that have attributes of their own, each a name and left, top, right, bottom from 0 to 1, or a name and x, y \
                for one point: [\"track 0.1 0.5 0.9 1\", \"gate 0.4 0.6\"]; default none",
    },
    KeySpec {
        name: "shares",
        kind: KeyKind::Integer { min: 0, max: 64 },
        about: "number of classes whose shares are attributes, the largest first; default 8",
    },
    KeySpec {
        name: "masks",
        kind: KeyKind::Texts,
        about: "classes that are objects of the frame, too, each with a mask of all its cells; default none",
    },
    KeySpec {
        name: "statistics",
        kind: KeyKind::Texts,
        about: "of values: mean, min, max, or percentiles such as p50 and p95; default [\"mean\", \"min\", \"max\"]",
    },
];

/// Named places, classes with a mask, and statistics.
const MAX_LISTED: usize = 64;
/// Characters of a place's name.
const MAX_NAME: usize = 64;

/// One number of the values of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Statistic {
    Mean,
    Min,
    Max,
    /// Between 0 and 100, by the nearest value.
    Percentile(f32),
}

impl Statistic {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "mean" => Some(Self::Mean),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            _ => {
                let percent: f32 = text.strip_prefix('p')?.parse().ok()?;
                (0.0..=100.0)
                    .contains(&percent)
                    .then_some(Self::Percentile(percent))
            }
        }
    }

    /// Of values, which a percentile puts into another order; `None` where there is none.
    fn of(self, values: &mut [f32]) -> Option<f32> {
        let last = values.len().checked_sub(1)?;
        Some(match self {
            Self::Mean => {
                let sum: f64 = values.iter().map(|value| f64::from(*value)).sum();
                (sum / values.len() as f64) as f32
            }
            Self::Min => values.iter().copied().fold(f32::INFINITY, f32::min),
            Self::Max => values.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            Self::Percentile(percent) => {
                let place = (percent / 100.0 * last as f32).round() as usize;
                *values.select_nth_unstable_by(place.min(last), f32::total_cmp).1
            }
        })
    }
}

/// A part of the frame with a name.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    name: String,
    /// Relative to the frame.
    rect: Rect,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let name = words.next()?;
        let numbers: Vec<f32> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        let rect = match numbers[..] {
            [x, y] => DenseMap::at(Point::new(x, y)),
            [x0, y0, x1, y1] if x0 < x1 && y0 < y1 => Rect::new(x0, y0, x1, y1),
            _ => return None,
        };
        let is_within = numbers.iter().all(|number| (0.0..=1.0).contains(number));
        let is_name =
            name.chars().count() <= MAX_NAME && !name.contains(['.', '@']) && name.parse::<f32>().is_err();
        (is_within && is_name).then(|| Self {
            name: name.to_owned(),
            rect,
        })
    }
}

/// The operator with its settings.
pub(super) struct MapOperator {
    selection: ConfiguredOperator,
    places: Vec<Place>,
    shares: usize,
    /// Classes that are objects with a mask.
    masks: Vec<String>,
    statistics: Vec<(String, Statistic)>,
}

/// Creates the operator.
///
/// # Errors
/// A place or a statistic of another form, two places of one name, or a mask of a class that the model does not have.
pub(super) fn map(
    request: &OperatorRequest<'_>,
    selection: ConfiguredOperator,
) -> Result<Arc<dyn Operator>, OperatorError> {
    let settings = request.settings;
    let refused = |key, reason: String| OperatorError::Template { key, reason };
    let listed = |key: &'static str, texts: &[String]| match texts.len() {
        0..=MAX_LISTED => Ok(()),
        count => Err(refused(
            key,
            format!("there are {count}, and at most {MAX_LISTED} are taken"),
        )),
    };
    let written = settings.texts("places").unwrap_or_default();
    listed("places", written)?;
    let mut places: Vec<Place> = Vec::new();
    for text in written {
        let place = Place::parse(text).filter(|place| places.iter().all(|other| other.name != place.name));
        places.push(place.ok_or_else(|| {
            let form = "is not a name of its own with left, top, right, bottom or x, y from 0 to 1, such as \"track 0.1 0.5 0.9 1\"";
            refused("places", format!("\"{text}\" {form}"))
        })?);
    }
    let masks = settings.texts("masks").unwrap_or_default();
    listed("masks", masks)?;
    let known = request.model.map(Model::classes).unwrap_or_default();
    let unknown = |class: &&String| !known.is_empty() && known.iter().all(|name| **name != ***class);
    if let Some(class) = masks.iter().find(unknown) {
        let known = Labels::of(known).listed();
        let reason = format!("the model has no class \"{class}\"; it has {known}");
        return Err(refused("masks", reason));
    }
    let default = ["mean", "min", "max"].map(str::to_owned);
    let written = settings.texts("statistics").unwrap_or(&default);
    listed("statistics", written)?;
    let statistic = |text: &String| {
        let parsed = Statistic::parse(text).map(|statistic| (text.clone(), statistic));
        parsed.ok_or_else(|| {
            let known = "is none of mean, min, max and percentiles such as p50";
            refused("statistics", format!("\"{text}\" {known}"))
        })
    };
    Ok(Arc::new(MapOperator {
        selection,
        places,
        shares: settings.number("shares", 8.0) as usize,
        masks: masks.to_vec(),
        statistics: written.iter().map(statistic).collect::<Result<_, _>>()?,
    }))
}

impl MapOperator {
    /// The attributes of a box, in source pixels; `place` is behind their name.
    fn attributes(&self, map: &DenseMap, rect: &Rect, place: &str) -> Vec<(Arc<str>, Attribute)> {
        let name = format!("{}{place}", self.selection.attribute);
        let number = |of: &str, value: f32| (format!("{name}.{of}").into(), Attribute::Number { value });
        if let MapCells::Values(_) = map.cells() {
            let mut values = map.values(rect);
            let found = self.statistics.iter();
            return found
                .filter_map(|(of, statistic)| Some(number(of, statistic.of(&mut values)?)))
                .collect();
        }
        let shares = map.shares(rect);
        let largest = shares.first().map(|(class, share)| {
            let attribute = Attribute::Class {
                class: Arc::clone(class),
                score: *share,
            };
            (name.as_str().into(), attribute)
        });
        let shares = shares.iter().take(self.shares);
        let shares = shares.map(|(class, share)| number(class, 100.0 * share));
        largest.into_iter().chain(shares).collect()
    }
}

impl Operator for MapOperator {
    fn items(&self, frame: &Arc<Frame>, results: &RequestResults) -> Vec<Item> {
        let reads_frame =
            self.selection.regions.is_empty() || !self.places.is_empty() || !self.masks.is_empty();
        match reads_frame || !crops::chosen(&self.selection, results).is_empty() {
            true => vec![Item::of_frame(frame, Region::Whole)],
            false => Vec::new(),
        }
    }

    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput {
        self.output_beside(module, items, inferences, &RequestResults::default())
    }

    fn output_beside(
        &self,
        module: u32,
        items: &[Item],
        inferences: Vec<Inference>,
        results: &RequestResults,
    ) -> ModuleOutput {
        let mut output = ModuleOutput::default();
        let first = items.first().zip(inferences.into_iter().next());
        let Some((item, map)) = first.and_then(|(item, inference)| Some((item, inference.map?))) else {
            return output;
        };
        let (width, height) = item.frame.size();
        let (width, height) = (width as f32, height as f32);
        let mut named = Vec::new();
        if self.selection.regions.is_empty() {
            named.extend(self.attributes(&map, &Rect::new(0.0, 0.0, width, height), ""));
        }
        for place in &self.places {
            let rect = place.rect.scaled(width, height);
            named.extend(self.attributes(&map, &rect, &format!("@{}", place.name)));
        }
        note_named(module, item, named, &mut output);
        let masks = self.masks.iter();
        let masks = masks.filter_map(|class| Some((class, map.class_mask(class, (width, height))?)));
        output.objects.extend(masks.map(|(class, (rect, mask))| Object {
            class: class.as_str().into(),
            rect,
            points: Points::Mask(Arc::new(mask)),
            ..whole_frame(&item.frame)
        }));
        let objects: Vec<(ObjectRef, &Object)> = crops::chosen(&self.selection, results);
        for (of, object) in objects {
            let named = self.attributes(&map, &object.rect.clamp(width, height), "");
            let attributes = named.into_iter().map(|(name, attribute)| ObjectAttribute {
                object: of,
                name,
                attribute,
            });
            output.attributes.extend(attributes);
        }
        output
    }
}

#[cfg(test)]
mod tests;
