//! Topics, all below one prefix. What comes from outside, such as classes, has no separators or wildcards in them.

use weir_flow::{Settings, SinkError};

use crate::hexadecimal::digest;

/// Bytes of a digest that tells names apart.
const DIGEST_BYTES: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Topics {
    prefix: String,
    discovery: Option<String>,
}

impl Topics {
    /// As `settings` say.
    ///
    /// # Errors
    /// A prefix that is no topic to publish to.
    pub(super) fn new(settings: &Settings) -> Result<Self, SinkError> {
        let checked = |key: &str, default: &str| {
            let topic = settings.text(key).unwrap_or(default);
            match fault(topic) {
                None => Ok(topic.to_owned()),
                Some(fault) => Err(SinkError {
                    target: format!("below the topic \"{topic}\""),
                    reason: format!("`{key}` {fault}"),
                }),
            }
        };
        let discovery = match settings.text("discovery") {
            Some("") => None,
            _ => Some(checked("discovery", "homeassistant")?),
        };
        Ok(Self {
            prefix: checked("prefix", "weir")?,
            discovery,
        })
    }

    pub(super) fn available(&self) -> String {
        format!("{}/available", self.prefix)
    }

    pub(super) fn events(&self) -> String {
        format!("{}/events", self.prefix)
    }

    pub(super) fn incidents(&self) -> String {
        format!("{}/incidents", self.prefix)
    }

    pub(super) fn descriptions(&self) -> String {
        format!("{}/descriptions", self.prefix)
    }

    pub(super) fn count(&self, stream: &str, class: &str) -> String {
        format!("{}{}", self.counts_of(stream), plain(class))
    }

    /// Beginning of the topics of all counts of a stream.
    pub(super) fn counts_of(&self, stream: &str) -> String {
        format!("{}/{}/", self.prefix, plain(stream))
    }

    /// Patterns of the topics of all counts.
    pub(super) fn all_counts(&self) -> [String; 2] {
        [
            format!("{}/+/+", self.prefix),
            format!("{}/+/+/active", self.prefix),
        ]
    }

    /// Topic of the number of objects of this class that are not stationary.
    pub(super) fn active(&self, stream: &str, class: &str) -> String {
        format!("{}/active", self.count(stream, class))
    }

    /// Topic of the newest picture of an object of this class.
    pub(super) fn snapshot(&self, stream: &str, class: &str) -> String {
        format!("{}/snapshot", self.count(stream, class))
    }

    pub(super) fn reviews(&self) -> String {
        format!("{}/reviews", self.prefix)
    }

    pub(super) fn review_status(&self, stream: &str) -> String {
        format!("{}review_status", self.counts_of(stream))
    }

    /// Topic of the connection of a stream: `online`, `offline` or `disabled`.
    pub(super) fn status(&self, stream: &str) -> String {
        format!("{}status/detect", self.counts_of(stream))
    }

    pub(super) fn motion(&self, stream: &str) -> String {
        format!("{}motion", self.counts_of(stream))
    }

    /// Beginning of the topics of all rules of a stream.
    pub(super) fn rules(&self, stream: &str) -> String {
        format!("{}rules/", self.counts_of(stream))
    }

    /// Topic of a rule of a stream: `ON` while one of its incidents is open.
    pub(super) fn rule(&self, stream: &str, rule: &str) -> String {
        format!("{}{}", self.rules(stream), plain(rule))
    }

    /// Topic of the number of open incidents of a rule.
    pub(super) fn rule_count(&self, stream: &str, rule: &str) -> String {
        format!("{}/count", self.rule(stream, rule))
    }

    /// Topic of the configuration of a device for Home Assistant; `None` if discovery is off.
    pub(super) fn config(&self, device: &str) -> Option<String> {
        let discovery = self.discovery.as_ref()?;
        Some(format!("{discovery}/device/{device}/config"))
    }

    /// Pattern of the topics of configurations of all devices, and the common beginning of those of this prefix.
    pub(super) fn all_configs(&self) -> Option<(String, String)> {
        let discovery = self.discovery.as_ref()?;
        let beginning = format!("{discovery}/device/{}", ascii(&self.prefix));
        Some((format!("{discovery}/device/+/config"), beginning))
    }

    /// Whether a topic is below the prefix.
    pub(super) fn is_below(&self, topic: &str) -> bool {
        topic
            .strip_prefix(&self.prefix)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    /// The name of the device of a stream, of characters that Home Assistant documents for ids.
    pub(super) fn camera(&self, stream: &str) -> String {
        self.sensor(stream, "\0camera")
    }

    /// The name of an entity of a stream other than a count, as of [`Topics::sensor`].
    pub(super) fn entity(&self, stream: &str, kind: &str, name: &str) -> String {
        self.sensor(stream, &format!("\0{kind}\0{name}"))
    }

    /// The name of the device of the engine, of characters that Home Assistant documents for ids.
    pub(super) fn device(&self) -> String {
        if self.prefix.split('/').all(is_word) {
            self.prefix.replace('/', "_")
        } else {
            format!(
                "{}_-{}",
                ascii(&self.prefix),
                digest(&[&self.prefix], DIGEST_BYTES)
            )
        }
    }

    /// The name of the sensor of a count, of the same characters: no other stream, class or prefix has it. A digest tells names
    /// apart that are alike in these characters; it stands where no class that needs none can have it.
    pub(super) fn sensor(&self, stream: &str, class: &str) -> String {
        let is_plain = stream.chars().all(is_of_id) && !stream.is_empty();
        if is_word(&self.prefix) && is_plain && is_word(class) {
            return format!("{}_{stream}_{class}", self.prefix);
        }
        let parts = [self.prefix.as_str(), stream, class];
        format!("{}_-{}", parts.map(ascii).join("_"), digest(&parts, DIGEST_BYTES))
    }
}

/// Characters of a name that stand in an id.
const MAX_OF_ID: usize = 48;

/// Whether Home Assistant documents the character for ids.
fn is_of_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Whether it stands in an id as it is, and can be distinguished from its neighbours.
fn is_word(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && name.chars().all(|c| is_of_id(c) && c != '_')
}

fn ascii(name: &str) -> String {
    let ascii = |c: char| if is_of_id(c) { c } else { '_' };
    name.chars().take(MAX_OF_ID).map(ascii).collect()
}

/// Why nothing can be published to a topic.
fn fault(topic: &str) -> Option<&'static str> {
    if topic.is_empty() {
        Some("is empty: name a topic")
    } else if topic.contains(['+', '#']) {
        Some("holds a wildcard, and to those nothing can be published: leave + and # out")
    } else if topic.starts_with('$') {
        Some("begins with $, which is the broker's own: choose another one")
    } else if topic.starts_with('/') || topic.ends_with('/') || topic.contains("//") {
        Some("has an empty part: leave the slash out")
    } else if topic.chars().any(char::is_control) || topic.len() > 200 {
        Some("is too long, or holds control characters")
    } else {
        None
    }
}

/// A name as part of a topic. One that cannot stand there as it is has a digest, so that no other has the same.
pub(super) fn plain(name: &str) -> String {
    let stays = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    if !name.is_empty() && name.chars().all(stays) {
        return name.to_owned();
    }
    let plain: String = name.chars().map(|c| if stays(c) { c } else { '_' }).collect();
    format!("{plain}-{}", digest(&[name], DIGEST_BYTES))
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn topics(prefix: &str) -> Result<Topics, String> {
        let prefix = Value::Text(prefix.to_owned());
        Topics::new(&Settings([("prefix".to_owned(), prefix)].into())).map_err(|error| error.reason)
    }

    #[test]
    fn topics_with_wildcards_are_refused() {
        for prefix in ["weir/#", "a+b", "", "$SYS", "/a", "a/", "a//b", "a\nb"] {
            let fault = topics(prefix).expect_err(prefix);
            assert!(fault.starts_with("`prefix`"), "{fault}");
        }
    }

    #[test]
    fn names_from_outside_stay_below_the_prefix() {
        let topics = topics("home/weir").expect("a topic");
        assert_eq!(
            topics.count("north", "traffic light"),
            "home/weir/north/traffic light"
        );
        let count = topics.count("north", "a/+#b");
        assert!(count.starts_with("home/weir/north/a___b-"), "{count}");
        assert_ne!(count, topics.count("north", "a#+/b"));
        assert_eq!(topics.available(), "home/weir/available");
        assert!(topics.is_below(&count) && !topics.is_below("home/weirder/north"));
        let config = topics.config(&topics.device()).expect("the default");
        assert_eq!(config, "homeassistant/device/home_weir/config");
        let (_, beginning) = topics.all_configs().expect("the default");
        assert!(config.starts_with(&beginning));
        let camera = topics.config(&topics.camera("north")).expect("the default");
        assert!(camera.starts_with(&beginning), "{camera}");
    }

    #[test]
    fn ids_for_home_assistant_are_of_its_characters_and_no_two_are_the_same() {
        let long = "\u{e4}".repeat(300);
        let names = [
            "north",
            "a",
            "b",
            "a_b",
            "a b",
            "a.b",
            "a/b",
            "a:b",
            "a__b",
            "_",
            "-",
            "-a",
            "",
            " ",
            "a_",
            "_b",
            "b_a",
            "caf\u{e9}",
            "cafe\u{301}",
            "\u{8eca}",
            "\u{1f697}",
            "\u{661}",
            "a\0b",
            "x\ny",
            "A",
            &long,
        ];
        let mut ids = std::collections::BTreeSet::new();
        let mut made = 0;
        for prefix in ["weir", "a", "a/b", "a_b", "\u{8eca}", "home/weir", "home_weir"] {
            let topics = topics(prefix).expect("a topic");
            assert!(ids.insert(topics.device()), "{}", topics.device());
            made += 1;
            for stream in names {
                let entities = |name| [topics.sensor(stream, name), topics.entity(stream, "rule", name)];
                let all = names.into_iter().flat_map(entities);
                for id in all.chain([topics.camera(stream)]) {
                    assert!(id.len() < 256 && id.chars().all(is_of_id), "{id}");
                    assert!(ids.insert(id.clone()), "{id} of {prefix:?} and {stream:?}");
                    made += 1;
                }
            }
        }
        assert_eq!(ids.len(), made);
        let topics = topics("weir").expect("a topic");
        assert_eq!(topics.sensor("front_door", "car"), "weir_front_door_car");
        assert!(topics.device().chars().all(is_of_id));
    }
}
