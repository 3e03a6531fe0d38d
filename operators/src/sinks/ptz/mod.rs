//! A camera that moves to a preset when an incident begins, and back after a time.

mod mover;
mod plan;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_analytics::{AlarmGate, AlarmVerdict};
use weir_flow::{
    Delivery, Incident, KeyFault, KeyKind, KeySpec, Notice, Settings, Sink, SinkError, SinkFactory,
    SourceLogin,
};

use self::mover::{Mover, MoverThread};
use super::event_sink::HeldAlarms;
use super::{SinkKind, alarm_keys};
use crate::onvif::Camera;

pub(super) const KIND: SinkKind = SinkKind {
    name: "ptz",
    about: "moves a camera to one of its presets when an incident begins, by ONVIF",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "camera",
        kind: KeyKind::Text,
        about: "name of the camera that moves; it has `onvif` (required)",
    },
    KeySpec {
        name: "preset",
        kind: KeyKind::Text,
        about: "name of the preset that it moves to, or its token (required)",
    },
    KeySpec {
        name: "home",
        kind: KeyKind::Text,
        about: "preset that it returns to (default: it stays)",
    },
    KeySpec {
        name: "home_after",
        kind: KeyKind::Duration,
        about: "time after the last event of an alarm until it returns (default `\"60s\"`)",
    },
    alarm_keys::COOLDOWN,
    alarm_keys::QUIET_HOURS,
    alarm_keys::QUIET_DAYS,
    alarm_keys::QUIET_EXCEPT,
    alarm_keys::TIMEZONE,
];

/// Seconds until a return.
const HOME_AFTER_S: f64 = 60.0;

/// Keys that the camera of the graph fills in: its device service, its address, its user and the file with the password.
const SERVICE: &str = "onvif";
const URI: &str = "uri";
const USER: &str = "user";
const PASSWORD_FILE: &str = "password_file";

/// The camera that a graph names, for the settings of a sink that moves it.
#[must_use]
pub fn with_ptz_camera(
    mut settings: Settings,
    service: &str,
    uri: &str,
    login: Option<&SourceLogin>,
) -> Settings {
    let mut add = |key: &str, value: &str| {
        let value = weir_flow::Value::Text(value.to_owned());
        settings.0.insert(key.to_owned(), value);
    };
    add(SERVICE, service);
    add(URI, uri);
    if let Some(login) = login {
        add(USER, &login.user);
        if let Some(file) = &login.password_file {
            add(PASSWORD_FILE, &file.to_string_lossy());
        }
    }
    settings
}

/// Faults of the keys together.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let mut faults = alarm_keys::faults(settings);
    for (key, hint) in [
        ("camera", "camera = \"yard\", a camera with `onvif`"),
        ("preset", "preset = \"gate\", a preset of the camera"),
    ] {
        if settings.text(key).is_none_or(|text| text.trim().is_empty()) {
            faults.push(KeyFault {
                key,
                message: format!("it has no `{key}`"),
                hint: Some(hint.to_owned()),
            });
        }
    }
    if settings.0.contains_key("home_after") && home(settings).is_none() {
        faults.push(KeyFault {
            key: "home_after",
            message: "`home_after` is without `home`".to_owned(),
            hint: Some("home = \"overview\", a preset of the camera".to_owned()),
        });
    }
    faults
}

fn home(settings: &Settings) -> Option<&str> {
    settings.text("home").filter(|home| !home.trim().is_empty())
}

fn failed(settings: &Settings, reason: impl Into<String>) -> SinkError {
    SinkError {
        target: format!("to camera {}", settings.text("camera").unwrap_or_default()),
        reason: reason.into(),
    }
}

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let faults = faults(settings);
    if !faults.is_empty() {
        return Err(alarm_keys::as_error("of a ptz sink", &faults));
    }
    Ok(Box::new(PtzFactory(settings.clone())))
}

struct PtzFactory(Settings);

impl PtzFactory {
    fn mover(&self) -> Result<Mover, SinkError> {
        let settings = &self.0;
        let text = |key: &str| settings.text(key).unwrap_or_default();
        let login = settings.text(USER).map(|user| SourceLogin {
            user: user.to_owned(),
            password_file: settings.text(PASSWORD_FILE).map(PathBuf::from),
        });
        let camera = Camera::new(text(SERVICE), text(URI), login.as_ref());
        Ok(Mover {
            camera: camera.map_err(|reason| failed(settings, reason))?,
            name: text("camera").to_owned(),
            preset: text("preset").to_owned(),
            home: home(settings).map(str::to_owned),
        })
    }
}

impl SinkFactory for PtzFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let mover = self.mover()?;
        let presets = match mover.resolve() {
            Ok(presets) => Some(presets),
            Err((reason, true)) => return Err(failed(settings, reason)),
            Err((reason, false)) => {
                let camera = mover.name.as_str();
                tracing::warn!(
                    camera,
                    "its presets are not known yet, and are asked before its first move: {reason}"
                );
                None
            }
        };
        let after_ms = settings.number("home_after", HOME_AFTER_S) * 1e3;
        let home_after_ms = mover.home.is_some().then_some(after_ms as u64);
        let thread = MoverThread::start(mover, presets, home_after_ms);
        Ok(Box::new(PtzSink {
            thread: thread.map_err(|error| failed(settings, error.to_string()))?,
            gate: alarm_keys::gate(settings)?,
            held: HeldAlarms::new(settings),
        }))
    }
}

struct PtzSink {
    thread: MoverThread,
    gate: AlarmGate,
    held: HeldAlarms,
}

impl PtzSink {
    fn push(&mut self, stream: &Arc<str>, incidents: &[Incident]) {
        for incident in incidents {
            let verdict = self.gate.on_event(stream, incident);
            self.held.count(verdict);
            match verdict {
                AlarmVerdict::Alarm { .. } => self.thread.on_alarm(&incident.id),
                AlarmVerdict::FollowUp => self.thread.on_follow_up(),
                AlarmVerdict::Held(_) | AlarmVerdict::HeldFollowUp => {}
            }
        }
    }
}

impl Sink for PtzSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.push(&delivery.stream, &delivery.incidents);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Analytics {
            stream, incidents, ..
        } = notice
        {
            self.push(stream, incidents);
        }
        Ok(())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.gate.on_stream_removed(stream);
        Ok(())
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.thread.counts();
        let mut all = BTreeMap::from(
            [
                ("moves", &counts.moves),
                ("returns", &counts.returns),
                ("failed", &counts.failed),
                ("replaced", &counts.replaced),
            ]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed))),
        );
        self.held.add_to(&mut all);
        all
    }

    fn outage(&self) -> Option<String> {
        self.thread.outage()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.thread.stop();
        Ok(())
    }
}
