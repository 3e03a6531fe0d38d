//! Services that bring messages to phones: the address, the headers and the body that each expects.
//!
//! | preset | request | picture |
//! |---|---|---|
//! | `ntfy` | `POST <url>/<topic>`, text, title in a header | the body; the text is in a header |
//! | `telegram` | `POST <url>/bot<token>/sendMessage`, JSON | `sendPhoto`, with the text as its caption |
//! | `slack` | `POST <url>`, JSON | none |
//! | `gotify` | `POST <url>/message`, JSON, token in a header | none |
//! | `discord` | `POST <url>`, JSON | a file beside the JSON |

use serde_json::{Value, json};

use super::encoding::{Part, header_value, multipart, shortened};

const JSON: &str = "application/json";
pub(super) const JPEG: &str = "image/jpeg";

/// A service that takes messages in a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    Ntfy,
    Telegram,
    Slack,
    Gotify,
    Discord,
}

/// Names of presets, in the order of the documents.
pub(super) const NAMES: &[&str] = &["ntfy", "telegram", "slack", "gotify", "discord"];

/// Names of a chat, and the token of an account.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub(super) token: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) chat: Option<String>,
}

/// A message for people.
pub(super) struct Note<'a> {
    pub(super) title: &'a str,
    pub(super) text: &'a str,
    pub(super) picture: Option<&'a [u8]>,
}

/// A request: the end of its path, its own headers, and its body.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

impl Preset {
    pub(super) fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Ntfy,
            Self::Telegram,
            Self::Slack,
            Self::Gotify,
            Self::Discord,
        ];
        let at = NAMES.iter().position(|known| *known == name)?;
        all.get(at).copied()
    }

    /// Address of the service, where it has one for all.
    pub(super) const fn url(self) -> Option<&'static str> {
        match self {
            Self::Ntfy => Some("https://ntfy.sh"),
            Self::Telegram => Some("https://api.telegram.org"),
            Self::Slack | Self::Gotify | Self::Discord => None,
        }
    }

    /// Keys that the preset needs, beside an address.
    pub(super) const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Ntfy => &["topic"],
            Self::Telegram => &["token", "chat"],
            Self::Gotify => &["token"],
            Self::Slack | Self::Discord => &[],
        }
    }

    /// Whether a key has a meaning for the preset.
    pub(super) fn has(self, key: &str) -> bool {
        self.required().contains(&key) || (self == Self::Ntfy && key == "token")
    }

    pub(super) const fn takes_pictures(self) -> bool {
        matches!(self, Self::Ntfy | Self::Telegram | Self::Discord)
    }

    /// The request for a message.
    pub(super) fn request(self, account: &Account, note: &Note<'_>) -> Request {
        let token = account.token.as_deref();
        match self {
            Self::Ntfy => ntfy(account, note),
            Self::Telegram => telegram(account, note),
            Self::Slack => {
                let both = format!("{}\n{}", slack_text(note.title), slack_text(note.text));
                json_request("", &json!({ "text": shortened(&both, 4_000) }))
            }
            Self::Gotify => {
                let message = json!({ "title": note.title, "message": note.text });
                let key = token.map(|token| ("X-Gotify-Key", token.to_owned()));
                Request {
                    headers: key.into_iter().collect(),
                    ..json_request("/message", &message)
                }
            }
            Self::Discord => discord(note),
        }
    }
}

fn json_request(path: &str, body: &Value) -> Request {
    Request {
        path: path.to_owned(),
        headers: Vec::new(),
        content_type: JSON.to_owned(),
        body: body.to_string().into_bytes(),
    }
}

fn ntfy(account: &Account, note: &Note<'_>) -> Request {
    let topic = account.topic.as_deref().unwrap_or_default();
    let text = shortened(note.text, 1_000);
    let mut headers = vec![("Title", header_value(note.title))];
    headers.extend(
        account
            .token
            .as_ref()
            .map(|token| ("Authorization", format!("Bearer {token}"))),
    );
    let (content_type, body) = match note.picture {
        Some(picture) => {
            headers.push(("Message", header_value(&text)));
            headers.push(("Filename", "alarm.jpg".to_owned()));
            (JPEG, picture.to_vec())
        }
        None => ("text/plain; charset=utf-8", text.into_bytes()),
    };
    Request {
        path: format!("/{topic}"),
        headers,
        content_type: content_type.to_owned(),
        body,
    }
}

fn telegram(account: &Account, note: &Note<'_>) -> Request {
    let chat = account.chat.as_deref().unwrap_or_default();
    let path = |method: &str| format!("/bot{}/{method}", account.token.as_deref().unwrap_or_default());
    let both = format!("{}\n{}", note.title, note.text);
    let Some(picture) = note.picture else {
        let message = json!({ "chat_id": chat, "text": shortened(&both, 4_096) });
        return json_request(&path("sendMessage"), &message);
    };
    let caption = shortened(&both, 1_024);
    let field = |name, text| Part {
        name,
        content_type: "text/plain; charset=utf-8",
        file_name: None,
        bytes: text,
    };
    let (content_type, body) = multipart(&[
        field("chat_id", chat.as_bytes()),
        field("caption", caption.as_bytes()),
        jpeg_part("photo", picture),
    ]);
    Request {
        path: path("sendPhoto"),
        headers: Vec::new(),
        content_type,
        body,
    }
}

fn discord(note: &Note<'_>) -> Request {
    let both = format!("{}\n{}", note.title, note.text);
    // A text that a camera has read mentions no one.
    let message = json!({ "content": shortened(&both, 2_000), "allowed_mentions": { "parse": [] } });
    let Some(picture) = note.picture else {
        return json_request("", &message);
    };
    let message = message.to_string();
    let json = Part {
        name: "payload_json",
        content_type: JSON,
        file_name: None,
        bytes: message.as_bytes(),
    };
    let (content_type, body) = multipart(&[json, jpeg_part("files[0]", picture)]);
    Request {
        path: String::new(),
        headers: Vec::new(),
        content_type,
        body,
    }
}

pub(super) fn jpeg_part<'a>(name: &'static str, bytes: &'a [u8]) -> Part<'a> {
    Part {
        name,
        content_type: JPEG,
        file_name: Some("alarm.jpg"),
        bytes,
    }
}

/// A text in which Slack finds no mentions and links.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
