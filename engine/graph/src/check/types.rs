//! Whether the modules upstream of a module produce the items that it takes.

use std::collections::BTreeSet;

use weir_config::{Diagnostics, spelling};
use weir_flow::{Catalog, HeadOutput, OperatorInput, OperatorSpec};

use super::wiring::Wiring;
use crate::graph::{AUTO, EMULATE, ModelOrigin};
use crate::raw::{HeadName, RawGraph, RawModule, RawTracker};

pub(super) fn check(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    for (index, module) in raw.modules.iter().enumerate() {
        let Some(operator) = module.operator.given() else {
            continue;
        };
        let spec = catalog.operator(&operator.value);
        check_model(raw, module, models[index], spec, diagnostics);
        check_labels(raw, module, models[index], diagnostics);
        // Whole frames need nothing of the modules upstream.
        if let Some(at) = module.items_at {
            check_frames(module, at, diagnostics);
        } else if wiring.resolved[index] {
            let upstream = Upstream::collect(raw, &wiring.ancestors[index], models, catalog);
            let aligns = models[index].is_none_or(|model| raw.models[model].settings.aligns());
            let input = match spec.map_or(OperatorInput::FrameOrBoxes, |spec| spec.input) {
                OperatorInput::Faces if !aligns => OperatorInput::Boxes,
                input => input,
            };
            check_items(module, input, &upstream, diagnostics);
        }
    }
}

/// Whether what trackers follow finds objects at all.
pub(super) fn check_trackers(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    for (tracker, modules) in raw.trackers.iter().zip(&wiring.trackers) {
        check_appearance(raw, tracker, diagnostics);
        for module in modules {
            let found = Upstream::collect(raw, &[*module].into(), models, catalog);
            if found.unknown || found.objects {
                continue;
            }
            let (name, followed) = (&tracker.name.value, &raw.modules[*module]);
            let message = format!(
                "\"{name}\" follows objects, and \"{}\" finds none",
                followed.name.value
            );
            let at = tracker.inputs.given().map_or(tracker.name.at, |list| list.at);
            let hint = "name a module with a detector; results of other modules about its objects are added to their tracks anyway";
            diagnostics.add_if_parsed(at, message, Some(hint.to_owned()));
        }
    }
}

/// Whether the module by whose embeddings a tracker knows objects again makes any, and hands them on.
fn check_appearance(raw: &RawGraph, tracker: &RawTracker, diagnostics: &mut Diagnostics) {
    if let Some(named) = tracker.settings.text("appearance") {
        let owner = format!("tracker \"{}\": `appearance`", tracker.name.value);
        embeddings_of(raw, named, (&owner, tracker.name.at), diagnostics);
    }
}

/// The module of that name, if it makes embeddings and hands them on; otherwise it is reported for the key `owner`.
pub(super) fn embeddings_of(
    raw: &RawGraph,
    named: &str,
    (owner, at): (&str, usize),
    diagnostics: &mut Diagnostics,
) -> Option<usize> {
    let names = || raw.modules.iter().map(|module| module.name.value.as_str());
    let module = names().position(|name| name == named);
    let (message, hint) = match module {
        None => {
            let hint = spelling::hint(named, "modules", names());
            (format!("there is no module \"{named}\""), hint)
        }
        Some(module) if raw.modules[module].settings.flag("vector", false) => return Some(module),
        Some(_) => {
            let hint = "name one with operator = \"embed\" and vector = true".to_owned();
            (format!("\"{named}\" produces no embeddings"), Some(hint))
        }
    };
    diagnostics.add_if_parsed(at, format!("{owner}: {message}"), hint);
    None
}

/// Whether modules that run per track know tracks of what they take.
pub(super) fn check_per_track(raw: &RawGraph, wiring: &Wiring, diagnostics: &mut Diagnostics) {
    for (index, module) in raw.modules.iter().enumerate() {
        let Some(per_track) = &module.per_track else {
            continue;
        };
        let name = &module.name.value;
        if module.settings.takes_frames() {
            let message = format!("module \"{name}\" takes whole frames, which have no tracks");
            let hint = "leave out `per_track`, or `items`";
            diagnostics.add(per_track.at, message, Some(hint.to_owned()));
        } else if wiring.resolved[index] && wiring.tracker_before(index).is_none() {
            let message = format!("no tracker follows what module \"{name}\" takes");
            let hint = "add [modules.tracks] with operator = \"track\", its inputs the module that finds the objects";
            diagnostics.add_if_parsed(per_track.at, message, Some(hint.to_owned()));
        }
    }
}

fn is_emulated(raw: &RawGraph, model: usize) -> bool {
    let model = &raw.models[model];
    let device = model.device.given();
    let mut ends = model.ends.devices.iter();
    model.origin == Some(ModelOrigin::Emulated)
        || (model.ends.are_given() && ends.all(|device| device.value.starts_with("emulated:")))
        || device.is_some_and(|device| device.value.starts_with("emulated:"))
}

/// Whether the operator can run the model.
fn check_model(
    raw: &RawGraph,
    module: &RawModule,
    model: Option<usize>,
    spec: Option<&OperatorSpec>,
    diagnostics: &mut Diagnostics,
) {
    let (Some(model), Some(at)) = (model, module.model.given().map(|spanned| spanned.at)) else {
        return;
    };
    let name = &raw.models[model].name.value;
    let emulated = is_emulated(raw, model);
    match (spec, &raw.models[model].head) {
        (None, _) if !emulated => {
            let message =
                format!("operator \"{EMULATE}\" runs models on emulated devices, and \"{name}\" is on none");
            let hint =
                Some("place the model on a device such as \"emulated:t4\", or choose an operator".to_owned());
            diagnostics.add_if_parsed(at, message, hint);
        }
        (Some(spec), HeadName::Known(head)) if !spec.heads.contains(&head.as_str()) => {
            let message = if head == AUTO {
                format!(
                    "operator \"{}\" cannot run \"{name}\" without its `head`: only the head of a detector is found automatically",
                    spec.name
                )
            } else {
                format!(
                    "operator \"{}\" cannot run \"{name}\", whose head is \"{head}\"",
                    spec.name
                )
            };
            diagnostics.add_if_parsed(
                at,
                message,
                spelling::list("it runs heads", spec.heads.iter().copied()),
            );
        }
        _ => {}
    }
}

/// Whether the classes that a module keeps are classes of its model.
fn check_labels(raw: &RawGraph, module: &RawModule, model: Option<usize>, diagnostics: &mut Diagnostics) {
    let (Some(labels), Some(at)) = (module.settings.texts("labels"), module.labels_at) else {
        return;
    };
    if labels.is_empty() {
        let hint = Some("leave it out to keep all".to_owned());
        diagnostics.add(at, "`labels` is empty: no object would be kept", hint);
    }
    let Some(model) = model.filter(|model| !is_emulated(raw, *model)) else {
        return;
    };
    let model = &raw.models[model];
    let Some(classes) = &model.classes else {
        return;
    };
    let classes = || classes.iter().map(String::as_str);
    for label in labels
        .iter()
        .filter(|label| classes().all(|class| class != **label))
    {
        let meant = spelling::nearest(label, classes()).map(|meant| format!("did you mean \"{meant}\"? "));
        let list = spelling::list("it finds", classes()).unwrap_or_default();
        let message = format!(
            "`labels` of \"{}\": the model \"{}\" has no class \"{label}\"",
            module.name.value, model.name.value
        );
        diagnostics.add_if_parsed(at, message, Some(format!("{}{list}", meant.unwrap_or_default())));
    }
}

/// Keys that say which objects are cut, and how.
const CROP_KEYS: &[&str] = &["min_side", "max_items", "widen", "cut"];

/// Whether a module whose items are whole frames says nothing of crops.
fn check_frames(module: &RawModule, at: usize, diagnostics: &mut Diagnostics) {
    if !module.settings.takes_frames() {
        // The word is none that is known, which was reported: what it was meant to be is open.
        return;
    }
    let name = &module.name.value;
    if let Some(regions) = module.regions.given().filter(|regions| !regions.value.is_empty()) {
        let message = format!(
            "module \"{name}\" has both `items` and `regions`: its items are whole frames, or crops of objects"
        );
        let hint = "leave out `items` for crops, `regions` for whole frames".to_owned();
        diagnostics.add(regions.at, message, Some(hint));
        return;
    }
    let unused: Vec<String> = CROP_KEYS
        .iter()
        .filter(|key| module.settings.0.contains_key(**key))
        .map(|key| format!("`{key}`"))
        .collect();
    if !unused.is_empty() {
        let message = format!(
            "module \"{name}\" takes whole frames, which leaves {} without effect",
            unused.join(", ")
        );
        diagnostics.warn(
            at,
            message,
            Some("remove the keys for crops of objects".to_owned()),
        );
    }
}

/// Kinds of objects that the modules upstream of a module find.
#[derive(Default)]
pub(super) struct Upstream {
    /// Whether the outputs of some of these modules are unknown.
    pub(super) unknown: bool,
    pub(super) objects: bool,
    faces: bool,
    flats: bool,
    /// Classes of the objects; `None` where some are unknown.
    pub(super) classes: Option<BTreeSet<String>>,
}

impl Upstream {
    pub(super) fn collect(
        raw: &RawGraph,
        ancestors: &BTreeSet<usize>,
        models: &[Option<usize>],
        catalog: &Catalog,
    ) -> Self {
        let mut upstream = Self {
            classes: Some(BTreeSet::new()),
            ..Self::default()
        };
        for ancestor in ancestors {
            let kept = raw.modules[*ancestor].settings.texts("labels");
            let kept = kept.filter(|labels| !labels.is_empty());
            let Some(model) = models[*ancestor].filter(|model| !is_emulated(raw, *model)) else {
                upstream.unknown = true;
                continue;
            };
            let model = &raw.models[model];
            let spec = match &model.head {
                HeadName::Known(head) => catalog.heads.iter().find(|spec| spec.name == head),
                HeadName::Unknown => None,
            };
            let Some(spec) = spec else {
                upstream.unknown = true;
                continue;
            };
            if spec.output == HeadOutput::Attribute {
                continue;
            }
            upstream.objects = true;
            upstream.faces |= spec.output == HeadOutput::Faces;
            upstream.flats |= spec.output == HeadOutput::Quads;
            upstream.classes = match (upstream.classes, kept.or(model.classes.as_deref())) {
                (Some(mut classes), Some(more)) => {
                    classes.extend(more.iter().cloned());
                    Some(classes)
                }
                _ => None,
            };
        }
        upstream
    }
}

/// Whether what is upstream gives the module its items.
fn check_items(module: &RawModule, input: OperatorInput, upstream: &Upstream, diagnostics: &mut Diagnostics) {
    let Some(operator) = module.operator.given() else {
        return;
    };
    let name = &module.name.value;
    let mut report = |what: &str, hint: &str| {
        let message = format!(
            "operator \"{}\" takes {what}, but no module upstream of \"{name}\" finds any",
            operator.value
        );
        let hint = format!("{hint}; for whole frames, such as a folder of crops: items = \"frame\"");
        diagnostics.add_if_parsed(operator.at, message, Some(hint));
    };
    let regions = module.regions.given().filter(|regions| !regions.value.is_empty());
    if !upstream.unknown {
        match input {
            OperatorInput::Boxes if !upstream.objects => {
                return report("boxes of objects", "put a module with a detector before it");
            }
            OperatorInput::Faces if !upstream.faces => {
                return report(
                    "faces with five points",
                    "put a module with a face detector before it",
                );
            }
            // Boxes of plates are as good as corners to a model that reads boxes.
            OperatorInput::Quads if !(upstream.flats || upstream.objects && regions.is_some()) => {
                let hint = "put a module that finds corners before it, or name classes of boxes in `regions`";
                return report("flat things with four corners", hint);
            }
            _ => {}
        }
    }
    let classes = || upstream.classes.iter().flatten().map(String::as_str);
    let Some(regions) = regions else {
        if input == OperatorInput::Boxes && !matches!(module.regions, weir_config::Field::Broken) {
            let message = format!(
                "operator \"{}\" needs `regions`: the classes whose crops it takes",
                operator.value
            );
            diagnostics.add_if_parsed(
                operator.at,
                message,
                spelling::list("classes upstream", classes()),
            );
        }
        return;
    };
    if upstream.unknown {
        return;
    }
    if !upstream.objects {
        let message = format!("`regions` selects objects, but no module upstream of \"{name}\" finds any");
        diagnostics.add_if_parsed(
            regions.at,
            message,
            Some("leave it out for whole frames".to_owned()),
        );
        return;
    }
    if upstream.classes.is_none() {
        return;
    }
    for region in regions.value.iter().filter(|region| {
        upstream
            .classes
            .as_ref()
            .is_none_or(|classes| !classes.contains(&region.value))
    }) {
        if diagnostics.is_full() {
            return;
        }
        let meant =
            spelling::nearest(&region.value, classes()).map(|meant| format!("did you mean \"{meant}\"? "));
        let list = spelling::list("classes upstream", classes()).unwrap_or_default();
        let hint = format!("{}{list}", meant.unwrap_or_default());
        diagnostics.add_if_parsed(
            region.at,
            format!("nothing upstream finds the class \"{}\"", region.value),
            Some(hint),
        );
    }
}
