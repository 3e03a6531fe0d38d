//! States of scenes as `GET /api/state` has them.

use serde_json::{Map, Value, json};
use weir_flow::Cause;

use super::{Condition, Scene};

/// Frames a second of a camera.
const RATE: f64 = 8.0;

/// Share of frames that is dropped under overload.
const DROPPED: f64 = 0.38;

/// Seconds since the start of the engine when the page asks first.
const AGE_S: f64 = 5_400.0;

/// Reasons for which cameras are not reached, as the engine words them.
const REASONS: [&str; 2] = [
    "cannot open rtsp://192.0.2.7/stream: connection refused: check that the camera is on",
    "cannot open rtsp://192.0.2.7/stream: timed out: check the network",
];

pub(super) const FULL: &str = "cannot write /srv/weir/video: the disk is full: make room or write elsewhere";

/// Groups of a site with many cameras.
const GROUPS: [&str; 3] = ["street", "inside", "yard"];

/// The whole state, `elapsed_s` seconds after the scene began.
pub(super) fn state(scene: &Scene, elapsed_s: f64) -> Value {
    let age_s = AGE_S + elapsed_s;
    let live = scene.names.iter().filter(|name| !scene.is_lost(name)).count() as f64;
    let dropped = if scene.condition == Condition::Overloaded {
        DROPPED
    } else {
        0.0
    };
    let requests = |cameras: f64| {
        let arrived = (cameras * RATE * age_s).floor();
        let lost = (arrived * dropped).floor();
        json!({
            "arrived": arrived, "delivered": arrived - lost - cameras, "dropped": lost, "in_flight": cameras, "late": 0, "still": 0,
        })
    };
    let streams: Vec<Value> = scene
        .names
        .iter()
        .enumerate()
        .map(|(index, name)| stream(scene, index, name, (&requests, elapsed_s)))
        .collect();
    let mut warnings = Vec::new();
    if scene.condition == Condition::DiskFull {
        warnings.extend(["archive", "clips"].map(|sink| (sink, format!("sink {sink}: {FULL}."))));
    }
    let problems = match scene.condition {
        Condition::BadFile => {
            json!([{ "line": super::BAD_LINE, "message": "zone \"entrance\": a zone needs at least three points" }])
        }
        _ => json!([]),
    };
    json!({
        "graph": { "name": "Hafen West", "problems": problems, "reloads": 2 },
        "incidents": scene.incidents.len(),
        "modules": modules(scene, live, age_s),
        "policy": { "drop": { "rule": "pard" } },
        "report": report(scene, age_s, &requests(live), dropped),
        "sinks": sinks(scene),
        "slo_ms": 1_000.0,
        "stopping": false,
        "streams": streams,
        "warning_causes": warnings.iter().map(|(sink, text)| warning_cause(sink, text)).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(|(_, text)| text).collect::<Vec<_>>(),
    })
}

fn warning_cause(sink: &str, text: &str) -> Value {
    let mut cause = json!(Cause::of_warning(text));
    cause["sink"] = sink.into();
    cause
}

fn stream(
    scene: &Scene,
    index: usize,
    name: &str,
    (requests, elapsed_s): (&dyn Fn(f64) -> Value, f64),
) -> Value {
    let is_lost = scene.is_lost(name);
    let mut stream = json!({
        "id": index, "name": name, "source": "rtsp://192.0.2.7/stream", "weight": 1.0,
        "requests": requests(if is_lost { 0.0 } else { 1.0 }),
        "state": if is_lost { "waiting" } else { "live" },
        "for_s": if is_lost { 4.0 } else { AGE_S + elapsed_s },
    });
    if is_lost {
        stream["lost_s"] = (2_520.0 + elapsed_s).into();
        let reason = REASONS[index / 2 % REASONS.len()];
        (stream["reason"], stream["cause"]) = (reason.into(), json!(Cause::of_source(reason)));
    }
    if scene.names.len() > 16 {
        stream["groups"] = json!([GROUPS[index % GROUPS.len()]]);
    }
    stream
}

fn modules(scene: &Scene, live: f64, age_s: f64) -> Vec<Value> {
    if scene.names.is_empty() {
        return Vec::new();
    }
    let is_over = scene.condition == Condition::Overloaded;
    let module = |name: &str, operator: &str, inputs: &[String], (rate, exec_s): (f64, f64)| {
        let items = (rate * age_s).floor();
        json!({
            "name": name, "operator": operator, "inputs": inputs, "batch_size": 4, "input_rate": rate,
            "throughput": if is_over { rate * 0.62 } else { rate * 2.9 }, "overdue_slots": 0, "placed_slots": 2, "slots": 2.0,
            "requests": if is_over { 14 } else { 1 },
            "totals": {
                "batch_wait_s": items * 0.004, "batches": (items / 2.4).floor(), "ended": items, "exec_s": items * exec_s,
                "items": items, "queue_s": items * if is_over { 0.31 } else { 0.006 }, "requests": items,
            },
        })
    };
    let cameras = live.max(1.0);
    let plates = ["objects".to_owned()];
    vec![
        module("objects", "detect", &scene.names, (live * RATE, 0.02 / cameras)),
        module("plates", "read-text", &plates, (live * 1.7, 0.03 / cameras)),
    ]
}

fn report(scene: &Scene, age_s: f64, requests: &Value, dropped: f64) -> Value {
    let is_over = dropped > 0.0;
    let p95 = if is_over { 874.0 } else { 212.0 };
    let latency = json!({ "max": 1_204.0, "p50": p95 * 0.6, "p90": p95 * 0.9, "p95": p95, "p99": p95 * 1.2 });
    let streams: Map<String, Value> = scene
        .names
        .iter()
        .map(|name| (name.clone(), json!({ "latency_ms": latency })))
        .collect();
    let mut modules = Map::new();
    for module in scene.modules() {
        let busy_s = age_s * if is_over { 1.9 } else { 0.7 };
        let wasted_s = busy_s * if is_over { 0.04 } else { 0.0 };
        modules.insert(
            module.to_owned(),
            json!({ "busy_s": busy_s, "wasted_s": wasted_s, "dropped": (age_s * dropped * 20.0).floor() }),
        );
    }
    let written = requests["delivered"].as_f64().unwrap().floor();
    let is_full = scene.condition == Condition::DiskFull;
    let mut sinks = Map::new();
    for (name, _) in scene.sinks() {
        let fails = is_full && matches!(*name, "archive" | "clips");
        let lost = if fails { (age_s / 3.0).floor() } else { 0.0 };
        let mut sink = json!({ "written": written - lost, "skipped": 0, "lost": lost, "counts": {} });
        if fails {
            sink["error"] = FULL.into();
        }
        sinks.insert((*name).to_owned(), sink);
    }
    let drops = if is_over {
        let count = |share: f64| (requests["dropped"].as_f64().unwrap() * share).floor();
        json!([
            { "module": "objects", "reason": "infeasible", "count": count(0.8) },
            { "module": "source", "reason": "not-decoded", "count": count(0.2) },
        ])
    } else {
        json!([])
    };
    json!({
        "drop_rate": dropped, "drops": drops,
        "efficiency": { "of_bound": 0.97, "dropping_s": if is_over { age_s } else { 0.0 } },
        "goodput_rps": requests["delivered"].as_f64().unwrap() / age_s,
        "invalid_rate": if is_over { 0.04 } else { 0.0 },
        "latency_ms": latency, "modules": modules, "requests": requests, "sinks": sinks, "streams": streams,
        "run": { "departures": [], "duration_s": age_s, "graph": "Hafen West", "policy": "weir", "preset": "weir", "seed": 1 },
    })
}

fn sinks(scene: &Scene) -> Vec<Value> {
    let inputs: Vec<&str> = scene.modules().into_iter().take(1).collect();
    let of = |(name, kind): (&str, &str)| json!({ "name": name, "type": kind, "inputs": inputs });
    scene.sinks().iter().copied().map(of).collect()
}

/// Frames that were dropped last.
pub(super) fn drops(scene: &Scene, now_ms: u64) -> Value {
    if scene.condition != Condition::Overloaded {
        return json!([]);
    }
    let drop = |index: u64| {
        let needed = json!({ "wait": 310.0 + index as f64, "execution": 120.0, "downstream": 80.0 });
        json!({
            "count": 1 + index % 3, "frame": 9_000 - 7 * index, "last_frame": 9_000 - 7 * index + index % 3, "module": "objects",
            "needed_ms": needed, "remaining_ms": 240.0 + 9.0 * index as f64, "reason": "infeasible", "pts_ms": 0.0,
            "time_ms": now_ms - 700 * index,
        })
    };
    (0..12).map(drop).collect()
}

/// Batches that ran on the slots.
pub(super) fn timeline(scene: &Scene) -> Value {
    let names = scene.modules();
    if names.is_empty() {
        return json!({ "seconds": 10.0, "modules": [], "lanes": [] });
    }
    let takes = if scene.condition == Condition::Overloaded {
        0.24
    } else {
        0.09
    };
    let lane = |slot: usize| {
        let span = |index: usize| {
            json!([
                (index + slot) % names.len(),
                -10.0 + 0.25 * index as f64,
                takes,
                2
            ])
        };
        let spans: Vec<Value> = (0..40).map(span).collect();
        json!({ "kind": "slot", "name": format!("slot {slot}"), "spans": spans })
    };
    json!({ "seconds": 10.0, "modules": names, "lanes": [lane(0), lane(1)] })
}
