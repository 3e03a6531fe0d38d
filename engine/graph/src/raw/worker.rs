//! The tables of partition workers: their addresses, device classes and links.

use weir_config::{Entry, Field, Fields, Spanned};

use super::context::Context;
use super::required::required;
use crate::graph::WorkerNode;
use crate::keys::{self, WORKER};

/// Bandwidth of a link where none is given: 10 Gbit/s.
const DEFAULT_BANDWIDTH_BPS: u64 = 10_000_000_000;

pub(super) fn read(
    name: Spanned<String>,
    entry: &Entry,
    context: &mut Context<'_>,
) -> Option<(Spanned<String>, WorkerNode)> {
    let mut fields = Fields::open(format!("worker \"{}\"", name.value), entry, context.diagnostics)?;
    fields.expect(&keys::names(WORKER), false, context.diagnostics);
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

/// A complete `HOST:PORT`, or `node:NAME`.
fn address(spanned: &Spanned<String>, context: &mut Context<'_>) -> Option<String> {
    let node = spanned.value.strip_prefix(WorkerNode::NODE);
    let whole = node.is_some_and(|name| !name.is_empty() && !name.contains([':', '/']))
        || spanned.value.rsplit_once(':').is_some_and(|(host, port)| {
            node.is_none() && !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
    if !whole {
        let hint =
            Some("the address that weir worker --listen was given, such as \"127.0.0.1:7101\", or the node that it is in the \
                  fleet, such as \"node:gpu-1\"".to_owned());
        let message = format!(
            "`address`: \"{}\" is neither HOST:PORT nor node:NAME",
            spanned.value.escape_debug()
        );
        context.diagnostics.add(spanned.at, message, hint);
        return None;
    }
    Some(spanned.value.clone())
}

/// Factor by which it is slower than the machine, at least 1.
pub(super) fn slowdown(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<f64> {
    match fields.positive("slowdown", context.diagnostics) {
        Field::Absent => Some(1.0),
        Field::Given(spanned) if spanned.value >= 1.0 => Some(spanned.value),
        Field::Given(spanned) => {
            let hint = Some("a slower device can be emulated, not a faster one".to_owned());
            context
                .diagnostics
                .add(spanned.at, "`slowdown` must be 1 or more", hint);
            None
        }
        Field::Broken => None,
    }
}

fn core(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<u32> {
    let field = fields.read("core", context.diagnostics, |node| {
        let core = node.integer().and_then(|whole| u32::try_from(whole).ok());
        core.filter(|core| keys::in_bounds(WORKER, "core", f64::from(*core)))
            .ok_or_else(|| "the number of a core".to_owned())
    });
    field.into_value()
}

fn bandwidth(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<u64> {
    let field = fields.text("bandwidth", context.diagnostics);
    match field {
        Field::Absent => Some(DEFAULT_BANDWIDTH_BPS),
        Field::Broken => None,
        Field::Given(spanned) => {
            let read = weir_config::parse_bandwidth_bps(&spanned.value);
            if read.is_none() {
                let hint = Some("a number with a unit, such as \"10Gbps\" or \"500Mbps\"".to_owned());
                let message = format!(
                    "`bandwidth`: \"{}\" is not a bandwidth above zero",
                    spanned.value.escape_debug()
                );
                context.diagnostics.add(spanned.at, message, hint);
            }
            read
        }
    }
}
