//! Configuration of devices for Home Assistant by its MQTT discovery ("device discovery"): the engine, and one device for each
//! stream with its counts, rules, pictures, motion and connection.

use serde_json::{Map, Value, json};

use super::cameras::{Camera, Rule};
use super::counts::{ALL, Counts};
use super::topics::Topics;

/// Bytes of a configuration that are read, and entities of an earlier run that are kept.
pub(super) const MAX_CONFIG_BYTES: usize = 256 << 10;
const MAX_EARLIER: usize = 1_024;

/// Template of what a trigger compares: stream, rule and phase of an incident.
const TRIGGER: &str = "{{ value_json.stream ~ '/' ~ value_json.transform ~ '/' ~ value_json.phase }}";

/// The configuration of the engine, which also removes entities that `earlier` has and it has not.
pub(super) fn engine(topics: &Topics, earlier: &Map<String, Value>) -> Value {
    let device = topics.device();
    let id = format!("{device}-engine");
    let mut entities = removals(earlier);
    entities.insert(
        id.clone(),
        json!({
            "p": "binary_sensor",
            "unique_id": id,
            "name": "Engine",
            "device_class": "connectivity",
            "entity_category": "diagnostic",
            "state_topic": topics.available(),
            "payload_on": "online",
            "payload_off": "offline",
        }),
    );
    json!({
        "dev": { "ids": [device], "name": device, "mf": "Weir", "mdl": "Engine", "sw": env!("CARGO_PKG_VERSION") },
        "o": origin(),
        "cmps": entities,
    })
}

/// The configuration of a stream. Counts and pictures of an earlier run stay, and its other entities are removed once the rules are
/// known.
pub(super) fn camera(topics: &Topics, stream: &str, camera: &Camera, counts: &Counts) -> Value {
    let mut entities = earlier_entities(topics, stream, camera);
    let mut add = |id: String, mut entity: Value| {
        if entity["p"] != "device_automation" {
            entity["unique_id"] = id.as_str().into();
        }
        entities.insert(id, entity);
    };
    for (class, _) in counts.of(stream) {
        let name = if class == ALL { "All objects" } else { class };
        let topic = topics.count(stream, class);
        add(topics.sensor(stream, class), count(name, &topic));
    }
    for (rule, kind) in camera.rules.iter().map(|(name, rule)| (&**name, rule.kind)) {
        let id = |of: &str| topics.entity(stream, of, rule);
        if Rule::lasts(kind) {
            add(id("rule"), rule_state(rule, kind, &topics.rule(stream, rule)));
            add(id("began"), trigger(topics, (stream, rule), "began", "began"));
            add(id("ended"), trigger(topics, (stream, rule), "ended", "ended"));
        } else {
            add(id("crossed"), trigger(topics, (stream, rule), "crossed", "ended"));
        }
        if Rule::is_zone(kind) {
            let topic = topics.rule_count(stream, rule);
            add(id("count"), count(&format!("{rule} count"), &topic));
        }
    }
    for class in &camera.pictures {
        let name = match &**class {
            ALL => "Newest picture".to_owned(),
            class => format!("Newest {class}"),
        };
        let image = json!({
            "p": "image",
            "name": name,
            "image_topic": topics.snapshot(stream, class),
            "content_type": "image/jpeg",
        });
        add(topics.entity(stream, "picture", class), image);
    }
    if camera.motion.is_on.is_some() {
        let motion = json!({
            "p": "binary_sensor",
            "name": "Motion",
            "device_class": "motion",
            "state_topic": topics.motion(stream),
        });
        add(topics.entity(stream, "motion", ""), motion);
    }
    let connection = json!({
        "p": "binary_sensor",
        "name": "Connection",
        "device_class": "connectivity",
        "entity_category": "diagnostic",
        "state_topic": topics.status(stream),
        "value_template": "{{ 'ON' if value == 'online' else 'OFF' }}",
        // It is there while the stream is not.
        "availability": [{ "topic": topics.available() }],
    });
    add(topics.entity(stream, "connection", ""), connection);
    device(topics, stream, &entities)
}

fn device(topics: &Topics, stream: &str, entities: &Map<String, Value>) -> Value {
    json!({
        "dev": {
            "ids": [topics.camera(stream)],
            "name": stream,
            "mf": "Weir",
            "mdl": "Camera",
            "via_device": topics.device(),
        },
        "o": origin(),
        "availability_mode": "all",
        "availability": [
            { "topic": topics.available() },
            {
                "topic": topics.status(stream),
                "value_template": "{{ 'online' if value == 'online' else 'offline' }}",
            },
        ],
        "cmps": entities,
    })
}

fn origin() -> Value {
    json!({ "name": "weir", "sw": env!("CARGO_PKG_VERSION") })
}

fn count(name: &str, topic: &str) -> Value {
    json!({
        "p": "sensor",
        "name": name,
        "state_topic": topic,
        "state_class": "measurement",
        "unit_of_measurement": "objects",
    })
}

fn rule_state(rule: &str, kind: &str, topic: &str) -> Value {
    let mut state = json!({ "p": "binary_sensor", "name": rule, "state_topic": topic });
    if Rule::is_zone(kind) {
        state["device_class"] = "occupancy".into();
    }
    state
}

/// A trigger of automations, by the incidents that are sent.
fn trigger(topics: &Topics, (stream, rule): (&str, &str), name: &str, phase: &str) -> Value {
    json!({
        "p": "device_automation",
        "automation_type": "trigger",
        "type": name,
        "subtype": rule,
        "topic": topics.incidents(),
        "value_template": TRIGGER,
        "payload": format!("{stream}/{rule}/{phase}"),
    })
}

/// Entities by which an earlier run described the stream: counts and pictures as they are, others as removed.
fn earlier_entities(topics: &Topics, stream: &str, camera: &Camera) -> Map<String, Value> {
    let rules = topics.rules(stream);
    let is_learned = |entity: &Value| match entity["p"].as_str() {
        Some("sensor") => entity["state_topic"]
            .as_str()
            .is_some_and(|topic| topics.is_below(topic) && !topic.starts_with(&rules)),
        Some("binary_sensor") => entity["state_topic"] == topics.motion(stream),
        Some("image") => true,
        _ => false,
    };
    let (learned, others): (Map<_, _>, Map<_, _>) = camera
        .earlier
        .clone()
        .into_iter()
        .partition(|(_, entity)| is_learned(entity));
    let removed = if camera.has_rules {
        removals(&others)
    } else {
        Map::new()
    };
    learned.into_iter().chain(removed).collect()
}

/// Removals of entities: each has its platform alone.
fn removals(entities: &Map<String, Value>) -> Map<String, Value> {
    let removal = |(id, entity): (&String, &Value)| (id.clone(), json!({ "p": entity["p"] }));
    entities.iter().map(removal).collect()
}

/// Entities of a configuration that the broker has of an earlier run; `None` if it is not of a device of these topics.
pub(super) fn earlier(topics: &Topics, config: &[u8]) -> Option<Map<String, Value>> {
    let config: Value = serde_json::from_slice(config).ok()?;
    let (ids, via) = (&config["dev"]["ids"], &config["dev"]["via_device"]);
    let engine = topics.device();
    if ids[0] != *engine && *via != *engine {
        return None;
    }
    let entities = config["cmps"].as_object()?.iter().take(MAX_EARLIER);
    // What has its platform alone was removed by that run.
    let is_there =
        |entity: &Value| entity["p"].is_string() && entity.as_object().is_some_and(|keys| keys.len() > 1);
    let named = entities.filter(|(_, entity)| is_there(entity));
    Some(named.map(|(id, entity)| (id.clone(), entity.clone())).collect())
}

/// Topics of the states of entities, with those beside them that have no entity.
pub(super) fn state_topics(topics: &Topics, entities: &Map<String, Value>) -> Vec<String> {
    let keys = ["state_topic", "image_topic"];
    let named = entities
        .values()
        .flat_map(|entity| keys.map(|key| entity[key].as_str()));
    let own = named
        .flatten()
        .filter(|topic| topics.is_below(topic) && *topic != topics.available());
    own.flat_map(|topic| {
        let beside = match topic.strip_suffix("status/detect") {
            Some(beginning) => format!("{beginning}review_status"),
            None => format!("{topic}/active"),
        };
        [topic.to_owned(), beside]
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_flow::{Overlay, Settings};

    use super::super::samples::{object, overlay};
    use super::*;

    /// Keys of a platform that Home Assistant requires, and others that it takes.
    struct Keys {
        platform: &'static str,
        required: &'static [&'static str],
        optional: &'static [&'static str],
    }

    /// Keys that all entities may have. Source of these tables: Home Assistant 2026.11, `homeassistant/components/mqtt/`:
    /// `schemas.py` (entities, devices, device discovery), `config.py`, `sensor.py`, `binary_sensor.py`, `image.py` and
    /// `device_trigger.py`.
    const ENTITY: &[&str] = &[
        "availability",
        "availability_mode",
        "availability_template",
        "availability_topic",
        "default_entity_id",
        "enabled_by_default",
        "encoding",
        "entity_category",
        "entity_picture",
        "icon",
        "json_attributes_template",
        "json_attributes_topic",
        "message_expiry_interval",
        "name",
        "payload_available",
        "payload_not_available",
        "qos",
        "visible_by_default",
    ];

    const PLATFORMS: &[Keys] = &[
        Keys {
            platform: "sensor",
            required: &["state_topic", "unique_id"],
            optional: &[
                "device_class",
                "expire_after",
                "force_update",
                "last_reset_value_template",
                "options",
                "state_class",
                "suggested_display_precision",
                "unit_of_measurement",
                "value_template",
            ],
        },
        Keys {
            platform: "binary_sensor",
            required: &["state_topic", "unique_id"],
            optional: &[
                "device_class",
                "expire_after",
                "force_update",
                "off_delay",
                "payload_off",
                "payload_on",
                "value_template",
            ],
        },
        Keys {
            platform: "image",
            required: &["image_topic", "unique_id"],
            optional: &["content_type", "image_encoding", "url_template"],
        },
        Keys {
            platform: "device_automation",
            required: &["automation_type", "subtype", "topic", "type"],
            optional: &["encoding", "payload", "qos", "value_template"],
        },
    ];

    /// Keys of a device, of its origin, of its configuration and of an entry of `availability`.
    const DEVICE: &[&str] = &["ids", "mdl", "mf", "name", "sw", "via_device"];
    const ORIGIN: &[&str] = &["name", "sw"];
    const ROOT: &[&str] = &["availability", "availability_mode", "cmps", "dev", "o"];
    const AVAILABILITY: &[&str] = &[
        "payload_available",
        "payload_not_available",
        "topic",
        "value_template",
    ];

    fn check_keys(of: &Value, required: &[&str], allowed: &[&str]) {
        let keys = of.as_object().expect("a map").keys();
        let keys: BTreeSet<&str> = keys.map(String::as_str).collect();
        for key in required {
            assert!(keys.contains(key), "no {key}: {of}");
        }
        for key in keys {
            assert!(allowed.contains(&key), "{key}: {of}");
        }
    }

    fn check_topic(topic: &Value) {
        let topic = topic.as_str().expect("a text");
        assert!(!topic.is_empty() && !topic.contains(['+', '#']), "{topic}");
    }

    fn check_availability(of: &Value) {
        for entry in of["availability"].as_array().into_iter().flatten() {
            check_keys(entry, &["topic"], AVAILABILITY);
            check_topic(&entry["topic"]);
        }
    }

    fn is_removal(entity: &Value) -> bool {
        entity.as_object().is_some_and(|keys| keys.len() == 1)
    }

    /// Checks a configuration, and returns its entities.
    fn check_config(config: &Value) -> &Map<String, Value> {
        check_keys(config, &["dev", "o", "cmps"], ROOT);
        check_keys(&config["dev"], &["ids"], DEVICE);
        check_keys(&config["o"], &["name"], ORIGIN);
        check_availability(config);
        let entities = config["cmps"].as_object().expect("entities");
        for (id, entity) in entities {
            let platform = entity["p"].as_str().expect("a platform");
            let keys = PLATFORMS.iter().find(|keys| keys.platform == platform);
            let keys = keys.expect("a platform that is known");
            if is_removal(entity) {
                continue;
            }
            let is_entity = platform != "device_automation";
            let common = if is_entity { ENTITY } else { &[] };
            let allowed = [&["p"][..], keys.required, keys.optional, common].concat();
            check_keys(entity, keys.required, &allowed);
            check_availability(entity);
            for key in ["state_topic", "image_topic", "topic"] {
                if entity.get(key).is_some() {
                    check_topic(&entity[key]);
                }
            }
            assert!(!is_entity || entity["unique_id"] == **id, "{id}");
        }
        entities
    }

    fn porch() -> (Topics, Camera, Counts) {
        let topics = Topics::new(&Settings::default()).expect("topics");
        let (mut camera, mut counts) = (Camera::default(), Counts::default());
        camera.on_overlays(&[
            overlay("steps", "zone"),
            overlay("stay", "loitering"),
            overlay("door", "line"),
            overlay("all", Overlay::MASK),
        ]);
        camera.motion.on_frame(1_000, true);
        camera.pictures.insert("person".to_owned());
        camera.pictures.insert(ALL.to_owned());
        counts.on_objects("porch", &[object("person", None)]);
        (topics, camera, counts)
    }

    #[test]
    fn entities_have_keys_that_home_assistant_takes() {
        let (topics, porch, counts) = porch();
        let engine = engine(&topics, &Map::new());
        let config = camera(&topics, "porch", &porch, &counts);
        assert_eq!(config["dev"]["via_device"], engine["dev"]["ids"][0]);
        assert_eq!(check_config(&engine).len(), 1);
        let entities = check_config(&config);
        let named: BTreeSet<(&str, &str)> = entities
            .values()
            .filter_map(|entity| Some((entity["p"].as_str()?, entity["name"].as_str()?)))
            .collect();
        let expected = [
            ("binary_sensor", "Connection"),
            ("binary_sensor", "Motion"),
            ("binary_sensor", "stay"),
            ("binary_sensor", "steps"),
            ("image", "Newest person"),
            ("image", "Newest picture"),
            ("sensor", "All objects"),
            ("sensor", "person"),
            ("sensor", "steps count"),
        ];
        assert_eq!(named, expected.into());
        let triggers = entities
            .values()
            .filter(|entity| entity["p"] == "device_automation");
        let triggers: BTreeSet<&str> = triggers
            .filter_map(|trigger| trigger["payload"].as_str())
            .collect();
        let expected = [
            "porch/door/ended",
            "porch/stay/began",
            "porch/stay/ended",
            "porch/steps/began",
            "porch/steps/ended",
        ];
        assert_eq!(triggers, expected.into());
    }

    #[test]
    fn entities_of_an_earlier_run_stay_if_learned_and_go_if_configured() {
        let (topics, before, counts) = porch();
        let config = camera(&topics, "porch", &before, &counts).to_string();
        let mut after = Camera {
            earlier: earlier(&topics, config.as_bytes()).expect("ours"),
            ..Camera::default()
        };
        // The rules are not known yet.
        let early = camera(&topics, "porch", &after, &Counts::default());
        assert!(!check_config(&early).values().any(is_removal));
        after.on_overlays(&[overlay("steps", "zone")]);
        let config = camera(&topics, "porch", &after, &Counts::default());
        let entities = check_config(&config);
        // A state and two triggers of one rule, and a trigger of the other.
        let removed = entities.values().filter(|entity| is_removal(entity)).count();
        assert_eq!(removed, 4);
        let entity = |id: String| &entities[&id];
        assert_eq!(entity(topics.sensor("porch", "person"))["name"], "person");
        let picture = topics.entity("porch", "picture", "person");
        assert_eq!(entity(picture)["name"], "Newest person");
        assert!(!is_removal(entity(topics.entity("porch", "rule", "steps"))));
        // What was removed is not removed again by the next run.
        let next = earlier(&topics, config.to_string().as_bytes()).expect("ours");
        assert_eq!(next.len(), entities.len() - removed);
    }

    #[test]
    fn configurations_of_others_are_left_alone() {
        let topics = Topics::new(&Settings::default()).expect("topics");
        for config in [
            "",
            "no JSON",
            "[]",
            r#"{"dev":{"ids":["lamp"]},"cmps":{}}"#,
            r#"{"dev":{"ids":["weir"]}}"#,
            r#"{"dev":{"ids":["weir_a"],"via_device":"weir_"},"cmps":{}}"#,
        ] {
            assert_eq!(earlier(&topics, config.as_bytes()), None, "{config}");
        }
        let other = r#"{"dev":{"ids":["a"],"via_device":"weir"},"cmps":{"x":{"p":"sensor","state_topic":"lamp/state"},
            "y":{"p":"sensor","state_topic":"weir/a/car"},"z":{"p":"sensor","state_topic":"weir/available"}}}"#;
        let entities = earlier(&topics, other.as_bytes()).expect("ours");
        assert_eq!(
            state_topics(&topics, &entities),
            ["weir/a/car", "weir/a/car/active"]
        );
    }
}
