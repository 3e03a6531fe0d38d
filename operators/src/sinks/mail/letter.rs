//! Mails made of event lines.

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use serde_json::Value;
use weir_analytics::transforms::TimeZone;
use weir_flow::{Settings, SinkError};

use super::super::alarm_keys::as_error;
use super::super::outbox::Message;
use super::super::webhook::{Template, shortened, zone};
use super::template;
use crate::hexadecimal::digest;

/// Characters of a subject.
const MAX_SUBJECT_CHARACTERS: usize = 200;

/// Bytes of a digest that name a mail.
const ID_BYTES: usize = 16;

/// Mails that mail programs show as one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    Incident,
    Rule,
    Camera,
}

/// Form of mails as keys describe it.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) from: Mailbox,
    pub(super) to: Vec<Mailbox>,
    subject: Template,
    body: Template,
    has_picture: bool,
    thread: Thread,
    zone: TimeZone,
}

impl Letter {
    /// Reads keys that were checked.
    ///
    /// # Errors
    /// An address is none.
    pub(super) fn read(settings: &Settings) -> Result<Self, SinkError> {
        let mailbox = |key: &str, text: &str| {
            text.parse::<Mailbox>().map_err(|error| SinkError {
                target: "by mail".to_owned(),
                reason: format!("`{key}` holds no mail address: {error}"),
            })
        };
        let template = |key| template(settings, key).map_err(|fault| as_error("by mail", &[fault]));
        let to = settings.texts("to").unwrap_or_default().iter();
        Ok(Self {
            from: mailbox("from", settings.text("from").unwrap_or_default())?,
            to: to.map(|text| mailbox("to", text)).collect::<Result<_, _>>()?,
            subject: template("subject")?,
            body: template("body")?,
            has_picture: settings.text("attach").is_some(),
            thread: match settings.text("thread") {
                Some("rule") => Thread::Rule,
                Some("camera") => Thread::Camera,
                _ => Thread::Incident,
            },
            zone: zone(settings),
        })
    }

    pub(super) const fn has_picture(&self) -> bool {
        self.has_picture
    }

    /// The mail of an event, ready to be sent.
    ///
    /// # Errors
    /// A template that was checked is too long for this event.
    pub(super) fn compose(&self, message: &Message) -> Result<Vec<u8>, String> {
        let event: Value = serde_json::from_slice(&message.body).map_err(|error| error.to_string())?;
        let render = |name: &str, template: &Template| {
            let text = template.render(&event, &self.zone);
            text.map_err(|reason| format!("`{name}`: {reason}"))
        };
        let subject = without_controls(&render("subject", &self.subject)?);
        let thread = self.id(&["thread", &self.thread_of(&event, message)]);
        let mut mail = lettre::Message::builder()
            .from(self.from.clone())
            .subject(shortened(subject.trim(), MAX_SUBJECT_CHARACTERS))
            .message_id(Some(self.id(&["event", &message.id])))
            .in_reply_to(thread.clone())
            .references(thread)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")).to_owned())
            // Nothing answers it by itself (RFC 3834).
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ));
        for to in &self.to {
            mail = mail.to(to.clone());
        }
        let time = event["time"].as_str().or(event["last_seen"].as_str());
        if let Some(time) = time.and_then(|time| humantime::parse_rfc3339(time).ok()) {
            mail = mail.date(time);
        }
        let text = SinglePart::plain(render("body", &self.body)?);
        let picture = message.picture.as_ref().filter(|_| self.has_picture);
        let mail = match picture {
            None => mail.singlepart(text),
            Some(picture) => {
                let kind = ContentType::parse("image/jpeg").map_err(|error| error.to_string())?;
                let picture = Attachment::new("alarm.jpg".to_owned()).body(picture.jpeg().to_vec(), kind);
                mail.multipart(MultiPart::mixed().singlepart(text).singlepart(picture))
            }
        };
        mail.map(|mail| mail.formatted())
            .map_err(|error| error.to_string())
    }

    /// Name of what a conversation is about.
    fn thread_of(&self, event: &Value, message: &Message) -> String {
        let rule = event["transform"].as_str().or(event["type"].as_str());
        match self.thread {
            Thread::Camera => message.stream.to_string(),
            Thread::Rule => format!("{}/{}", message.stream, rule.unwrap_or_default()),
            Thread::Incident => event["id"].as_str().unwrap_or(&message.id).to_owned(),
        }
    }

    /// Identifier of a mail. The same event has the same, so that mail servers recognise one that arrives twice.
    fn id(&self, names: &[&str]) -> String {
        format!("<{}@{}>", digest(names, ID_BYTES), self.from.email.domain())
    }
}

/// A text with a space for each control character.
pub(super) fn without_controls(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_flow::{BestShot, Rect, Value as Key};

    use super::*;

    fn letter(more: &[(&str, &str)]) -> Letter {
        let keys = [("from", "Weir <weir@example.org>"), ("timezone", "Europe/Berlin")];
        let keys = keys.iter().chain(more);
        let mut settings = Settings(
            keys.map(|(key, text)| ((*key).to_owned(), Key::Text((*text).to_owned())))
                .collect(),
        );
        let to = Key::Texts(vec!["me@example.org".to_owned(), "you@example.org".to_owned()]);
        settings.0.insert("to".to_owned(), to);
        Letter::read(&settings).expect("a letter")
    }

    fn message(id: &str, class: &str) -> Message {
        let event = format!(
            r#"{{"type":"incident","stream":"north","id":"north/gate/1","transform":"gate","kind":"loitering","phase":"began",
            "time":"2026-11-30T21:13:05.000Z","began":"2026-11-30T21:13:05.000Z","class":"{class}","seen":"{id}"}}"#
        );
        let jpeg: Arc<dyn weir_flow::Picture> = Arc::new(vec![0xff_u8, 0xd8, 1, 2, 3]);
        Message {
            stream: "north".into(),
            id: id.to_owned(),
            body: event.into_bytes(),
            topic: String::new(),
            picture: Some(Arc::new(BestShot {
                picture: jpeg,
                rect: Rect::new(0.0, 0.0, 1.0, 1.0),
                score: 0.5,
                frame: 0,
                pts_ms: 0.0,
            })),
        }
    }

    fn header<'a>(mail: &'a str, name: &str) -> &'a str {
        let line = mail.lines().take_while(|line| !line.is_empty());
        let value = line.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.last().unwrap_or_default()
    }

    fn text(letter: &Letter, id: &str, class: &str) -> String {
        String::from_utf8(letter.compose(&message(id, class)).expect("a mail")).expect("ASCII")
    }

    #[test]
    fn mail_has_text_and_picture_of_its_event() {
        let plain = text(&letter(&[]), "1", "person");
        assert_eq!(header(&plain, "Subject"), "north: gate");
        assert_eq!(header(&plain, "To"), "me@example.org, you@example.org");
        assert_eq!(header(&plain, "Date"), "Mon, 30 Nov 2026 21:13:05 +0000");
        assert_eq!(header(&plain, "Auto-Submitted"), "auto-generated");
        assert!(
            plain.is_ascii() && plain.contains("2026-11-30 22:13:05 CET"),
            "{plain}"
        );
        assert!(!plain.contains("image/jpeg"), "{plain}");
        let keys = [("attach", "picture"), ("subject", "{{ class }}")];
        let attached = text(&letter(&keys), "1", r"T\u00fcr\r\nBcc: x@y.z");
        assert!(
            attached.contains("image/jpeg") && attached.contains("/9gBAgM="),
            "{attached}"
        );
        // A text that a camera has read adds no header.
        assert_eq!(header(&attached, "Bcc"), "");
    }

    #[test]
    fn mail_of_an_event_has_the_same_id_and_a_conversation_has_one_reference() {
        let one = letter(&[]);
        let ids = |mail: &str| {
            [
                header(mail, "Message-ID").to_owned(),
                header(mail, "References").to_owned(),
            ]
        };
        let (first, again, other) = (text(&one, "1", "a"), text(&one, "1", "a"), text(&one, "2", "a"));
        assert_eq!(ids(&first), ids(&again));
        assert_ne!(ids(&first)[0], ids(&other)[0]);
        assert_eq!(ids(&first)[1], ids(&other)[1]);
        assert!(ids(&first)[0].ends_with("@example.org>"), "{first}");
        let rule = letter(&[("thread", "rule")]);
        assert_ne!(ids(&text(&rule, "1", "a"))[1], ids(&first)[1]);
    }
}
