//! Alarms over random times: no two of a rule within its cool-down, none in quiet hours, and every alarm that is held back is
//! counted in the next one that is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_analytics::transforms::{Hours, Schedule, time_zone};
use weir_analytics::{AlarmGate, AlarmLimits, AlarmVerdict, HeldBy};
use weir_flow::{Incident, Phase, Settings, Value};

/// Monday, 23 November 2026, 00:00 UTC.
const BEGIN_MS: u64 = 1_795_392_000_000;

fn incident(number: usize, rule: &str, phase: Phase, time_ms: u64) -> Incident {
    Incident {
        id: format!("north/{rule}/{number}").into(),
        transform: rule.into(),
        kind: "zone",
        phase,
        track: None,
        class: None,
        score: 0.9,
        rect: None,
        began_ms: time_ms,
        time_ms,
        began_pts_ms: 0.0,
        pts_ms: 0.0,
        zones: Vec::new(),
        values: Vec::new(),
        attributes: Vec::new(),
        best: None,
    }
}

/// Nights from 22 to 6 o'clock in Berlin.
fn nights() -> Schedule {
    Schedule {
        hours: Some(Hours {
            from: 22 * 60,
            until: 6 * 60,
        }),
        zone: Some(time_zone("Europe/Berlin").expect("a zone")),
        ..Schedule::default()
    }
}

/// Waits between alarms in seconds, each with the rule of the alarm: many at once, and few for hours.
fn any_alarms() -> impl Strategy<Value = Vec<(u64, bool, bool)>> {
    let wait = prop_oneof![0_u64..20, 0_u64..600, 0_u64..20_000];
    proptest::collection::vec((wait, any::<bool>(), any::<bool>()), 1..120)
}

proptest! {
    #[test]
    fn alarms_are_sent_apart_and_outside_quiet_hours_and_none_is_uncounted(
        alarms in any_alarms(),
        cooldown_s in 0_u64..900,
        is_quiet_at_night in any::<bool>(),
    ) {
        let quiet = is_quiet_at_night.then(nights);
        let limits = AlarmLimits { cooldown_ms: cooldown_s * 1_000, group_ms: 0, quiet: quiet.clone() };
        let mut gate = AlarmGate::new(limits);
        let stream: Arc<str> = "north".into();
        let mut now_ms = BEGIN_MS;
        // By rule: when an alarm was sent last, and how many were held back since.
        let mut model = BTreeMap::<&str, (Option<u64>, u64)>::new();
        for (number, (wait_s, is_gate, has_end)) in alarms.into_iter().enumerate() {
            now_ms += wait_s * 1_000;
            let rule = if is_gate { "gate" } else { "yard" };
            let verdict = gate.on_event(&stream, &incident(number, rule, Phase::Began, now_ms));
            let (sent_ms, held) = model.entry(rule).or_default();
            let is_quiet = quiet.as_ref().is_some_and(|quiet| quiet.contains(now_ms));
            let is_soon = sent_ms.is_some_and(|sent_ms| now_ms - sent_ms < cooldown_s * 1_000);
            let expected = if is_quiet {
                *held += 1;
                AlarmVerdict::Held(HeldBy::Quiet)
            } else if is_soon {
                *held += 1;
                AlarmVerdict::Held(HeldBy::Cooldown)
            } else {
                *sent_ms = Some(now_ms);
                AlarmVerdict::Alarm { held_back: std::mem::take(held) }
            };
            prop_assert_eq!(verdict, expected);
            if has_end {
                let is_sent = matches!(verdict, AlarmVerdict::Alarm { .. });
                let follow_up = if is_sent { AlarmVerdict::FollowUp } else { AlarmVerdict::HeldFollowUp };
                for phase in [Phase::Updated, Phase::Ended] {
                    let later = incident(number, rule, phase, now_ms + 1);
                    prop_assert_eq!(gate.on_event(&stream, &later), follow_up);
                }
            }
        }
    }

    #[test]
    fn without_limits_every_alarm_is_sent_at_any_time(times in proptest::collection::vec(any::<u64>(), 1..50)) {
        let mut gate = AlarmGate::default();
        for (number, time_ms) in times.into_iter().enumerate() {
            let verdict = gate.on_event(&"north".into(), &incident(number, "gate", Phase::Ended, time_ms));
            prop_assert_eq!(verdict, AlarmVerdict::Alarm { held_back: 0 });
        }
    }
}

#[test]
fn a_clock_set_back_by_more_than_the_cooldown_holds_nothing_back() {
    let mut gate = AlarmGate::new(AlarmLimits {
        cooldown_ms: 60_000,
        ..AlarmLimits::default()
    });
    let mut at = |number: usize, time_ms: u64| {
        gate.on_event(&"north".into(), &incident(number, "gate", Phase::Ended, time_ms))
    };
    assert_eq!(at(0, BEGIN_MS), AlarmVerdict::Alarm { held_back: 0 });
    assert_eq!(at(1, BEGIN_MS - 30_000), AlarmVerdict::Held(HeldBy::Cooldown));
    assert_eq!(at(2, BEGIN_MS - 90_000), AlarmVerdict::Alarm { held_back: 1 });
}

#[test]
fn cooldown_holds_back_alarms_after_the_group_of_the_last_one() {
    let mut gate = AlarmGate::new(AlarmLimits {
        cooldown_ms: 60_000,
        group_ms: 20_000,
        quiet: None,
    });
    let mut at = |number: usize, after_ms: u64| {
        let incident = incident(number, "gate", Phase::Began, BEGIN_MS + after_ms);
        gate.on_event(&"north".into(), &incident)
    };
    for (number, after_ms) in [0, 10_000, 19_999].into_iter().enumerate() {
        assert_eq!(at(number, after_ms), AlarmVerdict::Alarm { held_back: 0 });
    }
    assert_eq!(at(3, 20_000), AlarmVerdict::Held(HeldBy::Cooldown));
    assert_eq!(at(4, 59_999), AlarmVerdict::Held(HeldBy::Cooldown));
    assert_eq!(at(5, 60_000), AlarmVerdict::Alarm { held_back: 2 });
    assert_eq!(at(6, 79_999), AlarmVerdict::Alarm { held_back: 0 });
}

#[test]
fn endless_incidents_and_rules_take_bounded_memory() {
    let mut gate = AlarmGate::new(AlarmLimits {
        cooldown_ms: 60_000,
        ..AlarmLimits::default()
    });
    for number in 0..4_500 {
        let rule = format!("rule-{number}");
        let began = incident(number, &rule, Phase::Began, BEGIN_MS + number as u64);
        assert_eq!(
            gate.on_event(&"north".into(), &began),
            AlarmVerdict::Alarm { held_back: 0 }
        );
    }
    // Each is known by its stream and name, and by its incident.
    let text = format!("{gate:?}");
    assert_eq!(text.matches("sent_ms").count(), 4_096);
    assert_eq!(text.matches("is_sent").count(), 4_096);
}

#[test]
fn keys_describe_limits_and_faults_name_their_keys() {
    let settings = |keys: &[(&str, Value)]| {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        Settings(keys.collect())
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let texts = |text: &str| Value::Texts(vec![text.to_owned()]);
    let limits = AlarmLimits::read(&settings(&[
        ("cooldown", Value::Number(300.0)),
        ("group_wait", Value::Number(30.0)),
        ("quiet_hours", text("22:00-06:00")),
        ("timezone", text("Europe/Berlin")),
    ]));
    let expected = AlarmLimits {
        cooldown_ms: 300_000,
        group_ms: 30_000,
        quiet: Some(nights()),
    };
    assert_eq!(limits, Ok(expected));
    for (keys, key, message) in [
        (
            vec![("group_wait", Value::Number(3_601.0))],
            "group_wait",
            "at most an hour",
        ),
        (
            vec![("group_wait", Value::Number(1.0)), ("updates", Value::Flag(true))],
            "updates",
            "with `group_wait`",
        ),
        (
            vec![("quiet_hours", text("22-6"))],
            "quiet_hours",
            "`quiet_hours`: \"22-6\"",
        ),
        (
            vec![("quiet_days", texts("holiday"))],
            "quiet_days",
            "`quiet_days`: \"holiday\"",
        ),
        (
            vec![("quiet_except", texts("12-25"))],
            "quiet_except",
            "without `quiet_hours`",
        ),
        (
            vec![("timezone", text("Berlin"))],
            "timezone",
            "`timezone`: \"Berlin\"",
        ),
        (
            vec![("quiet_hours", text("22:00-06:00"))],
            "timezone",
            "without `timezone`",
        ),
    ] {
        let faults = AlarmLimits::read(&settings(&keys)).expect_err(message);
        let found = faults.iter().find(|fault| fault.key == key);
        let found = found.unwrap_or_else(|| panic!("{key}: {faults:?}"));
        assert!(found.message.contains(message), "{found:?}");
    }
}

#[test]
fn incident_that_was_held_back_is_known_as_such() {
    let limits = AlarmLimits {
        cooldown_ms: 60_000,
        ..AlarmLimits::default()
    };
    let mut gate = AlarmGate::new(limits);
    let stream: Arc<str> = "north".into();
    for number in 0..3 {
        gate.on_event(&stream, &incident(number, "gate", Phase::Ended, BEGIN_MS));
    }
    let held: Vec<bool> = (0..3)
        .map(|number| gate.was_held(&format!("north/gate/{number}")))
        .collect();
    assert_eq!(held, [false, true, true]);
    // Only so many are remembered.
    for number in 3..3_000 {
        gate.on_event(&stream, &incident(number, "gate", Phase::Ended, BEGIN_MS));
    }
    assert!(!gate.was_held("north/gate/1") && gate.was_held("north/gate/2999"));
}
