//! The tables of partition workers: where they are, what they stand for, and what their links carry.

use weir_config::{Content, Entry, Field, Fields, Spanned};

use super::Context;
use super::section::required;
use crate::graph::WorkerNode;

/// What a link carries where nobody says: a link of ten gigabits.
const BANDWIDTH: u64 = 10_000_000_000;

/// A share of a device is a thread: no device has more.
const MAX_CORE: u32 = 65_535;

const KEYS: &[&str] = &[
    "class",
    "address",
    "server",
    "bandwidth",
    "emulated",
    "slowdown",
    "core",
];

pub(super) fn read(
    name: Spanned<String>,
    entry: &Entry,
    context: &mut Context<'_>,
) -> Option<(Spanned<String>, WorkerNode)> {
    let mut fields = Fields::open(format!("worker \"{}\"", name.value), entry, context.diagnostics)?;
    fields.expect(KEYS, false, context.diagnostics);
    let class = required(
        &fields,
        "class",
        "the class of device that it is, as the plan names it",
        context,
    );
    let address = fields
        .text("address", context.diagnostics)
        .and_then(|spanned| address(&spanned, context));
    let slowdown = slowdown(&fields, context);
    for key in ["slowdown", "core"] {
        if let Some(entry) = fields.entry(key).filter(|_| !address.is_absent()) {
            let hint = Some(format!(
                "start it as weir worker --{key} ..., and leave the key out here"
            ));
            let message = format!(
                "`{key}` is for workers in this process, and {} has an address",
                fields.owner
            );
            context.diagnostics.add(entry.at, message, hint);
        }
    }
    let bandwidth = bandwidth(&fields, context);
    let server = fields.text("server", context.diagnostics).into_value();
    let core = core(&fields, context);
    let node = WorkerNode {
        class: class.into_value()?,
        address: match address {
            Field::Broken => return None,
            address => address.into_value(),
        },
        server: server.unwrap_or_else(|| name.value.clone()),
        bandwidth_bps: bandwidth?,
        emulated: fields
            .flag("emulated", context.diagnostics)
            .into_value()
            .unwrap_or(false),
        slowdown: slowdown?,
        core,
        name: name.value.clone(),
    };
    Some((name, node))
}

/// `HOST:PORT`, both there.
fn address(spanned: &Spanned<String>, context: &mut Context<'_>) -> Option<String> {
    let whole = spanned
        .value
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
    if !whole {
        let hint =
            Some("the address that weir worker --listen was given, such as \"127.0.0.1:7101\"".to_owned());
        let message = format!("`address`: \"{}\" is no HOST:PORT", spanned.value.escape_debug());
        context.diagnostics.add(spanned.at, message, hint);
        return None;
    }
    Some(spanned.value.clone())
}

/// How many times slower than the machine it is to be; at least as slow as it is.
fn slowdown(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<f64> {
    match fields.positive("slowdown", context.diagnostics) {
        Field::Absent => Some(1.0),
        Field::Given(spanned) if spanned.value >= 1.0 => Some(spanned.value),
        Field::Given(spanned) => {
            let hint = Some("a worker can stand for a slower device, not for a faster one".to_owned());
            context
                .diagnostics
                .add(spanned.at, "`slowdown` must be 1 or more", hint);
            None
        }
        Field::Broken => None,
    }
}

fn core(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<u32> {
    let field = fields.read("core", context.diagnostics, |node| match node.content {
        Content::Integer(whole) => u32::try_from(whole)
            .ok()
            .filter(|core| *core <= MAX_CORE)
            .ok_or_else(|| "the number of a core".to_owned()),
        _ => Err("the number of a core".to_owned()),
    });
    field.into_value()
}

fn bandwidth(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<u64> {
    let field = fields.text("bandwidth", context.diagnostics);
    match field {
        Field::Absent => Some(BANDWIDTH),
        Field::Broken => None,
        Field::Given(spanned) => {
            let read = weir_config::parse_bandwidth_bps(&spanned.value);
            if read.is_none() {
                let hint = Some("a number with a unit, such as \"10Gbps\" or \"500Mbps\"".to_owned());
                let message = format!(
                    "`bandwidth`: \"{}\" is no rate above zero",
                    spanned.value.escape_debug()
                );
                context.diagnostics.add(spanned.at, message, hint);
            }
            read
        }
    }
}
