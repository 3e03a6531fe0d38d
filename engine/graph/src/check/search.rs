//! Whether a sink of the type `search` is shown what it stores: embeddings of a module, tracks, and pictures.

use weir_config::Diagnostics;

use super::types;
use super::wiring::Wiring;
use crate::graph::Vertex;
use crate::raw::{RawGraph, RawSink};

/// Type of the sinks that store tracks for search.
const SEARCH: &str = "search";

/// Type of the transform that takes pictures.
const BEST_SHOT: &str = "best-shot";

pub(super) fn check(raw: &RawGraph, wiring: &Wiring, diagnostics: &mut Diagnostics) {
    let mut sinks = raw.sinks.iter().enumerate().filter(|(_, sink)| is_search(sink));
    if let Some((index, sink)) = sinks.next() {
        check_sink(raw, wiring, (index, sink), diagnostics);
    }
    if let Some((_, second)) = sinks.next() {
        let message = format!(
            "sink \"{}\" is a second one of the type {SEARCH}, and a search asks one",
            second.name.value
        );
        let hint = "give all inputs to one of them".to_owned();
        diagnostics.add(second.name.at, message, Some(hint));
    }
}

fn is_search(sink: &RawSink) -> bool {
    let kind = sink.kind.given();
    kind.is_some_and(|kind| kind.value == SEARCH)
}

fn check_sink(
    raw: &RawGraph,
    wiring: &Wiring,
    (index, sink): (usize, &RawSink),
    diagnostics: &mut Diagnostics,
) {
    let (name, at) = (&sink.name.value, sink.name.at);
    if wiring.sink_trackers[index].is_empty() {
        let message = format!("sink \"{name}\" stores tracks, and its inputs have none");
        let hint = "add [modules.tracks] with operator = \"track\", and name it in `inputs`".to_owned();
        diagnostics.add_if_parsed(at, message, Some(hint));
        return;
    }
    if let Some(named) = sink.settings.text("embed") {
        let owner = format!("sink \"{name}\": `embed`");
        let module = types::embeddings_of(raw, named, (&owner, at), diagnostics);
        let is_shown = |module: usize| {
            wiring.sinks[index].iter().any(|input| match input {
                Vertex::Source(_) => false,
                Vertex::Module(input) => *input == module || wiring.ancestors[*input].contains(&module),
            })
        };
        if module.is_some_and(|module| !is_shown(module)) {
            let hint = format!("add \"{named}\" to `inputs` of the sink");
            diagnostics.add_if_parsed(
                at,
                format!("{owner}: the sink is not given the results of \"{named}\""),
                Some(hint),
            );
        }
    }
    let kinds = wiring.sink_transforms[index].iter();
    let mut kinds = kinds.filter_map(|transform| raw.transforms.get(*transform)?.kind);
    if !kinds.any(|kind| kind == BEST_SHOT) {
        let message = format!("sink \"{name}\" is given no pictures: tracks are found without any");
        let hint = format!("add a transform with type = \"{BEST_SHOT}\", and name it in `inputs`");
        diagnostics.warn(at, message, Some(hint));
    }
}
