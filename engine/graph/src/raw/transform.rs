//! Transforms: incidents and attributes derived from the tracks and objects of a stream over time. They have
//! no model, and requests do not wait for them.

use std::collections::BTreeMap;

use weir_analytics::transforms::{TRANSFORM_TYPES, TransformSpec, read_transform, transform_type};
use weir_config::{Entry, Fields, Spanned};
use weir_flow::{PYTHON_PREFIX, catalog_name};

use super::context::Context;
use super::python;
use super::required::{expect_keys, required, required_inputs, streams};
use super::section::{check_known, correct};
use super::tables::RawTransform;
use crate::keys::TRANSFORM;
use crate::settings;

pub(super) fn read(name: Spanned<String>, entry: &Entry, context: &mut Context<'_>) -> Option<RawTransform> {
    let mut fields = Fields::open(
        format!("transform \"{}\"", name.value),
        entry,
        context.diagnostics,
    )?;
    let types = || TRANSFORM_TYPES.iter().map(|kind| kind.name);
    let named = fields.peek("type").map(|spanned| spanned.value);
    let meant = named
        .and_then(|name| correct(catalog_name(name), types()))
        .and_then(transform_type);
    let keys = meant.map_or(&[][..], |meant| meant.keys);
    expect_keys(&mut fields, TRANSFORM, keys, meant.is_none(), context);
    let kind = required(
        &fields,
        "type",
        "what it finds: \"zone\", \"line\" and so on",
        context,
    );
    if let Some(spanned) = kind.given().filter(|kind| !kind.value.starts_with(PYTHON_PREFIX)) {
        check_known(spanned, "transform type", types(), context);
    }
    let mut read = settings::read(&fields, keys, context.folder, context.diagnostics);
    read.whole &= python::add_place("type", &fields, &mut read.settings, context);
    // A value of the wrong kind was reported, and may leave others wrong.
    let spec = meant
        .filter(|_| read.whole)
        .and_then(|meant| spec(meant.name, &read.settings, &fields, context));
    let positions = keys.iter().filter_map(|key| {
        let entry = fields.entry(key.name)?;
        Some((key.name, entry.node.at))
    });
    Some(RawTransform {
        inputs: required_inputs(&fields, context),
        streams: streams(&fields, context),
        positions: positions.collect::<BTreeMap<_, _>>(),
        kind: meant.map(|meant| meant.name),
        spec,
        name,
    })
}

fn spec(
    kind: &str,
    settings: &weir_flow::Settings,
    fields: &Fields<'_>,
    context: &mut Context<'_>,
) -> Option<TransformSpec> {
    match read_transform(kind, settings) {
        Ok(spec) => Some(spec),
        Err(faults) => {
            for fault in faults {
                let at = fields.entry(fault.key).map_or(fields.at, |entry| entry.node.at);
                let message = format!("{}: {}", fields.owner, fault.message);
                context.diagnostics.add_if_parsed(at, message, fault.hint);
            }
            None
        }
    }
}
