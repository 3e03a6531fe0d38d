//! A connection to the broker, from when it is made until it breaks: never used again after that, so that no packet of an
//! earlier one is taken for one of a later.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rumqttc::{
    Client, Connection, ConnectionError, Event, MqttOptions, Packet, Publish, PublishOptions, QoS,
};

use super::super::tls;
use super::discovery::MAX_CONFIG_BYTES;

/// Requests that may wait for the connection.
const MAX_REQUESTS: usize = 64;

/// Messages that are published before the first of them is acknowledged.
pub(super) const MAX_UNACKNOWLEDGED: usize = 16;

/// Bytes of states of the broker that are taken in, in all, of one and of its topic.
const MAX_FOUND: usize = 16 << 20;
const MAX_FOUND_BYTES: usize = 64;
const MAX_TOPIC_BYTES: usize = 1_024;

/// Notification from the thread of a connection.
enum Signal {
    /// The broker has accepted it.
    Up,
    /// The broker has acknowledged the next packet.
    Acknowledged,
    /// The broker has answered the next subscription.
    Subscribed,
    /// A message that is watched.
    Found(Found),
    /// It is over, for this reason.
    Down(String),
}

/// A message that an earlier run has left at the broker, or that another client has published.
pub(super) struct Found {
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
    /// Whether the broker had it before.
    pub(super) is_retained: bool,
}

/// Topics of which messages are taken in, beside retained counts.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// Topic of our own availability.
    pub(super) available: String,
    /// Beginning of the topics of our configurations.
    pub(super) configs: Option<String>,
}

impl Watched {
    pub(super) fn is_config(&self, topic: &[u8]) -> bool {
        let configs = self.configs.as_ref();
        configs.is_some_and(|beginning| topic.starts_with(beginning.as_bytes()))
    }

    /// Whether a message is taken in: retained counts and configurations, and what others do to our availability and our
    /// configurations.
    fn takes(&self, message: &Publish) -> bool {
        let is_config = self.is_config(&message.topic);
        let is_available = *message.topic == *self.available.as_bytes();
        let max_bytes = match (is_config, message.retain) {
            (true, true) => MAX_CONFIG_BYTES,
            (true, false) => 0,
            (false, _) => MAX_FOUND_BYTES,
        };
        let is_watched = message.retain || is_config || is_available;
        is_watched && message.payload.len() <= max_bytes && message.topic.len() <= MAX_TOPIC_BYTES
    }
}

/// See the module. Packets are acknowledged in the order in which they were published (MQTT 3.1.1, 4.6).
pub(super) struct Line {
    client: Client,
    signals: Receiver<Signal>,
    is_up: bool,
    published: u64,
    acknowledged: u64,
    /// Subscriptions without an answer.
    unanswered: u64,
    found: Vec<Found>,
}

impl Line {
    /// Begins to connect.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(super) fn open(options: MqttOptions, watched: Watched) -> Result<Self, String> {
        let made = Client::builder(options).capacity(MAX_REQUESTS).try_build();
        let (client, connection) = made.map_err(|error| error.to_string())?;
        let (sender, signals) = channel();
        let thread = std::thread::Builder::new().name("weir-mqtt-line".to_owned());
        let thread = thread.spawn(move || drive(connection, &sender, &watched));
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self {
            client,
            signals,
            is_up: false,
            published: 0,
            acknowledged: 0,
            unanswered: 0,
            found: Vec::new(),
        })
    }

    /// Takes what the thread says within `wait`; `false`: it says nothing; an error once the connection is over.
    fn wait(&mut self, wait: Duration) -> Result<bool, String> {
        match self.signals.recv_timeout(wait) {
            Ok(Signal::Up) => self.is_up = true,
            Ok(Signal::Acknowledged) => self.acknowledged += 1,
            Ok(Signal::Subscribed) => self.unanswered = self.unanswered.saturating_sub(1),
            Ok(Signal::Found(found)) => self.found.push(found),
            Ok(Signal::Down(reason)) => return Err(reason),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => return Err("the connection is over".to_owned()),
        }
        Ok(true)
    }

    /// Waits until the broker has accepted the connection; `false`: not within that time.
    pub(super) fn wait_until_up(&mut self, mut slices: u32, slice: Duration) -> Result<bool, String> {
        while !self.is_up && slices > 0 {
            self.wait(slice)?;
            slices -= 1;
        }
        Ok(self.is_up)
    }

    /// Whether it is still there.
    pub(super) fn check(&mut self) -> Result<(), String> {
        while self.wait(Duration::ZERO)? {}
        Ok(())
    }

    /// Asks for the states that the broker keeps of topics like this. A broker that does not allow it keeps them to itself.
    pub(super) fn ask_for_states(&mut self, topics: &str) -> Result<(), String> {
        let asked = self.client.try_subscribe(topics, QoS::AtMostOnce);
        self.unanswered += 1;
        asked.map_err(|error| error.to_string())
    }

    /// Waits until the broker has answered all subscriptions, or for that time.
    pub(super) fn wait_until_subscribed(&mut self, mut slices: u32, slice: Duration) -> Result<(), String> {
        while self.unanswered > 0 && slices > 0 {
            self.wait(slice)?;
            slices -= 1;
        }
        Ok(())
    }

    /// The messages that came since the last time.
    pub(super) fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    /// Publishes, and waits until that is acknowledged.
    pub(super) fn publish(
        &mut self,
        message: (&str, &[u8], bool),
        slices: u32,
        slice: Duration,
    ) -> Result<(), String> {
        self.send(message)?;
        self.wait_until_acknowledged(slices, slice)
    }

    /// Publishes without a wait for the acknowledgement: at most [`MAX_UNACKNOWLEDGED`] at a time.
    pub(super) fn send(&mut self, (topic, payload, retain): (&str, &[u8], bool)) -> Result<(), String> {
        let options = PublishOptions::at_least_once().retain(retain);
        let sent = self.client.try_publish(topic, payload, options);
        sent.map_err(|error| error.to_string())?;
        self.published += 1;
        Ok(())
    }

    /// Waits until all that was published is acknowledged, with at most that time of silence before each acknowledgement.
    pub(super) fn wait_until_acknowledged(&mut self, slices: u32, slice: Duration) -> Result<(), String> {
        let (mut left, mut acknowledged) = (slices, self.acknowledged);
        while self.acknowledged < self.published {
            if left == 0 {
                return Err("the broker sends no acknowledgements".to_owned());
            }
            let is_silent = !self.wait(slice)?;
            left -= u32::from(is_silent);
            if self.acknowledged > acknowledged {
                (left, acknowledged) = (slices, self.acknowledged);
            }
        }
        Ok(())
    }

    /// Ends it in good order: the broker does not publish the last will.
    pub(super) fn close(self) {
        let _ = self.client.try_disconnect();
    }
}

/// The thread of a connection.
fn drive(mut connection: Connection, signals: &Sender<Signal>, watched: &Watched) {
    let mut room = MAX_FOUND;
    for event in connection.iter() {
        let signal = match event {
            Ok(Event::Incoming(Packet::ConnAck(_))) => Signal::Up,
            Ok(Event::Incoming(Packet::PubAck(_))) => Signal::Acknowledged,
            Ok(Event::Incoming(Packet::SubAck(_))) => Signal::Subscribed,
            Ok(Event::Incoming(Packet::Publish(message))) if room > 0 && watched.takes(&message) => {
                if message.retain {
                    room = room.saturating_sub(MAX_FOUND_BYTES + message.topic.len() + message.payload.len());
                }
                Signal::Found(Found {
                    topic: String::from_utf8_lossy(&message.topic).into_owned(),
                    payload: message.payload.to_vec(),
                    is_retained: message.retain,
                })
            }
            Ok(_) => continue,
            Err(error) => {
                let _ = signals.send(Signal::Down(reason(&error)));
                return;
            }
        };
        // Nobody listens any more.
        if signals.send(signal).is_err() {
            return;
        }
    }
}

fn reason(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ConnectionRefused(code) => {
            format!("the broker refuses the connection ({code:?}): check user and password")
        }
        other => tls::explained(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_retained_states_of_a_broker_are_taken_in() {
        let watched = Watched {
            available: "weir/available".to_owned(),
            configs: Some("homeassistant/device/weir".to_owned()),
        };
        let message = |topic: &str, payload: usize, retain| {
            let mut message = Publish::new(topic, QoS::AtMostOnce, vec![b'1'; payload]);
            message.retain = retain;
            watched.takes(&message)
        };
        assert!(message("weir/north/car", 3, true));
        assert!(!message("weir/north/car", 3, false));
        assert!(!message("weir/north/car", MAX_FOUND_BYTES + 1, true));
        assert!(!message(&"a".repeat(MAX_TOPIC_BYTES + 1), 3, true));
        let config = "homeassistant/device/weir_north/config";
        assert!(message(config, MAX_CONFIG_BYTES, true));
        assert!(!message(config, MAX_CONFIG_BYTES + 1, true));
        assert!(!message(
            "homeassistant/device/lamp/config",
            MAX_FOUND_BYTES + 1,
            true
        ));
        // Another client removes it, or publishes it.
        assert!(message(config, 0, false));
        assert!(!message(config, 3, false));
        assert!(message("weir/available", 7, false));
    }
}
