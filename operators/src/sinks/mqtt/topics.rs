//! Topics, all below one prefix. What comes from outside, such as classes, has no separators or wildcards in them.

use weir_flow::{Settings, SinkError};

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

    pub(super) fn count(&self, stream: &str, class: &str) -> String {
        format!("{}/{}/{}", self.prefix, plain(stream), plain(class))
    }

    /// Where the newest picture of objects of a class is.
    pub(super) fn snapshot(&self, stream: &str, class: &str) -> String {
        format!("{}/snapshot", self.count(stream, class))
    }

    /// Where Home Assistant looks for devices; `None`: it is not to find any.
    pub(super) fn discovery(&self) -> Option<String> {
        let discovery = self.discovery.as_ref()?;
        Some(format!("{discovery}/device/{}/config", self.device()))
    }

    /// The name of the device that all sensors belong to.
    pub(super) fn device(&self) -> String {
        plain(&self.prefix)
    }
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

/// A name as part of a topic.
pub(super) fn plain(name: &str) -> String {
    let plain = |c: char| {
        let stays = c.is_alphanumeric() || "-_. ".contains(c);
        if stays { c } else { '_' }
    };
    name.chars().map(plain).collect()
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
        assert_eq!(topics.count("north", "a/+#b"), "home/weir/north/a___b");
        assert_eq!(topics.available(), "home/weir/available");
        assert_eq!(
            topics.discovery().expect("the default"),
            "homeassistant/device/home_weir/config"
        );
    }
}
