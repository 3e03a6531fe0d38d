//! `[[changes]]`: streams of a graph that are added, removed, paused, resumed and changed while it runs.

use weir_config::{Content, Diagnostics, Entry, Fields, Spanned, spelling};
use weir_policy::StreamShare;
use weir_types::{Span, StreamId};

use super::values::{number, span};
use crate::scheduled::{ChangeKind, ScheduledChange, find_problem};

/// One entry of `[[changes]]`, before the name of its stream is resolved.
#[derive(Debug)]
pub(super) struct RawChange {
    at: Span,
    stream: Spanned<String>,
    kind: ChangeKind,
}

const KEYS: &[&str] = &["at", "stream", "change", "slo", "weight", "reserve"];

/// Reads all of them; what is wrong is reported.
pub(super) fn read(entry: &Entry, diagnostics: &mut Diagnostics) -> Vec<RawChange> {
    let Content::List(list) = &entry.node.content else {
        let hint = Some("[[changes]], with stream, at and change".to_owned());
        diagnostics.add(entry.at, "`changes` is a list of tables", hint);
        return Vec::new();
    };
    let mut changes = Vec::new();
    for node in list {
        let entry = Entry {
            name: "changes".to_owned(),
            at: node.at,
            node: node.clone(),
        };
        changes.extend(change(&entry, diagnostics));
    }
    changes
}

fn change(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<RawChange> {
    let mut fields = Fields::open("[[changes]]".to_owned(), entry, diagnostics)?;
    fields.expect(KEYS, false, diagnostics);
    let words = [
        ("add", ChangeKind::Added),
        ("remove", ChangeKind::Removed),
        ("pause", ChangeKind::Paused),
        ("resume", ChangeKind::Resumed),
        ("slo", ChangeKind::Slo(None)),
        ("share", ChangeKind::Share(StreamShare::default())),
    ];
    let (at, stream) = (
        span(&fields, "at", diagnostics),
        fields.text("stream", diagnostics),
    );
    let kind = fields.word("change", &words, diagnostics).into_value();
    for name in ["at", "stream", "change"] {
        if fields.entry(name).is_none() {
            diagnostics.add_if_parsed(fields.at, format!("[[changes]] has no `{name}`"), None);
        }
    }
    let slo = fields.span("slo", diagnostics).into_value();
    let (weights, reserves) = (StreamShare::WEIGHTS, StreamShare::RESERVES);
    let weight = number(&fields, "weight", *weights.start(), *weights.end(), diagnostics);
    let reserve = number(
        &fields,
        "reserve",
        *reserves.start(),
        *reserves.end(),
        diagnostics,
    );
    let kind = match kind? {
        ChangeKind::Slo(_) => ChangeKind::Slo(slo),
        ChangeKind::Share(_) => ChangeKind::Share(StreamShare {
            weight: weight.unwrap_or(1.0),
            reserve,
        }),
        other => other,
    };
    let meaningless = |key: &&str| match kind {
        ChangeKind::Slo(_) => *key != "slo",
        ChangeKind::Share(_) => *key == "slo",
        _ => true,
    };
    for key in ["slo", "weight", "reserve"].iter().filter(|key| meaningless(key)) {
        if let Some(entry) = fields.entry(key) {
            let hint =
                Some("`slo` goes with change = \"slo\", `weight` and `reserve` with \"share\"".to_owned());
            diagnostics.add(entry.at, format!("`{key}` has no meaning for this change"), hint);
        }
    }
    Some(RawChange {
        at: at?,
        stream: stream.given().cloned()?,
        kind,
    })
}

/// Sorts the changes by time and resolves their streams to numbers. `streams` are those of the graph, `None`
/// if requests come from a trace. Problems are reported.
pub(super) fn resolve(
    raw: &[RawChange],
    streams: Option<&[String]>,
    diagnostics: &mut Diagnostics,
) -> Vec<ScheduledChange> {
    let Some(streams) = streams else {
        if let Some(first) = raw.first() {
            let hint =
                Some("name a `graph` with emulated streams, and no `trace`, `load` or `rate`".to_owned());
            let message = "[[changes]] are of streams of a graph that keep their own arrivals";
            diagnostics.add(first.stream.at, message, hint);
        }
        return Vec::new();
    };
    let mut found: Vec<(usize, ScheduledChange)> = Vec::new();
    for change in raw {
        let Some(number) = streams.iter().position(|name| *name == change.stream.value) else {
            let hint = spelling::hint(
                &change.stream.value,
                "streams",
                streams.iter().map(String::as_str),
            );
            let message = format!("there is no stream \"{}\"", change.stream.value);
            diagnostics.add(change.stream.at, message, hint);
            continue;
        };
        let scheduled = ScheduledChange {
            at: change.at,
            stream: StreamId(number as u32),
            kind: change.kind,
        };
        found.push((change.stream.at, scheduled));
    }
    found.sort_by_key(|(_, change)| change.at);
    let changes: Vec<ScheduledChange> = found.iter().map(|(_, change)| *change).collect();
    for (number, name) in (0..).zip(streams) {
        if let Some((index, problem)) = find_problem(&changes, StreamId(number)) {
            let hint = Some(
                "a stream is added once, if it is not there from the beginning, and removed once".to_owned(),
            );
            diagnostics.add(found[index].0, format!("stream \"{name}\": {problem}"), hint);
        }
    }
    changes
}
