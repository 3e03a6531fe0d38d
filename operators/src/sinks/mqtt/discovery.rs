//! Configuration of counts for Home Assistant: one device with a sensor per count (its MQTT discovery,
//! "device discovery").

use serde_json::{Map, Value, json};

use super::topics::Topics;

/// The configuration of the device with the sensors of these streams and classes.
pub(super) fn config<'a>(topics: &Topics, known: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let device = topics.device();
    let sensor = |(stream, class): (&str, &str)| {
        let id = topics.sensor(stream, class);
        let sensor = json!({
            "p": "sensor",
            "unique_id": id,
            "name": format!("{stream} {class}"),
            "state_topic": topics.count(stream, class),
            "state_class": "measurement",
            "unit_of_measurement": "objects",
        });
        (id, sensor)
    };
    let sensors: Map<String, Value> = known.map(sensor).collect();
    json!({
        "dev": { "ids": [device], "name": device, "mf": "Weir", "sw": env!("CARGO_PKG_VERSION") },
        "o": { "name": "weir", "sw": env!("CARGO_PKG_VERSION") },
        "availability_topic": topics.available(),
        "cmps": sensors,
    })
}
