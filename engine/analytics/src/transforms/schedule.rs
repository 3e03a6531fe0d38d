//! Schedules of rules, sources, gates and recordings: hours of days, read on the clock of a time zone.
//!
//! A span of hours belongs to the day on which it begins: `22:00-06:00` on a Friday ends on Saturday morning. Each is one
//! interval of time, also over changes of the clock: it begins as the clock first shows its beginning or a later time, and ends as
//! the clock last shows a time before its end.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use weir_flow::{KeyFault, Settings};

/// Minutes of a day.
const DAY: u32 = 24 * 60;

/// Dates of `except`, and days of a month of every year.
const MAX_EXCEPTIONS: usize = 512;

/// Names of weekdays, in their order.
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Times at which a rule may hold, a source is analysed, a gate applies, or a recording is made; by default always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Span of the day; `None`: all of it.
    pub hours: Option<Hours>,
    /// Weekdays, from Monday; `None`: all.
    pub days: Option<[bool; 7]>,
    /// Dates on which it does not hold.
    pub except: Vec<Exception>,
    /// Time zone; `None`: that of the stream.
    pub zone: Option<TimeZone>,
}

/// Names of the keys that a schedule is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleKeys {
    /// Key of the hours, a text.
    pub hours: &'static str,
    /// Key of the weekdays, a list of texts.
    pub days: &'static str,
    /// Key of the dates, a list of texts.
    pub except: &'static str,
    /// Key of the time zone, a text.
    pub timezone: &'static str,
}

impl ScheduleKeys {
    /// Keys with the names that rules have.
    pub const PLAIN: Self = Self {
        hours: "hours",
        days: "days",
        except: "except",
        timezone: "timezone",
    };

    /// Reads a schedule; a key with a fault is left out of it.
    #[must_use]
    pub fn read(&self, settings: &Settings, faults: &mut Vec<KeyFault>) -> Schedule {
        let hours = settings.text(self.hours).map(parse_hours);
        let days = settings.texts(self.days).map(parse_days);
        let except = settings.texts(self.except).map(parse_exceptions);
        let zone = settings.text(self.timezone).map(|name| {
            time_zone(name).map_err(|hint| (format!("`timezone`: \"{name}\" is not a time zone"), hint))
        });
        Schedule {
            hours: valid((self.hours, Self::PLAIN.hours), hours, faults),
            days: valid((self.days, Self::PLAIN.days), days, faults),
            except: valid((self.except, Self::PLAIN.except), except, faults).unwrap_or_default(),
            zone: valid((self.timezone, Self::PLAIN.timezone), zone, faults),
        }
    }
}

/// The value of a key, or its fault. Parsers name the key of rules, such as `hours` for `quiet_hours`.
fn valid<T, H: Into<String>>(
    (key, plain): (&'static str, &str),
    value: Option<Result<T, (String, H)>>,
    faults: &mut Vec<KeyFault>,
) -> Option<T> {
    let fault = |(message, hint): (String, H)| {
        let hint: String = hint.into();
        faults.push(KeyFault {
            key,
            message: message.replace(&format!("`{plain}`"), &format!("`{key}`")),
            hint: Some(hint.replace(&format!("{plain} = "), &format!("{key} = "))),
        });
    };
    value?.map_err(fault).ok()
}

/// A span of the day, in minutes. One that does not end after its beginning ends on the next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// First minute, 0 to 1439.
    pub from: u32,
    /// Minute after the last, 0 to 1440.
    pub until: u32,
}

/// Dates of `except`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exception {
    /// From the first date to the last.
    Dates(Date, Date),
    /// The month and the day of every year.
    Yearly(i8, i8),
}

impl Exception {
    fn contains(self, date: Date) -> bool {
        match self {
            Self::Dates(first, last) => (first..=last).contains(&date),
            Self::Yearly(month, day) => (date.month(), date.day()) == (month, day),
        }
    }
}

impl Schedule {
    /// The schedule, in the time zone of a stream where it has none of its own.
    #[must_use]
    pub fn in_zone(mut self, zone: &TimeZone) -> Self {
        self.zone.get_or_insert_with(|| zone.clone());
        self
    }

    /// True if it has neither hours nor days nor dates.
    #[must_use]
    pub fn is_always(&self) -> bool {
        self.hours.is_none() && self.days.is_none() && self.except.is_empty()
    }

    /// Whether a time in milliseconds since 1970 (UTC) is within; in UTC without a time zone of its own.
    #[must_use]
    pub fn contains(&self, time_ms: u64) -> bool {
        self.contains_in(time_ms, None)
    }

    /// Whether a time in milliseconds since 1970 (UTC) is within; without a time zone of its own in `zone`, else in UTC.
    #[must_use]
    pub fn contains_in(&self, time_ms: u64, zone: Option<&TimeZone>) -> bool {
        if self.is_always() {
            return true;
        }
        // No calendar reaches beyond the year 9999.
        let time = i64::try_from(time_ms).ok();
        let Some(time) = time.and_then(|time| Timestamp::from_millisecond(time).ok()) else {
            return false;
        };
        let utc = TimeZone::UTC;
        let zone = self.zone.as_ref().or(zone).unwrap_or(&utc);
        let today = zone.to_datetime(time).date();
        // A clock that is set back at midnight shows the day before again.
        let dates = [today.yesterday(), Ok(today), today.tomorrow()];
        let mut dates = dates.into_iter().flatten();
        dates.any(|date| self.has_date(date) && self.is_in_span_of(date, time, zone))
    }

    fn has_date(&self, date: Date) -> bool {
        let weekday = usize::try_from(date.weekday().to_monday_zero_offset());
        let is_day = self
            .days
            .is_none_or(|days| weekday.is_ok_and(|weekday| days.get(weekday) == Some(&true)));
        is_day && !self.except.iter().any(|exception| exception.contains(date))
    }

    /// Whether a time is in the span that begins on a date.
    fn is_in_span_of(&self, date: Date, time: Timestamp, zone: &TimeZone) -> bool {
        let Hours { from, until } = self.hours.unwrap_or(Hours { from: 0, until: DAY });
        let until = if until <= from { until + DAY } else { until };
        let begins = clock_time(date, from).and_then(|at| first_at(at, zone));
        let ends = clock_time(date, until).and_then(|at| last_before(at, zone));
        begins
            .zip(ends)
            .is_some_and(|(begins, ends)| (begins..ends).contains(&time))
    }
}

/// The time on the clock, a number of minutes after the midnight at which a date begins.
fn clock_time(date: Date, minute: u32) -> Option<DateTime> {
    let date = if minute < DAY { date } else { date.tomorrow().ok()? };
    let minute = minute % DAY;
    Some(date.at((minute / 60) as i8, (minute % 60) as i8, 0, 0))
}

/// The first moment at which the clock shows this time or a later one.
fn first_at(clock: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(clock).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(clock).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(clock).ok(),
        AmbiguousOffset::Gap { after, .. } => end_of_gap(clock, after, zone),
    }
}

/// The moment from which on the clock shows no earlier time.
fn last_before(clock: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(clock).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(clock).ok(),
        AmbiguousOffset::Gap { after, .. } => end_of_gap(clock, after, zone),
        AmbiguousOffset::Fold { before, after } => {
            let second = after.to_timestamp(clock).ok()?;
            let just_before = second.checked_sub(SignedDuration::from_nanos(1)).ok()?;
            // The clock is set back to this very time: earlier ones do not come twice.
            let is_set_back_to = zone.to_datetime(just_before) >= clock;
            if is_set_back_to {
                before.to_timestamp(clock).ok()
            } else {
                Some(second)
            }
        }
    }
}

/// The moment at which the clock leaves out a time.
fn end_of_gap(clock: DateTime, after: Offset, zone: &TimeZone) -> Option<Timestamp> {
    let before = after.to_timestamp(clock).ok()?;
    zone.following(before)
        .next()
        .map(|transition| transition.timestamp())
}

/// Minutes of the day; 24:00 is the end of it.
fn parse_minute(text: &str) -> Option<u32> {
    let (hour, minute) = text.trim().split_once(':')?;
    let is_number = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(hour) || !is_number(minute) {
        return None;
    }
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    (minute < 60 && hour * 60 + minute <= DAY).then_some(hour * 60 + minute)
}

/// Reads a span of the day such as `22:00-06:00`.
///
/// # Errors
/// A message about a text that is none.
fn parse_hours(text: &str) -> Result<Hours, (String, &'static str)> {
    let span = text
        .split_once('-')
        .and_then(|(from, until)| parse_minute(from).zip(parse_minute(until)))
        .filter(|(from, _)| *from < DAY);
    match span {
        Some((from, until)) if from == until => {
            let message = format!("`hours`: \"{text}\" is an empty time of day");
            Err((message, "it ends where it begins; leave it out for the whole day"))
        }
        Some((from, until)) => Ok(Hours { from, until }),
        None => {
            let message = format!("`hours`: \"{text}\" is not a time of day");
            Err((message, "such as \"22:00-06:00\""))
        }
    }
}

/// Reads weekdays such as `mon-fri` and `sun`.
///
/// # Errors
/// A message about the first text that names none.
fn parse_days(texts: &[String]) -> Result<[bool; 7], (String, &'static str)> {
    let hint = "days = [\"mon-fri\", \"sun\"]: mon, tue, wed, thu, fri, sat and sun";
    if texts.is_empty() {
        return Err(("`days` is empty".to_owned(), hint));
    }
    let day = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        WEEKDAYS.iter().position(|day| *day == name)
    };
    let mut days = [false; 7];
    for text in texts {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let Some((first, last)) = day(first).zip(day(last)) else {
            return Err((format!("`days`: \"{text}\" is no weekday"), hint));
        };
        let last = if last < first { last + 7 } else { last };
        (first..=last).for_each(|day| days[day % 7] = true);
    }
    Ok(days)
}

/// Reads dates such as `2026-12-24`, `2026-12-24..2027-01-06`, and `12-25` of every year.
///
/// # Errors
/// A message about the first text that is no date.
fn parse_exceptions(texts: &[String]) -> Result<Vec<Exception>, (String, &'static str)> {
    let hint = "except = [\"2026-12-24\", \"2027-07-26..2027-09-03\", \"12-25\"]: dates, from one to another, or of every year";
    if texts.len() > MAX_EXCEPTIONS {
        let message = format!(
            "`except` has {} entries; {MAX_EXCEPTIONS} are the most",
            texts.len()
        );
        return Err((
            message,
            "one entry may be several days: \"2027-07-26..2027-09-03\"",
        ));
    }
    let no_date = |text: &String| (format!("`except`: \"{text}\" is no date"), hint);
    let exception = |text: &String| {
        let dates = text
            .split_once("..")
            .map(|(first, last)| (first.trim(), last.trim()));
        let (first, last) = dates.unwrap_or((text.trim(), text.trim()));
        if let Some((first, last)) = parse_date(first).zip(parse_date(last)) {
            if last < first {
                let message = format!("`except`: \"{text}\" ends before it begins");
                return Err((message, hint));
            }
            return Ok(Exception::Dates(first, last));
        }
        // A leap year has every day.
        let yearly = parse_date(&format!("2024-{}", text.trim()));
        yearly
            .map(|date| Exception::Yearly(date.month(), date.day()))
            .ok_or_else(|| no_date(text))
    };
    texts.iter().map(exception).collect()
}

/// A date as `2026-12-24`.
fn parse_date(text: &str) -> Option<Date> {
    let is_plain = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_plain.then(|| text.parse().ok()).flatten()
}

/// An offset from UTC, such as `+01:00`, as a time zone.
pub(super) fn parse_offset(text: &str) -> Option<TimeZone> {
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let minutes = parse_minute(text.get(1..)?).filter(|minutes| *minutes <= 14 * 60)?;
    let offset = Offset::from_seconds(sign * minutes as i32 * 60).ok()?;
    Some(TimeZone::fixed(offset))
}

/// The time zone of that name in the IANA database, which is bundled.
///
/// # Errors
/// A hint at the name that is likely meant.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    let zones = jiff::tz::TimeZoneDatabase::bundled();
    zones.get(name).map_err(|_| {
        let place = |text: &str| {
            let place = text.rsplit('/').next().unwrap_or_default();
            place.to_ascii_lowercase().replace([' ', '-'], "_")
        };
        let wanted = place(name);
        let mut names = zones.available().map(|zone| zone.to_string());
        names.find(|zone| place(zone) == wanted).map_or_else(
            || "such as \"Europe/Berlin\" or \"America/New_York\"".to_owned(),
            |meant| format!("did you mean \"{meant}\"?"),
        )
    })
}

/// A time in milliseconds since 1970 (UTC) as the clock of a zone shows it, such as `2026-11-30 22:13:05 CET`; empty beyond the year
/// 9999.
#[must_use]
pub fn clock_text(time_ms: u64, zone: &TimeZone) -> String {
    let time = i64::try_from(time_ms).ok();
    let time = time.and_then(|time| Timestamp::from_millisecond(time).ok());
    let zoned = time.map(|time| time.to_zoned_datetime(zone.clone()));
    zoned.map_or_else(String::new, |zoned| {
        zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> TimeZone {
        time_zone(name).expect("a zone of the bundled database")
    }

    fn hours(text: &str, name: &str) -> Schedule {
        Schedule {
            hours: Some(parse_hours(text).expect("hours")),
            zone: Some(zone(name)),
            ..Schedule::default()
        }
    }

    fn check(schedule: &Schedule, cases: &[(&str, bool)]) {
        for (time, expected) in cases {
            let ms = time.parse::<Timestamp>().expect("a time").as_millisecond();
            let is_within = schedule.contains(ms as u64);
            assert_eq!(is_within, *expected, "{time}: {schedule:?}");
        }
    }

    #[test]
    fn hours_of_a_named_zone_follow_summer_time() {
        check(
            &hours("02:00-03:00", "Europe/Berlin"),
            &[
                ("2026-01-15T01:30:00Z", true),
                ("2026-07-15T00:30:00Z", true),
                ("2026-07-15T01:30:00Z", false),
                // The hour from 2 to 3 is left out as summer time begins, and comes twice as it ends.
                ("2026-03-29T00:59:59Z", false),
                ("2026-03-29T01:00:00Z", false),
                ("2026-10-25T00:00:00Z", true),
                ("2026-10-25T01:59:59Z", true),
                ("2026-10-25T02:00:00Z", false),
            ],
        );
        // South of the equator it is the other way round, and some zones are ahead by parts of an hour.
        let night = |name: &str| hours("02:00-03:00", name);
        check(
            &night("Australia/Sydney"),
            &[("2026-01-15T15:00:00Z", true), ("2026-07-15T16:00:00Z", true)],
        );
        check(&night("Asia/Kathmandu"), &[("2026-01-15T20:15:00Z", true)]);
        assert!(!night("UTC").contains(u64::MAX));
        assert!(time_zone("").is_err());
        let meant = time_zone("Europa/Berlin").expect_err("no zone");
        assert_eq!(meant, "did you mean \"Europe/Berlin\"?");
    }

    #[test]
    fn a_span_that_ends_or_begins_in_an_hour_that_comes_twice_is_one_interval() {
        // 02:00 to 03:00 comes at 00:00Z and again at 01:00Z.
        check(
            &hours("22:00-02:30", "Europe/Berlin"),
            &[
                ("2026-10-25T00:45:00Z", true),
                ("2026-10-25T01:29:59Z", true),
                ("2026-10-25T01:30:00Z", false),
            ],
        );
        check(
            &hours("02:30-06:00", "Europe/Berlin"),
            &[
                ("2026-10-25T00:29:59Z", false),
                ("2026-10-25T01:10:00Z", true),
                ("2026-10-25T05:00:00Z", false),
            ],
        );
        check(
            &hours("22:00-02:00", "Europe/Berlin"),
            &[("2026-10-24T23:59:59Z", true), ("2026-10-25T00:00:00Z", false)],
        );
        // A time that is left out is that of the change.
        check(
            &hours("02:30-06:00", "Europe/Berlin"),
            &[("2026-03-29T00:59:59Z", false), ("2026-03-29T01:00:00Z", true)],
        );
        check(
            &hours("22:00-02:30", "Europe/Berlin"),
            &[("2026-03-29T00:59:59Z", true), ("2026-03-29T01:00:00Z", false)],
        );
    }

    #[test]
    fn a_night_belongs_to_the_day_on_which_it_begins() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let nights = Schedule {
            days: Some(parse_days(&texts(&["fri-sat"])).expect("days")),
            except: parse_exceptions(&texts(&["2026-07-18", "12-25"])).expect("dates"),
            ..hours("22:00-06:00", "Europe/Berlin")
        };
        check(
            &nights,
            &[
                ("2026-07-10T21:00:00Z", true),  // Friday 23:00
                ("2026-07-11T03:59:00Z", true),  // Saturday 05:59
                ("2026-07-11T04:00:00Z", false), // Saturday 06:00
                ("2026-07-12T02:00:00Z", true),  // Sunday 04:00, of Saturday
                ("2026-07-12T21:00:00Z", false), // Sunday 23:00
                ("2026-07-10T02:00:00Z", false), // Friday 04:00, of Thursday
                ("2026-07-18T21:00:00Z", false), // Saturday, an exception
                ("2026-07-19T02:00:00Z", false), // Sunday 04:00, of that Saturday
                ("2026-07-18T02:00:00Z", true),  // That Saturday 04:00, of Friday
                ("2026-12-25T22:00:00Z", false), // Friday, of every year
            ],
        );
        let weekend = Schedule {
            hours: None,
            days: Some(parse_days(&texts(&["sat-sun"])).expect("days")),
            except: Vec::new(),
            ..nights
        };
        check(
            &weekend,
            &[
                ("2026-07-10T21:59:59Z", false),
                ("2026-07-10T22:00:00Z", true),
                ("2026-07-12T21:59:59Z", true),
                ("2026-07-12T22:00:00Z", false),
            ],
        );
    }

    #[test]
    fn days_and_dates_that_are_none_are_reported() {
        let texts = |text: &str| vec![text.to_owned()];
        assert_eq!(
            parse_days(&texts("fri-mon")),
            Ok([true, false, false, false, true, true, true])
        );
        assert!(parse_days(&[]).is_err() && parse_days(&texts("friday")).is_err());
        for wrong in [
            "2026-02-30",
            "02-30",
            "2026-12-26..2026-12-24",
            "christmas",
            "2026-1-1",
            "",
        ] {
            assert!(parse_exceptions(&texts(wrong)).is_err(), "{wrong}");
        }
        let leap = parse_exceptions(&texts("02-29")).expect("a day of leap years");
        assert_eq!(leap, [Exception::Yearly(2, 29)]);
        assert_eq!(
            parse_offset("-05:30").map(|zone| zone.to_offset(Timestamp::UNIX_EPOCH).seconds()),
            Some(-19_800)
        );
        assert!(parse_offset("Berlin").is_none() && parse_offset("+15:00").is_none());
    }
}
