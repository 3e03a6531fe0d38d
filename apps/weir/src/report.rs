//! The short table that a run ends with, and the report as a file.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use weir_policy::{DecodingReport, Quantiles, Report, WorkersReport};

use crate::error::write_error;
use crate::health;
use crate::printable::line;
use crate::whole_file::ReservedFile;

/// Writes the report as JSON.
///
/// # Errors
/// [`UserError`] where the file cannot be written.
pub(crate) fn write(report: &impl Serialize, to: ReservedFile) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(report)?;
    let path = to.path().to_owned();
    to.write(&(text + "\n"))
        .map_err(|error| report_error(&path, &error))
}

/// Says before a long run, not after it, that its report cannot be written.
///
/// # Errors
/// [`UserError`] with the reason.
pub(crate) fn reserve(path: &Path) -> anyhow::Result<ReservedFile> {
    ReservedFile::new(path).map_err(|error| report_error(path, &error))
}

fn report_error(path: &Path, error: &std::io::Error) -> anyhow::Error {
    write_error(format_args!("the report {}", path.display()), error).into()
}

/// The report as a few small tables.
pub(crate) fn table(report: &Report) -> String {
    let run = &report.run;
    let head = format!(
        "{}, policy {}, {:.1} s",
        line(&run.graph),
        line(&run.policy_summary()),
        run.duration_s
    );
    let rates = format!(
        "goodput {:.1}/s, drop rate {}, invalid rate {}",
        report.goodput_rps,
        percent(report.drop_rate),
        percent(report.invalid_rate)
    );
    let mut parts = vec![format!("{head}: {rates}"), streams(report).trim_fmt()];
    if !report.modules.is_empty() {
        parts.push(modules(report).trim_fmt());
    }
    parts.extend(remarks(report));
    parts.join("\n\n")
}

/// A table without lines, its first column to the left and the rest wherever they are put.
pub(crate) fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn numbers(header: &[&str]) -> Table {
    let mut table = plain_table(header);
    table.column_iter_mut().skip(1).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    table
}

/// Streams, and their sum where there are several; with a column for objectives where some have their own.
fn streams(report: &Report) -> Table {
    let mut header = vec![
        "stream",
        "arrived",
        "delivered",
        "late",
        "dropped",
        "in flight",
        "goodput/s",
        "drop rate",
        "p50 ms",
        "p99 ms",
    ];
    let objectives = report.streams.values().any(|stream| stream.slo_ms.is_some());
    header.extend(objectives.then_some("SLO ms"));
    let gated = report.requests.still > 0;
    header.extend(gated.then_some("still"));
    let mut table = numbers(&header);
    let all = (
        "all",
        None,
        &report.requests,
        report.goodput_rps,
        report.drop_rate,
        &report.latency_ms,
    );
    let each = report.streams.iter().map(|(name, stream)| {
        (
            name.as_str(),
            stream.slo_ms,
            &stream.requests,
            stream.goodput_rps,
            stream.drop_rate,
            &stream.latency_ms,
        )
    });
    for (name, slo_ms, requests, goodput, drop_rate, latency) in
        each.chain((report.streams.len() != 1).then_some(all))
    {
        let Quantiles { p50, p99, .. } = latency;
        let mut row = vec![
            line(name).into_owned(),
            requests.arrived.to_string(),
            requests.delivered.to_string(),
            requests.late.to_string(),
            requests.dropped.to_string(),
            requests.in_flight.to_string(),
            format!("{goodput:.1}"),
            percent(drop_rate),
            format!("{p50:.1}"),
            format!("{p99:.1}"),
        ];
        let slo = slo_ms.map_or_else(String::new, |slo_ms: f64| slo_ms.to_string());
        row.extend(objectives.then_some(slo));
        row.extend(gated.then(|| requests.still.to_string()));
        table.add_row(row);
    }
    table
}

fn modules(report: &Report) -> Table {
    let mut table = numbers(&[
        "module",
        "batches",
        "items",
        "mean batch",
        "busy s",
        "wasted s",
        "dropped",
        "failed",
        "queue p50",
        "exec p50",
        "exec p99",
    ]);
    for (name, module) in &report.modules {
        table.add_row([
            line(name).into_owned(),
            module.batches.to_string(),
            module.items.to_string(),
            format!("{:.2}", module.mean_batch),
            format!("{:.2}", module.busy_s),
            format!("{:.2}", module.wasted_s),
            module.dropped.to_string(),
            module.failed.to_string(),
            format!("{:.1}", module.queue_ms.p50),
            format!("{:.1}", module.exec_ms.p50),
            format!("{:.1}", module.exec_ms.p99),
        ]);
    }
    table
}

/// Invariants that were broken and how often, where any were.
pub(crate) fn violations(report: &Report) -> Option<String> {
    let counts = report.invariants.iter();
    let counts: Vec<String> = counts.map(|(kind, count)| format!("{kind} {count}")).collect();
    (!counts.is_empty()).then(|| {
        format!(
            "invariants broken: {}: this is a defect of weir; please report it with the messages of the run, and with its \
             event log (--record) where there is one",
            counts.join(", ")
        )
    })
}

/// Remarks below the table: reasons of drops, and losses at sources and sinks. Errors are left out, since the
/// run ends with them.
fn remarks(report: &Report) -> Vec<String> {
    let mut remarks: Vec<String> = violations(report).into_iter().collect();
    if !report.drops.is_empty() {
        let drops = report
            .drops
            .iter()
            .map(|drop| format!("{} {} at {}", drop.count, drop.reason.name(), drop.module));
        remarks.push(format!("dropped: {}", drops.collect::<Vec<_>>().join(", ")));
    }
    if let Some(efficiency) = report.efficiency.filter(|efficiency| efficiency.dropping_s > 0.0) {
        remarks.push(format!(
            "goodput: {} of the {:.1}/s possible with ideal use of the processor; it was {} idle during the {:.1} s in \
             which frames were lost",
            percent(efficiency.of_bound),
            efficiency.bound_rps,
            percent(efficiency.idle),
            efficiency.dropping_s
        ));
    }
    if let Some(residency) = &report.residency {
        remarks.push(format!(
            "models opened: {} from files, {} from host memory, {:.1} s of slots",
            residency.opened_cold, residency.opened_warm, residency.seconds
        ));
    }
    for (name, stream) in &report.streams {
        if stream.damaged > 0 {
            remarks.push(format!(
                "stream {}: {} damaged packets skipped",
                line(name),
                stream.damaged
            ));
        }
        let health = stream.health.iter().flat_map(health::remarks);
        remarks.extend(health.map(|remark| format!("stream {name}: {remark}")));
    }
    if let Some(DecodingReport { needed_cores, cores }) = report.decoding {
        remarks.push(format!(
            "decoding alone needs more than this machine has: {needed_cores:.1} of {cores} cores"
        ));
    }
    for (name, module) in &report.modules {
        remarks.extend(module.workers.map(|workers| scaled(&line(name), &workers)));
        let warnings = module.warnings.iter();
        remarks.extend(warnings.map(|warning| format!("module {name}: {warning}")));
        let failure = module.last_failure.iter();
        remarks
            .extend(failure.map(|reason| format!("module {}: last failure: {}", line(name), line(reason))));
    }
    for (name, sink) in &report.sinks {
        if sink.closed {
            remarks.push(format!(
                "sink {name}: {} written, then the reader closed the pipe",
                sink.written
            ));
        } else if sink.skipped > 0 || sink.lost > 0 || sink.notices_lost > 0 || sink.error.is_some() {
            let mut counts = format!(
                "{} written, {} skipped, {} lost",
                sink.written, sink.skipped, sink.lost
            );
            if sink.notices_lost > 0 {
                counts += &format!(", {} lines of drops and states lost", sink.notices_lost);
            }
            let error = sink
                .error
                .as_ref()
                .map(|error| format!(": {error}"))
                .unwrap_or_default();
            remarks.push(format!("sink {name}: {counts}{error}"));
        }
    }
    remarks
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A line about workers of a module that follow the load.
fn scaled(module: &str, workers: &WorkersReport) -> String {
    let each = workers
        .cold_start_ms
        .map_or(String::new(), |each| format!(" in {:.1} s each", each / 1_000.0));
    let failed = match workers.failed {
        0 => String::new(),
        failed => format!("; {failed} could not be opened"),
    };
    format!(
        "module {module}: workers open at most {}, now {}; opened {}{each}, closed {}{failed}",
        workers.most_open, workers.open, workers.opened, workers.closed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        serde_json::from_value(serde_json::json!({
            "run": {"graph": "g", "policy": "pard", "preset": "pard", "departures": ["fair = false"],
                "seed": 1, "duration_s": 10.0},
            "requests": {"arrived": 10, "delivered": 7, "late": 1, "dropped": 2, "in_flight": 0},
            "goodput_rps": 0.7, "drop_rate": 0.3, "invalid_rate": 0.05,
            "latency_ms": {"p50": 31.2, "p90": 40.0, "p95": 41.0, "p99": 42.0, "max": 43.0},
            "streams": {"north": {
                "requests": {"arrived": 10, "delivered": 7, "late": 1, "dropped": 2, "in_flight": 0},
                "goodput_rps": 0.7, "drop_rate": 0.3,
                "latency_ms": {"p50": 31.2, "p90": 40.0, "p95": 41.0, "p99": 42.0, "max": 43.0},
                "error": "it broke off"}},
            "modules": {},
            "drops": [{"module": "detect", "reason": "infeasible", "count": 2}]
        }))
        .unwrap()
    }

    #[test]
    fn the_table_says_what_came_out_and_why_the_rest_did_not() {
        let table = table(&report());
        for part in [
            "policy pard (fair = false), 10.0 s",
            "north",
            "30.0 %",
            "31.2",
            "dropped: 2 infeasible at detect",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
        assert!(
            !table.contains("it broke off"),
            "what the run ends with is said once"
        );
    }

    #[test]
    fn the_table_says_how_often_models_were_opened() {
        let mut report = report();
        report.residency = Some(weir_policy::ResidencyReport {
            opened_cold: 5,
            opened_warm: 41,
            seconds: 0.62,
            ..weir_policy::ResidencyReport::default()
        });
        let table = table(&report);
        let said = "models opened: 5 from files, 41 from host memory, 0.6 s of slots";
        assert!(table.contains(said), "{table}");
    }

    #[test]
    fn the_table_counts_workers_that_follow_the_load() {
        let mut report = report();
        let module = weir_policy::ModuleReport {
            workers: Some(WorkersReport {
                open: 1,
                most_open: 3,
                opened: 4,
                closed: 4,
                failed: 2,
                cold_start_ms: Some(1_520.0),
            }),
            ..weir_policy::ModuleReport::default()
        };
        report.modules.insert("detect".into(), module);
        let table = table(&report);
        let said = "workers open at most 3, now 1; opened 4 in 1.5 s each, closed 4; 2 could not be opened";
        assert!(table.contains(said), "{table}");
    }

    #[test]
    fn the_table_has_the_objectives_of_streams_that_have_their_own() {
        let mut report = report();
        assert!(!table(&report).contains("SLO ms"));
        report.streams.get_mut("north").unwrap().slo_ms = Some(150.0);
        let table = table(&report);
        assert!(table.contains("SLO ms") && table.contains("150"), "{table}");
    }

    #[test]
    fn the_table_says_which_invariants_were_broken_and_what_to_do() {
        assert_eq!(violations(&report()), None);
        let broken = Report {
            invariants: [("items".to_owned(), 3), ("slots".to_owned(), 1)].into(),
            ..report()
        };
        let table = table(&broken);
        let line = table.lines().find(|line| line.starts_with("invariants broken"));
        let line = line.unwrap_or_else(|| panic!("{table}"));
        assert!(
            line.contains("items 3, slots 1") && line.contains("report it"),
            "{line}"
        );
    }

    #[test]
    fn a_written_report_is_read_back_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write(&report(), reserve(&path).unwrap()).unwrap();
        let read: Report = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read, report());
        assert!(
            reserve(&folder.path().join("no/such/folder.json"))
                .unwrap_err()
                .is::<crate::error::UserError>()
        );
    }
}
