//! Parts that keep a service from being ready, and parts that fail while it is ready.

use serde_json::{Value, json};
use weir_flow::Cause;
use weir_runtime::{ModuleSnapshot, Snapshot, StreamPhase};
use weir_serve::NotReady;

/// Modules without a slot that ends its batches: no frame of any camera passes them.
pub(super) fn not_ready(snapshot: &Snapshot) -> Vec<NotReady> {
    let modules = snapshot.modules.iter().filter(|module| hangs(module));
    let modules = modules.map(|module| NotReady {
        what: format!("module {}", module.name),
        why: HANGS.to_owned(),
    });
    modules.collect()
}

/// Streams without frames, and sinks with an error or an outage. The engine serves meanwhile: a load balancer that took it out
/// for a dark camera would take all other cameras out as well.
pub(super) fn degraded(snapshot: &Snapshot) -> Vec<NotReady> {
    let waits = |phase| !matches!(phase, StreamPhase::Live | StreamPhase::Paused);
    let streams = snapshot.streams.iter().filter(|stream| waits(stream.state));
    let streams = streams.map(|stream| NotReady {
        what: format!("stream {}", stream.name),
        why: stream
            .reason
            .clone()
            .unwrap_or_else(|| stream.state.name().to_owned()),
    });
    streams.chain(sinks(snapshot)).collect()
}

/// A warning for people who look at the page, in a sentence.
pub(super) struct Warning {
    pub(super) text: String,
    /// The sink that it is about, if it is about one.
    sink: Option<String>,
}

/// Likely mistakes in the graph, and sinks that write nothing at the moment.
pub(super) fn warnings(snapshot: &Snapshot) -> Vec<Warning> {
    let of_graph = snapshot.warnings.iter().map(|text| Warning {
        text: text.clone(),
        sink: None,
    });
    let of_sinks = failing_sinks(snapshot).map(|(name, why)| Warning {
        text: format!("sink {name}: {why}."),
        sink: Some(name.to_owned()),
    });
    of_graph.chain(of_sinks).collect()
}

impl Warning {
    /// Its cause as a code with values, and the sink; null if its text has a wording of its own.
    pub(super) fn cause(&self) -> Value {
        let Some(cause) = Cause::of_warning(&self.text) else {
            return Value::Null;
        };
        let mut shown = json!(cause);
        if let Some(sink) = &self.sink {
            shown["sink"] = json!(sink);
        }
        shown
    }
}

fn sinks(snapshot: &Snapshot) -> impl Iterator<Item = NotReady> {
    failing_sinks(snapshot).map(|(name, why)| NotReady {
        what: format!("sink {name}"),
        why: why.to_owned(),
    })
}

/// Names of the sinks that write nothing at the moment, and why.
fn failing_sinks(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &str)> {
    let sinks = snapshot.report.sinks.iter();
    sinks.filter_map(|(name, sink)| Some((&**name, sink.trouble()?)))
}

/// The reason why no picture can pass a module, or one of its stages.
pub(super) fn module_trouble(snapshot: &Snapshot, name: &str) -> Option<String> {
    let is_stage = |module: &str| {
        let rest = module.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut modules = snapshot.modules.iter();
    let module = modules.find(|module| is_stage(&module.name) && hangs(module))?;
    Some(format!("module {}: {HANGS}", module.name))
}

const HANGS: &str = "it has no slot left: its model hangs in a batch";

fn hangs(module: &ModuleSnapshot) -> bool {
    module.overdue_slots > 0 && module.overdue_slots >= module.placed_slots
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_serve::ErrorCode;

    use super::*;

    /// Codes that the page has texts of: its test checks that each text has a German one.
    fn codes_of_the_page() -> BTreeSet<&'static str> {
        let script = include_str!("../../../../engine/serve/page/causes.js");
        let keys = script
            .lines()
            .filter_map(|line| line.strip_prefix("  \"")?.split_once("\": (").map(|(key, _)| key));
        keys.collect()
    }

    #[test]
    fn every_code_has_a_text_of_the_page_and_every_text_a_code() {
        let errors = ErrorCode::ALL.into_iter().map(ErrorCode::name);
        let codes: BTreeSet<&str> = Cause::codes().chain(errors).collect();
        assert_eq!(codes_of_the_page(), codes);
    }

    #[test]
    fn warning_about_a_full_disk_has_its_cause_with_sink_and_place() {
        let warning = |text: &str, sink: Option<&str>| Warning {
            text: text.to_owned(),
            sink: sink.map(str::to_owned),
        };
        let full = weir_files::io_reason(&std::io::ErrorKind::StorageFull.into());
        let full = format!("sink archive: cannot write /srv/video: {full}.");
        assert_eq!(
            warning(&full, Some("archive")).cause(),
            json!({ "code": "disk-full", "values": { "place": "/srv/video" }, "sink": "archive" })
        );
        assert_eq!(
            warning("sink archive: it hums.", Some("archive")).cause(),
            Value::Null
        );
    }
}
