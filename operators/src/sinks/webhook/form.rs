//! Requests as the keys of a sink describe them: body, headers and picture, by templates or by a preset.

use serde_json::Value;
use weir_analytics::transforms::{TimeZone, time_zone};
use weir_flow::{KeyFault, Settings};

use super::super::outbox::Message;
use super::encoding::{Part, header_value, multipart};
use super::preset::{Account, JPEG, Note, Preset, jpeg_part};
use super::template::{Escape, Template};
use super::variables;

/// Bytes of a body without its picture.
const MAX_BODY: usize = 64 << 10;

/// Bytes of a header.
const MAX_HEADER: usize = 2 << 10;

/// Further headers of a request.
const MAX_HEADERS: usize = 32;

/// Headers that the sink or the connection writes.
const RESERVED: [&str; 6] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "user-agent",
    "expect",
];

/// Beginnings of the names of headers that the sink writes.
const RESERVED_PREFIXES: [&str; 2] = ["x-weir-", "webhook-"];

/// Way in which the picture of an incident is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attach {
    No,
    Picture,
    PictureBody,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Form {
    preset: Option<Preset>,
    body: Option<Template>,
    headers: Vec<(String, Template)>,
    content_type: String,
    attach: Attach,
    updates: bool,
    zone: TimeZone,
}

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct Prepared {
    /// End of the path, behind the address.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Form {
    /// Reads the form of requests; faults are added to `faults`.
    pub(super) fn read(settings: &Settings, faults: &mut Vec<KeyFault>) -> Self {
        let preset = settings.text("preset").and_then(Preset::named);
        let attach = match settings.text("attach") {
            Some("picture") => Attach::Picture,
            Some("picture-body") => Attach::PictureBody,
            _ => Attach::No,
        };
        if let Some(reason) = attach_fault(preset, attach) {
            faults.push(fault("attach", reason, "leave it out"));
        }
        let mut headers = Vec::new();
        let mut content_type = "application/json".to_owned();
        let texts = settings.texts("headers").unwrap_or_default();
        if texts.len() > MAX_HEADERS {
            let message = format!(
                "`headers` has {} entries; {MAX_HEADERS} are the most",
                texts.len()
            );
            faults.push(fault("headers", message, "leave some out"));
        }
        for text in texts.iter().take(MAX_HEADERS) {
            match read_header(text, preset) {
                Ok(Header::ContentType(value)) => content_type = value,
                Ok(Header::Other(name, template)) => headers.push((name, template)),
                // A header may hold a token, so that its text is not quoted.
                Err(reason) => faults.push(fault("headers", format!("`headers`: {reason}"), HEADER_HINT)),
            }
        }
        let is_json = preset.is_none() && is_json(&content_type);
        let escape = if is_json { Escape::Json } else { Escape::Plain };
        let body = settings.text("body").and_then(|source| {
            let checked = Template::checked(source, escape, MAX_BODY);
            checked
                .map_err(|reason| {
                    let hint = "such as body = '{\"text\": \"{{ text }}\"}'";
                    faults.push(fault("body", format!("`body`: {reason}"), hint));
                })
                .ok()
        });
        Self {
            preset,
            body,
            headers,
            content_type,
            attach,
            updates: settings.flag("updates", preset.is_none()),
            zone: zone(settings),
        }
    }

    /// Whether incidents are sent again as they change and end, unless they are grouped.
    pub(super) const fn updates(&self) -> bool {
        self.updates
    }

    pub(super) fn has_pictures(&self) -> bool {
        self.attach != Attach::No
    }

    pub(super) const fn is_preset(&self) -> bool {
        self.preset.is_some()
    }

    /// The request for an event.
    ///
    /// # Errors
    /// A template that was checked is too long or no JSON for this event.
    pub(super) fn prepare(&self, account: &Account, message: &Message) -> Result<Prepared, String> {
        let picture = message.picture.as_ref().filter(|_| self.has_pictures());
        let picture = picture.map(|picture| picture.jpeg());
        let needs_event = self.preset.is_some() || self.body.is_some() || !self.headers.is_empty();
        let event: Value = if needs_event {
            serde_json::from_slice(&message.body).map_err(|error| error.to_string())?
        } else {
            Value::Null
        };
        let body = self.body.as_ref().map(|body| body.render(&event, &self.zone));
        let body = body.transpose().map_err(|reason| format!("`body`: {reason}"))?;
        let mut own = Vec::new();
        for (name, template) in &self.headers {
            let value = template.render(&event, &self.zone);
            let value = value.map_err(|reason| format!("header {name}: {reason}"))?;
            own.push((name.clone(), header_value(&value)));
        }
        let prepared = match self.preset {
            Some(preset) => self.by_preset(preset, account, &event, body, picture),
            None => self.by_body(account, message, body, picture),
        };
        Ok(Prepared {
            headers: overridden(prepared.headers, own),
            ..prepared
        })
    }

    fn by_preset(
        &self,
        preset: Preset,
        account: &Account,
        event: &Value,
        text: Option<String>,
        picture: Option<&[u8]>,
    ) -> Prepared {
        let all = variables::variables(event, &self.zone);
        let of = |name: &str| all[name].as_str().unwrap_or_default().to_owned();
        let (title, text) = (of("title"), text.unwrap_or_else(|| of("text")));
        let note = Note {
            title: &title,
            text: &text,
            picture,
        };
        let request = preset.request(account, &note);
        let headers = request.headers.into_iter();
        let mut headers: Vec<_> = headers.map(|(name, value)| (name.to_owned(), value)).collect();
        headers.push(("Content-Type".to_owned(), request.content_type));
        Prepared {
            path: request.path,
            headers,
            body: request.body,
        }
    }

    fn by_body(
        &self,
        account: &Account,
        message: &Message,
        body: Option<String>,
        picture: Option<&[u8]>,
    ) -> Prepared {
        let text = body.map_or_else(|| message.body.clone(), String::into_bytes);
        let (content_type, body) = match (self.attach, picture) {
            (Attach::Picture, Some(picture)) => {
                let event = Part {
                    name: "event",
                    content_type: &self.content_type,
                    file_name: None,
                    bytes: &text,
                };
                multipart(&[event, jpeg_part("picture", picture)])
            }
            (Attach::PictureBody, Some(picture)) => (JPEG.to_owned(), picture.to_vec()),
            _ => (self.content_type.clone(), text),
        };
        let mut headers = vec![("Content-Type".to_owned(), content_type)];
        let token = account.token.as_ref();
        headers.extend(token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
        Prepared {
            path: String::new(),
            headers,
            body,
        }
    }
}

/// The headers of the form, but for those that the user names.
fn overridden(headers: Vec<(String, String)>, own: Vec<(String, String)>) -> Vec<(String, String)> {
    let is_named = |name: &str| own.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let kept = headers.into_iter().filter(|(name, _)| !is_named(name));
    let kept: Vec<_> = kept.collect();
    kept.into_iter().chain(own).collect()
}

const HEADER_HINT: &str = "headers = [\"Priority: high\", \"Tags: {{ class }}\"]";

enum Header {
    ContentType(String),
    Other(String, Template),
}

fn read_header(text: &str, preset: Option<Preset>) -> Result<Header, String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a header is a name, a colon and a value")?;
    let (name, value) = (name.trim(), value.trim());
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("the name of a header has letters, digits and hyphens".to_owned());
    }
    let small = name.to_ascii_lowercase();
    let is_reserved = RESERVED.contains(&small.as_str())
        || RESERVED_PREFIXES.iter().any(|prefix| small.starts_with(prefix));
    if is_reserved || (small == "content-type" && preset.is_some()) {
        return Err(format!("{name} is written by the sink itself"));
    }
    if small == "content-type" {
        let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !value.contains('{');
        return if is_plain && !value.is_empty() {
            Ok(Header::ContentType(value.to_owned()))
        } else {
            Err("Content-Type is a plain text, such as text/plain".to_owned())
        };
    }
    let template = Template::checked(value, Escape::Plain, MAX_HEADER);
    let template = template.map_err(|reason| format!("{name}: {reason}"))?;
    Ok(Header::Other(name.to_owned(), template))
}

/// Whether a content type is that of JSON documents.
fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

fn attach_fault(preset: Option<Preset>, attach: Attach) -> Option<&'static str> {
    match (preset, attach) {
        (Some(_), Attach::PictureBody) => Some("`attach`: with `preset` only \"picture\" has a meaning"),
        (Some(preset), Attach::Picture) if !preset.takes_pictures() => {
            Some("`attach`: messages of this service have no pictures")
        }
        _ => None,
    }
}

/// The zone of times in messages; a zone that is none is a fault of the keys of alarms.
pub(in crate::sinks) fn zone(settings: &Settings) -> TimeZone {
    let zone = settings.text("timezone").map(time_zone);
    zone.and_then(Result::ok).unwrap_or(TimeZone::UTC)
}

pub(in crate::sinks) fn fault(key: &'static str, message: impl Into<String>, hint: &str) -> KeyFault {
    KeyFault {
        key,
        message: message.into(),
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    }
}
