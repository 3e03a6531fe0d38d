//! Whether the streams that parts of a graph are for are there, and reach them.

use std::collections::BTreeSet;

use weir_config::{Diagnostics, Field, Spanned, spelling};
use weir_flow::StreamNames;

use super::wiring::Wiring;
use crate::graph::Vertex;
use crate::raw::RawGraph;

/// A part of a graph that may be for some streams.
struct Part<'a> {
    name: &'a str,
    streams: &'a Field<Vec<Spanned<String>>>,
    /// Whether it is known what it takes.
    is_resolved: bool,
    /// Sources before it.
    sources: BTreeSet<usize>,
}

pub(super) fn check(raw: &RawGraph, wiring: &Wiring, diagnostics: &mut Diagnostics) {
    let before = |modules: &mut dyn Iterator<Item = usize>| sources_before(wiring, modules);
    for (tracker, modules) in raw.trackers.iter().zip(&wiring.trackers) {
        let part = Part {
            name: &tracker.name.value,
            streams: &tracker.streams,
            is_resolved: modules.iter().all(|module| wiring.resolved[*module]),
            sources: before(&mut modules.iter().copied()),
        };
        part.check(raw, diagnostics);
    }
    for (transform, taken) in raw.transforms.iter().zip(&wiring.transforms) {
        let part = Part {
            name: &transform.name.value,
            streams: &transform.streams,
            is_resolved: taken.complete,
            sources: before(&mut taken.modules.iter().copied()),
        };
        part.check(raw, diagnostics);
    }
    for (sink, inputs) in raw.sinks.iter().zip(&wiring.sinks) {
        let modules = inputs.iter().filter_map(|input| match input {
            Vertex::Module(module) => Some(*module),
            Vertex::Source(_) => None,
        });
        let modules: Vec<usize> = modules.collect();
        let mut sources = before(&mut modules.iter().copied());
        sources.extend(inputs.iter().filter_map(|input| match input {
            Vertex::Source(source) => Some(*source),
            Vertex::Module(_) => None,
        }));
        let part = Part {
            name: &sink.name.value,
            streams: &sink.streams,
            is_resolved: modules.iter().all(|module| wiring.resolved[*module]) && !inputs.is_empty(),
            sources,
        };
        part.check(raw, diagnostics);
    }
}

/// Sources whose frames come to one of these modules.
fn sources_before(wiring: &Wiring, modules: &mut dyn Iterator<Item = usize>) -> BTreeSet<usize> {
    let all = modules.flat_map(|module| wiring.ancestors[module].iter().copied().chain([module]));
    let inputs = all.flat_map(|module| &wiring.modules[module]);
    let sources = inputs.filter_map(|input| match input {
        Vertex::Source(source) => Some(*source),
        Vertex::Module(_) => None,
    });
    sources.collect()
}

impl Part<'_> {
    /// Streams that clients add have names that no text knows: a name with a star may stand for them, and any where they enter by a
    /// template.
    fn check(&self, raw: &RawGraph, diagnostics: &mut Diagnostics) {
        let Some(named) = self.streams.given().filter(|_| self.is_resolved) else {
            return;
        };
        let names = |indices: &BTreeSet<usize>| -> Vec<&str> {
            let sources = raw.sources.iter().enumerate();
            let own = sources.filter(|(index, _)| indices.contains(index));
            own.map(|(_, source)| source.name.value.as_str()).collect()
        };
        let has_template = self.sources.iter().any(|source| *source >= raw.sources.len());
        let reaching = names(&self.sources);
        let all: Vec<&str> = raw
            .sources
            .iter()
            .map(|source| source.name.value.as_str())
            .collect();
        for name in &named.value {
            let of = StreamNames::new(vec![name.value.clone()]);
            let is_any = |streams: &[&str]| streams.iter().any(|stream| of.contains(stream));
            if is_any(&reaching) || name.value.contains('*') || has_template {
                continue;
            }
            let (message, hint) = if is_any(&all) {
                (
                    format!("no frame of \"{}\" comes to \"{}\"", name.value, self.name),
                    spelling::list("what comes there is", reaching.iter().copied()),
                )
            } else {
                (
                    format!("there is no source \"{}\"", name.value),
                    spelling::hint(&name.value, "sources", reaching.iter().copied()).or_else(|| {
                        Some(
                            "streams that are added while the graph runs are named with a star: \"yard-*\""
                                .to_owned(),
                        )
                    }),
                )
            };
            diagnostics.add_if_parsed(name.at, message, hint);
        }
    }
}
