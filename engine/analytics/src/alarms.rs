//! Alarms that a sink holds back: those within the cool-down of their rule, and those in quiet hours.
//!
//! An incident is one alarm. Its first event is decided, and its later events follow: an update or an end is sent if the first
//! event was sent. Alarms that are held back are counted for their rule, and the next alarm of the rule carries the count.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_flow::{Incident, KeyFault, Phase, Settings};

use crate::transforms::{Schedule, ScheduleKeys};

/// Incidents of which a decision is known, and rules with a cool-down, at a time.
const MAX_KNOWN: usize = 4_096;

/// Incidents that were held back and whose descriptions may follow.
const MAX_HELD: usize = 1_024;

/// Longest time that an alarm waits for others to be in its message.
const MAX_GROUP_S: f64 = 3_600.0;

const QUIET: ScheduleKeys = ScheduleKeys {
    hours: "quiet_hours",
    days: "quiet_days",
    except: "quiet_except",
    timezone: "timezone",
};

/// Limits on alarms; without any, all alarms are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlarmLimits {
    /// Shortest time between two alarms of one rule of one stream, in milliseconds.
    pub cooldown_ms: u64,
    /// Time from an alarm within which the other alarms of its rule are in its message, in milliseconds; the cool-down holds back those
    /// after it.
    pub group_ms: u64,
    /// Times at which no alarm is sent.
    pub quiet: Option<Schedule>,
}

/// Reason for which an alarm is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// An alarm of the same rule was sent just before.
    Cooldown,
    /// It came in quiet hours.
    Quiet,
}

/// Decision about an event of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmVerdict {
    /// The first event of an alarm, to be sent; `held_back` counts the alarms of its rule that were held back before it.
    Alarm {
        /// Alarms held back since the last one that was sent.
        held_back: u64,
    },
    /// A later event of an alarm that was sent.
    FollowUp,
    /// The first event of an alarm that is held back.
    Held(HeldBy),
    /// A later event of an alarm that was held back.
    HeldFollowUp,
}

/// Decides which alarms of a sink are sent. Times are those of the incidents.
#[derive(Debug, Clone, Default)]
pub struct AlarmGate {
    limits: AlarmLimits,
    /// By stream and transform.
    rules: BTreeMap<(Arc<str>, Arc<str>), Rule>,
    /// Decisions about incidents that go on, by id.
    incidents: BTreeMap<Arc<str>, Known>,
    /// Ids of incidents that were held back, the oldest first.
    held: VecDeque<Arc<str>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Rule {
    sent_ms: Option<u64>,
    held: u64,
    /// Time of its last alarm, sent or held back.
    last_ms: u64,
}

impl Rule {
    /// Whether an alarm is in the message of the last one that was sent.
    fn is_grouped(&self, now_ms: u64, group_ms: u64) -> bool {
        self.sent_ms
            .is_some_and(|sent_ms| now_ms.abs_diff(sent_ms) < group_ms)
    }
}

#[derive(Debug, Clone, Copy)]
struct Known {
    is_sent: bool,
    last_ms: u64,
}

impl AlarmGate {
    /// A gate that has seen no alarm.
    #[must_use]
    pub fn new(limits: AlarmLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Decides about the next event of an incident of `stream`.
    pub fn on_event(&mut self, stream: &Arc<str>, incident: &Incident) -> AlarmVerdict {
        let now_ms = incident.time_ms;
        let is_over = incident.phase == Phase::Ended;
        if let Some(known) = self.incidents.get_mut(&incident.id) {
            known.last_ms = now_ms;
            let is_sent = known.is_sent;
            if is_over {
                self.incidents.remove(&incident.id);
            }
            return if is_sent {
                AlarmVerdict::FollowUp
            } else {
                AlarmVerdict::HeldFollowUp
            };
        }
        let held = self.held_by(stream, incident);
        if !is_over {
            self.remember(&incident.id, held.is_none(), now_ms);
        }
        let group_ms = self.limits.group_ms;
        let rule = self.rule(stream, &incident.transform);
        rule.last_ms = now_ms;
        if let Some(by) = held {
            rule.held += 1;
            if self.held.len() >= MAX_HELD {
                self.held.pop_front();
            }
            self.held.push_back(Arc::clone(&incident.id));
            return AlarmVerdict::Held(by);
        }
        if !rule.is_grouped(now_ms, group_ms) {
            rule.sent_ms = Some(now_ms);
        }
        AlarmVerdict::Alarm {
            held_back: std::mem::take(&mut rule.held),
        }
    }

    /// Time for which an alarm waits for others of its rule to be in its message; `None`: alarms are messages of their own.
    #[must_use]
    pub fn group_wait_ms(&self) -> Option<u64> {
        let group_ms = self.limits.group_ms;
        (group_ms > 0).then_some(group_ms)
    }

    /// True if the alarm of an incident was held back, of those that are still known.
    #[must_use]
    pub fn was_held(&self, incident: &str) -> bool {
        self.held.iter().any(|held| **held == *incident)
    }

    /// Forgets a stream.
    pub fn on_stream_removed(&mut self, stream: &str) {
        self.rules.retain(|(of, _), _| **of != *stream);
    }

    fn held_by(&self, stream: &Arc<str>, incident: &Incident) -> Option<HeldBy> {
        let now_ms = incident.time_ms;
        if self
            .limits
            .quiet
            .as_ref()
            .is_some_and(|quiet| quiet.contains(now_ms))
        {
            return Some(HeldBy::Quiet);
        }
        let key = (Arc::clone(stream), Arc::clone(&incident.transform));
        let rule = self.rules.get(&key)?;
        let sent_ms = rule.sent_ms?;
        // A clock that was set back by more than the cool-down holds nothing back.
        let is_cooling = now_ms.abs_diff(sent_ms) < self.limits.cooldown_ms;
        (is_cooling && !rule.is_grouped(now_ms, self.limits.group_ms)).then_some(HeldBy::Cooldown)
    }

    fn rule(&mut self, stream: &Arc<str>, transform: &Arc<str>) -> &mut Rule {
        let key = (Arc::clone(stream), Arc::clone(transform));
        if self.rules.len() >= MAX_KNOWN && !self.rules.contains_key(&key) {
            let oldest = self.rules.iter().min_by_key(|(_, rule)| rule.last_ms);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.rules.remove(&oldest);
            }
        }
        self.rules.entry(key).or_default()
    }

    fn remember(&mut self, id: &Arc<str>, is_sent: bool, now_ms: u64) {
        if self.incidents.len() >= MAX_KNOWN {
            let oldest = self.incidents.iter().min_by_key(|(_, known)| known.last_ms);
            if let Some(oldest) = oldest.map(|(id, _)| Arc::clone(id)) {
                self.incidents.remove(&oldest);
            }
        }
        let known = Known {
            is_sent,
            last_ms: now_ms,
        };
        self.incidents.insert(Arc::clone(id), known);
    }
}

impl AlarmLimits {
    /// Reads `cooldown`, `group_wait`, `quiet_hours`, `quiet_days`, `quiet_except` and `timezone`.
    ///
    /// # Errors
    /// All faults of these keys.
    pub fn read(settings: &Settings) -> Result<Self, Vec<KeyFault>> {
        let mut faults = Vec::new();
        let is_quiet_sometimes = settings.text(QUIET.hours).is_some() || settings.texts(QUIET.days).is_some();
        if settings.texts(QUIET.except).is_some() && !is_quiet_sometimes {
            faults.push(KeyFault {
                key: QUIET.except,
                message: "`quiet_except` is without `quiet_hours` and `quiet_days`".to_owned(),
                hint: Some("it has dates on which these do not begin".to_owned()),
            });
        }
        if is_quiet_sometimes && settings.text(QUIET.timezone).is_none() {
            faults.push(KeyFault {
                key: QUIET.timezone,
                message: "quiet hours are without `timezone`".to_owned(),
                hint: Some("name the zone whose clock they are of, such as \"Europe/Berlin\"".to_owned()),
            });
        }
        let group_s = settings.number("group_wait", 0.0);
        if group_s > MAX_GROUP_S {
            faults.push(KeyFault {
                key: "group_wait",
                message: "`group_wait` is at most an hour: alarms wait for it".to_owned(),
                hint: Some("`cooldown` is the shortest time between two messages".to_owned()),
            });
        }
        if group_s > 0.0 && settings.flag("updates", false) {
            faults.push(KeyFault {
                key: "updates",
                message: "`updates` has no meaning with `group_wait`: each incident is in one message"
                    .to_owned(),
                hint: Some("leave one of them out".to_owned()),
            });
        }
        let schedule = QUIET.read(settings, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            cooldown_ms: (settings.number("cooldown", 0.0) * 1e3).round() as u64,
            group_ms: (group_s * 1e3).round() as u64,
            quiet: is_quiet_sometimes.then_some(schedule),
        })
    }
}
