//! `[policy]`: values of `weir-policy`, each read by itself so that every mistake is reported at its position.

use std::fmt;

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{Error, IntoDeserializer};
use weir_config::{Content, Diagnostics, Entry, Fields, Node, spelling};
use weir_policy::{DropRule, Policy, QueueOperation, QueueOperations};

use crate::keys::{self, POLICY};

/// Parameters that the table form of `drop` may have, of one rule or another.
const PARAMETERS: &[&str] = &[
    "rule",
    "quantile",
    "window",
    "samples",
    "queueing",
    "scan",
    "budget",
    "over",
    "threshold",
    "alpha",
];

/// Reads `[policy]`; what is wrong is reported and left at its default.
pub fn read(entry: &Entry, diagnostics: &mut Diagnostics) -> Policy {
    let Some(mut fields) = Fields::open("[policy]".to_owned(), entry, diagnostics) else {
        return Policy::default();
    };
    fields.expect(&keys::names(POLICY), false, diagnostics);
    let mut policy = preset(&fields, diagnostics).unwrap_or_default();
    if let Some(drop) = fields
        .entry("drop")
        .and_then(|entry| drop_rule(&entry.node, diagnostics))
    {
        policy.drop = drop;
    }
    set(&mut policy.order, word(&fields, "order", diagnostics).map(Some));
    set(
        &mut policy.forming,
        word(&fields, "forming", diagnostics).map(Some),
    );
    set(&mut policy.arbitration, word(&fields, "arbitration", diagnostics));
    set(&mut policy.queues, word(&fields, "queues", diagnostics).map(Some));
    set(
        &mut policy.delta,
        keys::count(POLICY, "delta", &fields, diagnostics).into_value(),
    );
    set(&mut policy.operations, operations(&fields, diagnostics));
    set(
        &mut policy.mailbox,
        word(&fields, "mailbox", diagnostics).map(Some),
    );
    set(&mut policy.sizing, word(&fields, "sizing", diagnostics).map(Some));
    set(&mut policy.length, word(&fields, "length", diagnostics));
    set(&mut policy.tables, word(&fields, "tables", diagnostics));
    set(
        &mut policy.sweep,
        fields.flag("sweep", diagnostics).into_value().map(Some),
    );
    set(
        &mut policy.fair,
        fields.flag("fair", diagnostics).into_value().map(Some),
    );
    set(
        &mut policy.head_min_fraction,
        fraction(&fields, "head_min_fraction", diagnostics),
    );
    set(
        &mut policy.booking_margin,
        fraction(&fields, "booking_margin", diagnostics),
    );
    set(
        &mut policy.replan,
        fields.flag("replan", diagnostics).into_value(),
    );
    for key in keys::policy_parts() {
        if let Some(entry) = fields.entry(key)
            && !entry.node.is_unset()
            && let Some(given) = strategy(entry, diagnostics)
        {
            take(&mut policy, &given, key);
        }
    }
    policy
}

/// Reads the operations that planned queues may use; `None` if the key is absent or invalid, which is
/// reported.
fn operations(fields: &Fields<'_>, diagnostics: &mut Diagnostics) -> Option<QueueOperations> {
    let list = fields.read("operations", diagnostics, |node| match &node.content {
        Content::List(words) => Ok((words, node.at)),
        _ => Err("a list such as [\"pull\", \"balance\"]".to_owned()),
    });
    let (words, at) = list.into_value()?;
    let mut operations = Vec::new();
    for word in words {
        let read = match &word.content {
            Content::Text(word) => {
                let deserializer: StrDeserializer<'_, Mismatch> = word.as_str().into_deserializer();
                QueueOperation::deserialize(deserializer).ok()
            }
            _ => None,
        };
        let Some(operation) = read else {
            let message = "`operations` has an entry that is no operation of planned queues";
            let hint = "there are \"pull\", \"evict\", \"swap\", \"balance\", \"warm-start\" and \"reorder\""
                .to_owned();
            diagnostics.add(word.at, message, Some(hint));
            return None;
        };
        operations.push(operation);
    }
    if !operations.contains(&QueueOperation::Pull) {
        let hint = "add \"pull\": without it nothing would be served".to_owned();
        diagnostics.add(at, "`operations` has no \"pull\"", Some(hint));
        return None;
    }
    Some(QueueOperations::from(operations))
}

/// A number within the bounds of its key.
fn fraction(fields: &Fields<'_>, key: &'static str, diagnostics: &mut Diagnostics) -> Option<f64> {
    keys::number(POLICY, key, None, fields, diagnostics).into_value()
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// The policy that `preset` names, from which the other keys depart.
fn preset(fields: &Fields<'_>, diagnostics: &mut Diagnostics) -> Option<Policy> {
    let field = fields.text("preset", diagnostics).and_then(|name| {
        let policy = Policy::preset(&name.value);
        if policy.is_none() {
            let hint = spelling::hint(&name.value, "presets", Policy::presets());
            diagnostics.add(name.at, format!("there is no preset \"{}\"", name.value), hint);
        }
        policy
    });
    field.into_value()
}

/// A policy of which only the strategy of `entry` is set; `None` where it was reported.
fn strategy(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Policy> {
    // A list would be read as a table without parameters.
    if let Content::List(_) = entry.node.content {
        let message = format!(
            "`{}` must be a name, true or false, or a table, not a list",
            entry.name
        );
        diagnostics.add(entry.at, message, None);
        return None;
    }
    let value = to_toml(&entry.node)?;
    let table = toml::Table::from_iter([(entry.name.clone(), value)]);
    match Policy::deserialize(toml::Value::Table(table)) {
        Ok(policy) => {
            let bad = policy.bad_parameter();
            if let Some(problem) = &bad {
                diagnostics.add(entry.at, format!("`{}`: {problem}", entry.name), None);
            }
            bad.is_none().then_some(policy)
        }
        Err(error) => {
            let message = format!("`{}`: {}", entry.name, error.message().trim());
            diagnostics.add(entry.at, message, None);
            None
        }
    }
}

fn take(policy: &mut Policy, given: &Policy, key: &str) {
    match key {
        "admission" => policy.admission = given.admission,
        "estimate" => policy.estimate = given.estimate,
        "joint_sizing" => policy.joint_sizing = given.joint_sizing,
        "slack" => policy.slack = given.slack,
        "stagger" => policy.stagger = given.stagger,
        "cost_limit" => policy.cost_limit = given.cost_limit,
        "branch_shedding" => policy.branch_shedding = given.branch_shedding,
        "duration_spread" => policy.duration_spread = given.duration_spread,
        "fair_streams" => policy.fair_streams = given.fair_streams,
        "overload_control" => policy.overload_control = given.overload_control,
        _ => policy.route = given.route,
    }
}

/// Error of serde for an unknown word, with the words that serde knows.
#[derive(Debug)]
struct Mismatch {
    known: &'static [&'static str],
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.known.join(", "))
    }
}

impl std::error::Error for Mismatch {}

impl Error for Mismatch {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self { known: &[] }
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self { known }
    }
}

fn word<T: for<'de> Deserialize<'de>>(
    fields: &Fields<'_>,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let field = fields.text(name, diagnostics).and_then(|spanned| {
        let deserializer: StrDeserializer<'_, Mismatch> = spanned.value.as_str().into_deserializer();
        let read = T::deserialize(deserializer);
        if let Err(mismatch) = &read {
            let hint = spelling::hint(&spanned.value, "one of", mismatch.known.iter().copied());
            diagnostics.add(
                spanned.at,
                format!("`{name}` cannot be \"{}\"", spanned.value),
                hint,
            );
        }
        read.ok()
    });
    field.into_value()
}

fn drop_rule(node: &Node, diagnostics: &mut Diagnostics) -> Option<DropRule> {
    let example =
        || Some("write a rule's name, or a table such as { rule = \"pard\", quantile = 0.1 }".to_owned());
    match &node.content {
        Content::Broken => None,
        Content::Text(name) => known_rule(name, node.at, diagnostics)
            .then(|| read_rule(&[("rule", node)], node.at, diagnostics))?,
        Content::Table(entries) => {
            let Some(rule) = entries.iter().find(|entry| entry.name == "rule") else {
                diagnostics.add(node.at, "`drop` does not name its `rule`", example());
                return None;
            };
            let Content::Text(name) = &rule.node.content else {
                let message = format!("`rule` must be a text, not {}", rule.node.content.kind());
                diagnostics.add(rule.node.at, message, example());
                return None;
            };
            if !known_rule(name, rule.node.at, diagnostics) {
                return None;
            }
            parameters(rule, entries, diagnostics)
        }
        other => {
            diagnostics.add(node.at, format!("`drop` cannot be {}", other.kind()), example());
            None
        }
    }
}

fn known_rule(name: &str, at: usize, diagnostics: &mut Diagnostics) -> bool {
    let known = DropRule::NAMES.contains(&name);
    if !known {
        let hint = spelling::hint(name, "rules", DropRule::NAMES.iter().copied());
        diagnostics.add(at, format!("there is no drop rule \"{name}\""), hint);
    }
    known
}

/// Reads the rule with each parameter alone first, so that each invalid one is reported at its position.
fn parameters(rule: &Entry, entries: &[Entry], diagnostics: &mut Diagnostics) -> Option<DropRule> {
    let mut good = vec![("rule", &rule.node)];
    let mut complete = true;
    for entry in entries.iter().filter(|entry| entry.name != "rule") {
        if !PARAMETERS.contains(&entry.name.as_str()) {
            let hint = spelling::hint(&entry.name, "parameters", PARAMETERS.iter().copied());
            diagnostics.add(
                entry.at,
                format!("`drop` has no parameter \"{}\"", entry.name),
                hint,
            );
            complete = false;
            continue;
        }
        let alone = [("rule", &rule.node), (entry.name.as_str(), &entry.node)];
        match read_rule(&alone, entry.at, diagnostics) {
            Some(_) => good.push((entry.name.as_str(), &entry.node)),
            None => complete = false,
        }
    }
    if complete {
        read_rule(&good, rule.at, diagnostics)
    } else {
        None
    }
}

fn read_rule(keys: &[(&str, &Node)], at: usize, diagnostics: &mut Diagnostics) -> Option<DropRule> {
    let table = keys
        .iter()
        .map(|(name, node)| Some(((*name).to_owned(), to_toml(node)?)))
        .collect::<Option<_>>()?;
    match DropRule::deserialize(toml::Value::Table(table)) {
        Ok(rule) => Some(rule),
        Err(error) => {
            let name = keys.last().map_or("drop", |(name, _)| name);
            diagnostics.add(at, format!("`{name}`: {}", error.message().trim()), None);
            None
        }
    }
}

/// A value as plain TOML; `None` where it was broken and reported.
fn to_toml(node: &Node) -> Option<toml::Value> {
    Some(match &node.content {
        Content::Text(text) => match (node.integer(), node.number(), node.flag()) {
            (Some(whole), ..) => toml::Value::Integer(whole),
            (_, Some(number), _) => toml::Value::Float(number),
            (.., Some(flag)) => toml::Value::Boolean(flag),
            _ => toml::Value::String(text.clone()),
        },
        Content::Integer(whole) => toml::Value::Integer(*whole),
        Content::Float(number) => toml::Value::Float(*number),
        Content::Bool(flag) => toml::Value::Boolean(*flag),
        Content::List(_) | Content::Date => toml::Value::Array(Vec::new()),
        Content::Table(entries) => {
            let entries = entries.iter();
            let values = entries.map(|entry| Some((entry.name.clone(), to_toml(&entry.node)?)));
            toml::Value::Table(values.collect::<Option<_>>()?)
        }
        Content::Broken => return None,
    })
}
