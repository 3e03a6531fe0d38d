//! Classes that a camera tracks, their masks, sizes and scores.

use std::collections::BTreeMap;

use weir_flow::COCO;
use weir_graph::text_edit::key_text;

use super::camera::polygons;
use super::layer::Layer;
use super::points::Size;
use super::yaml::Node;

/// Classes of a camera.
pub(super) struct Objects<'a> {
    /// Classes that it tracks, in the order of the file.
    pub(super) tracked: Vec<String>,
    /// Scores that the configuration wants of a track, by class.
    pub(super) thresholds: BTreeMap<String, (&'a Node, f64)>,
}

/// Largest ratio of width to height that a graph takes.
const MAX_RATIO: f64 = 1000.0;

/// Reads them, and writes the keys `ignore` and `objects` of the camera.
pub(super) fn read<'a>(layer: Layer<'a>, size: Option<Size>, lines: &mut Vec<String>) -> Objects<'a> {
    let objects = layer.section("objects");
    let mut tracked = Vec::new();
    match objects.texts("track") {
        None => tracked.push("person".to_owned()),
        Some(names) => {
            for node in names {
                let Some(name) = node.scalar() else { continue };
                if !COCO.contains(&name) {
                    node.refuse(format!(
                        "the detector of the graph finds no \"{}\"",
                        name.escape_debug()
                    ));
                    continue;
                }
                node.take();
                if !tracked.iter().any(|known| known == name) {
                    tracked.push(name.to_owned());
                }
            }
        }
    }
    let masks = polygons(objects.texts("mask"), size);
    if !masks.is_empty() {
        lines.push(format!("ignore = [{}]", masks.join(", ")));
    }
    let filters = objects.section("filters");
    let mut thresholds = BTreeMap::new();
    for name in filters.names() {
        // The filter of a class that this camera does not track is for others, or for none.
        if !tracked.iter().any(|class| class == name) {
            continue;
        }
        let filter = filters.section(name);
        match filter.number("threshold") {
            Some((node, score)) if (0.0..=1.0).contains(&score) => {
                thresholds.insert(name.to_owned(), (node, score));
            }
            Some((node, _)) => node.refuse("a score lies between 0 and 1"),
            None => {}
        }
        let keys = rule(filter, size);
        if !keys.is_empty() {
            lines.push(format!("objects.{} = {{ {} }}", key_text(name), keys.join(", ")));
        }
    }
    Objects { tracked, thresholds }
}

/// Keys of the rule of a class.
fn rule(filter: Layer<'_>, size: Option<Size>) -> Vec<String> {
    let mut keys = Vec::new();
    if let Some((node, score)) = filter.number("min_score") {
        if (0.0..=1.0).contains(&score) {
            keys.push(format!("min_score = {score}"));
        } else {
            node.refuse("a score lies between 0 and 1");
        }
    }
    let area = |name: &str| {
        let (node, area) = filter.number(name)?;
        // Below 1 it is a part of the picture.
        let part = match size {
            _ if (0.0..1.0).contains(&area) => Some(area),
            Some(size) if area >= 1.0 => Some(area / (size.width * size.height)),
            _ => None,
        };
        if part.is_none() {
            node.refuse("it is in pixels, and `detect` of a camera has no width and height");
        }
        Some((node, (part?.min(1.0) * 1e6).round() / 1e6))
    };
    let ratio = |name: &str| {
        filter
            .number(name)
            .map(|(node, ratio)| (node, ratio.clamp(0.0, MAX_RATIO)))
    };
    bounds(&mut keys, "area", area("min_area"), area("max_area"), 1.0);
    bounds(
        &mut keys,
        "ratio",
        ratio("min_ratio"),
        ratio("max_ratio"),
        MAX_RATIO,
    );
    let masks = polygons(filter.texts("mask"), size);
    if !masks.is_empty() {
        keys.push(format!("ignore = [{}]", masks.join(", ")));
    }
    keys
}

/// The keys of a lower and an upper bound; those that bound nothing are left out.
fn bounds(
    keys: &mut Vec<String>,
    what: &str,
    min: Option<(&Node, f64)>,
    max: Option<(&Node, f64)>,
    limit: f64,
) {
    if let (Some((node, min)), Some((_, max))) = (min, max)
        && min > max
    {
        node.refuse(format!("no object has a size between {min} and {max}"));
        return;
    }
    if let Some((_, min)) = min.filter(|(_, min)| *min > 0.0) {
        keys.push(format!("min_{what} = {min}"));
    }
    if let Some((_, max)) = max.filter(|(_, max)| *max < limit) {
        keys.push(format!("max_{what} = {max}"));
    }
}

/// The classes among those that a camera tracks; the others are refused.
pub(super) fn of_tracked(wanted: &[&Node], tracked: &[String]) -> Vec<String> {
    let mut classes = Vec::new();
    for node in wanted {
        let Some(name) = node.scalar() else { continue };
        if tracked.iter().any(|class| class == name) {
            node.take();
            classes.push(name.to_owned());
        } else {
            node.refuse(format!("the camera tracks no \"{}\"", name.escape_debug()));
        }
    }
    classes.sort();
    classes.dedup();
    classes
}
