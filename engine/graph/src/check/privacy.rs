//! Whether the classes that pictures hide are found in every frame, and which sinks record what is hidden.

use std::collections::BTreeSet;

use weir_config::{Diagnostics, spelling};
use weir_flow::Catalog;

use super::streams;
use super::types::Upstream;
use super::wiring::Wiring;
use crate::graph::Vertex;
use crate::raw::{RawGraph, RawPrivacy, RawSink, RawSource};

/// Types of sinks that record the packets of a camera without encoding them.
const RECORDERS: [&str; 2] = ["clips", "archive"];

/// Whether each module may find objects.
pub(super) fn finders(raw: &RawGraph, models: &[Option<usize>], catalog: &Catalog) -> Vec<bool> {
    let finds = |module: usize| {
        let found = Upstream::collect(raw, &[module].into(), models, catalog);
        found.unknown || found.objects
    };
    (0..raw.modules.len()).map(finds).collect()
}

pub(super) fn check(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    let mut check = Check {
        raw,
        models,
        catalog,
        diagnostics,
        reported: BTreeSet::new(),
    };
    let mut shown: Vec<(usize, &RawSource, BTreeSet<usize>)> = Vec::new();
    for (index, source) in raw.sources.iter().enumerate() {
        let Some(hidden) = &source.privacy else { continue };
        let passed = wiring.passed_by(index);
        let name = source.name.value.as_str();
        let run = passed.iter().copied();
        let run = run.filter(|module| streams::named(&raw.modules[*module].streams).contains(name));
        check.classes(&format!("source \"{name}\""), hidden, &run.collect());
        if hidden.privacy.hides() && !hidden.privacy.private {
            shown.push((index, source, passed));
        }
    }
    if let Some(hidden) = raw.privacy.as_ref().filter(|_| !raw.templates.is_empty()) {
        let all = (0..raw.modules.len()).collect();
        check.classes("[defaults]", hidden, &all);
    }
    for (sink, inputs) in raw.sinks.iter().zip(&wiring.sinks) {
        let is_recorder = sink
            .kind
            .given()
            .is_some_and(|kind| RECORDERS.contains(&kind.value.as_str()));
        if is_recorder {
            let recorded = shown.iter().filter(|(index, source, passed)| {
                let is_before = |input: &Vertex| match input {
                    Vertex::Source(input) => input == index,
                    Vertex::Module(module) => passed.contains(module),
                };
                let name = &source.name.value;
                inputs.iter().any(is_before) && streams::named(&sink.streams).contains(name)
            });
            let recorded: Vec<&str> = recorded
                .map(|(_, source, _)| source.name.value.as_str())
                .collect();
            warn_of_copies(sink, &recorded, check.diagnostics);
        }
    }
}

/// Warns of a recorder that shows what pictures of cameras hide.
fn warn_of_copies(sink: &RawSink, cameras: &[&str], diagnostics: &mut Diagnostics) {
    let Some((first, others)) = cameras.split_first() else {
        return;
    };
    let cameras = match others.len() {
        0 => format!("\"{first}\""),
        1 => format!("\"{first}\" and one more source"),
        count => format!("\"{first}\" and {count} more sources"),
    };
    let message = format!(
        "sink \"{}\" records the video of {cameras} as it is sent, without what `privacy` hides",
        sink.name.value
    );
    let hint =
        "private = true in the table of the camera withholds its video; `streams` of the sink leaves it out";
    diagnostics.warn(sink.name.at, message, Some(hint.to_owned()));
}

struct Check<'a> {
    raw: &'a RawGraph,
    models: &'a [Option<usize>],
    catalog: &'a Catalog,
    diagnostics: &'a mut Diagnostics,
    /// Positions of problems; many sources may have the same defaults.
    reported: BTreeSet<(usize, String)>,
}

impl Check<'_> {
    /// Checks that the modules which run for the frames of a source find the hidden classes in each frame.
    fn classes(&mut self, owner: &str, hidden: &RawPrivacy, run: &BTreeSet<usize>) {
        for (class, at) in &hidden.classes {
            self.found(owner, (class.as_str(), *at), run);
        }
        for module in run {
            self.per_track(owner, hidden, *module);
        }
    }

    fn found(&mut self, owner: &str, (class, at): (&str, usize), run: &BTreeSet<usize>) {
        let found = Upstream::collect(self.raw, run, self.models, self.catalog);
        let Some(classes) = found.classes.filter(|_| !found.unknown) else {
            return;
        };
        if classes.contains(class) || !self.reported.insert((at, class.to_owned())) {
            return;
        }
        let known = || classes.iter().map(String::as_str);
        let message = format!("`privacy` of {owner}: no detector finds the class \"{class}\" in its frames");
        let hint = spelling::nearest(class, known())
            .map(|meant| format!("did you mean \"{meant}\"?"))
            .or_else(|| spelling::list("its frames have", known()))
            .unwrap_or_else(|| "add a module with operator = \"detect\" that takes its frames".to_owned());
        self.diagnostics.add_if_parsed(at, message, Some(hint));
    }

    /// A module that runs for a track now and then finds nothing in the frames between.
    fn per_track(&mut self, owner: &str, hidden: &RawPrivacy, module: usize) {
        let Some(rule) = &self.raw.modules[module].per_track else {
            return;
        };
        let found = Upstream::collect(self.raw, &[module].into(), self.models, self.catalog);
        let classes = found.classes.unwrap_or_default();
        let Some(class) = hidden.classes.keys().find(|class| classes.contains(*class)) else {
            return;
        };
        if !self.reported.insert((rule.at, class.clone())) {
            return;
        }
        let message = format!(
            "`privacy` of {owner} hides \"{class}\", and \"{}\" finds it in some frames only",
            self.raw.modules[module].name.value
        );
        let hint = "leave out `per_track`, or hide the class of the objects that the module takes";
        self.diagnostics
            .add_if_parsed(rule.at, message, Some(hint.to_owned()));
    }
}
