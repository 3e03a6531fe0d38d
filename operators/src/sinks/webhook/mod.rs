//! Incidents to a web server, by POST.

mod request;
mod signature;

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_flow::{
    Delivery, Incident, KeyKind, KeySpec, Notice, Settings, Sink, SinkError, SinkFactory, TrackEnd,
};

use self::request::HttpTransport;
use super::SinkKind;
use super::event::{incident_value, track_value};
use super::outbox::{Message, Outbox};
use super::outbox_keys::{self, outbox_options};
use super::secret::secret;

pub(super) const KIND: SinkKind = SinkKind {
    name: "webhook",
    about: "incidents to a web server, by POST, tried again until it has taken them (docs/sinks.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "url",
        kind: KeyKind::Text,
        about: "where to post to: `http://` or `https://` (required)",
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
        name: "tracks",
        kind: KeyKind::Flag,
        about: "posts tracks that ended, too; default false",
    },
    KeySpec {
        name: "timeout",
        kind: KeyKind::Duration,
        about: "how long one attempt may take (default `\"5s\"`)",
    },
    outbox_keys::PATH,
    outbox_keys::DEAD_LETTER_BYTES,
    outbox_keys::QUEUE,
    outbox_keys::GIVE_UP_AFTER,
];

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    request::checked_url(settings)?;
    Ok(Box::new(WebhookFactory(settings.clone())))
}

struct WebhookFactory(Settings);

impl SinkFactory for WebhookFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let secret = secret(settings, "secret", "secret_file")?;
        let transport = HttpTransport::new(request::checked_url(settings)?, secret, settings);
        Ok(Box::new(Webhook {
            outbox: Outbox::start("webhook", transport, outbox_options(settings)?)?,
            tracks: settings.flag("tracks", false),
        }))
    }

    fn targets(&self) -> Vec<PathBuf> {
        super::outbox_keys::path(&self.0).into_iter().collect()
    }
}

struct Webhook {
    outbox: Outbox,
    /// Whether tracks that ended are posted.
    tracks: bool,
}

impl Webhook {
    fn push(&self, stream: &std::sync::Arc<str>, ended_tracks: &[TrackEnd], incidents: &[Incident]) {
        let message = |id: String, event: &serde_json::Value| Message {
            stream: std::sync::Arc::clone(stream),
            id,
            body: event.to_string().into_bytes(),
            topic: String::new(),
        };
        for track in ended_tracks.iter().filter(|_| self.tracks) {
            let id = format!("{stream}/track/{}", track.id);
            self.outbox.push(message(id, &track_value(stream, track)));
        }
        for incident in incidents {
            // Of one incident, several updates may come.
            let id = format!("{}/{}/{}", incident.id, incident.phase.name(), incident.time_ms);
            self.outbox.push(message(id, &incident_value(stream, incident)));
        }
    }
}

impl Sink for Webhook {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.push(&delivery.stream, &delivery.ended_tracks, &delivery.incidents);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Analytics {
            stream,
            ended_tracks,
            incidents,
        } = notice
        {
            self.push(stream, ended_tracks, incidents);
        }
        Ok(())
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.outbox.counts()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.outbox.finish()
    }
}
