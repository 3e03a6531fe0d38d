//! Events that a camera reports itself: motion, crossed lines, tampering, digital inputs.

use std::sync::Arc;

use crate::stop::StopFlag;

/// An event of a camera.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CameraEvent {
    /// Topic without prefixes, such as `RuleEngine/CellMotionDetector/Motion`.
    pub topic: Arc<str>,
    /// Place or rule within the camera, such as `Rule=Yard`; empty if the camera names none.
    pub source: Arc<str>,
    /// Whether the state begins or ends; `None`: something that has no duration, such as a crossed line.
    pub active: Option<bool>,
}

impl CameraEvent {
    /// True if it says that something moves: events of motion, and those of rules that find objects.
    #[must_use]
    pub fn is_of_motion(&self) -> bool {
        CameraTopic::Motion.matches(&self.topic)
            || self.topic.starts_with("RuleEngine/") && !CameraTopic::Tamper.matches(&self.topic)
    }
}

/// Report of the subscription to the events of a camera.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameraReport {
    /// The subscription is made, or made again. States of before count no more: the camera repeats those that hold.
    Subscribed,
    /// The camera reports an event.
    Event(CameraEvent),
    /// No events arrive until it is subscribed again, which is tried.
    Lost {
        /// Reason for messages, without secrets.
        reason: String,
    },
    /// The camera gives no events, and is not asked again.
    Unsupported {
        /// Reason for messages, without secrets.
        reason: String,
    },
}

/// A subscription to the events of a camera.
pub trait CameraEvents: Send + Sync {
    /// Subscribes, again after each loss, and reports until `stop` is raised or the camera turns out to give no events.
    fn run(&self, stop: &StopFlag, report: &mut dyn FnMut(CameraReport));
}

/// Topics of events that a graph names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameraTopic {
    /// Motion anywhere in the picture.
    Motion,
    /// A line was crossed.
    Line,
    /// The picture is dark, bright, blurred or turned away, or the camera is tampered with.
    Tamper,
    /// A digital input.
    Input,
    /// A topic, and all below it.
    Path(Arc<str>),
}

impl CameraTopic {
    /// Words that stand for topics, which differ by maker.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("motion", Self::Motion),
        ("line", Self::Line),
        ("tamper", Self::Tamper),
        ("input", Self::Input),
    ];

    /// A word, or a topic with at least two parts, such as `tns1:Device/Trigger/DigitalInput`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let word = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        if let Some((_, topic)) = word {
            return Some(topic);
        }
        let path = topic_path(text);
        let is_topic = path.contains('/') && path.split('/').all(|part| !part.is_empty());
        is_topic.then(|| Self::Path(path.into()))
    }

    /// True if a topic without prefixes is one of these.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| topic.contains(word));
        match self {
            Self::Motion => has(&["Motion"]),
            Self::Line => has(&["LineDetector", "LineCross", "CrossLine"]),
            Self::Tamper => has(&[
                "Tamper",
                "ImageTooDark",
                "ImageTooBright",
                "ImageTooBlurry",
                "GlobalSceneChange",
                "SignalLoss",
            ]),
            Self::Input => has(&["DigitalInput"]),
            Self::Path(path) => {
                let below = topic.strip_prefix(&**path);
                below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
            }
        }
    }
}

/// A topic without the prefixes of its parts, which devices choose as they like.
#[must_use]
pub fn topic_path(topic: &str) -> String {
    let parts = topic.trim().split('/');
    let parts = parts.map(|part| part.rsplit_once(':').map_or(part, |(_, name)| name));
    parts.collect::<Vec<&str>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_the_topics_of_several_makers() {
        for (text, topic, is_it) in [
            ("motion", "RuleEngine/CellMotionDetector/Motion", true),
            ("motion", "VideoSource/MotionAlarm", true),
            ("motion", "Device/Trigger/DigitalInput", false),
            ("line", "RuleEngine/LineDetector/Crossed", true),
            ("tamper", "VideoSource/ImageTooDark/ImagingService", true),
            ("tamper", "VideoSource/GlobalSceneChange/AnalyticsService", true),
            ("input", "Device/Trigger/DigitalInput", true),
            (
                "tns1:RuleEngine/LineDetector",
                "RuleEngine/LineDetector/Crossed",
                true,
            ),
            ("RuleEngine/Line", "RuleEngine/LineDetector/Crossed", false),
            ("tns1:UserAlarm/tnsacme:Dog", "UserAlarm/Dog", true),
        ] {
            let named = CameraTopic::parse(text).unwrap();
            assert_eq!(named.matches(topic), is_it, "{text} {topic}");
        }
        for bad in ["", "moves", "tns1:Motion", "a//b", "/a"] {
            assert_eq!(CameraTopic::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn rules_that_find_objects_say_that_something_moves() {
        let event = |topic: &str| CameraEvent {
            topic: topic.into(),
            source: "".into(),
            active: Some(true),
        };
        for (topic, moves) in [
            ("RuleEngine/CellMotionDetector/Motion", true),
            ("RuleEngine/MyRuleDetector/PeopleDetect", true),
            ("RuleEngine/TamperDetector/Tamper", false),
            ("VideoSource/MotionAlarm", true),
            ("Device/Trigger/DigitalInput", false),
        ] {
            assert_eq!(event(topic).is_of_motion(), moves, "{topic}");
        }
    }
}
