//! Filters of a list of incidents: pure functions of one incident.

use std::collections::BTreeSet;

use super::record::Record;

/// Conditions on an incident, all of which hold; the default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) stream: Option<String>,
    /// Streams that the client sees; `None`: all.
    pub(crate) cameras: Option<BTreeSet<String>>,
    pub(crate) class: Option<String>,
    pub(crate) zone: Option<String>,
    /// Name of the transform.
    pub(crate) rule: Option<String>,
    /// Type of the transform.
    pub(crate) kind: Option<String>,
    /// Incidents that ended before are left out, in milliseconds since 1970 (UTC).
    pub(crate) from_ms: Option<u64>,
    /// Incidents that began at that time or later are left out.
    pub(crate) to_ms: Option<u64>,
    /// Part of an id, an attribute, a text value or a description, in any case.
    pub(crate) text: Option<String>,
    pub(crate) seen: Option<bool>,
    pub(crate) pinned: Option<bool>,
}

impl Filter {
    /// True if a client that this filter is for may learn of the incident at all.
    pub(crate) fn shows(&self, record: &Record) -> bool {
        let cameras = self.cameras.as_ref();
        cameras.is_none_or(|cameras| cameras.contains(&*record.stream))
    }

    /// True if the incident meets all conditions.
    pub(crate) fn matches(&self, record: &Record) -> bool {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let is_flag = |wanted: Option<bool>, value: bool| wanted.is_none_or(|wanted| wanted == value);
        self.shows(record)
            && is(&self.stream, &record.stream)
            && is(&self.rule, &record.transform)
            && is(&self.kind, &record.kind)
            && self
                .class
                .as_deref()
                .is_none_or(|class| record.class.as_deref() == Some(class))
            && self
                .zone
                .as_deref()
                .is_none_or(|wanted| record.zones.iter().any(|zone| &**zone == wanted))
            && self.from_ms.is_none_or(|from| record.time_ms >= from)
            && self.to_ms.is_none_or(|to| record.began_ms < to)
            && is_flag(self.seen, record.seen)
            && is_flag(self.pinned, record.pinned)
            && self.text.as_deref().is_none_or(|text| has_text(record, text))
    }
}

fn has_text(record: &Record, text: &str) -> bool {
    let wanted = text.to_lowercase();
    let values = record.values.values().filter_map(serde_json::Value::as_str);
    let attributes = record.attributes.values().map(|word| &**word);
    let described = record.descriptions.values().map(|text| &**text);
    let mut texts = values.chain(attributes).chain(described).chain([&*record.id]);
    texts.any(|text| text.to_lowercase().contains(&wanted))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::json;

    use super::*;

    fn name() -> impl Strategy<Value = &'static str> {
        select(vec!["a", "b", "c"])
    }

    prop_compose! {
        fn record()(
            (stream, transform, class, kind) in (name(), name(), proptest::option::of(name()), name()),
            (zones, plate, words) in (proptest::collection::vec(name(), 0..3), "[A-C]{0,3}", "[A-C]{0,3}"),
            (began_ms, length_ms) in (0_u64..50, 0_u64..20),
            (seen, pinned) in any::<(bool, bool)>(),
        ) -> Record {
            Record {
                number: 1,
                id: format!("{stream}/{transform}/7").into(),
                stream: stream.into(),
                transform: transform.into(),
                kind: kind.into(),
                phase: "ended".into(),
                track: None,
                class: class.map(Arc::from),
                score: 0.5,
                began_ms,
                time_ms: began_ms + length_ms,
                zones: zones.into_iter().map(Arc::from).collect(),
                values: [(Arc::from("count"), json!(3))].into(),
                attributes: [(Arc::from("plate"), Arc::from(plate))].into(),
                descriptions: [(Arc::from("words"), Arc::from(words))].into(),
                seen,
                pinned,
            }
        }
    }

    /// A condition on an incident, and the same as it is defined.
    type Condition = (Filter, fn(&Filter, &Record) -> bool);

    /// A filter for each key, with the definition of the key.
    fn conditions(word: &str, text: &str, (from, to): (u64, u64), flag: bool) -> Vec<Condition> {
        let (word, none) = (Some(word.to_owned()), Filter::default);
        vec![
            (
                Filter {
                    stream: word.clone(),
                    ..none()
                },
                |f, r| f.stream.as_deref() == Some(&*r.stream),
            ),
            (
                Filter {
                    class: word.clone(),
                    ..none()
                },
                |f, r| f.class.as_deref() == r.class.as_deref(),
            ),
            (
                Filter {
                    rule: word.clone(),
                    ..none()
                },
                |f, r| f.rule.as_deref() == Some(&*r.transform),
            ),
            (
                Filter {
                    kind: word.clone(),
                    ..none()
                },
                |f, r| f.kind.as_deref() == Some(&*r.kind),
            ),
            (
                Filter {
                    zone: word.clone(),
                    ..none()
                },
                |f, r| r.zones.iter().any(|zone| Some(&**zone) == f.zone.as_deref()),
            ),
            (
                Filter {
                    cameras: word.map(|word| [word].into()),
                    ..none()
                },
                |f, r| f.cameras.iter().flatten().any(|camera| **camera == *r.stream),
            ),
            (
                Filter {
                    from_ms: Some(from),
                    ..none()
                },
                |f, r| Some(r.time_ms) >= f.from_ms,
            ),
            (
                Filter {
                    to_ms: Some(to),
                    ..none()
                },
                |f, r| Some(r.began_ms) < f.to_ms,
            ),
            (
                Filter {
                    seen: Some(flag),
                    ..none()
                },
                |f, r| f.seen == Some(r.seen),
            ),
            (
                Filter {
                    pinned: Some(flag),
                    ..none()
                },
                |f, r| f.pinned == Some(r.pinned),
            ),
            (
                Filter {
                    text: Some(text.to_owned()),
                    ..none()
                },
                |f, r| {
                    let wanted = f.text.as_deref().unwrap_or_default().to_uppercase();
                    r.attributes.values().any(|word| word.contains(&*wanted))
                        || r.descriptions.values().any(|word| word.contains(&*wanted))
                        || r.id.to_uppercase().contains(&wanted)
                },
            ),
        ]
    }

    fn both(a: &Filter, b: &Filter) -> Filter {
        Filter {
            stream: a.stream.clone().or_else(|| b.stream.clone()),
            cameras: a.cameras.clone().or_else(|| b.cameras.clone()),
            class: a.class.clone().or_else(|| b.class.clone()),
            zone: a.zone.clone().or_else(|| b.zone.clone()),
            rule: a.rule.clone().or_else(|| b.rule.clone()),
            kind: a.kind.clone().or_else(|| b.kind.clone()),
            from_ms: a.from_ms.or(b.from_ms),
            to_ms: a.to_ms.or(b.to_ms),
            text: a.text.clone().or_else(|| b.text.clone()),
            seen: a.seen.or(b.seen),
            pinned: a.pinned.or(b.pinned),
        }
    }

    proptest! {
        #[test]
        fn each_key_is_a_condition_and_all_conditions_hold(
            record in record(),
            (word, text) in (name(), "[a-c]{1,2}"),
            (times, flag) in ((0_u64..60, 0_u64..60), any::<bool>()),
        ) {
            prop_assert!(Filter::default().matches(&record));
            let conditions = conditions(word, &text, times, flag);
            for (filter, holds) in &conditions {
                prop_assert_eq!(filter.matches(&record), holds(filter, &record), "{:?}", filter);
                for (other, _) in &conditions {
                    let meant = filter.matches(&record) && other.matches(&record);
                    prop_assert_eq!(both(filter, other).matches(&record), meant);
                }
            }
        }
    }
}
