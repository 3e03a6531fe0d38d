//! Checks for rules whose conditions no object can meet. Such a rule would never report anything, and a user
//! would have no hint why.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_analytics::transforms::{RuleSpec, TransformKind, TransformSpec, Wanted};
use weir_config::{Diagnostics, spelling};
use weir_flow::{Catalog, HeadOutput, PYTHON_FUNCTION};

use super::transforms::position;
use super::wiring::{Taken, Wiring};
use crate::raw::{HeadName, RawGraph, RawTransform};

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
            check_zones(raw, transform, spec, taken, diagnostics);
        }
        check_attributes(raw, transform, spec, models, catalog, diagnostics);
    }
}

/// Whether a zone of a rule takes any class that the rule takes.
fn check_zones(
    raw: &RawGraph,
    transform: &RawTransform,
    spec: &TransformSpec,
    taken: &Taken,
    diagnostics: &mut Diagnostics,
) {
    let TransformKind::Rule(rule) = &spec.kind else {
        return;
    };
    let named = raw.transforms.iter().enumerate().filter(|(index, other)| {
        let is_named = rule.zones.iter().any(|zone| **zone == *other.name.value);
        taken.zones.contains(index) || (is_named && other.kind == Some("zone"))
    });
    let zones: Option<Vec<&TransformSpec>> = named.map(|(_, zone)| zone.spec.as_ref()).collect();
    let Some(zones) = zones.filter(|zones| !zones.is_empty() && !spec.classes.is_empty()) else {
        return;
    };
    let is_taken = |class: &Arc<str>| zones.iter().any(|zone| zone.takes(class));
    if spec.classes.iter().any(is_taken) {
        return;
    }
    let message = format!(
        "\"{}\" can never match: its zones take none of its classes",
        transform.name.value
    );
    let zones: BTreeSet<&str> = zones
        .iter()
        .flat_map(|zone| &zone.classes)
        .map(|it| &**it)
        .collect();
    let hint = spelling::list("its zones take", zones);
    diagnostics.add_if_parsed(position(transform, "classes"), message, hint);
}

/// Whether attributes may be as a rule wants them.
fn check_attributes(
    raw: &RawGraph,
    transform: &RawTransform,
    spec: &TransformSpec,
    models: &[Option<usize>],
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    let TransformKind::Rule(rule) = &spec.kind else {
        return;
    };
    let at = position(transform, "attributes");
    for (name, text) in contradictions(rule) {
        let message = format!(
            "\"{}\" can never match: it requires `{name}` to be both equal and unequal to \"{text}\"",
            transform.name.value
        );
        diagnostics.add(at, message, None);
    }
    let Some(given) = given_attributes(raw, models, catalog) else {
        return;
    };
    let names: BTreeSet<&str> = rule.attributes.iter().map(|(name, _)| &**name).collect();
    for name in names.into_iter().filter(|name| !given.contains(*name)) {
        let message = format!(
            "\"{}\" can never match: no module produces the attribute `{name}`",
            transform.name.value
        );
        let hint = spelling::hint(name, "attributes", given.iter().map(String::as_str));
        diagnostics.add_if_parsed(at, message, hint);
    }
}

/// Attributes all of whose wanted values are unwanted, too, each with one of these.
fn contradictions(rule: &RuleSpec) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (name, wanted) in &rule.attributes {
        let Wanted::OneOf(words) = wanted else { continue };
        let is_excluded = |word: &Arc<str>| {
            rule.attributes.iter().any(|(other, wanted)| match wanted {
                Wanted::NoneOf(unwanted) => other == name && unwanted.contains(word),
                Wanted::OneOf(_) | Wanted::Between(..) => false,
            })
        };
        // One wanted value that is possible, a number among them, is enough.
        let has_range = rule
            .attributes
            .iter()
            .any(|(other, wanted)| other == name && matches!(wanted, Wanted::Between(..)));
        if !has_range && words.iter().all(is_excluded) {
            found.extend(words.first().map(|word| (&**name, &**word)));
        }
    }
    found
}

/// Attributes that modules of the graph give, by their own names or those of their operators; `None` where one is not known.
fn given_attributes(raw: &RawGraph, models: &[Option<usize>], catalog: &Catalog) -> Option<BTreeSet<String>> {
    let mut given = BTreeSet::new();
    for (module, model) in raw.modules.iter().zip(models) {
        let HeadName::Known(head) = &raw.models[(*model)?].head else {
            return None;
        };
        let head = catalog.heads.iter().find(|spec| spec.name == head)?;
        if head.name == PYTHON_FUNCTION {
            return None;
        }
        let named = module.settings.text("attribute");
        if head.output != HeadOutput::Attribute {
            given.extend(named.map(str::to_owned));
            continue;
        }
        let operator = module.operator.given()?;
        let operator = catalog
            .operators
            .iter()
            .find(|spec| spec.name == operator.value)?;
        let name = named.or(operator.attribute)?;
        if operator.counts_tokens {
            given.insert(format!("{name}_tokens"));
        }
        given.insert(name.to_owned());
    }
    Some(given)
}
