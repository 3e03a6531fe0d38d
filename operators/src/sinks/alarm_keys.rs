//! Keys that sinks share which send alarms: the shortest time between two, the time that alarms are collected for, and quiet hours.

use weir_analytics::{AlarmGate, AlarmLimits};
use weir_flow::{KeyFault, KeyKind, KeySpec, Settings, SinkError};

pub(super) const COOLDOWN: KeySpec = KeySpec {
    name: "cooldown",
    kind: KeyKind::Duration,
    about: "shortest time between two alarms of one rule of one camera; alarms in between are held back, and the next one has their number (default none)",
};

pub(super) const GROUP_WAIT: KeySpec = KeySpec {
    name: "group_wait",
    kind: KeyKind::Duration,
    about: "alarms of one rule of one camera within that time of the first are one message, sent when the time is over, with the ids of all as `incidents` and the first picture; at most `\"1h\"` (default each is a message, sent at once)",
};

pub(super) const QUIET_HOURS: KeySpec = KeySpec {
    name: "quiet_hours",
    kind: KeyKind::Text,
    about: "time of day at which alarms are held back, such as `\"22:00-06:00\"` (default none)",
};

pub(super) const QUIET_DAYS: KeySpec = KeySpec {
    name: "quiet_days",
    kind: KeyKind::Texts,
    about: "weekdays on which `quiet_hours` begin, such as `[\"mon-fri\", \"sun\"]`; without `quiet_hours` they are quiet from midnight to midnight (default all)",
};

pub(super) const QUIET_EXCEPT: KeySpec = KeySpec {
    name: "quiet_except",
    kind: KeyKind::Texts,
    about: "dates on which `quiet_hours` do not begin, such as `[\"2026-12-24\", \"2027-07-26..2027-09-03\", \"12-25\"]`",
};

pub(super) const TIMEZONE: KeySpec = KeySpec {
    name: "timezone",
    kind: KeyKind::Text,
    about: "time zone of `quiet_hours` and of the times in messages, such as `\"Europe/Berlin\"`; required with quiet hours (default UTC)",
};

/// Faults in these keys.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    AlarmLimits::read(settings).err().unwrap_or_default()
}

/// The gate that `settings` describe.
///
/// # Errors
/// The first fault in these keys.
pub(super) fn gate(settings: &Settings) -> Result<AlarmGate, SinkError> {
    AlarmLimits::read(settings)
        .map(AlarmGate::new)
        .map_err(|faults| as_error("alarms", &faults))
}

/// The first fault as an error of a sink.
pub(super) fn as_error(target: &str, faults: &[KeyFault]) -> SinkError {
    let reason = faults.first().map(|fault| match &fault.hint {
        Some(hint) => format!("{}: {hint}", fault.message),
        None => fault.message.clone(),
    });
    SinkError {
        target: target.to_owned(),
        reason: reason.unwrap_or_default(),
    }
}
