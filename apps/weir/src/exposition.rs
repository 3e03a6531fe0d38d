//! Metrics that the state of an engine has already, in the text format of Prometheus: what is counted once is not counted again.

mod descriptions;

use std::fmt::Write;

use serde_json::Value;
use weir_policy::{Report, SinkReport};
use weir_runtime::{Snapshot, StreamPhase, StreamSnapshot};

use crate::live::{Rule, RuleTotals, Totals};
use crate::process::ProcessUse;
use crate::traces::SpanCounts;

/// A family of series.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

const fn family(name: &'static str, kind: &'static str, help: &'static str) -> Family {
    Family { name, kind, help }
}

const DROPS: Family = family(
    "weir_drops_total",
    "counter",
    "Frames dropped, by the module that dropped them, or source, and by reason.",
);
const BUSY: Family = family(
    "weir_module_busy_seconds_total",
    "counter",
    "Device time of a module's batches.",
);
const WASTED: Family = family(
    "weir_module_wasted_seconds_total",
    "counter",
    "Device time of a module's batches spent on requests that were not delivered in time.",
);
const BATCHES: Family = family(
    "weir_module_batches_total",
    "counter",
    "Batches of a module that started.",
);
const ITEMS: Family = family(
    "weir_module_items_total",
    "counter",
    "Items in batches of a module.",
);
const INSIDE: Family = family(
    "weir_module_requests",
    "gauge",
    "Requests in a module: waiting, in a batch that forms, or on a slot.",
);
const SLOTS: Family = family(
    "weir_module_slots",
    "gauge",
    "Slots of a module, or its share of them.",
);
const OVERDUE_SLOTS: Family = family(
    "weir_module_overdue_slots",
    "gauge",
    "Slots of a module that are out of use, because a batch on them hangs.",
);
const SINKS: Family = family(
    "weir_sink_deliveries_total",
    "counter",
    "Deliveries by sink and outcome: written, skipped because it was slow, lost to an error.",
);
const SINK_UP: Family = family(
    "weir_sink_up",
    "gauge",
    "1 for a sink that writes, 0 for one with an error or an outage, such as a full disk or a server that is down.",
);
const PACKETS_LOST: Family = family(
    "weir_sink_packets_lost_total",
    "counter",
    "Packets of cameras that were not recorded, by sink and stream: on a full or a slow disk.",
);
const SINK_EVENTS: Family = family(
    "weir_sink_events_total",
    "counter",
    "Events of a sink for another program, by outcome: delivered, written to the dead-letter file, lost.",
);
const SINK_RETRIES: Family = family(
    "weir_sink_retries_total",
    "counter",
    "Tries of events that failed, by sink.",
);
const SINK_HELD: Family = family(
    "weir_sink_held_total",
    "counter",
    "Alarms of a sink that were held back, by reason: cooldown, quiet.",
);
const SINK_WAITING: Family = family(
    "weir_sink_events_waiting",
    "gauge",
    "Events that wait to be delivered, by sink.",
);
const SINK_LOST: Family = family(
    "weir_sink_lost_total",
    "counter",
    "Packets, clips or messages that a sink could not write, or wrote only in part.",
);
const SINK_FREE: Family = family(
    "weir_sink_free_bytes",
    "gauge",
    "Bytes that are free where a sink records.",
);

/// Counts of sinks that are losses, by their names in reports.
const LOSSES: [&str; 7] = [
    "packets_lost",
    "packets_failed",
    "clips_cut",
    "failed",
    "skipped",
    "undescribed",
    "lost",
];
const IN_FLIGHT: Family = family(
    "weir_requests_in_flight",
    "gauge",
    "Requests in flight of a stream.",
);
const OBJECTIVE: Family = family(
    "weir_objective_seconds",
    "gauge",
    "Latency objective of the graph.",
);
const RESIDENT: Family = family(
    "process_resident_memory_bytes",
    "gauge",
    "Memory that the engine holds.",
);
const THREADS: Family = family("process_threads", "gauge", "Threads of the engine.");
const OPEN_FILES: Family = family("process_open_fds", "gauge", "Files and sockets that are open.");
const PROCESSOR: Family = family(
    "process_cpu_seconds_total",
    "counter",
    "Processor time of the engine's threads.",
);

const SPANS: Family = family(
    "weir_trace_spans_total",
    "counter",
    "Spans of traced requests: exported, or lost because the collector did not take them.",
);

const BUILD: Family = family(
    "weir_build_info",
    "gauge",
    "1, with the version of the program as a label.",
);
const STREAMS: Family = family("weir_streams", "gauge", "Streams by state.");
const INCIDENTS: Family = family(
    "weir_incidents_total",
    "counter",
    "Incidents that began, by stream and rule.",
);
const CROSSINGS: Family = family(
    "weir_line_crossings_total",
    "counter",
    "Crossings of a line, by stream, rule and direction.",
);
const ENTERED: Family = family(
    "weir_zone_entered_total",
    "counter",
    "Objects that entered a zone, by stream and rule.",
);
const OCCUPANCY: Family = family(
    "weir_zone_occupancy",
    "gauge",
    "Objects in a zone as of its latest incident, by stream and rule.",
);

const FLEET_UP: Family = family(
    "weir_fleet_engine_up",
    "gauge",
    "1 for an engine of the fleet that this one sees, else 0.",
);
const FLEET_STREAMS: Family = family(
    "weir_fleet_streams",
    "gauge",
    "Streams of the fleet that this engine receives frames from.",
);
const FLEET_CAPACITY: Family = family(
    "weir_fleet_capacity_frames_per_second",
    "gauge",
    "Frames per second that this engine can serve in time.",
);
const FLEET_LOAD: Family = family(
    "weir_fleet_offered_frames_per_second",
    "gauge",
    "Frames per second that the streams of this engine deliver.",
);
const FLEET_MOVES: Family = family(
    "weir_fleet_moves_total",
    "counter",
    "Streams that this engine took, released, redirected to another engine, or had back from it.",
);
const FLEET_REFUSED: Family = family(
    "weir_fleet_refused_total",
    "counter",
    "Connections, messages and reports that this engine refused.",
);

/// The text of a family: a line for each series, if there is any.
fn write(
    out: &mut String,
    family: &Family,
    series: impl Iterator<Item = (Vec<(&'static str, String)>, f64)>,
) {
    let mut series = series.peekable();
    if series.peek().is_none() {
        return;
    }
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "# HELP {} {}\n# TYPE {} {}",
        family.name, family.help, family.name, family.kind
    );
    for (labels, value) in series {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(out, "{}{labels} {value}", family.name);
    }
    out.push('\n');
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Memory, threads, open files and processor time of the process, under the standard Prometheus names.
pub(crate) fn process_text(used: ProcessUse) -> String {
    let mut out = String::new();
    let mut one = |family, value: f64| write(&mut out, family, [(Vec::new(), value)].into_iter());
    one(&RESIDENT, used.resident_bytes as f64);
    one(&THREADS, used.threads as f64);
    one(&OPEN_FILES, used.open_files as f64);
    one(&PROCESSOR, used.processor_s);
    out
}

/// The version of the program.
pub(crate) fn build_text() -> String {
    let mut out = String::new();
    let labels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    write(&mut out, &BUILD, [(labels, 1.0)].into_iter());
    out
}

/// Incidents, crossings and occupancy by rule.
pub(crate) fn incidents_text(totals: &Totals) -> String {
    let mut out = String::new();
    let labels = |rule: &Rule| {
        vec![
            ("stream", rule.stream.to_string()),
            ("rule", rule.transform.to_string()),
        ]
    };
    let incidents = totals.iter().map(|(rule, of)| {
        let mut labels = labels(rule);
        labels.push(("type", rule.kind.to_owned()));
        (labels, of.incidents as f64)
    });
    write(&mut out, &INCIDENTS, incidents);
    let crossings = totals.iter().flat_map(|(rule, of)| {
        of.crossings.iter().map(move |(direction, count)| {
            let mut labels = labels(rule);
            labels.push(("direction", direction.to_string()));
            (labels, *count)
        })
    });
    write(&mut out, &CROSSINGS, crossings);
    let mut one = |family, number: fn(&RuleTotals) -> Option<f64>| {
        let series = totals
            .iter()
            .filter_map(|(rule, of)| Some((labels(rule), number(of)?)));
        write(&mut out, family, series);
    };
    one(&ENTERED, |of| of.entered);
    one(&OCCUPANCY, |of| of.occupancy);
    out
}

/// Counters of the spans that were exported and of those that were lost.
pub(crate) fn spans_text(spans: &SpanCounts) -> String {
    let mut out = String::new();
    let outcomes = [("exported", spans.exported()), ("lost", spans.lost())];
    let series = |(outcome, count): (&str, u64)| (vec![("outcome", outcome.to_owned())], count as f64);
    write(&mut out, &SPANS, outcomes.into_iter().map(series));
    out
}

/// Metrics of this engine as a member of its fleet, as shown to clients. Its own streams, capacity and load
/// add up over all engines.
pub(crate) fn fleet_text(fleet: &Value) -> String {
    let mut out = String::new();
    let engines = fleet["engines"].as_array().map_or(&[][..], Vec::as_slice);
    let up = engines.iter().filter_map(|engine| {
        let labels = vec![("engine", engine["name"].as_str()?.to_owned())];
        Some((labels, f64::from(u8::from(engine["up"] == true))))
    });
    write(&mut out, &FLEET_UP, up);
    let own = engines.iter().find(|engine| engine["name"] == fleet["node"]);
    let amount = |key: &str| own.and_then(|own| own[key].as_f64());
    let mut one = |family, value: Option<f64>| {
        write(
            &mut out,
            family,
            value.map(|value| (Vec::new(), value)).into_iter(),
        );
    };
    one(&FLEET_STREAMS, amount("streams"));
    one(&FLEET_CAPACITY, amount("capacity"));
    let offered = amount("load").zip(amount("capacity"));
    one(&FLEET_LOAD, offered.map(|(load, capacity)| load * capacity));
    for (family, label, key) in [
        (&FLEET_MOVES, "move", "moves"),
        (&FLEET_REFUSED, "what", "refused"),
    ] {
        let counts = fleet[key].as_object().into_iter().flatten();
        let series = counts.filter_map(|(name, count)| Some((vec![(label, name.clone())], count.as_f64()?)));
        write(&mut out, family, series);
    }
    out
}

/// The state as metrics.
pub(crate) fn text(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let report = &snapshot.report;
    write(
        &mut out,
        &OBJECTIVE,
        [(Vec::new(), snapshot.slo_ms / 1_000.0)].into_iter(),
    );
    let drops = report.drops.iter().map(|drop| {
        let labels = vec![
            ("module", drop.module.clone()),
            ("reason", drop.reason.name().to_owned()),
        ];
        (labels, drop.count as f64)
    });
    write(&mut out, &DROPS, drops);
    modules(&mut out, snapshot);
    let in_flight = snapshot.streams.iter().map(|stream| {
        (
            vec![("stream", stream.name.clone())],
            stream.requests.in_flight as f64,
        )
    });
    write(&mut out, &IN_FLIGHT, in_flight);
    write(
        &mut out,
        &STREAMS,
        streams_by_state(&snapshot.streams).into_iter(),
    );
    sinks(&mut out, report);
    sink_events(&mut out, report);
    descriptions::descriptions(&mut out, report);
    out
}

/// Writes device time, batches and items of modules, the requests in them, and their slots.
fn modules(out: &mut String, snapshot: &Snapshot) {
    let module = |name: &String| vec![("module", name.clone())];
    let reports = || snapshot.report.modules.iter();
    write(
        out,
        &BUSY,
        reports().map(|(name, report)| (module(name), report.busy_s)),
    );
    write(
        out,
        &WASTED,
        reports().map(|(name, report)| (module(name), report.wasted_s)),
    );
    write(
        out,
        &BATCHES,
        reports().map(|(name, report)| (module(name), report.batches as f64)),
    );
    write(
        out,
        &ITEMS,
        reports().map(|(name, report)| (module(name), report.items as f64)),
    );
    let modules = || snapshot.modules.iter();
    write(
        out,
        &INSIDE,
        modules().map(|node| (module(&node.name), node.requests as f64)),
    );
    write(
        out,
        &SLOTS,
        modules().map(|node| (module(&node.name), node.slots)),
    );
    write(
        out,
        &OVERDUE_SLOTS,
        modules().map(|node| (module(&node.name), node.overdue_slots as f64)),
    );
}

/// Writes the deliveries and losses of sinks, and their state.
fn sinks(out: &mut String, report: &Report) {
    let sinks = report.sinks.iter().flat_map(|(name, sink)| {
        let outcomes = [
            ("written", sink.written),
            ("skipped", sink.skipped),
            ("lost", sink.lost),
        ];
        outcomes.map(|(outcome, count)| {
            (
                vec![("sink", name.clone()), ("outcome", outcome.to_owned())],
                count as f64,
            )
        })
    });
    write(out, &SINKS, sinks);
    let up = report.sinks.iter().map(|(name, sink)| {
        (
            vec![("sink", name.clone())],
            f64::from(u8::from(sink.trouble().is_none())),
        )
    });
    write(out, &SINK_UP, up);
    let lost = report.sinks.iter().flat_map(|(name, sink)| {
        let lost = sink
            .counts
            .iter()
            .filter(|(count, _)| LOSSES.contains(&count.as_str()));
        lost.map(|(count, lost)| {
            (
                vec![("sink", name.clone()), ("what", count.clone())],
                *lost as f64,
            )
        })
    });
    write(out, &SINK_LOST, lost);
    let packets_lost = report.sinks.iter().flat_map(|(name, sink)| {
        sink.packets_lost.iter().map(|(stream, count)| {
            (
                vec![("sink", name.clone()), ("stream", stream.clone())],
                *count as f64,
            )
        })
    });
    write(out, &PACKETS_LOST, packets_lost);
    let free = report
        .sinks
        .iter()
        .filter_map(|(name, sink)| Some((vec![("sink", name.clone())], sink.free_bytes? as f64)));
    write(out, &SINK_FREE, free);
}

/// Streams by state: each state has a series, so that a rule for alerts sees the last stream leave it.
fn streams_by_state(streams: &[StreamSnapshot]) -> Vec<(Vec<(&'static str, String)>, f64)> {
    let of_state = |state: StreamPhase| {
        let count = streams.iter().filter(|stream| stream.state == state).count();
        (vec![("state", state.name().to_owned())], count as f64)
    };
    StreamPhase::ALL.map(of_state).to_vec()
}

/// Writes the events of sinks that deliver to other programs: outcomes, retries and queued events, as the sinks count them.
fn sink_events(out: &mut String, report: &Report) {
    let sinks = || {
        report
            .sinks
            .iter()
            .filter(|(_, sink)| sink.counts.contains_key("waiting"))
    };
    let of = |sink: &SinkReport, name: &str| sink.counts.get(name).copied().unwrap_or(0) as f64;
    let label = |name: &String| vec![("sink", name.clone())];
    let events = sinks().flat_map(|(name, sink)| {
        ["delivered", "dead_letters", "lost"].map(|outcome| {
            let mut labels = label(name);
            labels.push(("outcome", outcome.to_owned()));
            (labels, of(sink, outcome))
        })
    });
    write(out, &SINK_EVENTS, events);
    let retries = sinks().map(|(name, sink)| (label(name), of(sink, "retries")));
    write(out, &SINK_RETRIES, retries);
    let held = sinks().filter(|(_, sink)| sink.counts.contains_key("held_quiet"));
    let held = held.flat_map(|(name, sink)| {
        ["cooldown", "quiet"].map(|reason| {
            let mut labels = label(name);
            labels.push(("reason", reason.to_owned()));
            (labels, of(sink, &format!("held_{reason}")))
        })
    });
    write(out, &SINK_HELD, held);
    let waiting = sinks().map(|(name, sink)| (label(name), of(sink, "waiting")));
    write(out, &SINK_WAITING, waiting);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_is_a_label() {
        let expected = format!("weir_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        assert!(build_text().contains(&expected));
        assert_eq!(incidents_text(&Totals::default()), "");
    }

    #[test]
    fn what_an_engine_has_of_its_fleet_is_its_own() {
        let engine = |name: &str, streams: u64| json!({ "name": name, "up": true, "capacity": 80.0, "load": 0.5, "streams": streams });
        let text = fleet_text(&json!({
            "node": "south",
            "engines": [engine("north", 5), engine("south", 7), { "name": "west", "up": false, "streams": 0 }],
            "moves": { "taken": 9, "released": 2, "redirected": 0, "recalled": 0 },
            "refused": { "connections": 1, "messages": 0, "reports": 3 },
        }));
        for line in [
            "weir_fleet_engine_up{engine=\"north\"} 1",
            "weir_fleet_engine_up{engine=\"west\"} 0",
            "weir_fleet_streams 7",
            "weir_fleet_capacity_frames_per_second 80",
            "weir_fleet_offered_frames_per_second 40",
            "weir_fleet_moves_total{move=\"taken\"} 9",
            "weir_fleet_refused_total{what=\"reports\"} 3",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "no {line} in\n{text}"
            );
        }
    }
}
