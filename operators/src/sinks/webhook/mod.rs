//! Incidents to a web server, by POST.

mod request;
mod signature;

use std::path::PathBuf;

use weir_flow::{KeyKind, KeySpec, Settings, Sink, SinkError, SinkFactory};

use self::request::HttpTransport;
use super::SinkKind;
use super::event_sink::{self, EventSink};
use super::outbox::Outbox;
use super::outbox_keys::{self, outbox_options};
use super::secret::secret;

pub(super) const KIND: SinkKind = SinkKind {
    name: "webhook",
    about: "incidents to a web server, by POST, retried until the server has accepted them (docs/reference/sinks.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "url",
        kind: KeyKind::Text,
        about: "address to post to: `http://` or `https://` (required)",
    },
    KeySpec {
        name: "secret",
        kind: KeyKind::Text,
        about: "key of the signature in `X-Weir-Signature`, as `\"${WEBHOOK_SECRET}\"`; without it nothing is signed",
    },
    KeySpec {
        name: "secret_file",
        kind: KeyKind::File,
        about: "file that holds the key, instead of `secret`",
    },
    KeySpec {
        name: "ca_file",
        kind: KeyKind::File,
        about: "certificates of the trusted authorities, as PEM, for an address with `https://` (default those that Mozilla trusts)",
    },
    event_sink::TRACKS,
    KeySpec {
        name: "timeout",
        kind: KeyKind::Duration,
        about: "timeout of one attempt (default `\"5s\"`)",
    },
    outbox_keys::PATH,
    outbox_keys::DEAD_LETTER_BYTES,
    outbox_keys::QUEUE,
    outbox_keys::GIVE_UP_AFTER,
];

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    request::checked_tls(&request::checked_url(settings)?, settings)?;
    Ok(Box::new(WebhookFactory(settings.clone())))
}

struct WebhookFactory(Settings);

impl SinkFactory for WebhookFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let secret = secret(settings, "secret", "secret_file")?;
        let url = request::checked_url(settings)?;
        let encryption = request::checked_tls(&url, settings)?;
        let transport = HttpTransport::new(url, secret, encryption, settings);
        let outbox = Outbox::start("webhook", transport, outbox_options(settings)?)?;
        Ok(Box::new(EventSink::new(outbox, settings, |_, _| String::new())))
    }

    fn targets(&self) -> Vec<PathBuf> {
        super::outbox_keys::path(&self.0).into_iter().collect()
    }
}
