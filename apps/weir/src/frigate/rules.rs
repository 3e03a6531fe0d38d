//! Rules for what Frigate calls alerts, detections and, in 0.13, events.

use std::collections::BTreeMap;

use super::camera::Zone;
use super::graph::{milliseconds, strings};
use super::layer::Layer;
use super::yaml::Node;

/// Names of the rules of a camera.
pub(super) const NAMES: [&str; 3] = ["alert", "detection", "event"];
/// Classes of alerts where nothing is set.
const ALERTS: [&str; 2] = ["person", "car"];

/// A rule of a camera.
pub(super) struct Rule {
    /// One of [`NAMES`].
    pub(super) name: &'static str,
    /// Its value as TOML.
    pub(super) table: String,
}

type Thresholds<'a> = BTreeMap<String, (&'a Node, f64)>;

/// Reads the rules of a camera.
pub(super) fn read(
    layer: Layer<'_>,
    tracked: &[String],
    zones: &[Zone],
    thresholds: &Thresholds<'_>,
) -> Vec<Rule> {
    let sections = if let Some(events) = events(layer) {
        let classes = wanted(events, "objects").unwrap_or_else(|| tracked.to_vec());
        vec![("event", events, classes)]
    } else {
        let review = layer.section("review");
        let [alerts, detections] = ["alerts", "detections"].map(|name| review.section(name));
        let of_alerts = wanted(alerts, "labels").unwrap_or_else(|| ALERTS.map(str::to_owned).to_vec());
        // A class of alerts is none of detections.
        let other = tracked.iter().filter(|class| !of_alerts.contains(class)).cloned();
        let of_detections = wanted(detections, "labels").unwrap_or_else(|| other.collect());
        let mut sections = vec![
            ("alert", alerts, of_alerts),
            ("detection", detections, of_detections),
        ];
        sections.retain(|(_, section, _)| section.flag("enabled").unwrap_or(true));
        sections
    };
    let (mut rules, mut scores) = (Vec::new(), BTreeMap::new());
    for (name, section, classes) in sections {
        rules.extend(rule(
            name,
            section,
            &classes,
            tracked,
            zones,
            thresholds,
            &mut scores,
        ));
    }
    for (class, (node, threshold)) in thresholds {
        if scores.get(class) != Some(threshold) {
            node.refuse("it is not the score of a rule");
        }
    }
    rules
}

/// The section `record.events` of 0.13; `None` where `review` has taken its place.
pub(super) fn events(layer: Layer<'_>) -> Option<Layer<'_>> {
    let events = layer.section("record").section("events");
    (events.is_there() && !layer.section("review").is_there()).then_some(events)
}

/// Classes that a section names.
fn wanted(section: Layer<'_>, key: &str) -> Option<Vec<String>> {
    let nodes = section.texts(key)?;
    let classes = nodes.into_iter().filter_map(Node::text);
    Some(classes.map(str::to_owned).collect())
}

/// One rule; `None` where no object of the camera can match it. `scores` gets the score that each class has by it.
fn rule(
    name: &'static str,
    section: Layer<'_>,
    classes: &[String],
    tracked: &[String],
    zones: &[Zone],
    thresholds: &Thresholds<'_>,
    scores: &mut BTreeMap<String, f64>,
) -> Option<Rule> {
    let mut classes: Vec<String> = classes
        .iter()
        .filter(|class| tracked.contains(class))
        .cloned()
        .collect();
    classes.sort();
    classes.dedup();
    if classes.is_empty() {
        return None;
    }
    let named = section.texts("required_zones").unwrap_or_default();
    let mut required: Vec<&Zone> = Vec::new();
    for node in &named {
        let zone = zones
            .iter()
            .find(|zone| Some(zone.frigate_name.as_str()) == node.scalar());
        let Some(zone) = zone else {
            node.refuse("the camera has no zone of this name in the graph");
            continue;
        };
        if !zone.classes.is_empty() && !zone.classes.iter().any(|class| classes.contains(class)) {
            node.refuse("the zone takes none of the objects");
            continue;
        }
        node.take();
        required.push(zone);
    }
    if required.is_empty() && !named.is_empty() {
        return None;
    }
    let mut keys = vec![format!("classes = {}", strings(&classes))];
    if !required.is_empty() {
        let mut names: Vec<String> = required.iter().map(|zone| zone.name.clone()).collect();
        names.dedup();
        keys.push(format!("zones = {}", strings(&names)));
        let loitering = required
            .iter()
            .map(|zone| zone.loitering_s)
            .fold(f64::INFINITY, f64::min);
        if loitering > 0.0 {
            keys.push(format!("after = {}", milliseconds(loitering)));
        }
    }
    // One score for all classes: the least, where each has one.
    let of_classes = classes
        .iter()
        .map(|class| thresholds.get(class).map(|(_, score)| *score));
    let of_classes: Option<Vec<f64>> = of_classes.collect();
    if let Some(score) = of_classes.and_then(|scores| scores.into_iter().reduce(f64::min)) {
        keys.push(format!("min_score = {score}"));
        scores.extend(classes.iter().map(|class| (class.clone(), score)));
    }
    Some(Rule {
        name,
        table: format!("{{ {} }}", keys.join(", ")),
    })
}
