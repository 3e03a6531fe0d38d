//! Schedules over changes of the clock, of time zones all over the world: on each day a span of hours is one interval, in which the
//! clock shows these hours.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;
use weir_analytics::transforms::{Hours, Schedule, time_zone};

/// Zones that change their clocks by an hour and by half of one, at night and at midnight, forward and back, or never.
const ZONES: [&str; 8] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Havana",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "America/Santiago",
    "UTC",
];

const STEP_MINUTES: i64 = 10;

/// A day of these zones at which the clock changes, or one near it.
fn any_day() -> impl Strategy<Value = (TimeZone, Date)> {
    (
        0..ZONES.len(),
        2020_i16..2035,
        0_usize..4,
        -1_i64..=1,
        any::<bool>(),
    )
        .prop_map(|(zone, year, change, away, is_plain)| {
            let zone = time_zone(ZONES[zone]).expect("a zone");
            let begin = Date::new(year, 1, 1).expect("a date");
            let begin = midnight(&zone, begin);
            let change = zone.following(begin).nth(change).filter(|_| !is_plain);
            let change = change.map_or(begin, |change| change.timestamp());
            let date = zone.to_datetime(change).date();
            (zone, date.checked_add(away.days()).expect("a date"))
        })
}

/// The first moment of a date, or one near it where the clock leaves midnight out.
fn midnight(zone: &TimeZone, date: Date) -> Timestamp {
    zone.to_timestamp(date.at(0, 0, 0, 0)).expect("a time")
}

fn minute_of(zone: &TimeZone, time: Timestamp) -> u32 {
    let clock = zone.to_datetime(time).time();
    clock.hour() as u32 * 60 + clock.minute() as u32
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn hours_hold_whenever_the_clock_shows_them_and_begin_once_a_day(
        (zone, date) in any_day(),
        from in 0_u32..144,
        length in 1_u32..143,
    ) {
        let (from, until) = (from * 10, (from + length) % 144 * 10);
        let schedule = Schedule {
            hours: Some(Hours { from, until }),
            zone: Some(zone.clone()),
            ..Schedule::default()
        };
        let first = midnight(&zone, date.yesterday().expect("a date"));
        let steps = 3 * 24 * 60 / STEP_MINUTES;
        let mut begins = Vec::new();
        let mut before = true;
        for step in 0..steps {
            let time = first + SignedDuration::from_mins(step * STEP_MINUTES);
            let minute = minute_of(&zone, time);
            let shows = if from < until { (from..until).contains(&minute) } else { minute >= from || minute < until };
            let holds = schedule.contains(time.as_millisecond() as u64);
            // The clock shows the hours, or has been set back in them.
            prop_assert!(holds || !shows, "{time} is {}", zone.to_datetime(time));
            if holds && !shows {
                let earlier = (1..=24).map(|step| time - SignedDuration::from_mins(step * 5));
                let mut clocks = earlier.map(|earlier| zone.to_datetime(earlier));
                let now = zone.to_datetime(time);
                let later = (1..=24).map(|step| zone.to_datetime(time + SignedDuration::from_mins(step * 5)));
                prop_assert!(clocks.any(|clock| clock >= now) || later.into_iter().any(|clock| clock <= now), "{time}");
            }
            if holds && !before {
                begins.push(zone.to_datetime(time));
            }
            before = holds;
        }
        // Once each day, also where an hour comes twice: three days of 24 hours are parts of four.
        prop_assert!(begins.len() <= 4, "{begins:?}");
        let days: std::collections::BTreeSet<Date> = begins.iter().map(|clock| clock.date()).collect();
        prop_assert!(begins.len() <= days.len() + 1, "{begins:?}");
    }

    #[test]
    fn days_without_hours_are_whole_days_of_the_clock((zone, date) in any_day(), day in 0_usize..7) {
        let mut days = [false; 7];
        days[day] = true;
        let schedule = Schedule { days: Some(days), zone: Some(zone.clone()), ..Schedule::default() };
        let first = midnight(&zone, date);
        for step in 0..48 * 60 / STEP_MINUTES {
            let time = first + SignedDuration::from_mins(step * STEP_MINUTES);
            let shown = zone.to_datetime(time).date().weekday().to_monday_zero_offset() as usize;
            let holds = schedule.contains(time.as_millisecond() as u64);
            // A clock that is set back over midnight shows the end of a day again: it is of both days.
            prop_assert!(holds || shown != day, "{time} is {}", zone.to_datetime(time));
        }
    }
}
