//! Alarms of one rule of one camera that are one message: the first of them, with the ids of all. A group is complete when its time
//! is over, or when it has as many alarms as a message may have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::message::Message;

/// Alarms of a message; the next one begins another message.
const MAX_ALARMS: usize = 100;

/// The group that an alarm belongs to.
#[derive(Debug, Clone)]
pub(in crate::sinks) struct GroupKey {
    /// Name of the transform; with the stream of the message, the rule.
    pub(in crate::sinks) transform: Arc<str>,
    /// Id of the incident.
    pub(in crate::sinks) incident: Arc<str>,
    /// Time of the alarm in milliseconds since 1970 (UTC).
    pub(in crate::sinks) time_ms: u64,
    /// Alarms of the rule that were held back before it.
    pub(in crate::sinks) held_back: u64,
    /// Time from the first alarm to the message.
    pub(in crate::sinks) wait: Duration,
}

/// A message to be, and the alarms that it has.
struct Group {
    message: Message,
    incidents: Vec<Arc<str>>,
    held_back: u64,
    began_ms: u64,
    ends: Instant,
    wait: Duration,
}

impl Group {
    fn new(message: Message, key: GroupKey, now: Instant) -> Self {
        Self {
            message,
            incidents: vec![key.incident],
            held_back: key.held_back,
            began_ms: key.time_ms,
            ends: now + key.wait,
            wait: key.wait,
        }
    }

    /// Whether an alarm belongs to it. Times of alarms count, too, since recordings may be played faster than they were made.
    fn takes(&self, key: &GroupKey, now: Instant) -> bool {
        let apart_ms = u128::from(key.time_ms.abs_diff(self.began_ms));
        now < self.ends && self.incidents.len() < MAX_ALARMS && apart_ms < self.wait.as_millis()
    }

    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        self.message.bytes() + self.incidents.iter().map(|id| id.len()).sum::<usize>()
    }

    /// The message, with the ids of all alarms if there are several.
    fn into_message(self) -> Message {
        let mut message = self.message;
        if self.incidents.len() > 1
            && let Ok(Value::Object(mut event)) = serde_json::from_slice(&message.body)
        {
            let ids: Vec<&str> = self.incidents.iter().map(|id| &**id).collect();
            event.insert("incidents".to_owned(), ids.into());
            if self.held_back > 0 {
                event.insert("held_back".to_owned(), self.held_back.into());
            }
            message.body = Value::Object(event).to_string().into_bytes();
        }
        message
    }
}

/// Groups that are not complete, by stream and transform.
#[derive(Default)]
pub(super) struct Groups(BTreeMap<(Arc<str>, Arc<str>), Group>);

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes that an alarm takes in the group that waits for it; `None` if it would begin another group.
    pub(super) fn joining_bytes(&self, message: &Message, key: &GroupKey, now: Instant) -> Option<usize> {
        let of = (Arc::clone(&message.stream), Arc::clone(&key.transform));
        let group = self.0.get(&of).filter(|group| group.takes(key, now))?;
        let picture = message.picture.as_ref();
        let picture = picture.filter(|_| group.message.picture.is_none());
        Some(key.incident.len() + picture.map_or(0, |picture| picture.jpeg().len()))
    }

    /// Adds an alarm to the group of its rule, or begins the group. A group that does not take it is complete.
    pub(super) fn add(&mut self, message: Message, key: GroupKey, now: Instant) -> Added {
        let of = (Arc::clone(&message.stream), Arc::clone(&key.transform));
        if let Some(group) = self.0.get_mut(&of).filter(|group| group.takes(&key, now)) {
            let before = group.bytes();
            group.incidents.push(key.incident);
            group.held_back += key.held_back;
            // The first picture that there is.
            group.message.picture = group.message.picture.take().or(message.picture);
            return Added {
                has_joined: true,
                bytes: group.bytes() - before,
                complete: None,
            };
        }
        let complete = self.0.remove(&of).map(complete);
        let group = Group::new(message, key, now);
        let bytes = group.bytes();
        self.0.insert(of, group);
        Added {
            has_joined: false,
            bytes,
            complete,
        }
    }

    /// Removes the groups whose time is over, or all: those that began first come first.
    pub(super) fn complete(&mut self, now: Instant, all: bool) -> Vec<Complete> {
        let mut over: Vec<Group> = self
            .0
            .extract_if(.., |_, group| all || group.ends <= now)
            .map(|(_, group)| group)
            .collect();
        over.sort_by_key(|group| group.ends);
        over.into_iter().map(complete).collect()
    }
}

/// Outcome of [`Groups::add`].
pub(super) struct Added {
    /// Whether it is in the message of an earlier alarm.
    pub(super) has_joined: bool,
    /// Bytes that groups take more, without those of `complete`.
    pub(super) bytes: usize,
    /// The group before.
    pub(super) complete: Option<Complete>,
}

/// A message whose group is complete, and the bytes that the group took.
pub(super) struct Complete {
    pub(super) message: Message,
    pub(super) bytes: usize,
}

fn complete(group: Group) -> Complete {
    let bytes = group.bytes();
    Complete {
        message: group.into_message(),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "groups end by the clock")]
    fn now() -> Instant {
        Instant::now()
    }

    fn key(number: u64, time_ms: u64, held_back: u64) -> GroupKey {
        GroupKey {
            transform: "gate".into(),
            incident: format!("north/gate/{number}").into(),
            time_ms,
            held_back,
            wait: Duration::from_secs(30),
        }
    }

    fn message(stream: &str, number: u64) -> Message {
        Message {
            stream: stream.into(),
            id: number.to_string(),
            body: format!(r#"{{"id":"north/gate/{number}"}}"#).into_bytes(),
            topic: String::new(),
            picture: None,
        }
    }

    fn bodies(complete: &[Complete]) -> Vec<String> {
        let body = |complete: &Complete| String::from_utf8_lossy(&complete.message.body).into_owned();
        complete.iter().map(body).collect()
    }

    #[test]
    fn alarms_of_a_rule_within_the_time_are_one_message_with_all_ids() {
        let (mut groups, began) = (Groups::default(), now());
        let mut bytes = groups.add(message("north", 1), key(1, 0, 2), began).bytes;
        let joined = groups.add(message("north", 2), key(2, 29_000, 3), began);
        assert!(joined.has_joined && joined.complete.is_none());
        bytes += joined.bytes;
        assert!(!groups.add(message("south", 3), key(3, 0, 0), began).has_joined);
        assert!(groups.complete(began, false).is_empty());
        let complete = groups.complete(began + Duration::from_secs(30), false);
        let both = r#"{"held_back":5,"id":"north/gate/1","incidents":["north/gate/1","north/gate/2"]}"#;
        assert_eq!(bodies(&complete), [both, r#"{"id":"north/gate/3"}"#]);
        assert_eq!((complete[0].bytes, complete[0].message.id.as_str()), (bytes, "1"));
        assert_eq!(groups.len(), 0);
    }

    #[test]
    fn group_ends_by_the_time_of_alarms_and_by_its_size() {
        let (mut groups, began) = (Groups::default(), now());
        groups.add(message("north", 0), key(0, 0, 0), began);
        let later = groups.add(message("north", 1), key(1, 30_000, 0), began);
        assert_eq!(bodies(later.complete.as_slice()), [r#"{"id":"north/gate/0"}"#]);
        for number in 2..=MAX_ALARMS as u64 {
            assert!(
                groups
                    .add(message("north", number), key(number, 30_000, 0), began)
                    .has_joined
            );
        }
        let beyond = groups.add(message("north", 999), key(999, 30_000, 0), began);
        let full = bodies(beyond.complete.as_slice());
        assert_eq!(full[0].matches("north/gate/").count(), MAX_ALARMS + 1);
        assert_eq!(
            bodies(&groups.complete(began, true)),
            [r#"{"id":"north/gate/999"}"#]
        );
    }
}
