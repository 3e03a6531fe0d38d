//! `weir streams`: the streams of an engine that serves, by its API.

use std::fmt::Write;

use comfy_table::{Table, presets};
use serde_json::Value;
use weir_serve::{FrameRate, StreamPatch, StreamRequest};

use crate::api_client::Client;
use crate::args::{SetStream, StreamAction, Streams};
use crate::error::UserError;
use crate::output;
use crate::printable::line;

/// Carries out what is asked for.
///
/// # Errors
/// An engine that is not reached, and what it refuses.
pub(crate) fn streams(args: &Streams) -> anyhow::Result<()> {
    let client = Client::new(&args.at, args.token_file.as_deref())?;
    let one = |name: &str, action: &str| format!("/api/streams/{}{action}", percent_encoded(name));
    match &args.action {
        StreamAction::List => output::say(&table(&client.ask("GET", "/api/streams", None)?)),
        StreamAction::Add(stream) => {
            let request = StreamRequest {
                name: stream.name.clone(),
                uri: stream.uri.clone(),
                detect_uri: stream.detect_uri.clone(),
                mode: stream.mode.clone(),
                fps: stream.fps,
                sample: stream.sample.map(FrameRate::PerSecond),
                repeat: stream.repeat.then_some(true),
                decode: stream.decode.clone(),
                gate: stream.gate.clone(),
                decoder: None,
                transport: None,
                user: None,
                password_file: None,
                slo: stream.slo.clone(),
                weight: stream.weight,
                reserve: stream.reserve,
                group: stream.group.clone(),
                like: stream.like.clone(),
            };
            let body = serde_json::to_string(&request)?;
            let answer = client.ask("POST", "/api/streams", Some(&body))?;
            output::say(&format!("added {}", stream.name))?;
            remark_kept(&answer);
            Ok(())
        }
        StreamAction::Remove { name } => {
            let report = client.ask("DELETE", &one(name, ""), None)?;
            let counts = &report["requests"];
            output::say(&format!(
                "removed {name}: {} arrived, {} delivered, {} late, {} dropped",
                counts["arrived"], counts["delivered"], counts["late"], counts["dropped"]
            ))?;
            remark_kept(&report);
            Ok(())
        }
        StreamAction::Pause { name } => {
            let answer = client.ask("POST", &one(name, "/pause"), Some(""))?;
            output::say(&format!("paused {name}"))?;
            remark_kept(&answer);
            Ok(())
        }
        StreamAction::Resume { name } => {
            let answer = client.ask("POST", &one(name, "/resume"), Some(""))?;
            output::say(&format!("resumed {name}"))?;
            remark_kept(&answer);
            Ok(())
        }
        StreamAction::Set(SetStream { name, share }) => {
            let reserve = share.reserve.as_deref().map(reserve).transpose()?;
            let slo = share.slo.clone().map(|slo| (slo != NONE).then_some(slo));
            let patch = StreamPatch {
                slo,
                weight: share.weight,
                reserve,
            };
            let body = serde_json::to_string(&patch)?;
            let answer = client.ask("PATCH", &one(name, ""), Some(&body))?;
            output::say(&format!("changed {name}"))?;
            remark_kept(&answer);
            Ok(())
        }
    }
}

/// Says where the engine keeps a change for its next start.
fn remark_kept(answer: &Value) {
    let kept = &answer["kept"];
    let text = |key: &str| kept[key].as_str().map(|text| line(text).to_string());
    let why = text("why").map_or_else(String::new, |why| format!(": {why}"));
    match (kept["in"].as_str(), text("file")) {
        (Some("graph"), Some(file)) => output::remark(&format!("kept in {file}")),
        (Some(_), Some(file)) => output::remark(&format!("kept in {file}{why}")),
        (Some(_), None) => output::remark(&format!("kept until the engine ends only{why}")),
        (None, _) => {}
    }
}

/// Takes an objective or a reserve away.
const NONE: &str = "none";

/// A reserve, or that there is none.
fn reserve(text: &str) -> anyhow::Result<Option<f64>> {
    if text == NONE {
        return Ok(None);
    }
    let wrong = |_| UserError::new(format!("--reserve {text}: give frames a second, or none"));
    Ok(Some(text.parse().map_err(wrong)?))
}

/// The streams of an answer, a line each.
fn table(streams: &Value) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "stream",
        "state",
        "for",
        "arrived",
        "delivered",
        "late",
        "dropped",
        "source",
    ]);
    for stream in streams.as_array().into_iter().flatten() {
        let text = |value: &Value| line(value.as_str().unwrap_or_default()).to_string();
        let count = |name: &str| stream["requests"][name].to_string();
        let state = match stream["reason"].as_str() {
            Some(reason) => format!("{}: {}", text(&stream["state"]), line(reason)),
            None => text(&stream["state"]),
        };
        // An outage counts from its beginning, not from the last try.
        let seconds = stream["lost_s"].as_f64().or(stream["for_s"].as_f64());
        table.add_row([
            text(&stream["name"]),
            state,
            format!("{:.0} s", seconds.unwrap_or(0.0)),
            count("arrived"),
            count("delivered"),
            count("late"),
            count("dropped"),
            source(stream),
        ]);
    }
    table.trim_fmt()
}

/// The address of a stream, and where its frames come from if that is another one.
fn source(stream: &Value) -> String {
    let of = |name: &str| stream[name].as_str().map(|text| line(text).to_string());
    let source = of("source").unwrap_or_default();
    match of("detect_source") {
        Some(detect) => format!("{source} (frames from {detect})"),
        None => source,
    }
}

/// A name as it stands in a path.
pub(super) fn percent_encoded(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_paths_byte_by_byte() {
        assert_eq!(percent_encoded("north-2.a_b"), "north-2.a_b");
        assert_eq!(percent_encoded("süd/x?"), "s%C3%BCd%2Fx%3F");
    }
}
