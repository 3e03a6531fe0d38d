//! Notifications of a pull point, as events.

use std::sync::Arc;

use weir_flow::{CameraEvent, topic_path};

use super::text::clean;
use super::xml::Element;

/// Events of one answer that are read.
const MAX_EVENTS: usize = 256;

/// Characters of a topic: the deepest of the standard has 60.
const MAX_TOPIC: usize = 120;

/// Items of the source of an event that are shown.
const MAX_ITEMS: usize = 4;

/// Names of states whose value may be `1` for true.
const STATES: [&str; 7] = [
    "State",
    "LogicalState",
    "IsMotion",
    "IsTamper",
    "IsInside",
    "IsSoundDetected",
    "Value",
];

/// The events in the answer to a pull. Of a device with several video sources, those of `channel` alone, and those of no video
/// source.
pub(super) fn events(answer: &Element, channel: Option<&str>) -> Vec<CameraEvent> {
    let messages = answer.all("NotificationMessage").take(MAX_EVENTS);
    messages.filter_map(|message| event(message, channel)).collect()
}

fn event(message: &Element, channel: Option<&str>) -> Option<CameraEvent> {
    let topic = topic_path(&clean(message.text_at(&["Topic"])?));
    if topic.is_empty() || topic.len() > MAX_TOPIC {
        return None;
    }
    let content = message.at(&["Message", "Message"])?;
    let items = |part: &str| -> Vec<(&str, &str)> {
        let part = content.at(&[part]);
        let items = part.into_iter().flat_map(|part| part.all("SimpleItem"));
        items
            .map(|item| (item.attribute("Name"), item.attribute("Value").trim()))
            .collect()
    };
    let source = items("Source");
    let is_video = |name: &str| name.contains("VideoSource") || name.contains("VideoAnalytics");
    let mut videos = source.iter().filter(|(name, _)| is_video(name)).peekable();
    if let Some(channel) = channel
        && videos.peek().is_some()
        && !videos.any(|(_, value)| *value == channel)
    {
        return None;
    }
    let shown = source.iter().take(MAX_ITEMS);
    let shown: Vec<String> = shown.map(|(name, value)| format!("{name}={value}")).collect();
    let active = if content.attribute("PropertyOperation") == "Deleted" {
        Some(false)
    } else {
        items("Data")
            .into_iter()
            .find_map(|(name, value)| state(name, value))
    };
    Some(CameraEvent {
        topic: topic.into(),
        source: Arc::from(clean(&shown.join(",")).as_str()),
        active,
    })
}

/// The state that an item gives. The number of an object is none.
fn state(name: &str, value: &str) -> Option<bool> {
    match (value.to_ascii_lowercase().as_str(), STATES.contains(&name)) {
        ("true", _) | ("1" | "active" | "on", true) => Some(true),
        ("false", _) | ("0" | "inactive" | "off", true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::xml::parse;
    use super::*;

    /// An answer with one message, in the prefixes of some maker.
    fn answer(topic: &str, operation: &str, source: &str, data: &str) -> Element {
        let text = format!(
            "<x:PullMessagesResponse><n:NotificationMessage><n:Topic Dialect='d'>{topic}</n:Topic><n:Message><o:Message \
             UtcTime='2026-11-30T08:00:00Z' PropertyOperation='{operation}'><o:Source>{source}</o:Source><o:Data>{data}</o:Data>\
             </o:Message></n:Message></n:NotificationMessage></x:PullMessagesResponse>"
        );
        parse(&text).unwrap()
    }

    fn item(name: &str, value: &str) -> String {
        format!("<o:SimpleItem Name='{name}' Value='{value}'/>")
    }

    #[test]
    fn states_and_moments_are_read_whatever_the_prefixes_are() {
        let rule = item("VideoSourceConfigurationToken", "v1") + &item("Rule", "Yard");
        for (topic, data, active) in [
            (
                "tns1:RuleEngine/CellMotionDetector/Motion",
                item("IsMotion", "true"),
                Some(true),
            ),
            (
                "a:RuleEngine/b:CellMotionDetector/c:Motion",
                item("IsMotion", "0"),
                Some(false),
            ),
            (
                "RuleEngine/CellMotionDetector/Motion",
                item("LogicalState", "active"),
                Some(true),
            ),
            (
                "tns1:RuleEngine/CellMotionDetector/Motion",
                item("ObjectId", "1"),
                None,
            ),
            ("tns1:RuleEngine/CellMotionDetector/Motion", String::new(), None),
        ] {
            let found = events(&answer(topic, "Changed", &rule, &data), None);
            let expected = CameraEvent {
                topic: "RuleEngine/CellMotionDetector/Motion".into(),
                source: "VideoSourceConfigurationToken=v1,Rule=Yard".into(),
                active,
            };
            assert_eq!(found, [expected], "{data}");
        }
        let gone = answer("tns1:Device/Trigger/DigitalInput", "Deleted", "", "");
        assert_eq!(events(&gone, None)[0].active, Some(false));
    }

    #[test]
    fn events_of_other_channels_are_left_out() {
        let of = |source: &str| answer("tns1:VideoSource/MotionAlarm", "Changed", source, "");
        let channel = Some("v1");
        assert_eq!(events(&of(&item("VideoSourceToken", "v1")), channel).len(), 1);
        assert_eq!(events(&of(&item("VideoSourceToken", "v2")), channel).len(), 0);
        assert_eq!(events(&of(&item("InputToken", "2")), channel).len(), 1);
    }

    #[test]
    fn messages_that_say_nothing_are_left_out_and_texts_are_clean() {
        for topic in ["", " ", &"a/".repeat(200)] {
            assert!(events(&answer(topic, "", "", ""), None).len() <= 1, "{topic}");
        }
        let found = events(&answer("a/b", "", &item("Rule", "&#27;[31m"), ""), None);
        assert!(!found[0].source.contains('\u{1b}'), "{found:?}");
        let empty = parse("<a><NotificationMessage/></a>").unwrap();
        assert!(events(&empty, None).is_empty());
    }
}
