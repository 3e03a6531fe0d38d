//! A connection to the broker, from when it is made until it breaks: never used again after that, so that no packet of an
//! earlier one is taken for one of a later.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rumqttc::{
    Client, Connection, ConnectionError, Event, MqttOptions, Packet, Publish, PublishOptions, QoS,
};

use super::super::tls;

/// Requests that may wait for the connection.
const MAX_REQUESTS: usize = 64;

/// States of the broker that are taken in, and bytes of one and of its topic.
const MAX_FOUND: usize = 4_096;
const MAX_FOUND_BYTES: usize = 64;
const MAX_TOPIC_BYTES: usize = 1_024;

/// Notification from the thread of a connection.
enum Signal {
    /// The broker has accepted it.
    Up,
    /// The broker has acknowledged the next packet.
    Acknowledged,
    /// The broker keeps a state of that topic.
    Retained(String, Vec<u8>),
    /// It is over, for this reason.
    Down(String),
}

/// See the module. Packets are acknowledged in the order in which they were published (MQTT 3.1.1, 4.6).
pub(super) struct Line {
    client: Client,
    signals: Receiver<Signal>,
    is_up: bool,
    published: u64,
    acknowledged: u64,
    found: Vec<(String, Vec<u8>)>,
}

impl Line {
    /// Begins to connect.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(super) fn open(options: MqttOptions) -> Result<Self, String> {
        let made = Client::builder(options).capacity(MAX_REQUESTS).try_build();
        let (client, connection) = made.map_err(|error| error.to_string())?;
        let (sender, signals) = channel();
        let thread = std::thread::Builder::new().name("weir-mqtt-line".to_owned());
        let thread = thread.spawn(move || drive(connection, &sender));
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self {
            client,
            signals,
            is_up: false,
            published: 0,
            acknowledged: 0,
            found: Vec::new(),
        })
    }

    /// Takes what the thread says within `wait`; `false`: it says nothing; an error once the connection is over.
    fn wait(&mut self, wait: Duration) -> Result<bool, String> {
        match self.signals.recv_timeout(wait) {
            Ok(Signal::Up) => self.is_up = true,
            Ok(Signal::Acknowledged) => self.acknowledged += 1,
            Ok(Signal::Retained(topic, state)) => self.found.push((topic, state)),
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
        asked.map_err(|error| error.to_string())
    }

    /// The states that came since the last time.
    pub(super) fn take_found(&mut self) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut self.found)
    }

    /// Publishes, and waits until that is acknowledged.
    pub(super) fn publish(
        &mut self,
        (topic, payload, retain): (&str, &[u8], bool),
        mut slices: u32,
        slice: Duration,
    ) -> Result<(), String> {
        let options = PublishOptions::at_least_once().retain(retain);
        let sent = self.client.try_publish(topic, payload, options);
        sent.map_err(|error| error.to_string())?;
        self.published += 1;
        while self.acknowledged < self.published {
            if slices == 0 {
                return Err("the broker sends no acknowledgements".to_owned());
            }
            let is_silent = !self.wait(slice)?;
            slices -= u32::from(is_silent);
        }
        Ok(())
    }

    /// Ends it in good order: the broker does not publish the last will.
    pub(super) fn close(self) {
        let _ = self.client.try_disconnect();
    }
}

/// The thread of a connection.
fn drive(mut connection: Connection, signals: &Sender<Signal>) {
    let mut room = MAX_FOUND;
    for event in connection.iter() {
        let signal = match event {
            Ok(Event::Incoming(Packet::ConnAck(_))) => Signal::Up,
            Ok(Event::Incoming(Packet::PubAck(_))) => Signal::Acknowledged,
            Ok(Event::Incoming(Packet::Publish(kept))) if room > 0 && is_state(&kept) => {
                room -= 1;
                let topic = String::from_utf8_lossy(&kept.topic).into_owned();
                Signal::Retained(topic, kept.payload.to_vec())
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

/// Whether a message is a state that may be one of ours: a count.
fn is_state(message: &Publish) -> bool {
    message.retain && message.payload.len() <= MAX_FOUND_BYTES && message.topic.len() <= MAX_TOPIC_BYTES
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
    fn only_small_kept_states_of_a_broker_are_taken_in() {
        let message = |topic: &str, payload: usize, retain| {
            let mut message = Publish::new(topic, QoS::AtMostOnce, vec![b'1'; payload]);
            message.retain = retain;
            is_state(&message)
        };
        assert!(message("weir/north/gate/count", 3, true));
        assert!(!message("weir/north/gate/count", 3, false));
        assert!(!message("weir/north/gate/count", MAX_FOUND_BYTES + 1, true));
        assert!(!message(&"a".repeat(MAX_TOPIC_BYTES + 1), 3, true));
    }
}
