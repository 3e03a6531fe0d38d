//! `weir top`: an engine that serves, in a terminal, drawn again every second.
//!
//! Plain lines and three control sequences, rather than a library for terminals: there is nothing to press.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use crate::api_client::Client;
use crate::args::Top;
use crate::output;
use crate::printable::line;

/// Between two states.
const INTERVAL: Duration = Duration::from_secs(1);

/// States that rates are computed over: ten seconds.
const MAX_STATES: usize = 11;

/// Streams and modules that are listed: a terminal has no more lines.
const MAX_LINES: usize = 30;

/// To the upper left, with long lines cut and what stood there cleared; and long lines broken again.
const BEGIN: &str = "\x1b[?7l\x1b[H\x1b[J";
const END: &str = "\x1b[?7h";

/// Shows the engine for as long as it answers; once where the output is no terminal.
///
/// # Errors
/// An engine that is not reached, and what it refuses.
pub(crate) fn top(args: &Top) -> anyhow::Result<()> {
    let client = Client::new(&args.at, args.token_file.as_deref())?;
    let mut states = VecDeque::from([client.ask("GET", "/api/state", None)?]);
    if args.once || !std::io::stdout().is_terminal() {
        std::thread::sleep(INTERVAL);
        states.push_back(client.ask("GET", "/api/state", None)?);
        return output::say(&screen(&states));
    }
    let mut out = std::io::stdout();
    loop {
        writeln!(out, "{BEGIN}{}{END}", screen(&states))?;
        out.flush()?;
        std::thread::sleep(INTERVAL);
        let state = client.ask("GET", "/api/state", None)?;
        if seconds(&state) < states.back().map_or(0.0, seconds) {
            // Another engine answers now.
            states.clear();
        }
        states.push_back(state);
        if states.len() > MAX_STATES {
            states.pop_front();
        }
    }
}

/// Since its start, by the clock of the engine.
fn seconds(state: &Value) -> f64 {
    state["report"]["run"]["duration_s"].as_f64().unwrap_or(0.0)
}

/// A number that grew from one state to another.
struct Growth<'a> {
    before: &'a Value,
    now: &'a Value,
    seconds: f64,
}

impl Growth<'_> {
    /// Of the sum of that name.
    fn of(&self, name: &str) -> f64 {
        let value = |state: &Value| state[name].as_f64().unwrap_or(0.0);
        (value(self.now) - value(self.before)).max(0.0)
    }

    /// Increase of a counter per second, with one decimal; `-` below 0.1 seconds between the states.
    fn rate(&self, name: &str) -> String {
        if self.seconds < 0.1 {
            return "-".to_owned();
        }
        format!("{:.1}", self.of(name) / self.seconds)
    }

    /// In milliseconds for each of `by`.
    fn mean_ms(&self, name: &str, by: &str) -> String {
        match self.of(by) {
            count if count > 0.0 => format!("{:.1}", 1_000.0 * self.of(name) / count),
            _ => "-".to_owned(),
        }
    }

    fn percent(&self, part: f64, of: f64) -> String {
        if of > 0.0 {
            format!("{:.0}", 100.0 * part / of)
        } else {
            "-".to_owned()
        }
    }
}

/// Renders the states as lines; rates are those between the first state and the last.
fn screen(states: &VecDeque<Value>) -> String {
    let (Some(first), Some(last)) = (states.front(), states.back()) else {
        return String::new();
    };
    let parts = [
        head(first, last),
        fleet_engines(last),
        streams(first, last),
        modules(first, last),
        sinks(first, last),
        drops(first, last),
    ];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn text(value: &Value) -> String {
    line(value.as_str().unwrap_or_default()).into_owned()
}

fn head(first: &Value, last: &Value) -> String {
    let (report, before) = (&last["report"], &first["report"]);
    let requests = Growth {
        before: &before["requests"],
        now: &report["requests"],
        seconds: seconds(last) - seconds(first),
    };
    let lost = requests.of("dropped") + requests.of("late");
    format!(
        "{}  {} for {:.0} s  objective {:.0} ms  policy {}\ngoodput {}/s  arrived {}/s  dropped or late {} %  p95 latency {:.0} ms  \
         in flight {}",
        text(&last["graph"]["name"]),
        if last["stopping"] == true {
            "stopping"
        } else {
            "running"
        },
        seconds(last),
        last["slo_ms"].as_f64().unwrap_or(0.0),
        text(&report["run"]["preset"]),
        requests.rate("delivered"),
        requests.rate("arrived"),
        requests.percent(lost, requests.of("arrived")),
        report["latency_ms"]["p95"].as_f64().unwrap_or(0.0),
        report["requests"]["in_flight"],
    )
}

/// An aligned table: words are to the left, numbers to the right.
fn table(header: &[&str], words: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.to_vec());
    let mut rows = rows;
    for row in rows.by_ref().take(MAX_LINES) {
        table.add_row(row);
    }
    let more = rows.count();
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let more = if more > 0 {
        format!("\nand {more} more")
    } else {
        String::new()
    };
    table.trim_fmt() + &more
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The entry with the same value at `key`.
fn same<'a>(entries: &'a Value, entry: &Value, key: &str) -> &'a Value {
    let found = array(entries).iter().find(|other| other[key] == entry[key]);
    found.unwrap_or(&Value::Null)
}

/// Nothing where the engine is in no fleet.
fn fleet_engines(last: &Value) -> String {
    let fleet = &last["fleet"];
    if fleet.is_object() {
        super::fleet::engines(fleet)
    } else {
        String::new()
    }
}

fn streams(first: &Value, last: &Value) -> String {
    let rows = array(&last["streams"]).iter().map(|stream| {
        let requests = Growth {
            before: &same(&first["streams"], stream, "id")["requests"],
            now: &stream["requests"],
            seconds: seconds(last) - seconds(first),
        };
        let report = &last["report"]["streams"][stream["name"].as_str().unwrap_or_default()];
        vec![
            text(&stream["name"]),
            text(&stream["state"]),
            requests.rate("delivered"),
            requests.rate("arrived"),
            requests.rate("late"),
            requests.rate("dropped"),
            format!("{:.0}", report["latency_ms"]["p95"].as_f64().unwrap_or(0.0)),
            text(&stream["reason"]),
        ]
    });
    let header = [
        "stream",
        "state",
        "goodput/s",
        "arrived/s",
        "late/s",
        "dropped/s",
        "p95 ms",
        "",
    ];
    table(&header, 2, rows)
}

fn modules(first: &Value, last: &Value) -> String {
    let rows = array(&last["modules"]).iter().map(|module| {
        let name = module["name"].as_str().unwrap_or_default();
        let seconds = seconds(last) - seconds(first);
        let totals = Growth {
            before: &same(&first["modules"], module, "name")["totals"],
            now: &module["totals"],
            seconds,
        };
        let report = Growth {
            before: &first["report"]["modules"][name],
            now: &last["report"]["modules"][name],
            seconds,
        };
        let number = |key: &str| module[key].as_f64().unwrap_or(0.0);
        let busy = report.of("busy_s");
        vec![
            line(name).into_owned(),
            totals.percent(number("input_rate"), number("throughput")),
            module["requests"].to_string(),
            totals.rate("items"),
            totals.mean_ms("queue_s", "requests"),
            totals.mean_ms("batch_wait_s", "requests"),
            totals.mean_ms("exec_s", "ended"),
            report.percent(busy - report.of("wasted_s"), busy),
            report.rate("dropped"),
        ]
    });
    let header = [
        "module",
        "load %",
        "inside",
        "items/s",
        "queue ms",
        "wait ms",
        "exec ms",
        "useful %",
        "dropped/s",
    ];
    table(&header, 1, rows)
}

/// Nothing where there is no sink.
fn sinks(first: &Value, last: &Value) -> String {
    let sinks = last["report"]["sinks"].as_object();
    let Some(sinks) = sinks.filter(|sinks| !sinks.is_empty()) else {
        return String::new();
    };
    let rows = sinks.iter().map(|(name, sink)| {
        let growth = Growth {
            before: &first["report"]["sinks"][name],
            now: sink,
            seconds: seconds(last) - seconds(first),
        };
        let wrong = ["outage", "error"].map(|key| text(&sink[key]));
        let wrong = wrong
            .into_iter()
            .find(|wrong| !wrong.is_empty())
            .unwrap_or_default();
        let count = |name: &str| {
            sink["counts"][name]
                .as_u64()
                .map_or("-".to_owned(), |count| count.to_string())
        };
        let lost = sink["lost"].as_u64().unwrap_or(0) + sink["counts"]["lost"].as_u64().unwrap_or(0);
        vec![
            line(name).into_owned(),
            if wrong.is_empty() { "yes" } else { "no" }.to_owned(),
            growth.rate("written"),
            growth.rate("skipped"),
            count("waiting"),
            count("dead_letters"),
            lost.to_string(),
            wrong,
        ]
    });
    let header = [
        "sink",
        "up",
        "written/s",
        "skipped/s",
        "waiting",
        "dead letters",
        "lost",
        "",
    ];
    table(&header, 2, rows)
}

fn drops(first: &Value, last: &Value) -> String {
    let drops = array(&last["report"]["drops"]);
    if drops.is_empty() {
        return String::new();
    }
    let rows = drops.iter().map(|drop| {
        let mut before = array(&first["report"]["drops"]).iter();
        let before =
            before.find(|other| other["module"] == drop["module"] && other["reason"] == drop["reason"]);
        let count = Growth {
            before: before.unwrap_or(&Value::Null),
            now: drop,
            seconds: seconds(last) - seconds(first),
        };
        vec![
            text(&drop["module"]),
            text(&drop["reason"]),
            count.rate("count"),
            drop["count"].to_string(),
        ]
    });
    table(&["dropped by", "reason", "now/s", "since start"], 2, rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(at: f64, delivered: u64, dropped: u64) -> Value {
        let requests = json!({
            "arrived": delivered + dropped, "delivered": delivered, "late": 0, "dropped": dropped, "in_flight": 0,
        });
        json!({
            "stopping": false, "slo_ms": 400.0, "graph": { "name": "yard" },
            "streams": [{ "name": "north\u{1b}[2J", "id": 0, "state": "live", "requests": requests }],
            "modules": [{ "name": "find", "input_rate": 30.0, "throughput": 20.0, "requests": 4,
                "totals": { "requests": delivered, "items": delivered, "ended": delivered, "queue_s": delivered as f64 * 0.01,
                    "batch_wait_s": 0.0, "exec_s": delivered as f64 * 0.02 } }],
            "report": { "run": { "duration_s": at, "preset": "weir" }, "requests": requests, "latency_ms": { "p95": 35.0 },
                "streams": {}, "modules": { "find": { "busy_s": at, "wasted_s": at / 4.0, "dropped": dropped } },
                "drops": [{ "module": "find", "reason": "infeasible", "count": dropped }] },
        })
    }

    #[test]
    fn the_engines_of_a_fleet_are_shown_where_there_is_one() {
        let alone = state(10.0, 100, 0);
        assert!(!screen(&VecDeque::from([alone.clone(), alone.clone()])).contains("capacity"));
        let mut shared = alone;
        shared["fleet"] = json!({ "node": "south", "engines": [
            { "name": "south\u{1b}[2J", "up": true, "capacity": 80.0, "load": 0.5, "missed": 0.0, "streams": 7,
              "devices": { "cpu": 2, "cuda:0": 1 } },
            { "name": "west", "up": false, "streams": 0 },
        ] });
        let screen = screen(&VecDeque::from([shared.clone(), shared]));
        let words: Vec<Vec<&str>> = screen
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(
            words.contains(&vec!["west", "no", "0", "-", "-", "-", "-"]),
            "{screen}"
        );
        let south = words
            .iter()
            .find(|line| line.first().is_some_and(|name| name.starts_with("south")));
        assert_eq!(
            south.unwrap()[1..],
            [
                "yes", "7", "80.0/s", "50", "%", "0", "%", "cpu", "x", "2,", "cuda:0", "x", "1"
            ],
            "{screen}"
        );
        assert!(!screen.contains('\u{1b}'), "{screen}");
    }

    #[test]
    fn sinks_are_shown_with_what_is_wrong_with_them() {
        let mut state = state(10.0, 100, 0);
        state["report"]["sinks"] = json!({
            "alarm": { "written": 5, "skipped": 0, "lost": 0, "counts": { "waiting": 7, "dead_letters": 2, "lost": 3 },
                "outage": "events wait: refused\u{1b}[2J" },
            "events": { "written": 9, "skipped": 0, "lost": 0 },
        });
        let screen = screen(&VecDeque::from([state.clone(), state]));
        let words: Vec<Vec<&str>> = screen
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let of = |name: &str| words.iter().find(|line| line.first() == Some(&name)).unwrap()[1..].to_vec();
        assert_eq!(
            of("alarm")[..8],
            ["no", "-", "-", "7", "2", "3", "events", "wait:"],
            "{screen}"
        );
        assert_eq!(of("events"), ["yes", "-", "-", "-", "-", "0"], "{screen}");
        assert!(!screen.contains('\u{1b}'), "{screen}");
    }

    #[test]
    fn rates_are_those_between_the_states() {
        let screen = screen(&VecDeque::from([state(10.0, 100, 0), state(20.0, 300, 100)]));
        let words: Vec<Vec<&str>> = screen
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(words[1][..4], ["goodput", "20.0/s", "arrived", "30.0/s"]);
        let of = |name: &str| words.iter().find(|line| line.first() == Some(&name)).unwrap()[1..].to_vec();
        assert_eq!(
            of("find"),
            ["150", "4", "20.0", "10.0", "0.0", "20.0", "75", "10.0"]
        );
        assert!(
            words.contains(&vec!["find", "infeasible", "10.0", "100"]),
            "{screen}"
        );
        assert!(
            !screen.contains('\u{1b}'),
            "a terminal obeys nothing that comes from outside"
        );
    }
}
