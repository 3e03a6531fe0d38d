//! Limits of what a sink keeps, by its keys.

use std::collections::BTreeMap;

use weir_flow::{KeyKind, KeySpec, Settings};

/// Name in `keep_by` for all classes that it does not name.
const DEFAULT: &str = "default";

pub(super) const KEEP: KeySpec = KeySpec {
    name: "keep",
    kind: KeyKind::Duration,
    about: "recordings older than this are removed (default `\"7d\"`)",
};

pub(super) const MAX_BYTES: KeySpec = KeySpec {
    name: "max_bytes",
    kind: KeyKind::Bytes,
    about: "maximum size of the recordings of all streams together; beyond it the oldest are removed (default `\"10GiB\"`)",
};

pub(super) const MIN_FREE: KeySpec = KeySpec {
    name: "min_free",
    kind: KeyKind::Space,
    about: "free space that the file system must have, in bytes or in percent of its size; below it the oldest recordings are removed, \
            across all sinks that record into this folder (default none)",
};

pub(super) const KEEP_BY: KeySpec = KeySpec {
    name: "keep_by",
    kind: KeyKind::Durations,
    about: "age at which clips are removed by the class of their incidents, instead of `keep`; `default` is for all other clips (default none)",
};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limits {
    keep_ms: u64,
    keep_by_ms: BTreeMap<String, u64>,
    pub(super) max_bytes: u64,
    min_free: Option<MinFree>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum MinFree {
    Bytes(u64),
    /// Share of the size of the file system, below 1.
    Share(f64),
}

impl Limits {
    pub(super) fn new(settings: &Settings) -> Self {
        let ms = |seconds: f64| (seconds * 1e3) as u64;
        let mut keep_by_ms: BTreeMap<String, u64> = settings
            .durations(KEEP_BY.name)
            .into_iter()
            .flatten()
            .map(|(class, seconds)| (class.clone(), ms(*seconds)))
            .collect();
        let keep_ms = ms(settings.number(KEEP.name, 7.0 * 86_400.0));
        let keep_ms = keep_by_ms.remove(DEFAULT).unwrap_or(keep_ms);
        let free = settings.number(MIN_FREE.name, 0.0);
        Self {
            keep_ms,
            keep_by_ms,
            max_bytes: settings.number(MAX_BYTES.name, (10_u64 << 30) as f64) as u64,
            min_free: (free > 0.0).then_some(if free < 1.0 {
                MinFree::Share(free)
            } else {
                MinFree::Bytes(free as u64)
            }),
        }
    }

    /// Age in milliseconds at which a recording of this class is removed.
    pub(super) fn keep_ms(&self, class: Option<&str>) -> i64 {
        let of_class = class.and_then(|class| self.keep_by_ms.get(class));
        i64::try_from(*of_class.unwrap_or(&self.keep_ms)).unwrap_or(i64::MAX)
    }

    /// Whether ages differ by class.
    pub(super) fn has_classes(&self) -> bool {
        !self.keep_by_ms.is_empty()
    }

    /// Least age in milliseconds at which a recording is removed, whatever its class.
    pub(super) fn min_keep_ms(&self) -> i64 {
        let least = self
            .keep_by_ms
            .values()
            .fold(self.keep_ms, |least, ms| least.min(*ms));
        i64::try_from(least).unwrap_or(i64::MAX)
    }

    /// Whether free space is looked at.
    pub(super) fn has_min_free(&self) -> bool {
        self.min_free.is_some()
    }

    /// Bytes to free on a file system with so many free bytes of so many in all.
    pub(super) fn lacking(&self, free: u64, size: u64) -> u64 {
        let least = match self.min_free {
            None => 0,
            Some(MinFree::Bytes(bytes)) => bytes,
            Some(MinFree::Share(share)) => (size as f64 * share) as u64,
        };
        least.saturating_sub(free)
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    #[test]
    fn ages_are_by_class_and_free_space_by_bytes_or_share() {
        let settings = |keys: &[(&str, Value)]| {
            let keys = keys
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()));
            Limits::new(&Settings(keys.collect()))
        };
        let classes = [("person", 30.0), ("default", 7.0)];
        let classes = classes.map(|(class, seconds)| (class.to_owned(), seconds));
        let by_class = settings(&[
            ("keep", Value::Number(1.0)),
            ("keep_by", Value::Durations(classes.into())),
        ]);
        assert_eq!(by_class.keep_ms(Some("person")), 30_000);
        assert_eq!(by_class.keep_ms(Some("car")), 7_000);
        assert_eq!((by_class.keep_ms(None), by_class.min_keep_ms()), (7_000, 7_000));
        assert_eq!(by_class.lacking(0, 100), 0);
        let bytes = settings(&[("min_free", Value::Number(40.0))]);
        assert_eq!((bytes.lacking(30, 100), bytes.lacking(50, 100)), (10, 0));
        let share = settings(&[("min_free", Value::Number(0.1))]);
        assert_eq!((share.lacking(3, 100), share.lacking(10, 100)), (7, 0));
    }
}
