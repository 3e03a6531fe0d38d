//! `weir fleet`: certificates for the engines of a fleet, and how a fleet fares.

use comfy_table::{Table, presets};
use serde_json::Value;

use crate::api_client::Client;
use crate::args::{Fleet, FleetStatus};
use crate::printable::line;
use crate::{fleet, output};

/// Carries out what is asked for.
///
/// # Errors
/// Files that are in the way, an engine that is not reached or is in no fleet.
pub(crate) fn fleet(args: &Fleet) -> anyhow::Result<()> {
    match args {
        Fleet::Keys(args) => fleet::make_keys(args),
        Fleet::Status(FleetStatus { at, token_file }) => {
            let client = Client::new(at, token_file.as_deref())?;
            let state = client.ask("GET", "/api/fleet", None)?;
            output::say(&format!("{}\n\n{}", engines(&state), streams(&state)))
        }
    }
}

fn text(value: &Value) -> String {
    line(value.as_str().unwrap_or("-")).to_string()
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(head);
    table
}

/// Engines of a fleet, as a table.
pub(super) fn engines(state: &Value) -> String {
    let mut table = table(&["engine", "up", "streams", "capacity", "load", "missed", "devices"]);
    for engine in state["engines"].as_array().into_iter().flatten() {
        let is_up = engine["up"].as_bool().unwrap_or(false);
        let percent = |name: &str| match engine[name].as_f64() {
            Some(part) => format!("{:.0} %", 100.0 * part),
            None => "-".to_owned(),
        };
        let capacity = engine["capacity"].as_f64();
        table.add_row([
            text(&engine["name"]),
            (if is_up { "yes" } else { "no" }).to_owned(),
            engine["streams"].to_string(),
            capacity.map_or("-".to_owned(), |capacity| format!("{capacity:.1}/s")),
            percent("load"),
            percent("missed"),
            devices(&engine["devices"]),
        ]);
    }
    table.trim_fmt()
}

/// Devices with their slots: `cpu x 2, cuda:0 x 1`.
fn devices(devices: &Value) -> String {
    let devices = devices.as_object().into_iter().flatten();
    let devices: Vec<String> = devices
        .map(|(name, slots)| format!("{} x {slots}", line(name)))
        .collect();
    if devices.is_empty() {
        "-".to_owned()
    } else {
        devices.join(", ")
    }
}

fn streams(state: &Value) -> String {
    let mut table = table(&["stream", "assigned", "engines", ""]);
    for stream in state["streams"].as_array().into_iter().flatten() {
        let engines = stream["engines"].as_array().into_iter().flatten();
        let engines: Vec<String> = engines.map(text).collect();
        let problem = stream["problem"]
            .as_str()
            .map(|problem| line(problem).to_string());
        table.add_row([
            text(&stream["name"]),
            text(&stream["assigned"]),
            if engines.is_empty() {
                "-".to_owned()
            } else {
                engines.join(", ")
            },
            problem.unwrap_or_default(),
        ]);
    }
    table.trim_fmt()
}
