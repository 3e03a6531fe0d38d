//! A real broker, killed and started five times.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rumqttc::{Client, Connection, Event, MqttOptions, Packet, QoS};
use serde_json::Value as Json;
use tempfile::TempDir;
use weir_flow::{Notice, TrackEnd, Value};
use weir_operators::sinks::sink;

use super::delivered::{car, check, dead_letters, delivery, events, open, send, text, wait_killing};

const MOSQUITTO: &str = "/usr/sbin/mosquitto";

/// Mosquitto, which keeps what it has when it is asked to end.
pub(crate) struct Broker {
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Broker {
    /// `None` where it is not installed.
    fn new(folder: &Path) -> Option<Self> {
        Self::with(folder, "")
    }

    /// The same with more of a configuration.
    pub(crate) fn with(folder: &Path, more: &str) -> Option<Self> {
        if !Path::new(MOSQUITTO).exists() {
            println!("skipped: there is no {MOSQUITTO}");
            return None;
        }
        let port = free_port();
        let config = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {}/\n\
             max_queued_messages 0\nmax_inflight_messages 100\nuser root\n{more}",
            folder.display()
        );
        fs::write(folder.join("mosquitto.conf"), config).unwrap();
        let mut broker = Self {
            folder: folder.to_owned(),
            port,
            child: None,
        };
        broker.start();
        Some(broker)
    }

    /// A broker with its folder, and a watcher of all topics; `None` where it is not installed.
    pub(crate) fn watched() -> Option<(TempDir, Self, Watcher)> {
        let folder = tempfile::tempdir().unwrap();
        let broker = Self::new(folder.path())?;
        let watcher = broker.watch();
        Some((folder, broker, watcher))
    }

    /// Keys of a sink that name the broker.
    pub(crate) fn keys(&self) -> [(&'static str, Value); 2] {
        let port = Value::Number(f64::from(self.port));
        [("host", text("127.0.0.1")), ("port", port)]
    }

    fn start(&mut self) {
        let config = self.folder.join("mosquitto.conf");
        let mosquitto = Command::new(MOSQUITTO)
            .arg("-c")
            .arg(config)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.child = Some(mosquitto.unwrap());
    }

    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(killed.success());
        child.wait().unwrap();
    }

    /// Someone who has asked for all topics, and whom the broker remembers.
    pub(crate) fn watch(&self) -> Watcher {
        let mut options = MqttOptions::new("watcher", ("127.0.0.1", self.port));
        options.set_clean_session(false);
        options.set_max_packet_size(1 << 20, 1 << 20);
        let (client, connection) = Client::builder(options).capacity(16).build();
        client.subscribe("#", QoS::AtLeastOnce).unwrap();
        let mut watcher = Watcher {
            _client: client,
            connection,
            taken: Vec::new(),
            last: BTreeMap::new(),
            events: Vec::new(),
        };
        watcher.run_until(|watcher| watcher.is_subscribed());
        watcher
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

pub(crate) struct Watcher {
    _client: Client,
    connection: Connection,
    /// Incidents by id, as they came.
    pub(crate) taken: Vec<String>,
    /// The last payload of each topic.
    pub(crate) last: BTreeMap<String, String>,
    /// Messages on the topic of events, in order.
    events: Vec<Json>,
}

impl Watcher {
    fn is_subscribed(&self) -> bool {
        self.last.contains_key("(subscribed)")
    }

    /// Takes what comes until that is so.
    pub(crate) fn run_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let mut idle = 0;
        while idle < 3_000 {
            if is_so(self) {
                return;
            }
            idle += u32::from(!self.take());
        }
        panic!("it did not come: {} incidents, {:?}", self.taken.len(), self.last);
    }

    /// Takes the next that comes, if it comes soon; returns whether one came.
    pub(crate) fn take(&mut self) -> bool {
        match self.connection.recv_timeout(Duration::from_millis(20)) {
            Ok(Ok(Event::Incoming(Packet::Publish(message)))) => {
                // A picture is no text.
                let payload = String::from_utf8_lossy(&message.payload).into_owned();
                let topic = String::from_utf8(message.topic.to_vec()).unwrap();
                match topic.as_str() {
                    "weir/incidents" => {
                        let incident: Json = serde_json::from_str(&payload).unwrap();
                        self.taken.push(incident["id"].as_str().unwrap().to_owned());
                    }
                    "weir/events" => self.events.push(serde_json::from_str(&payload).unwrap()),
                    _ => {}
                }
                self.last.insert(topic, payload);
            }
            Ok(Ok(Event::Incoming(Packet::SubAck(_)))) => {
                self.last.insert("(subscribed)".to_owned(), String::new());
            }
            // The broker is gone, and is asked again.
            Ok(Err(_)) => {
                std::thread::sleep(Duration::from_millis(20));
                return false;
            }
            Err(_) => return false,
            Ok(Ok(_)) => {}
        }
        true
    }
}

/// Whether the last payload of a topic is that one; an empty one removes the topic.
pub(crate) fn is<'a>(topic: &'a str, payload: &'a str) -> impl Fn(&Watcher) -> bool + 'a {
    move |watcher| watcher.last.get(topic).is_some_and(|last| last == payload)
}

#[test]
fn a_broker_that_goes_and_comes_gets_every_event_in_order() {
    let Some((folder, mut broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let events = events();
    let path = folder.path().join("undelivered.jsonl");
    let [host, port] = broker.keys();
    let path_key = ("path", text(path.to_str().unwrap()));
    let mut mqtt = open("mqtt", &[host, port, path_key]);
    let watching = std::thread::spawn(move || {
        watcher.run_until(|watcher| {
            let seen: std::collections::BTreeSet<&String> = watcher.taken.iter().collect();
            seen.len() >= events && is("weir/available", "offline")(watcher)
        });
        watcher
    });
    send(&mut *mqtt, events);
    let counts = wait_killing(&*mqtt, events, || {
        broker.kill();
        std::thread::sleep(Duration::from_millis(100));
        broker.start();
    });
    assert_eq!(
        (counts["delivered"], counts["lost"]),
        (events as u64, 0),
        "{counts:?}"
    );
    mqtt.finish().unwrap();
    let watcher = watching.join().unwrap();
    check(events, &watcher.taken, &dead_letters(&path));
    println!(
        "{events} events, killed 5 times: {counts:?}, {} received",
        watcher.taken.len()
    );
}

#[test]
fn tracks_are_events_as_frigate_has_them_and_counts_are_found_by_home_assistant() {
    let Some((_folder, broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let mut mqtt = open("mqtt", &broker.keys());
    mqtt.accept(&delivery("north", vec![car(7)], Vec::new())).unwrap();
    watcher.run_until(is("weir/north/car", "1"));
    let ended = TrackEnd {
        id: 7,
        class: "car".into(),
        began_ms: 1_000,
        last_seen_ms: 2_500,
        began_pts_ms: 0.0,
        last_pts_ms: 1_500.0,
        attributes: Vec::new(),
    };
    let mut in_zone = super::delivered::incident("north", 1);
    in_zone.kind = "zone";
    in_zone.phase = weir_flow::Phase::Began;
    in_zone.zones = vec!["door".into()];
    mqtt.accept(&delivery("north", vec![car(7)], vec![in_zone]))
        .unwrap();
    mqtt.on_notice(&Notice::Analytics {
        stream: "north".into(),
        ended_tracks: vec![ended],
        incidents: Vec::new(),
    })
    .unwrap();
    watcher.run_until(|watcher| watcher.events.len() == 3);
    watcher.run_until(is("weir/north/car", "0"));
    assert_eq!(watcher.last["weir/available"], "online");
    mqtt.finish().unwrap();
    watcher.run_until(|watcher| watcher.last["weir/available"] == "offline");

    let kinds: Vec<&Json> = watcher.events.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["new", "update", "end"]);
    let [_, update, end] = &watcher.events[..] else {
        panic!("three events")
    };
    assert_eq!(update["before"]["current_zones"], serde_json::json!([]));
    assert_eq!(update["after"]["current_zones"], serde_json::json!(["door"]));
    assert_eq!(end["after"]["entered_zones"], serde_json::json!(["door"]));
    let after = &end["after"];
    assert_eq!(
        (&after["camera"], &after["label"]),
        (&"north".into(), &"car".into())
    );
    assert_eq!(
        (&after["start_time"], &after["end_time"]),
        (&1.0.into(), &2.5.into())
    );
    assert_eq!(update["after"]["id"], after["id"]);
    let stationary = |event: &Json| event["after"]["stationary"].as_bool();
    assert_eq!(
        (stationary(update), end["after"]["has_snapshot"].as_bool()),
        (Some(false), Some(false))
    );
}

#[test]
fn no_count_stays_above_zero_while_a_stream_is_away_or_after_a_run_that_was_killed() {
    let Some((_folder, broker, mut watcher)) = Broker::watched() else {
        return;
    };
    let mut killed = open("mqtt", &broker.keys());
    killed
        .accept(&delivery("south", vec![car(7)], Vec::new()))
        .unwrap();
    killed
        .accept(&delivery("north", vec![car(8)], Vec::new()))
        .unwrap();
    watcher.run_until(is("weir/south/car", "1"));
    watcher.run_until(is("weir/north/car", "1"));
    let away = |time_ms: u64| Notice::State {
        stream: "north".into(),
        state: weir_flow::StreamState::Waiting {
            reason: "gone".into(),
        },
        time_ms,
    };
    killed.on_notice(&away(1_001)).unwrap();
    watcher.run_until(is("weir/north/car", "0"));
    // A frame of before, which was in flight; and one of after.
    killed
        .accept(&delivery("north", vec![car(9)], Vec::new()))
        .unwrap();
    killed.accept(&delivery("south", Vec::new(), Vec::new())).unwrap();
    watcher.run_until(is("weir/south/car", "0"));
    assert_eq!(watcher.last["weir/north/car"], "0");
    let mut later = delivery("north", vec![car(9)], Vec::new());
    later.time_ms = 1_002;
    killed.accept(&later).unwrap();
    watcher.run_until(is("weir/north/car", "1"));
    // As if it were killed: nothing is said at its end.
    std::mem::forget(killed);

    let mut next = open("mqtt", &broker.keys());
    next.accept(&delivery("north", Vec::new(), Vec::new())).unwrap();
    watcher.run_until(is("weir/north/car", "0"));
    next.finish().unwrap();
}

#[test]
fn a_broker_that_is_not_named_and_topics_with_wildcards_are_refused_before_a_run() {
    let refused = |keys: &[(&str, &str)]| {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), text(value)));
        sink("mqtt", &weir_flow::Settings(keys.collect()))
            .err()
            .unwrap()
            .to_string()
    };
    assert!(refused(&[]).contains("`host`"));
    let error = refused(&[("host", "a"), ("prefix", "cameras/#")]);
    assert!(error.contains("holds a wildcard"), "{error}");
}
