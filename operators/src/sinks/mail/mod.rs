//! Incidents by mail, with their pictures.

#[cfg(feature = "mail")]
mod connect;
mod keys;
#[cfg(feature = "mail")]
mod letter;
#[cfg(feature = "mail")]
mod smtp;

use std::net::IpAddr;

use weir_flow::{KeyFault, Settings, SinkError, SinkFactory};

use super::webhook::{Escape, Template, fault};
use super::{SinkKind, alarm_keys};

pub(super) const KIND: SinkKind = SinkKind {
    name: "mail",
    about: "incidents by mail, with their pictures, retried until a mail server has accepted them (docs/reference/mail.md; feature `mail`)",
    keys: keys::KEYS,
    file_per_stream: false,
    create,
};

/// Recipients of a mail.
const MAX_RECIPIENTS: usize = 32;

/// Bytes of a subject and of a text.
const MAX_SUBJECT: usize = 1 << 10;
const MAX_BODY: usize = 64 << 10;

/// All faults of the keys; no file is read.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let mut faults = alarm_keys::faults(settings);
    let text = |key: &str| settings.text(key).filter(|text| !text.is_empty());
    match text("server") {
        None => faults.push(fault(
            "server",
            "it has no `server`",
            "server = \"mail.example.org\"",
        )),
        Some(server) if !is_host(server) => {
            let hint = "write the name or address alone; `port` has the port";
            faults.push(fault("server", "`server` is no name or address", hint));
        }
        Some(server) if text("security") == Some("none") && !is_loopback(server) => {
            let message = "`security = \"none\"`: mails and the password could be read on the way";
            faults.push(fault("security", message, "use \"tls\" or \"starttls\""));
        }
        Some(_) => {}
    }
    if text("user").is_some() && text("password").is_none() && text("password_file").is_none() {
        let hint = "password = \"${MAIL_PASSWORD}\", or a file with it by `password_file`";
        faults.push(fault("user", "`user` has no password", hint));
    }
    let hint = "from = \"weir@example.org\"";
    match text("from").map(address_fault) {
        None => faults.push(fault("from", "it has no `from`", hint)),
        Some(Some(reason)) => faults.push(fault("from", format!("`from`: {reason}"), hint)),
        Some(None) => {}
    }
    check_recipients(settings, &mut faults);
    for key in ["subject", "body"] {
        faults.extend(template(settings, key).err());
    }
    faults
}

fn check_recipients(settings: &Settings, faults: &mut Vec<KeyFault>) {
    let to = settings.texts("to").unwrap_or_default();
    if to.is_empty() || to.len() > MAX_RECIPIENTS {
        let message = format!(
            "`to` names {} recipients; one to {MAX_RECIPIENTS} are possible",
            to.len()
        );
        faults.push(fault("to", message, "to = [\"me@example.org\"]"));
    }
    for (index, address) in to.iter().take(MAX_RECIPIENTS).enumerate() {
        if let Some(reason) = address_fault(address) {
            let message = format!("entry {} of `to`: {reason}", index + 1);
            faults.push(fault("to", message, "to = [\"me@example.org\"]"));
        }
    }
}

/// The template of a key, or its default.
fn template(settings: &Settings, key: &'static str) -> Result<Template, KeyFault> {
    let (default, max_bytes) = match key {
        "subject" => ("{{ title }}", MAX_SUBJECT),
        _ => ("{{ text }}", MAX_BODY),
    };
    let source = settings.text(key).unwrap_or(default);
    let checked = Template::checked(source, Escape::Plain, max_bytes);
    checked.map_err(|reason| {
        let hint = format!("such as {key} = \"{default}\"");
        fault(key, format!("`{key}`: {reason}"), &hint)
    })
}

/// Reason for which a text is no mail address, with or without a name before it in the form `Name <user@host>`.
fn address_fault(text: &str) -> Option<&'static str> {
    let address = match text.rsplit_once('<') {
        Some((_, end)) => end.strip_suffix('>').unwrap_or_default(),
        None => text,
    };
    let (user, host) = address.rsplit_once('@').unwrap_or_default();
    let is_plain = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"<>(),;:\"\\".contains(&byte))
    };
    if text.chars().any(char::is_control) || text.len() > 320 {
        Some("it is too long, or holds control characters")
    } else if user.is_empty() || !is_plain(user) || user.contains('@') || !is_host(host) {
        Some("it is no mail address of ASCII characters")
    } else {
        None
    }
}

/// Whether a text can be the name or the address of a machine.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(fits)
        && (!text.contains(':') || text.parse::<IpAddr>().is_ok())
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let faults = faults(settings);
    if !faults.is_empty() {
        return Err(alarm_keys::as_error("by mail", &faults));
    }
    build(settings)
}

#[cfg(feature = "mail")]
fn build(settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    let factory = smtp::MailFactory(settings.clone());
    factory.transport()?;
    Ok(Box::new(factory))
}

#[cfg(not(feature = "mail"))]
fn build(_settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    Err(super::feature::missing(KIND.name))
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn found(more: &[(&str, &str)]) -> Vec<&'static str> {
        let keys = [("server", "mail.example.org"), ("from", "weir@example.org")];
        let mut settings = Settings::default();
        for (key, text) in keys.iter().chain(more) {
            let value = match *key {
                "to" => Value::Texts(text.split(' ').map(str::to_owned).collect()),
                _ => Value::Text((*text).to_owned()),
            };
            settings.0.insert((*key).to_owned(), value);
        }
        let to = Value::Texts(vec!["Me <me@example.org>".to_owned()]);
        settings.0.entry("to".to_owned()).or_insert(to);
        faults(&settings).iter().map(|fault| fault.key).collect()
    }

    #[test]
    fn keys_that_cannot_be_used_are_refused_by_name() {
        assert_eq!(found(&[]), [""; 0]);
        assert_eq!(found(&[("server", "https://mail.example.org")]), ["server"]);
        assert_eq!(found(&[("server", "mail.example.org:465")]), ["server"]);
        assert_eq!(found(&[("security", "none")]), ["security"]);
        for host in ["localhost", "127.0.0.1", "::1"] {
            assert_eq!(found(&[("security", "none"), ("server", host)]), [""; 0]);
        }
        assert_eq!(found(&[("user", "me")]), ["user"]);
        assert_eq!(found(&[("subject", "{{ nothing }}")]), ["subject"]);
        assert_eq!(found(&[("body", "{% macro %}")]), ["body"]);
        assert_eq!(found(&[("to", "")]), ["to"]);
        assert_eq!(found(&[("to", "a@b.c d@e@f g")]), ["to", "to"]);
        let many = "a@b.c ".repeat(33);
        assert_eq!(found(&[("to", many.trim())]), ["to"]);
    }

    #[test]
    fn addresses_have_no_room_for_commands() {
        for address in ["a@b.c", "a.b+c@b-d.example", "Weir at home <a@b.c>"] {
            assert_eq!(address_fault(address), None, "{address}");
        }
        for address in [
            "",
            "a",
            "@b.c",
            "a@",
            "a b@c.d",
            "a@b.c\r\nRCPT TO:<x@y.z>",
            "<a@b.c",
            "a@b.c>",
            "a@b.c, d@e.f",
            "\u{fc}@b.c",
        ] {
            assert!(address_fault(address).is_some(), "{address}");
        }
    }
}
