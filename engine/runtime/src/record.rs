//! The event log of a run: every step of the policy with its events and effects, a JSON line each. A recording can be
//! replayed through the policy, which must decide the same.

use std::cell::RefCell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_policy::reservations::{Reservations, ReserveSpec};
use weir_policy::{Module, ModuleSpec, Slots, SlotsSpec};
use weir_types::Timestamp;

use crate::state_machine::{Line, StateMachine};

/// The first line: what the state machines were made from.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    weir_recording: u32,
    modules: Vec<ModuleSpec>,
    slots: SlotsSpec,
}

/// The version of the format.
const VERSION: u32 = 1;

/// Writes the log; shared by the actors, which live on one thread.
#[derive(Clone)]
pub(crate) struct Recorder {
    writer: Rc<RefCell<Option<BufWriter<File>>>>,
    path: Rc<PathBuf>,
    error: Rc<RefCell<Option<String>>>,
}

impl Recorder {
    pub(crate) fn create(path: &Path, modules: &[ModuleSpec], slots: &SlotsSpec) -> std::io::Result<Self> {
        let writer = BufWriter::new(open_empty(path)?);
        let recorder = Self {
            writer: Rc::new(RefCell::new(Some(writer))),
            path: Rc::new(path.to_owned()),
            error: Rc::default(),
        };
        recorder.write_line(&Header {
            weir_recording: VERSION,
            modules: modules.to_vec(),
            slots: slots.clone(),
        });
        Ok(recorder)
    }

    /// Records a step of a state machine.
    pub(crate) fn record_step<M: StateMachine>(
        &self,
        machine: &M,
        at: Timestamp,
        events: &[M::Event],
        effects: &[M::Effect],
    ) {
        self.write_line(&machine.line(at, events.to_vec(), effects.to_vec()));
    }

    /// Records that a plan comes into force.
    pub(crate) fn record_plan(&self, spec: &ReserveSpec) {
        self.write_line(&Line::Plan { spec: spec.clone() });
    }

    /// Writes a line. A disk that is full ends the recording, not the run.
    fn write_line(&self, line: &impl Serialize) {
        let mut writer = self.writer.borrow_mut();
        let Some(file) = writer.as_mut() else { return };
        let written = serde_json::to_writer(&mut *file, line).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|()| file.write_all(b"\n")) {
            self.on_write_error(&error);
            if let Some(broken) = writer.take() {
                // What the disk did not take must not be tried once more.
                drop(broken.into_parts());
            }
        }
    }

    fn on_write_error(&self, error: &std::io::Error) {
        let error = format!(
            "cannot record to {}: {}; the recording is incomplete",
            self.path.display(),
            weir_files::io_reason(error)
        );
        // Debug only: it is in the report, and shown where the run ends.
        tracing::debug!("{error}");
        self.error.borrow_mut().get_or_insert(error);
    }

    /// Completes it; gives the first error where it is incomplete.
    pub(crate) fn finish(&self) -> Option<String> {
        if let Some(mut file) = self.writer.borrow_mut().take()
            && let Err(error) = file.flush()
        {
            self.on_write_error(&error);
            drop(file.into_parts());
        }
        self.error.borrow().clone()
    }
}

/// Opens the file of a log, empty and locked for as long as it is open. An older log is overwritten; a file that is no log
/// is not.
fn open_empty(path: &Path) -> std::io::Result<File> {
    let rejected = |kind, reason: &str| Err(std::io::Error::new(kind, reason.to_owned()));
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return OpenOptions::new().write(true).open(path);
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return rejected(
                ErrorKind::ResourceBusy,
                "another run is writing it: choose another name",
            );
        }
        // Some network file systems lock nothing.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut head = vec![0; LOG_PREFIX.len()];
    if file.metadata()?.len() > 0 && (file.read_exact(&mut head).is_err() || head != LOG_PREFIX) {
        return rejected(
            ErrorKind::AlreadyExists,
            "it exists already, and is no event log: choose another name",
        );
    }
    file.set_len(0)?;
    file.rewind()?;
    Ok(file)
}

/// The beginning of every log: the first key of its header.
const LOG_PREFIX: &[u8] = b"{\"weir_recording\":";

/// What was replayed of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Steps replayed.
    pub steps: u64,
    /// Events in them.
    pub events: u64,
    /// Effects, all as recorded.
    pub effects: u64,
}

/// Why a recording cannot be verified.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// It cannot be read.
    #[error("cannot read the recording {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Of the operating system or the parser.
        reason: String,
    },
    /// A line that is not a step.
    #[error("{path}:{line}: not a step of a recording: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Of the operating system or the parser.
        reason: String,
    },
    /// The policy decides differently now.
    #[error("{path}:{line}: the policy decided differently: recorded {recorded}, now {now}")]
    Differs {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Effects of the recording.
        recorded: String,
        /// Effects now.
        now: String,
    },
}

/// The events and effects of a step take some kilobytes; a longer line is not from a recording.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Replays a recording through the policy; every step must have exactly the recorded effects.
///
/// # Errors
/// [`VerifyError`], with the first line that differs.
pub fn verify(path: &Path) -> Result<VerifyReport, VerifyError> {
    let read = |reason: String| VerifyError::Read {
        path: path.to_owned(),
        reason,
    };
    let lines = weir_files::lines(path, MAX_LINE_BYTES, u64::MAX);
    let mut lines = lines.map_err(|error| read(error.to_string()))?.lines();
    let first = lines.next().ok_or_else(|| read("it is empty".to_owned()))?;
    let first = first.map_err(|error| read(error.to_string()))?;
    let header: Header = serde_json::from_str(&first).map_err(|error| read(format!("no header: {error}")))?;
    if header.weir_recording != VERSION {
        return Err(read(format!(
            "it has version {}, this program reads {VERSION}",
            header.weir_recording
        )));
    }
    let mut policy = Replay {
        modules: header.modules.into_iter().map(Module::new).collect(),
        slots: Slots::new(header.slots),
        reservations: None,
    };
    let mut verified = VerifyReport::default();
    for (number, line) in (2..).zip(lines) {
        let line = line.map_err(|error| read(error.to_string()))?;
        let bad = |reason: String| VerifyError::Line {
            path: path.to_owned(),
            line: number,
            reason,
        };
        let line: Line = serde_json::from_str(&line).map_err(|error| bad(error.to_string()))?;
        let differs = |(recorded, now)| VerifyError::Differs {
            path: path.to_owned(),
            line: number,
            recorded,
            now,
        };
        let (events, effects) = policy
            .step(line)
            .ok_or_else(|| bad("no such module, or no plan".to_owned()))?
            .map_err(differs)?;
        verified.steps += 1;
        verified.events += events;
        verified.effects += effects;
    }
    Ok(verified)
}

/// The state machines of a recording.
struct Replay {
    modules: Vec<Module>,
    slots: Slots,
    reservations: Option<Reservations>,
}

impl Replay {
    /// Replays one step: counts of events and effects, or both sides where they differ; `None` for an unknown module.
    fn step(&mut self, line: Line) -> Option<Result<(u64, u64), (String, String)>> {
        match line {
            Line::Module {
                id,
                at,
                events,
                effects,
            } => Some(replay(self.modules.get_mut(id.index())?, at, events, &effects)),
            Line::Slots { at, events, effects } => Some(replay(&mut self.slots, at, events, &effects)),
            Line::Reservations { at, events, effects } => {
                Some(replay(self.reservations.as_mut()?, at, events, &effects))
            }
            Line::Plan { spec } => {
                self.reservations = Some(Reservations::new(&spec));
                Some(Ok((0, 0)))
            }
        }
    }
}

/// Decides a recorded step again.
fn replay<M: StateMachine>(
    machine: &mut M,
    at: Timestamp,
    events: Vec<M::Event>,
    recorded: &[M::Effect],
) -> Result<(u64, u64), (String, String)> {
    let count = events.len() as u64;
    let mut now = Vec::new();
    machine.step(events, at, &mut now);
    if recorded == now {
        Ok((count, now.len() as u64))
    } else {
        Err((format!("{recorded:?}"), format!("{now:?}")))
    }
}
