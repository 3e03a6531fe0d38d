//! Functions in Python in place of operators, heads, transforms and sinks. That of an operator takes the place of a model:
//! the table of the module has the keys of both.

use std::path::{Component, Path, PathBuf};

use weir_config::{Field, Fields, Spanned};
use weir_flow::{PYTHON_PREFIX, PythonPlace, Settings};
use weir_types::Span;

use super::context::Context;
use super::ends::RawEnds;
use super::tables::{HeadName, RawModel};
use crate::gpu_settings::GpuSettings;
use crate::graph::ModelOrigin;
use crate::python_node::PythonNode;

/// Longest time of one call without the key `timeout`.
const TIMEOUT: Span = Span::from_secs(10);

/// The model that stands for the function, and the name by which the module knows it.
pub(super) fn model(
    (name, has_regions): (&Spanned<String>, bool),
    operator: &Spanned<&str>,
    fields: &Fields<'_>,
    settings: &Settings,
    context: &mut Context<'_>,
) -> (Field<String>, Option<RawModel>) {
    for (key, instead) in [
        ("model", "the function takes the place of a model"),
        ("cascade", "stages of a cascade are models"),
    ] {
        if let Some(entry) = fields.entry(key) {
            let message = format!(
                "the operator of {} is in Python, and has no `{key}`",
                fields.owner
            );
            let hint = format!("leave it out: {instead}");
            context.diagnostics.add(entry.at, message, Some(hint));
        }
    }
    // No table of `[models]` can have a name with a colon.
    let own_name = format!("{PYTHON_PREFIX}{}", name.value);
    let Some(node) = node(operator, has_regions, fields, settings, context) else {
        return (Field::Broken, None);
    };
    let at = |key: &str| fields.entry(key).map_or(name.at, |entry| entry.node.at);
    let device = match settings.text("device") {
        Some(device) => Field::Given(Spanned::new(device.to_owned(), at("device"))),
        None => Field::Absent,
    };
    let model = RawModel {
        name: Spanned::new(own_name.clone(), name.at),
        head: HeadName::Unknown,
        classes: None,
        device,
        ends: RawEnds::default(),
        batch: batch_sizes(settings.number("max_batch", 1.0) as u32),
        workers: Some(Spanned::new(
            settings.number("workers", 1.0) as u32,
            at("workers"),
        )),
        scaling: None,
        server_slots: None,
        profile: Vec::new(),
        preparation: Vec::new(),
        fail_every: None,
        memory: node.memory.map(|bytes| Spanned::new(bytes, at("memory"))),
        open_cold: None,
        open_warm: None,
        gpu: GpuSettings::default(),
        plan: None,
        predictor: None,
        names_predictor: false,
        settings: Settings::default(),
        origin: Some(ModelOrigin::Python(node)),
    };
    (Field::Given(Spanned::new(own_name, operator.at)), Some(model))
}

/// Powers of two below the largest size, and that.
fn batch_sizes(max: u32) -> Vec<u32> {
    let powers = (0..31).map(|power| 1_u32 << power);
    powers.take_while(|size| *size < max).chain([max]).collect()
}

/// The function of an operator; `None` where a problem was reported.
fn node(
    operator: &Spanned<&str>,
    crops: bool,
    fields: &Fields<'_>,
    settings: &Settings,
    context: &mut Context<'_>,
) -> Option<PythonNode> {
    let place = place(("operator", operator), fields, settings, context)?;
    let timeout = settings.number("timeout", TIMEOUT.as_secs_f64());
    Some(PythonNode {
        place,
        timeout: Span::from_secs_f64(timeout),
        memory: settings
            .0
            .contains_key("memory")
            .then(|| settings.number("memory", 0.0) as u64),
        crops,
    })
}

/// Adds to the keys of a table the place of the function that its key `key` names, if that is one in Python; `false` where
/// a problem was reported.
pub(super) fn add_place(
    key: &str,
    fields: &Fields<'_>,
    settings: &mut Settings,
    context: &mut Context<'_>,
) -> bool {
    let Some(named) = fields
        .peek(key)
        .filter(|named| named.value.starts_with(PYTHON_PREFIX))
    else {
        return true;
    };
    let place = place((key, &named), fields, settings, context);
    if let Some(place) = &place {
        place.add_to(settings);
    }
    place.is_some()
}

/// The function that the key of a table names; `None` where a problem was reported.
fn place(
    (key, named): (&str, &Spanned<&str>),
    fields: &Fields<'_>,
    settings: &Settings,
    context: &mut Context<'_>,
) -> Option<PythonPlace> {
    let (name, at) = (named.value.strip_prefix(PYTHON_PREFIX)?, named.at);
    let Some(folder) = context.catalog.python.clone() else {
        let message = format!(
            "the {key} of {} is in Python, which is not allowed here",
            fields.owner
        );
        let hint = "add --python FOLDER to the command: graphs may then name functions in the Python modules of that folder";
        context.diagnostics.add(at, message, Some(hint.to_owned()));
        return None;
    };
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() < 2 || !parts.iter().all(|part| is_identifier(part)) {
        let message = format!(
            "`{key}`: \"{}\" is no function of a Python module",
            named.value.escape_debug()
        );
        let hint = "name the module and the function: \"python:colours.colour\" is `colour` of colours.py";
        context.diagnostics.add(at, message, Some(hint.to_owned()));
        return None;
    }
    let (function, module) = parts.split_last()?;
    let module_path: PathBuf = module.iter().collect();
    let file = module_file(&folder, &module_path).or_else(|| {
        let message = format!(
            "`{key}`: there is no Python module \"{}\" in {}",
            module.join("."),
            folder.display()
        );
        let hint = format!(
            "write {}.py there; files that links lead out of the folder are not read",
            module_path.display()
        );
        context.diagnostics.add(at, message, Some(hint));
        None
    })?;
    context.diagnostics.record_file(&file);
    let interpreter = match settings.text("python") {
        Some(text) => Some(interpreter(text, &folder, fields, context)?),
        None => None,
    };
    Some(PythonPlace {
        module: module.join("."),
        function: (*function).to_owned(),
        interpreter,
        folder,
    })
}

fn is_identifier(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The file of a module, with all links followed; `None` if it is not in the folder.
fn module_file(folder: &Path, module: &Path) -> Option<PathBuf> {
    let files = [module.with_extension("py"), module.join("__init__.py")];
    let found = files
        .iter()
        .find_map(|file| folder.join(file).canonicalize().ok())?;
    (found.is_file() && found.starts_with(folder)).then_some(found)
}

/// The interpreter of `python`, which lies below the folder: a graph that came over the API cannot name another program.
/// It may be a link, as in every virtual environment.
fn interpreter(text: &str, folder: &Path, fields: &Fields<'_>, context: &mut Context<'_>) -> Option<PathBuf> {
    let at = fields.entry("python").map_or(fields.at, |entry| entry.node.at);
    let relative = Path::new(text);
    let mut components = relative.components();
    let is_below = components.all(|part| matches!(part, Component::Normal(_)));
    let path = folder.join(relative);
    // The link itself is a file of the folder; its folder must not be elsewhere.
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    if is_below && path.is_file() && parent.is_some_and(|parent| parent.starts_with(folder)) {
        return Some(path);
    }
    let message = format!(
        "`python`: there is no interpreter \"{}\" in {}",
        text.escape_debug(),
        folder.display()
    );
    let hint = "name one below the folder of --python, as \".venv/bin/python3\"; without the key it is python3 of PATH";
    context.diagnostics.add(at, message, Some(hint.to_owned()));
    None
}
