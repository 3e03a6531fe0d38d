//! Whether transforms are given what they need: tracks, classes that are found, zones that there are.

use weir_analytics::Parts;
use weir_analytics::transforms::{Anchor, TransformKind, TransformSpec, Units};
use weir_config::{Diagnostics, spelling};
use weir_flow::{Catalog, StreamNames};

use super::streams::named;
use super::types::Upstream;
use super::wiring::{Taken, Wiring};
use crate::raw::{RawGraph, RawTransform};

pub(super) fn check(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    for (transform, taken) in raw.transforms.iter().zip(&wiring.transforms) {
        let Some(spec) = &transform.spec else { continue };
        if taken.complete {
            check_tracks(transform, spec, taken, diagnostics);
            let found = Upstream::collect(raw, &taken.modules.iter().copied().collect(), models, catalog);
            check_classes(transform, spec, &found, diagnostics);
            check_followed(raw, transform, spec, taken, diagnostics);
        }
        check_zones(raw, transform, spec, diagnostics);
        warn_of_edge(transform, spec, diagnostics);
        check_shown_with(raw, transform, spec, diagnostics);
    }
}

/// Returns the position of `key` in the text, or that of the table if the key is absent.
pub(super) fn position(transform: &RawTransform, key: &str) -> usize {
    transform.positions.get(key).copied().unwrap_or(transform.name.at)
}

fn check_tracks(
    transform: &RawTransform,
    spec: &TransformSpec,
    taken: &Taken,
    diagnostics: &mut Diagnostics,
) {
    if !spec.kind.needs_tracks() || !taken.trackers.is_empty() {
        return;
    }
    let message = format!(
        "\"{}\" follows objects over time, and none of its `inputs` is a tracker",
        transform.name.value
    );
    let hint = "add [modules.tracks] with operator = \"track\" and inputs = [\"DETECTOR\"], and take from it";
    let at = transform.inputs.given().map_or(transform.name.at, |list| list.at);
    diagnostics.add_if_parsed(at, message, Some(hint.to_owned()));
}

/// Whether the classes that it takes are found at all.
fn check_classes(
    transform: &RawTransform,
    spec: &TransformSpec,
    found: &Upstream,
    diagnostics: &mut Diagnostics,
) {
    let Some(classes) = found.classes.as_ref().filter(|_| !found.unknown) else {
        return;
    };
    let known = || classes.iter().map(String::as_str);
    for class in spec.classes.iter().filter(|class| !classes.contains(&***class)) {
        let meant = spelling::nearest(class, known()).map(|meant| format!("did you mean \"{meant}\"? "));
        let list = spelling::list("its inputs find", known()).unwrap_or_default();
        let message = format!(
            "\"{}\" can never match: none of its inputs finds the class \"{class}\"",
            transform.name.value
        );
        let hint = Some(format!("{}{list}", meant.unwrap_or_default()));
        diagnostics.add_if_parsed(position(transform, "classes"), message, hint);
    }
}

/// Whether trackers follow the classes that a transform of tracks takes: not those that they leave out, and not parts of others.
fn check_followed(
    raw: &RawGraph,
    transform: &RawTransform,
    spec: &TransformSpec,
    taken: &Taken,
    diagnostics: &mut Diagnostics,
) {
    if !spec.kind.needs_tracks() || taken.trackers.is_empty() {
        return;
    }
    let follows = |tracker: usize, class: &str| {
        let settings = &raw.trackers[tracker].settings;
        let texts = |key: &str| settings.texts(key).unwrap_or_default();
        let is_part = Parts::read(texts("parts")).is_ok_and(|parts| parts.contains(class));
        let classes = texts("classes");
        !is_part && (classes.is_empty() || classes.iter().any(|followed| followed == class))
    };
    for class in &spec.classes {
        if taken.trackers.iter().any(|tracker| follows(*tracker, class)) {
            continue;
        }
        let message = format!(
            "\"{}\" can never match: no tracker among its inputs follows the class \"{class}\"",
            transform.name.value
        );
        let hint = "the tracker leaves it out by `classes`, or has it as a part of others by `parts`";
        diagnostics.add_if_parsed(position(transform, "classes"), message, Some(hint.to_owned()));
    }
}

/// Whether any object can cross a line. Lines in pixels are compared with the frames once their size is known.
fn warn_of_edge(transform: &RawTransform, spec: &TransformSpec, diagnostics: &mut Diagnostics) {
    let is_in_parts = spec
        .outline
        .as_ref()
        .is_some_and(|outline| outline.units == Units::Parts);
    let Some(edge) = spec.edge_of_line(1.0, 1.0).filter(|_| is_in_parts) else {
        return;
    };
    let anchor = match spec.anchor {
        Anchor::Bottom => "the lower edge of a box",
        Anchor::Center => "the centre of a box",
    };
    let message = format!(
        "nothing can cross \"{}\": it lies on the {edge} edge of the picture, and {anchor} never comes behind it",
        transform.name.value
    );
    let hint = "move the line into the picture: `weir zones CLIP` draws a grid to take points from";
    diagnostics.warn(position(transform, "points"), message, Some(hint.to_owned()));
}

/// Whether the zones of a rule are zones.
fn check_zones(
    raw: &RawGraph,
    transform: &RawTransform,
    spec: &TransformSpec,
    diagnostics: &mut Diagnostics,
) {
    let TransformKind::Rule(rule) = &spec.kind else {
        return;
    };
    let zones = raw.transforms.iter().filter(|other| other.kind == Some("zone"));
    let zones: Vec<&str> = zones.map(|zone| zone.name.value.as_str()).collect();
    for zone in rule.zones.iter().filter(|zone| !zones.contains(&&***zone)) {
        let hint = spelling::hint(zone, "zones", zones.iter().copied())
            .or_else(|| Some(format!("add [transforms.{zone}] with type = \"zone\"")));
        let message = format!("there is no zone \"{zone}\"");
        diagnostics.add_if_parsed(position(transform, "zones"), message, hint);
    }
    check_streams_of_zones(raw, transform, &rule.zones, diagnostics);
}

/// Whether a rule has a zone on each of the streams that it names.
fn check_streams_of_zones(
    raw: &RawGraph,
    rule: &RawTransform,
    zones: &[std::sync::Arc<str>],
    diagnostics: &mut Diagnostics,
) {
    let streams = named(&rule.streams);
    let own = raw.transforms.iter();
    let own: Vec<StreamNames> = own
        .filter(|zone| zones.iter().any(|name| **name == *zone.name.value))
        .map(|zone| named(&zone.streams))
        .collect();
    if own.is_empty() || streams.are_all() {
        return;
    }
    let sources = raw.sources.iter().map(|source| source.name.value.as_str());
    for source in sources.filter(|source| streams.contains(source)) {
        if own.iter().any(|zone| zone.contains(source)) {
            continue;
        }
        let message = format!(
            "\"{}\" can never match on \"{source}\": none of its zones is for that stream",
            rule.name.value
        );
        let hint =
            format!("give it a zone with streams = [\"{source}\"], or leave the stream out of its own");
        let at = rule.streams.given().map_or(rule.name.at, |names| names.at);
        diagnostics.add_if_parsed(at, message, Some(hint));
    }
}

/// Whether there are the transforms whose incidents are to have pictures.
fn check_shown_with(
    raw: &RawGraph,
    transform: &RawTransform,
    spec: &TransformSpec,
    diagnostics: &mut Diagnostics,
) {
    let TransformKind::BestShot(best) = &spec.kind else {
        return;
    };
    let follows = |other: &&RawTransform| {
        let kind = other.spec.as_ref().map(|spec| &spec.kind);
        kind.is_none_or(|kind| kind.needs_tracks() && !matches!(kind, TransformKind::BestShot(_)))
    };
    let named = raw.transforms.iter().filter(follows);
    let named: Vec<&str> = named.map(|other| other.name.value.as_str()).collect();
    for name in best.transforms.iter().filter(|name| !named.contains(&&***name)) {
        let message = format!("there is no transform \"{name}\" whose incidents are of single objects");
        let hint = spelling::hint(name, "transforms", named.iter().copied());
        diagnostics.add_if_parsed(position(transform, "transforms"), message, hint);
    }
}

/// Remarks on transforms whose incidents nothing is given.
pub(super) fn warn_unused(raw: &RawGraph, wiring: &Wiring, diagnostics: &mut Diagnostics) {
    for (index, transform) in raw.transforms.iter().enumerate() {
        let name = transform.name.value.as_str();
        let is_zone_of = |other: &RawTransform| match other.spec.as_ref().map(|spec| &spec.kind) {
            Some(TransformKind::Rule(rule)) => rule.zones.iter().any(|zone| **zone == *name),
            _ => false,
        };
        let is_given = wiring.sink_transforms.iter().any(|given| given.contains(&index));
        let is_taken = wiring.transforms.iter().any(|taken| taken.zones.contains(&index));
        // Its pictures go with the incidents of others.
        let is_shown = transform.kind == Some("best-shot")
            && wiring.sink_transforms.iter().any(|given| !given.is_empty());
        if !is_given && !is_shown && !is_taken && !raw.transforms.iter().any(is_zone_of) {
            let message = format!("no sink receives the results of \"{name}\"");
            let hint = format!("inputs = [\"{name}\", ...] of a sink");
            diagnostics.warn(transform.name.at, message, Some(hint));
        }
    }
}

/// A rule with the zones that are among its inputs.
pub(super) fn with_zones(mut spec: TransformSpec, taken: &Taken, names: &[String]) -> TransformSpec {
    if let TransformKind::Rule(rule) = &mut spec.kind {
        for zone in &taken.zones {
            let name = names[*zone].as_str();
            if rule.zones.iter().all(|known| **known != *name) {
                rule.zones.push(name.into());
            }
        }
    }
    spec
}
