//! Objects of a source that count: the keys `only`, `ignore`, `objects` and `ground`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_analytics::transforms::{GroundMap, ObjectFilter, ObjectRule, Outline, Position, read_polygon};
use weir_config::{Content, Entry, Field, Fields, Node};

use super::context::Context;
use crate::keys::{self, GROUND, MAX_POLYGONS, OBJECT};
use crate::settings;

/// The name that stands for all classes.
const ALL: &str = "*";

/// Classes of a source: each costs a step for each object.
const MAX_CLASSES: usize = 256;

/// Bounds of fractions of the picture.
const PARTS: RangeInclusive<f64> = 0.0..=1.0;

/// Reads them; what is wrong is reported.
pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> ObjectFilter {
    let mut filter = ObjectFilter::default();
    if let Some(entry) = fields.entry("objects") {
        let owner = format!("`objects` of {}", fields.owner);
        for class in classes(owner, entry, context) {
            let rule = rule(&fields.owner, class, context);
            if class.name == ALL {
                filter.all = rule;
            } else {
                filter.classes.insert(Arc::from(class.name.as_str()), rule);
            }
        }
    }
    filter.all.only.extend(polygons("only", fields, context));
    filter.all.ignore.extend(polygons("ignore", fields, context));
    filter.ground = ground(fields, context);
    filter
}

/// Reads the map of the ground: four points of the picture, and their places in metres.
fn ground(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<GroundMap> {
    let entry = fields.entry("ground")?;
    let owner = format!("`ground` of {}", fields.owner);
    let mut table = Fields::open(owner, entry, context.diagnostics)?;
    table.expect(&keys::names(GROUND), false, context.diagnostics);
    let (points, metres) = (four("points", &table, context)?, four("metres", &table, context)?);
    let is_within = |at: &Position| PARTS.contains(&at.x) && PARTS.contains(&at.y);
    if !points.iter().all(is_within) {
        let message = format!("{}: `points` must be parts of the picture, 0 to 1", table.owner);
        let hint = "`weir zones CLIP` draws a grid to take them from".to_owned();
        context.diagnostics.add(entry.at, message, Some(hint));
        return None;
    }
    let map = GroundMap::new(points, metres);
    if map.is_none() {
        let message = format!("no camera sees `metres` as `points` in {}", table.owner);
        let hint = "four points in their order around a quadrilateral of the ground, and their places in the same order";
        context.diagnostics.add(entry.at, message, Some(hint.to_owned()));
    }
    map
}

/// Four points of a key.
fn four(key: &'static str, table: &Fields<'_>, context: &mut Context<'_>) -> Option<[Position; 4]> {
    let points = table.entry(key).and_then(|entry| match &entry.node.content {
        Content::List(list) => settings::points(key, list, context.diagnostics),
        _ => None,
    });
    let points = points.map(|points| {
        let points = points.into_iter().map(|[x, y]| Position::new(x, y));
        points.collect::<Vec<Position>>()
    });
    let four = points.and_then(|points| points.try_into().ok());
    if four.is_none() {
        let message = format!("`{key}` of {} must be four points", table.owner);
        let hint = format!("{key} = [[0.3, 0.5], [0.7, 0.5], [0.9, 0.9], [0.1, 0.9]]");
        context.diagnostics.add_if_parsed(table.at, message, Some(hint));
    }
    four
}

/// Entries of the classes of `objects`.
fn classes<'d>(owner: String, entry: &'d Entry, context: &mut Context<'_>) -> Vec<&'d Entry> {
    let diagnostics = &mut *context.diagnostics;
    if Fields::open(owner, entry, diagnostics).is_none() {
        return Vec::new();
    }
    let Content::Table(classes) = &entry.node.content else {
        return Vec::new();
    };
    if let Some(entry) = classes.get(MAX_CLASSES) {
        let message = format!(
            "`objects` has {} classes; {MAX_CLASSES} are the most",
            classes.len()
        );
        diagnostics.add(entry.at, message, None);
    }
    classes.iter().take(MAX_CLASSES).collect()
}

/// The rule of one class.
fn rule(source: &str, entry: &Entry, context: &mut Context<'_>) -> ObjectRule {
    let owner = format!("`objects` of {source}, class \"{}\",", entry.name.escape_debug());
    let Some(mut fields) = Fields::open(owner, entry, context.diagnostics) else {
        return ObjectRule::default();
    };
    fields.expect(&keys::names(OBJECT), false, context.diagnostics);
    let rule = ObjectRule {
        only: polygons("only", &fields, context),
        ignore: polygons("ignore", &fields, context),
        min_area: number("min_area", &fields, context),
        max_area: number("max_area", &fields, context),
        min_ratio: number("min_ratio", &fields, context),
        max_ratio: number("max_ratio", &fields, context),
        min_height_m: number("min_height_m", &fields, context),
        max_height_m: number("max_height_m", &fields, context),
        min_score: number("min_score", &fields, context),
    };
    let pairs = [
        ("max_area", rule.min_area, rule.max_area),
        ("max_ratio", rule.min_ratio, rule.max_ratio),
        ("max_height_m", rule.min_height_m, rule.max_height_m),
    ];
    for (key, min, max) in pairs {
        let (Some(min), Some(max), Some(entry)) = (min, max, fields.entry(key)) else {
            continue;
        };
        if min > max {
            let message = format!("no object has a size between {min} and {max}: `{key}` is the smaller one");
            context.diagnostics.add(entry.node.at, message, None);
        }
    }
    rule
}

fn number(key: &str, fields: &Fields<'_>, context: &mut Context<'_>) -> Option<f64> {
    let hint = key
        .ends_with("_area")
        .then_some("areas are parts of the frame's: 0.01 is a hundredth of it");
    keys::number(OBJECT, key, hint, fields, context.diagnostics).into_value()
}

/// One polygon, or a list of polygons.
pub(super) fn polygons(key: &'static str, fields: &Fields<'_>, context: &mut Context<'_>) -> Vec<Outline> {
    let list = fields.read(key, context.diagnostics, |node| match &node.content {
        Content::List(list) => Ok((node, list)),
        _ => Err("a list of polygons, such as [[[0, 0], [1, 0], [1, 0.2]]]".to_owned()),
    });
    let Field::Given(spanned) = list else {
        return Vec::new();
    };
    let (node, list) = spanned.value;
    if list.len() > MAX_POLYGONS && !is_point(list.first()) {
        let message = format!("`{key}` has {} polygons; {MAX_POLYGONS} are the most", list.len());
        context.diagnostics.add(node.at, message, None);
        return Vec::new();
    }
    let single = [node.clone()];
    let polygons = if is_point(list.first()) { &single[..] } else { list };
    let read = polygons
        .iter()
        .filter_map(|node| polygon(key, &fields.owner, node, context));
    read.collect()
}

/// Whether an entry of a list is a point, and the list one polygon.
pub(super) fn is_point(node: Option<&Node>) -> bool {
    let is_number = |node: &Node| matches!(node.content, Content::Integer(_) | Content::Float(_));
    node.is_some_and(|node| match &node.content {
        Content::List(pair) => pair.first().is_some_and(is_number),
        _ => false,
    })
}

pub(super) fn polygon(
    key: &'static str,
    owner: &str,
    node: &Node,
    context: &mut Context<'_>,
) -> Option<Outline> {
    let Content::List(list) = &node.content else {
        if !matches!(node.content, Content::Broken) {
            let message = format!("`{key}` must hold polygons, not {}", node.content.kind());
            let hint = "a polygon is a list of its corners: [[0, 0], [1, 0], [1, 0.2]]".to_owned();
            context.diagnostics.add(node.at, message, Some(hint));
        }
        return None;
    };
    let points = settings::points(key, list, context.diagnostics)?;
    let read = read_polygon(key, points).map_err(|faults| {
        for fault in faults {
            let message = format!("{owner}: {}", fault.message);
            context.diagnostics.add(node.at, message, fault.hint);
        }
    });
    read.ok()
}

/// Classes that rules are for, each with its position.
pub(super) fn named_classes(fields: &Fields<'_>) -> BTreeMap<String, usize> {
    let Some(Content::Table(classes)) = fields.entry("objects").map(|entry| &entry.node.content) else {
        return BTreeMap::new();
    };
    let named = classes.iter().filter(|class| class.name != ALL);
    named.map(|class| (class.name.clone(), class.at)).collect()
}
