//! Events and states to the broker: one connection after the other, each of which begins by saying that the program is there.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rumqttc::{LastWill, MqttOptions, QoS, TlsConfiguration};
use weir_flow::{Settings, SinkError};

use super::super::broker_keys::host_of;
use super::super::outbox::{Message, Outcome, Transport};
use super::super::renewed::Renewed;
use super::super::secret::secret;
use super::super::tls;
use super::connection::{Found, Line, MAX_UNACKNOWLEDGED, Watched};
use super::topics::Topics;

/// Timeout for a broker to accept a connection or to acknowledge a packet, as a number of slices of equal
/// length.
const SLICES: u32 = 50;
const SLICE: Duration = Duration::from_millis(100);

/// Bytes of a packet.
const MAX_PACKET: usize = 2 << 20;

/// Rounds of [`Transport::on_idle`] without a connection before another one is tried.
const IDLE_ROUNDS: u32 = 50;

const ONLINE: &[u8] = b"online";

/// States that are kept.
const MAX_STATES: usize = 4_096;
const MAX_STATE_BYTES: usize = 64 << 20;

/// Address and credentials of the broker.
pub(super) struct Broker {
    host: String,
    port: u16,
    username: Option<String>,
    client_id: String,
    access: Renewed<Access>,
}

/// Password and encryption, which files may have.
#[derive(Clone)]
struct Access {
    password: Option<String>,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Access {
    fn read(settings: &Settings) -> Result<Self, SinkError> {
        Ok(Self {
            tls: tls::tls_config(settings)?,
            password: secret(settings, "password", "password_file")?,
        })
    }
}

fn text<'a>(settings: &'a Settings, key: &str) -> Option<&'a str> {
    settings.text(key).filter(|text| !text.is_empty())
}

/// Name or address of the broker.
fn host(settings: &Settings) -> Result<&str, SinkError> {
    let host = text(settings, "host").ok_or_else(|| SinkError {
        target: "to an MQTT broker".to_owned(),
        reason: "it has no `host`: name the broker".to_owned(),
    })?;
    Ok(host_of(host).unwrap_or(host))
}

impl Broker {
    /// Checks the keys and the files of TLS; the password is not read.
    ///
    /// # Errors
    /// No broker is named, or keys of TLS cannot be used.
    pub(super) fn check(settings: &Settings) -> Result<(), SinkError> {
        host(settings)?;
        tls::tls_config(settings).map(drop)
    }

    /// As `settings` say.
    ///
    /// # Errors
    /// As [`Broker::check`], or the password cannot be read.
    pub(super) fn new(settings: &Settings) -> Result<Self, SinkError> {
        let is_encrypted = tls::tls_files(settings)?.is_some();
        let default_port = if is_encrypted { 8883.0 } else { 1883.0 };
        let random = RandomState::new().build_hasher().finish();
        let client_id = text(settings, "client_id");
        Ok(Self {
            host: host(settings)?.to_owned(),
            port: settings.number("port", default_port) as u16,
            username: text(settings, "username").map(str::to_owned),
            client_id: client_id.map_or_else(|| format!("weir-{random:016x}"), str::to_owned),
            access: Renewed::new(settings, Access::read)?,
        })
    }

    fn options(&self, available: &str) -> MqttOptions {
        let mut options = MqttOptions::new(self.client_id.clone(), (self.host.clone(), self.port));
        options.set_keep_alive(10);
        options.set_clean_session(true);
        options.set_max_packet_size(MAX_PACKET, MAX_PACKET);
        options.set_last_will(LastWill::new(available, "offline", QoS::AtLeastOnce, true));
        let Access { password, tls } = self.access.get();
        if let Some(tls) = tls {
            let tls = TlsConfiguration::Rustls(tls);
            options.set_transport(rumqttc::Transport::tls_with_config(tls));
        }
        if let Some(username) = &self.username {
            options.set_credentials(username, password.unwrap_or_default());
        }
        options
    }
}

/// Current states by topic. Only the newest state of a topic is kept; the broker retains it for later
/// subscribers.
#[derive(Default)]
pub(super) struct States(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    states: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    /// Topics of states that the broker does not have.
    unsent: BTreeSet<String>,
    /// Beginnings of the topics of counts of our streams.
    owned: BTreeSet<String>,
    /// Topics of counts above 0 that the broker has of an earlier run, and whose streams are not ours.
    found: BTreeSet<String>,
    /// Configurations of devices that the broker has of an earlier run, by topic.
    configs: BTreeMap<String, Vec<u8>>,
    /// Whether the earlier run of this prefix was over as this one connected for the first time.
    is_successor: bool,
}

impl States {
    /// Sets the state of a topic. An empty state removes what the broker retains, and is forgotten once it was sent.
    pub(super) fn set(&self, topic: String, state: impl Into<Vec<u8>>) {
        let (mut kept, state) = (self.lock(), state.into());
        if kept.states.get(&topic) == Some(&state) {
            return;
        }
        let before = kept.states.get(&topic).map(Vec::len);
        let bytes = kept.bytes - before.unwrap_or(0) + state.len();
        let has_room = before.is_some() || kept.states.len() < MAX_STATES;
        if has_room && bytes <= MAX_STATE_BYTES {
            kept.bytes = bytes;
            kept.unsent.insert(topic.clone());
            kept.states.insert(topic, state);
        }
    }

    /// The counts of topics that begin so are ours alone: those of an earlier run that was killed are 0 from now on.
    pub(super) fn own(&self, beginning: String) {
        let mut kept = self.lock();
        let begins = |topic: &&String| topic.starts_with(&beginning);
        let stale: Vec<String> = kept.found.iter().filter(begins).cloned().collect();
        kept.owned.insert(beginning);
        drop(kept);
        for topic in stale {
            self.reset(topic);
        }
    }

    /// The state of a topic.
    pub(super) fn get(&self, topic: &str) -> Option<Vec<u8>> {
        self.lock().states.get(topic).cloned()
    }

    /// Sends the state of a topic once more.
    pub(super) fn resend(&self, topic: &str) {
        let mut kept = self.lock();
        if kept.states.contains_key(topic) {
            kept.unsent.insert(topic.to_owned());
        }
    }

    /// Removes the states of all topics with this beginning, which are ours no more.
    pub(super) fn clear(&self, beginning: &str) {
        self.lock().owned.remove(beginning);
        let begins = |topic: &&String| topic.starts_with(beginning);
        let topics: Vec<String> = self.lock().states.keys().filter(begins).cloned().collect();
        for topic in topics {
            self.set(topic, "");
        }
    }

    /// Configurations that the broker has of an earlier run, which were not taken before.
    pub(super) fn take_configs(&self) -> BTreeMap<String, Vec<u8>> {
        std::mem::take(&mut self.lock().configs)
    }

    /// Whether the earlier run of this prefix was over as this one began: what it left is of no one else.
    pub(super) fn is_successor(&self) -> bool {
        self.lock().is_successor
    }

    /// The broker has a configuration of a device; an empty one was removed. If another engine removed a device that is ours now, its
    /// states are removed, too: all are sent again.
    fn on_config(&self, topic: String, config: Vec<u8>) {
        let mut kept = self.lock();
        if config.is_empty() {
            let is_ours = kept.states.get(&topic).is_some_and(|state| !state.is_empty());
            drop(kept);
            if is_ours {
                self.forget_sent();
            }
        } else if kept.configs.len() < MAX_STATES {
            kept.configs.insert(topic, config);
        }
    }

    /// The broker has a state.
    fn on_found(&self, topic: String, state: &[u8]) {
        let count = std::str::from_utf8(state).ok();
        let count = count.and_then(|count| count.parse::<u64>().ok());
        if count.is_none_or(|count| count == 0) {
            return;
        }
        let mut kept = self.lock();
        let is_ours = kept.owned.iter().any(|beginning| topic.starts_with(beginning));
        if !is_ours {
            if kept.found.len() < MAX_STATES {
                kept.found.insert(topic);
            }
            return;
        }
        drop(kept);
        self.reset(topic);
    }

    /// Nothing was counted there in this run.
    fn reset(&self, topic: String) {
        let is_known = self.lock().states.contains_key(&topic);
        if !is_known {
            self.set(topic, "0");
        }
    }

    /// The broker has none of them.
    fn forget_sent(&self) {
        let mut kept = self.lock();
        kept.unsent = kept.states.keys().cloned().collect();
    }

    /// Number of states that the broker does not have.
    fn unsent(&self) -> usize {
        self.lock().unsent.len()
    }

    /// The broker has a state that was sent.
    fn on_sent(&self, topic: &str) {
        let mut kept = self.lock();
        let is_removed = kept.states.get(topic).is_some_and(Vec::is_empty);
        if is_removed && !kept.unsent.contains(topic) {
            kept.states.remove(topic);
        }
    }

    /// The next that the broker does not have. Of a removed device the configuration comes last: other engines take it as the end of
    /// the removal.
    fn next(&self) -> Option<(String, Vec<u8>)> {
        let mut kept = self.lock();
        let is_removal = |topic: &&String| {
            topic.ends_with("/config") && kept.states.get(*topic).is_some_and(Vec::is_empty)
        };
        let topic = kept.unsent.iter().find(|topic| !is_removal(topic));
        let topic = topic.or(kept.unsent.first())?.clone();
        kept.unsent.remove(&topic);
        let state = kept.states.get(&topic)?.clone();
        Some((topic, state))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct MqttTransport {
    broker: Broker,
    /// Patterns of the topics of counts and of configurations.
    patterns: Vec<String>,
    watched: Watched,
    states: Arc<States>,
    line: Option<Line>,
    /// Whether it was connected before.
    was_connected: bool,
    idle_rounds: u32,
}

impl MqttTransport {
    pub(super) fn new(broker: Broker, topics: &Topics, states: Arc<States>) -> Self {
        let (configs, beginning) = topics.all_configs().unzip();
        Self {
            broker,
            patterns: topics.all_counts().into_iter().chain(configs).collect(),
            watched: Watched {
                available: topics.available(),
                configs: beginning,
            },
            states,
            line: None,
            was_connected: false,
            // At once.
            idle_rounds: IDLE_ROUNDS,
        }
    }

    /// The connection, made where there is none.
    fn line(&mut self) -> Result<&mut Line, String> {
        if let Some(line) = &mut self.line {
            let is_up = line.check().is_ok();
            let found = line.take_found();
            if !is_up {
                self.line = None;
            }
            let is_denied = self.on_found(found);
            if let Some(line) = &mut self.line
                && is_denied
                && line
                    .publish(online(&self.watched.available), SLICES, SLICE)
                    .is_err()
            {
                self.line = None;
            }
        }
        let line = match self.line.take() {
            Some(line) => line,
            None => {
                let options = self.broker.options(&self.watched.available);
                let mut line = Line::open(options, self.watched.clone())?;
                if !line.wait_until_up(SLICES, SLICE)? {
                    return Err("the broker does not answer".to_owned());
                }
                // Before our own state takes the place of that of an earlier run.
                line.ask_for_states(&self.watched.available)?;
                line.wait_until_subscribed(SLICES, SLICE)?;
                line.publish(online(&self.watched.available), SLICES, SLICE)?;
                self.on_found(line.take_found());
                self.was_connected = true;
                self.states.forget_sent();
                for pattern in &self.patterns {
                    line.ask_for_states(pattern)?;
                }
                line
            }
        };
        Ok(self.line.insert(line))
    }

    /// Takes in messages of an earlier run and of other clients; returns whether another engine of this prefix has ended, and left
    /// a state that is not ours.
    fn on_found(&self, found: Vec<Found>) -> bool {
        let mut is_denied = false;
        for message in found {
            let Found {
                topic,
                payload,
                is_retained,
            } = message;
            if topic == self.watched.available {
                let is_over = payload != ONLINE;
                is_denied |= is_over && !is_retained;
                self.states.lock().is_successor |= is_over && !self.was_connected;
            } else if self.watched.is_config(topic.as_bytes()) {
                self.states.on_config(topic, payload);
            } else {
                self.states.on_found(topic, &payload);
            }
        }
        is_denied
    }

    /// Uses the connection, which ends if that fails.
    fn on_line(&mut self, act: impl FnOnce(&mut Line) -> Result<(), String>) -> Result<(), String> {
        let done = self.line().and_then(act);
        if done.is_err() {
            self.line = None;
        }
        let Broker { host, port, .. } = &self.broker;
        done.map_err(|reason| format!("{host}:{port}: {reason}"))
    }

    fn publish(&mut self, topic: &str, payload: &[u8], retain: bool) -> Result<(), String> {
        self.on_line(|line| line.publish((topic, payload, retain), SLICES, SLICE))
    }

    /// Publishes states that the broker does not have. States that are set meanwhile wait for the next call, so that events are
    /// sent in between. Several are sent before the first is acknowledged: a broker that also sends a state to our own
    /// subscription delays its acknowledgement by about 40 ms (delayed acknowledgements of TCP).
    fn publish_states(&mut self) -> Result<(), String> {
        let states = Arc::clone(&self.states);
        let mut left = states.unsent();
        while left > 0 {
            let mut sent = Vec::new();
            self.on_line(|line| {
                while sent.len() < left.min(MAX_UNACKNOWLEDGED)
                    && let Some((topic, state)) = states.next()
                {
                    line.send((&topic, &state, true))?;
                    sent.push(topic);
                }
                line.wait_until_acknowledged(SLICES, SLICE)
            })?;
            if sent.is_empty() {
                break;
            }
            left -= sent.len();
            sent.iter().for_each(|topic| states.on_sent(topic));
        }
        Ok(())
    }
}

impl Transport for MqttTransport {
    fn attempt(&mut self, message: &Message) -> Outcome {
        if message.body.len() + message.topic.len() + 16 > MAX_PACKET {
            return Outcome::Refused(format!("it has more than {MAX_PACKET} bytes"));
        }
        if let Err(reason) = self.line().map(drop) {
            let Broker { host, port, .. } = &self.broker;
            return Outcome::Unreached(format!("{host}:{port}: {reason}"));
        }
        match self.publish(&message.topic, &message.body, false) {
            Ok(()) => Outcome::Delivered,
            Err(reason) => Outcome::Failed(reason),
        }
    }

    fn on_idle(&mut self) {
        if self.line.is_none() && self.idle_rounds < IDLE_ROUNDS {
            self.idle_rounds += 1;
            return;
        }
        self.idle_rounds = 0;
        let connected = self.line().map(drop);
        let sent = connected.and_then(|()| self.publish_states());
        if let Err(reason) = sent {
            tracing::debug!("no connection to the MQTT broker: {reason}");
        }
    }

    fn close(&mut self) {
        if self.line.is_some() {
            let available = self.watched.available.clone();
            let _ = self.publish(&available, b"offline", true);
        }
        if let Some(line) = self.line.take() {
            line.close();
        }
    }
}

/// The message that the program is there.
const fn online(available: &str) -> (&str, &[u8], bool) {
    (available, ONLINE, true)
}
