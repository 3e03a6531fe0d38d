//! Points in time as people and programs write them.

use std::time::UNIX_EPOCH;

/// A form that is read, for hints.
pub(crate) const FORMS: &str =
    "write RFC 3339, such as 2026-11-30T06:00:00Z or 2026-11-30T07:00:00+01:00, or milliseconds since 1970";

/// Latest time, the end of the year 9999, in milliseconds since 1970.
const LATEST_MS: u64 = 253_402_300_799_999;

/// Reads a time, in milliseconds since 1970 (UTC); `None` if the text is none.
pub(crate) fn read_time(text: &str) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|time| *time <= LATEST_MS);
    }
    let (local, offset_ms) = split_offset(text)?;
    let time = humantime::parse_rfc3339_weak(&local).ok()?;
    let time_ms = i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    let time_ms = u64::try_from(time_ms - offset_ms).ok()?;
    (time_ms <= LATEST_MS).then_some(time_ms)
}

/// The time without the offset to UTC at its end, and that in milliseconds. In addresses, `+` may have become a space.
fn split_offset(text: &str) -> Option<(String, i64)> {
    let date_length = "2026-11-30T".len();
    let at = text
        .get(date_length..)
        .and_then(|clock| clock.rfind(['+', '-', ' ']));
    let Some(at) = at.map(|at| at + date_length) else {
        return Some((text.to_owned(), 0));
    };
    let (local, offset) = text.split_at(at);
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let number = |text: &str, most: i64| {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>()
            .ok()
            .filter(|number| is_plain && *number <= most)
    };
    let minutes = number(hours, 23)? * 60 + number(minutes, 59)?;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    Some((format!("{local}Z"), sign * minutes * 60_000))
}

/// A time as RFC 3339 in UTC.
pub(crate) fn shown(time_ms: u64) -> String {
    let time = UNIX_EPOCH + std::time::Duration::from_millis(time_ms.min(LATEST_MS));
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_utc() {
        for (text, expected) in [
            ("2026-11-23T21:30:05Z", Some(1_795_469_405_000)),
            ("2026-11-23T21:30:05.123Z", Some(1_795_469_405_123)),
            ("2026-11-23T22:30:05+01:00", Some(1_795_469_405_000)),
            ("2026-11-23T22:30:05 01:00", Some(1_795_469_405_000)),
            ("2026-11-23T16:00:05-05:30", Some(1_795_469_405_000)),
            ("2026-11-23 21:30:05", Some(1_795_469_405_000)),
            ("1795469405123", Some(1_795_469_405_123)),
            ("", None),
            ("yesterday", None),
            ("2026-13-23T21:30:05Z", None),
            ("2026-11-23T21:30:05+1:00", None),
            ("2026-11-23T21:30:05+25:00", None),
            ("99999999999999999999", None),
            ("253402300800000", None),
            ("-5", None),
            ("2026-11-23T21:30:05ä", None),
        ] {
            assert_eq!(read_time(text), expected, "{text}");
        }
        assert_eq!(shown(1_795_469_405_123), "2026-11-23T21:30:05.123Z");
    }
}
