//! Cameras as Home Assistant and Frigate's automations see them by a real broker: entities, rules, zones, pictures, connections and
//! reviews.

use serde_json::{Value as Json, json};
use weir_flow::{Delivery, Incident, Notice, Overlay, Phase, Settings, Sink, StreamState};
use weir_operators::sinks::sink_for;

use super::delivered::{best, car, delivery, incident};
use super::mqtt::{Broker, Watcher, is};

/// An MQTT sink for streams of a graph.
fn open(broker: &Broker, streams: &[&str]) -> Box<dyn Sink> {
    let keys = broker.keys();
    let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
    let streams: Vec<String> = streams.iter().map(|stream| (*stream).to_owned()).collect();
    sink_for("mqtt", &settings, &streams).unwrap().open().unwrap()
}

fn overlay(name: &str, kind: &'static str) -> Overlay {
    Overlay {
        transform: name.into(),
        kind,
        points: Vec::new(),
        is_closed: true,
        text: "".into(),
        tags: Vec::new(),
    }
}

/// A frame of a stream with the zone `gate` and the line `door`.
fn frame(stream: &str, time_ms: u64, incidents: Vec<Incident>) -> Delivery {
    Delivery {
        time_ms,
        overlays: vec![overlay("gate", "zone"), overlay("door", "line")],
        ..delivery(stream, vec![car(7)], incidents)
    }
}

/// A visit of the zone, with a picture.
fn visit(phase: Phase) -> Incident {
    Incident {
        kind: "zone",
        phase,
        zones: vec!["gate".into()],
        best: best(b"\xff\xd8 a picture"),
        ..incident("north", 1)
    }
}

fn is_there(watcher: &Watcher, topic: &str) -> bool {
    watcher.last.get(topic).is_some_and(|payload| !payload.is_empty())
}

/// Topic and configuration of the device of a stream.
fn config(watcher: &Watcher, stream: &str) -> Option<(String, Json)> {
    let beginning = format!("homeassistant/device/weir_{stream}_");
    let found = watcher
        .last
        .iter()
        .find(|(topic, _)| topic.starts_with(&beginning))?;
    let config = serde_json::from_str(found.1).unwrap_or_default();
    Some((found.0.clone(), config))
}

/// An entity of the device of a stream, by its platform and name.
fn entity(watcher: &Watcher, stream: &str, (platform, name): (&str, &str)) -> Option<Json> {
    let (_, config) = config(watcher, stream)?;
    let entities = config["cmps"].as_object()?;
    let mut all = entities.values();
    all.find(|entity| entity["p"] == platform && entity["name"] == name)
        .cloned()
}

/// The last event of a review.
fn review(watcher: &Watcher) -> Json {
    let last = watcher.last.get("weir/reviews");
    last.and_then(|body| serde_json::from_str(body).ok())
        .unwrap_or_default()
}

fn away(stream: &str, time_ms: u64, state: StreamState) -> Notice {
    Notice::State {
        stream: stream.into(),
        state,
        time_ms,
    }
}

#[test]
fn rules_zones_pictures_and_connections_of_a_camera_are_states_of_its_device() {
    let Some((_folder, broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let mut mqtt = open(&broker, &["north"]);
    let waiting = StreamState::Waiting {
        reason: "gone".to_owned(),
    };
    mqtt.on_notice(&away("north", 500, waiting)).unwrap();
    watcher.run_until(is("weir/north/status/detect", "offline"));
    mqtt.accept(&frame("north", 1_000, Vec::new())).unwrap();
    watcher.run_until(is("weir/north/status/detect", "online"));
    watcher.run_until(is("weir/north/rules/gate", "OFF"));
    mqtt.accept(&frame("north", 2_000, vec![visit(Phase::Began)]))
        .unwrap();
    watcher.run_until(is("weir/north/rules/gate", "ON"));
    watcher.run_until(is("weir/north/rules/gate/count", "1"));
    watcher.run_until(is("weir/gate/car", "1"));
    watcher.run_until(is("weir/gate/all", "1"));
    watcher.run_until(|watcher| is_there(watcher, "weir/north/all/snapshot"));
    watcher.run_until(|watcher| entity(watcher, "north", ("image", "Newest car")).is_some());
    let (_, device) = config(&watcher, "north").unwrap();
    assert_eq!(device["dev"]["name"], "north");
    assert_eq!(device["dev"]["via_device"], "weir");
    let topics: Vec<&str> = device["availability"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["topic"].as_str())
        .collect();
    assert_eq!(topics, ["weir/available", "weir/north/status/detect"]);
    for (entity_of, topic) in [
        (("sensor", "car"), "weir/north/car"),
        (("sensor", "gate count"), "weir/north/rules/gate/count"),
        (("binary_sensor", "gate"), "weir/north/rules/gate"),
    ] {
        let found = entity(&watcher, "north", entity_of).unwrap();
        assert_eq!(found["state_topic"], topic);
    }
    let picture = entity(&watcher, "north", ("image", "Newest picture")).unwrap();
    assert_eq!(picture["image_topic"], "weir/north/all/snapshot");
    assert_eq!(entity(&watcher, "north", ("binary_sensor", "door")), None);
    let engine: Json = serde_json::from_str(&watcher.last["homeassistant/device/weir/config"]).unwrap();
    assert_eq!(engine["dev"]["ids"], json!(["weir"]));

    mqtt.on_notice(&away("north", 3_000, StreamState::Paused))
        .unwrap();
    watcher.run_until(is("weir/north/status/detect", "disabled"));
    watcher.run_until(is("weir/north/car/active", "0"));
    mqtt.on_notice(&Notice::Analytics {
        stream: "north".into(),
        ended_tracks: Vec::new(),
        incidents: vec![visit(Phase::Ended)],
    })
    .unwrap();
    watcher.run_until(is("weir/north/rules/gate", "OFF"));
    watcher.run_until(is("weir/gate/car", "0"));
    mqtt.on_notice(&away("north", 4_000, StreamState::Live)).unwrap();
    watcher.run_until(is("weir/north/status/detect", "online"));
    mqtt.finish().unwrap();
}

#[test]
fn entities_and_states_of_a_removed_camera_are_removed() {
    let Some((_folder, broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let mut mqtt = open(&broker, &["north", "south"]);
    for stream in ["north", "south"] {
        mqtt.accept(&frame(stream, 1_000, Vec::new())).unwrap();
        watcher.run_until(|watcher| entity(watcher, stream, ("sensor", "car")).is_some());
    }
    let (topic, _) = config(&watcher, "south").unwrap();
    mqtt.on_stream_removed("south").unwrap();
    watcher.run_until(is(&topic, ""));
    watcher.run_until(is("weir/south/car", ""));
    watcher.run_until(is("weir/south/status/detect", ""));
    assert!(is_there(&watcher, "weir/north/car"));

    // The next run has another graph.
    mqtt.accept(&frame("south", 2_000, Vec::new())).unwrap();
    watcher.run_until(|watcher| entity(watcher, "south", ("sensor", "car")).is_some());
    watcher.run_until(is("weir/south/rules/gate", "OFF"));
    mqtt.finish().unwrap();
    watcher.run_until(is("weir/available", "offline"));
    let mut next = open(&broker, &["north"]);
    for time_ms in 3_000..6_000 {
        if is(&topic, "")(&watcher) {
            break;
        }
        next.accept(&frame("north", time_ms, Vec::new())).unwrap();
        watcher.take();
    }
    assert!(!watcher.last.contains_key("weir/door/all"));
    for state in [
        "rules/gate",
        "car",
        "car/active",
        "status/detect",
        "review_status",
    ] {
        watcher.run_until(is(&format!("weir/south/{state}"), ""));
    }
    // The counts that were learned by the run before.
    assert!(entity(&watcher, "north", ("sensor", "car")).is_some());
    next.finish().unwrap();
}

#[test]
fn another_engine_of_the_same_prefix_keeps_its_cameras() {
    let Some((_folder, broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let mut first = open(&broker, &["south"]);
    first.accept(&frame("south", 1_000, Vec::new())).unwrap();
    watcher.run_until(|watcher| entity(watcher, "south", ("sensor", "car")).is_some());
    let mut second = open(&broker, &["north"]);
    for time_ms in 1_000..1_100 {
        second.accept(&frame("north", time_ms, Vec::new())).unwrap();
        watcher.take();
    }
    watcher.run_until(|watcher| entity(watcher, "north", ("sensor", "car")).is_some());
    assert!(entity(&watcher, "south", ("sensor", "car")).is_some());
    first.finish().unwrap();
    second.finish().unwrap();
}

#[test]
fn reviews_are_detections_until_an_incident_makes_them_alerts() {
    let Some((_folder, broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let mut mqtt = open(&broker, &["north"]);
    mqtt.accept(&frame("north", 1_000, Vec::new())).unwrap();
    watcher.run_until(is("weir/north/review_status", "DETECTION"));
    mqtt.accept(&frame("north", 2_000, vec![visit(Phase::Began)]))
        .unwrap();
    watcher.run_until(is("weir/north/review_status", "ALERT"));
    watcher.run_until(|watcher| review(watcher)["type"] == "update");
    let update = review(&watcher);
    assert_eq!(update["before"]["severity"], "detection");
    let after = &update["after"];
    assert_eq!(
        (&after["camera"], &after["severity"]),
        (&json!("north"), &json!("alert"))
    );
    assert_eq!(after["data"]["detections"], json!(["north-7"]));
    assert_eq!(after["data"]["zones"], json!(["gate"]));
    let gone = StreamState::Gone { reason: None };
    mqtt.on_notice(&away("north", 3_000, gone)).unwrap();
    watcher.run_until(is("weir/north/review_status", "NONE"));
    watcher.run_until(|watcher| review(watcher)["type"] == "end");
    assert_eq!(review(&watcher)["after"]["end_time"], json!(2.0));
    mqtt.finish().unwrap();
}

#[test]
fn motion_is_published_for_cameras_with_a_motion_gate() {
    let Some((_folder, broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let mut mqtt = open(&broker, &["north"]);
    mqtt.accept(&frame("north", 1_000, Vec::new())).unwrap();
    watcher.run_until(is("weir/north/car", "1"));
    assert!(!is_there(&watcher, "weir/north/motion"));
    mqtt.on_notice(&Notice::Still {
        stream: "north".into(),
        frame: 1,
        frames: 10,
        last_frame: 10,
        pts_ms: 1_000.0,
        time_ms: 2_000,
    })
    .unwrap();
    watcher.run_until(is("weir/north/motion", "ON"));
    watcher.run_until(|watcher| entity(watcher, "north", ("binary_sensor", "Motion")).is_some());
    let mut still = frame("north", 40_000, Vec::new());
    still.still = true;
    mqtt.accept(&still).unwrap();
    watcher.run_until(is("weir/north/motion", "OFF"));
    mqtt.finish().unwrap();
}
