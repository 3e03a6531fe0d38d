//! Names of recorded files: when they begin, then what they are. They sort by time, and only files with such names are ever
//! removed.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Length of the time in a name: `20261123T213005.123Z`.
const TIME_LENGTH: usize = 20;

/// Extensions of what is recorded.
const EXTENSIONS: [&str; 3] = ["mp4", "jpg", "json"];

/// The name without extension of what begins `time_ms` after 1970 (UTC). Of `what`, only letters, digits, `-`, `_` stay.
pub(in super::super) fn stem(time_ms: u64, what: &[&str]) -> String {
    // Beyond the year 9999 it is no time.
    let time = Duration::from_millis(time_ms.min(253_402_300_799_999));
    let mut name = humantime::format_rfc3339_millis(UNIX_EPOCH + time)
        .to_string()
        .replace(['-', ':'], "");
    for part in what {
        name.push('-');
        name.extend(part.chars().map(|c| {
            let stays = c.is_ascii_alphanumeric() || "-_".contains(c);
            if stays { c } else { '_' }
        }));
    }
    name
}

/// A recorded file by its path: when it begins, in milliseconds since 1970 (UTC), and its name without the extension, which a
/// clip, its picture and its description share. `None`: it is none.
pub(super) fn recorded(path: &Path) -> Option<(u64, &str)> {
    let extension = path.extension()?.to_str()?;
    let stem = path.file_stem()?.to_str()?;
    if !EXTENSIONS.contains(&extension) {
        return None;
    }
    Some((time_ms(stem)?, stem))
}

/// The sink that a recording is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Named by time alone, or with a number after it.
    Archive,
    /// Named by time, transform and incident.
    Clips,
}

/// The form of a recorded file by its path; `None` for other files.
pub(super) fn form(path: &Path) -> Option<Form> {
    let (_, stem) = recorded(path)?;
    let rest = stem.get(TIME_LENGTH..)?;
    let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    Some(match rest.strip_prefix('-') {
        Some(rest) if !is_number(rest) => Form::Clips,
        _ => Form::Archive,
    })
}

/// The recorded file that a `.part` file would have become.
pub(super) fn unfinished(path: &Path) -> Option<&Path> {
    let whole = path.to_str()?.strip_suffix(".part")?;
    recorded(Path::new(whole)).map(|_| Path::new(whole))
}

/// The time in a name without extension, in milliseconds since 1970 (UTC).
pub(in super::super) fn time_ms(stem: &str) -> Option<u64> {
    let time = stem.get(..TIME_LENGTH)?;
    if !matches!(stem.as_bytes().get(TIME_LENGTH), None | Some(b'-')) || !time.is_ascii() {
        return None;
    }
    let (date, clock) = time.split_once('T')?;
    let part = |text: &'_ str, from: usize, to: usize| text.get(from..to).map(str::to_owned);
    let rfc3339 = format!(
        "{}-{}-{}T{}:{}:{}",
        part(date, 0, 4)?,
        part(date, 4, 6)?,
        part(date, 6, 8)?,
        part(clock, 0, 2)?,
        part(clock, 2, 4)?,
        part(clock, 4, 11)?,
    );
    let time = humantime::parse_rfc3339(&rfc3339).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_when_and_what() {
        let name = stem(1_795_469_405_123, &["gate", "../7"]);
        assert_eq!(name, "20261123T213005.123Z-gate-___7");
        let check = |path: &str, expected: Option<(u64, &str)>| {
            assert_eq!(recorded(Path::new(path)), expected, "{path}")
        };
        let time = 1_795_469_405_123;
        check(
            "a/20261123T213005.123Z-gate-7.json",
            Some((time, "20261123T213005.123Z-gate-7")),
        );
        check("20261123T213005.123Z.mp4", Some((time, "20261123T213005.123Z")));
        for other in [
            "holiday.mp4",
            "20261123T213005.123Z.txt",
            "20261123T213005.123Zx.mp4",
            "20261399T213005.123Z.mp4",
            "20261123T213005.123Z.mp4.part",
        ] {
            check(other, None);
        }
        let part = Path::new("20261123T213005.123Z.mp4.part");
        assert_eq!(unfinished(part), Some(Path::new("20261123T213005.123Z.mp4")));
        assert_eq!(unfinished(Path::new("video.mp4.part")), None);
    }
}
