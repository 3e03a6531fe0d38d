//! Whether the streams that parts of a graph are for are there, and reach them.

use std::collections::BTreeSet;

use weir_config::{Diagnostics, Field, Spanned, spelling};
use weir_flow::StreamNames;

use super::wiring::{Wiring, upstream};
use crate::graph::Vertex;
use crate::raw::RawGraph;

/// A part of a graph that may be for some streams.
struct Part<'a> {
    name: &'a str,
    streams: &'a Field<Vec<Spanned<String>>>,
    /// Modules that it takes from.
    modules: Vec<usize>,
    /// Sources that it takes from are among these.
    inputs: &'a [Vertex],
    /// Whether it is known what it takes.
    is_resolved: bool,
}

pub(super) fn check(raw: &RawGraph, wiring: &Wiring, diagnostics: &mut Diagnostics) {
    let are_resolved = |modules: &[usize]| modules.iter().all(|module| wiring.resolved[*module]);
    let trackers = raw.trackers.iter().zip(&wiring.trackers);
    let trackers = trackers.map(|(tracker, modules)| {
        let modules = modules.to_vec();
        Part {
            name: &tracker.name.value,
            streams: &tracker.streams,
            is_resolved: are_resolved(&modules),
            modules,
            inputs: &[],
        }
    });
    let transforms = raw.transforms.iter().zip(&wiring.transforms);
    let transforms = transforms.map(|(transform, taken)| Part {
        name: &transform.name.value,
        streams: &transform.streams,
        modules: taken.modules.to_vec(),
        inputs: &[],
        is_resolved: taken.complete && are_resolved(&taken.modules),
    });
    let sinks = raw.sinks.iter().zip(&wiring.sinks);
    let sinks = sinks.map(|(sink, inputs)| {
        let modules: Vec<usize> = upstream(inputs).collect();
        Part {
            name: &sink.name.value,
            streams: &sink.streams,
            is_resolved: are_resolved(&modules) && !inputs.is_empty(),
            modules,
            inputs,
        }
    });
    let modules = raw.modules.iter().enumerate();
    let modules = modules.map(|(index, module)| Part {
        name: module
            .stage
            .as_ref()
            .map_or(&module.name.value, |stage| &stage.cascade),
        streams: &module.streams,
        modules: upstream(&wiring.modules[index]).collect(),
        inputs: &wiring.modules[index],
        is_resolved: wiring.resolved[index],
    });
    for part in modules.chain(trackers.chain(transforms)).chain(sinks) {
        part.check(raw, wiring, diagnostics);
    }
}

/// The streams that these names are of; all where there are none.
pub(super) fn named(names: &Field<Vec<Spanned<String>>>) -> StreamNames {
    let names = names.given().into_iter().flat_map(|names| &names.value);
    StreamNames::new(names.map(|name| name.value.clone()).collect())
}

impl Part<'_> {
    /// Sources, and behind them templates, whose frames come here.
    fn sources(&self, wiring: &Wiring) -> BTreeSet<usize> {
        let modules = self.modules.iter();
        let before = modules.flat_map(|module| wiring.ancestors[*module].iter().chain([module]));
        let inputs = before
            .flat_map(|module| &wiring.modules[*module])
            .chain(self.inputs);
        let sources = inputs.filter_map(|input| match input {
            Vertex::Source(source) => Some(*source),
            Vertex::Module(_) => None,
        });
        sources.collect()
    }

    /// Streams that clients add have names that no text knows: a name with a star may stand for them, and any where they enter by a
    /// template.
    fn check(&self, raw: &RawGraph, wiring: &Wiring, diagnostics: &mut Diagnostics) {
        let Some(named) = self.streams.given().filter(|_| self.is_resolved) else {
            return;
        };
        let sources = self.sources(wiring);
        let has_template = sources.iter().any(|source| *source >= raw.sources.len());
        let all: Vec<&str> = raw.sources.iter().map(|source| &*source.name.value).collect();
        let reaching: Vec<&str> = sources
            .iter()
            .filter_map(|source| all.get(*source).copied())
            .collect();
        for name in &named.value {
            let of = StreamNames::new(vec![name.value.clone()]);
            let is_any = |streams: &[&str]| streams.iter().any(|stream| of.contains(stream));
            if is_any(&reaching) || name.value.contains('*') || has_template {
                continue;
            }
            let (message, hint) = if is_any(&all) {
                (
                    format!("frames of \"{}\" never reach \"{}\"", name.value, self.name),
                    spelling::list("streams that reach it", reaching.iter().copied()),
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
