//! Sinks that users write in Python: a process gets event lines, one after the other, through an outbox.
//!
//! An event that the function raises for is given up. One whose process is late or gone is tried again, in another process;
//! after some tries it is given up, too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_flow::{
    Delivery, Incident, KeyFault, KeyKind, KeySpec, Notice, PYTHON_FUNCTION, PYTHON_INTERPRETER, Settings,
    Sink, SinkError, SinkFactory, TrackEnd,
};

use super::SinkKind;
use super::event::{write_analytics, write_event, write_notice};
use super::outbox::{Message, Outbox, Outcome, Transport};
use super::outbox_keys::{self, outbox_options};
use crate::operator::python::{CallError, FunctionKind, PythonFunction, WorkerProcess};

/// Longest time of one call without the key `timeout`.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Processes that one event may end.
const MAX_TRIES: u32 = 3;

/// Types of event lines.
const EVENTS: &[&str] = &[
    "frame",
    "incident",
    "track",
    "described",
    "dropped",
    "still",
    "state",
    "sink",
];

pub(super) const KIND: SinkKind = SinkKind {
    name: PYTHON_FUNCTION,
    about: "calls a function in Python with event lines, of a module in the folder of `--python` (docs/how-to/python-functions.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "events",
        kind: KeyKind::Texts,
        about: "types of event lines that it gets (docs/reference/events.md): `frame`, `incident`, `track`, `described`, `dropped`, \
                `still`, `state`, `sink`; default `[\"incident\"]`",
    },
    KeySpec {
        name: "timeout",
        kind: KeyKind::Duration,
        about: "longest time of one call: a process that takes longer is killed and started again; default 5s",
    },
    KeySpec {
        name: "memory",
        kind: KeyKind::Bytes,
        about: "address space of the process; Python raises MemoryError beyond it; default no limit",
    },
    PYTHON_INTERPRETER,
    outbox_keys::PATH,
    outbox_keys::DEAD_LETTER_BYTES,
    outbox_keys::QUEUE,
    outbox_keys::GIVE_UP_AFTER,
];

/// Events that were not taken, by the reason.
#[derive(Debug, Default)]
struct Failures {
    raised: AtomicU64,
    late: AtomicU64,
    ended: AtomicU64,
    restarts: AtomicU64,
}

impl Failures {
    fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = [
            ("raised", &self.raised),
            ("late", &self.late),
            ("ended", &self.ended),
            ("restarts", &self.restarts),
        ];
        counts
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
            .into_iter()
    }
}

/// Makes the sink, whose function must be there: its process is started.
///
/// # Errors
/// The events are none, or the function cannot be loaded.
fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let function = PythonFunction::of(FunctionKind::Sink, settings, ["timeout", "memory"], TIMEOUT);
    let function = function.ok_or_else(|| failed("no function in Python is named".to_owned()))?;
    let events = events(settings).map_err(failed)?;
    let process = WorkerProcess::start(&function);
    let process = process.map_err(|reason| failed(format!("{}: {reason}", function.name)))?;
    Ok(Box::new(PythonSinkFactory {
        function,
        process: Mutex::new(Some(process)),
        events,
        settings: settings.clone(),
    }))
}

fn failed(reason: String) -> SinkError {
    SinkError {
        target: "to Python".to_owned(),
        reason,
    }
}

/// The types of event lines that it gets.
fn events(settings: &Settings) -> Result<Vec<&'static str>, String> {
    let Some(named) = settings.texts("events") else {
        return Ok(vec!["incident"]);
    };
    let known = |name: &String| {
        let known = EVENTS.iter().find(|known| *known == name).copied();
        known.ok_or_else(|| {
            format!(
                "`events`: there is no event \"{}\"; there are {}",
                name.escape_debug(),
                EVENTS.join(", ")
            )
        })
    };
    let events = named.iter().map(known).collect::<Result<Vec<_>, String>>()?;
    if events.is_empty() {
        return Err("`events` is empty: leave it out for incidents".to_owned());
    }
    Ok(events)
}

/// Faults in the keys together.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let fault = |message| KeyFault {
        key: "events",
        message,
        hint: None,
    };
    events(settings).err().map(fault).into_iter().collect()
}

struct PythonSinkFactory {
    function: PythonFunction,
    /// The process by which the function was tried, for the first sink that is opened.
    process: Mutex<Option<WorkerProcess>>,
    events: Vec<&'static str>,
    settings: Settings,
}

impl SinkFactory for PythonSinkFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let failures = Arc::<Failures>::default();
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let transport = PythonTransport {
            function: self.function.clone(),
            is_started: process.is_some(),
            process,
            failures: Arc::clone(&failures),
            failing: None,
        };
        Ok(Box::new(PythonSink {
            outbox: Outbox::start("python", transport, outbox_options(&self.settings)?)?,
            events: self.events.clone(),
            failures,
            lines: Vec::new(),
            number: 0,
        }))
    }

    fn targets(&self) -> Vec<std::path::PathBuf> {
        outbox_keys::path(&self.settings).into_iter().collect()
    }
}

struct PythonSink {
    outbox: Outbox,
    events: Vec<&'static str>,
    failures: Arc<Failures>,
    /// Lines of an event, to be used again.
    lines: Vec<u8>,
    /// Number of the next event.
    number: u64,
}

impl PythonSink {
    fn asks_for(&self, event: &str) -> bool {
        self.events.contains(&event)
    }

    /// Hands over the lines of an event, if it is asked for.
    fn push(
        &mut self,
        event: &str,
        stream: &Arc<str>,
        write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
    ) -> Result<(), SinkError> {
        if !self.asks_for(event) {
            return Ok(());
        }
        self.lines.clear();
        write(&mut self.lines).map_err(|error| failed(weir_files::io_reason(&error)))?;
        for line in self
            .lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            self.number += 1;
            self.outbox.push(Message {
                stream: Arc::clone(stream),
                id: format!("{stream}/{event}/{}", self.number),
                body: line.to_vec(),
                topic: String::new(),
                picture: None,
            });
        }
        Ok(())
    }

    /// Hands over tracks that ended, and incidents.
    fn push_analytics(
        &mut self,
        stream: &Arc<str>,
        ended_tracks: &[TrackEnd],
        incidents: &[Incident],
    ) -> Result<(), SinkError> {
        self.push("track", stream, |out| {
            write_analytics(stream, ended_tracks, &[], out)
        })?;
        self.push("incident", stream, |out| {
            write_analytics(stream, &[], incidents, out)
        })
    }
}

impl Sink for PythonSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let stream = &delivery.stream;
        self.push("frame", stream, |out| write_event(delivery, out))?;
        self.push_analytics(stream, &delivery.ended_tracks, &delivery.incidents)
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let (event, stream) = match notice {
            Notice::Dropped { stream, .. } => ("dropped", stream),
            Notice::Still { stream, .. } => ("still", stream),
            Notice::State { stream, .. } => ("state", stream),
            Notice::Analytics {
                stream,
                ended_tracks,
                incidents,
            } => return self.push_analytics(stream, ended_tracks, incidents),
            Notice::Sink { sink, .. } => ("sink", sink),
            Notice::Described { description, .. } => ("described", &description.stream),
        };
        self.push(event, stream, |out| write_notice(notice, out))
    }

    fn wants_notices(&self) -> bool {
        let of_streams = ["dropped", "still", "state", "sink"];
        of_streams.iter().any(|event| self.asks_for(event))
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.outbox.counts();
        counts.extend(self.failures.counts());
        counts
    }

    fn outage(&self) -> Option<String> {
        self.outbox.outage()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.outbox.finish()
    }
}

struct PythonTransport {
    function: PythonFunction,
    process: Option<WorkerProcess>,
    failures: Arc<Failures>,
    /// The event that ended processes, and how many.
    failing: Option<(String, u32)>,
    /// Whether a process was started before.
    is_started: bool,
}

impl PythonTransport {
    fn named(&self, reason: &str) -> String {
        format!("{}: {reason}", self.function.name)
    }

    /// A process was lost by an event, which is given up once it has ended several.
    fn on_lost(&mut self, message: &Message, reason: &str) -> Outcome {
        self.process = None;
        let before = self.failing.take().filter(|(id, _)| *id == message.id);
        let tries = before.map_or(1, |(_, tries)| tries + 1);
        let reason = self.named(reason);
        if tries >= MAX_TRIES {
            return Outcome::Refused(reason);
        }
        self.failing = Some((message.id.clone(), tries));
        Outcome::Failed(reason)
    }
}

impl Transport for PythonTransport {
    fn attempt(&mut self, message: &Message) -> Outcome {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => match WorkerProcess::start(&self.function) {
                Ok(process) => {
                    if std::mem::replace(&mut self.is_started, true) {
                        self.failures.restarts.fetch_add(1, Ordering::Relaxed);
                    }
                    process
                }
                Err(reason) => return Outcome::Unreached(self.named(&reason)),
            },
        };
        match process.call_with_line(message.body.clone(), self.function.timeout) {
            Ok(_) => {
                self.process = Some(process);
                Outcome::Delivered
            }
            Err(CallError::Raised(reason)) => {
                self.process = Some(process);
                self.failures.raised.fetch_add(1, Ordering::Relaxed);
                Outcome::Refused(self.named(&reason))
            }
            Err(CallError::Late(reason)) => {
                self.failures.late.fetch_add(1, Ordering::Relaxed);
                self.on_lost(message, &reason)
            }
            Err(CallError::Lost(reason)) => {
                self.failures.ended.fetch_add(1, Ordering::Relaxed);
                self.on_lost(message, &reason)
            }
        }
    }

    fn close(&mut self) {
        self.process = None;
    }
}
