//! The event log of a run: every message into the machines of graphs, and every step of the other policies, with its
//! effects, a JSON line each.

use std::cell::RefCell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use weir_control::{ControlSpec, Effect, Message};
use weir_policy::{DecodeEffect, DecodeEvent};
use weir_types::{StreamId, Timestamp};

use crate::source::GateStep;

/// The first line: the specification of the machines of the first graph.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) weir_recording: u32,
    pub(crate) control: ControlSpec,
}

/// An effect that was carried out, and the messages that answered it at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Acted {
    pub(crate) effect: Effect,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) answers: Vec<Message>,
}

/// A line of the event log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// The machines of a graph took a message in; without one, they decided.
    Control {
        #[serde(default, skip_serializing_if = "is_first")]
        graph: u32,
        at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<Acted>,
    },
    /// A step of the levels of decoding.
    DecodeLevels {
        at: Timestamp,
        events: Vec<DecodeEvent>,
        effects: Vec<DecodeEffect>,
    },
    /// Steps of the gate of a stream; of one by the camera with its hold time.
    MotionGate {
        stream: StreamId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold_ms: Option<f64>,
        steps: Vec<GateStep>,
    },
    /// Another graph is in force, of that number; requests in flight of those before go on.
    Graph { number: u32, control: Box<ControlSpec> },
}

/// The graph that a run begins with has no number in lines.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_first(graph: &u32) -> bool {
    *graph == 0
}

/// The version of the format. Before 2, steps of policies were recorded apart, without the flow between them.
pub(crate) const VERSION: u32 = 2;

/// Writes the log; shared by the actors, which live on one thread.
#[derive(Clone)]
pub(crate) struct Recorder {
    writer: Rc<RefCell<Option<BufWriter<File>>>>,
    path: Rc<PathBuf>,
    /// Number of the graph whose steps it records.
    graph: u32,
    error: Rc<RefCell<Option<String>>>,
}

impl Recorder {
    pub(crate) fn create(path: &Path, control: &ControlSpec) -> std::io::Result<Self> {
        let writer = BufWriter::new(open_empty(path)?);
        let recorder = Self {
            writer: Rc::new(RefCell::new(Some(writer))),
            path: Rc::new(path.to_owned()),
            graph: 0,
            error: Rc::default(),
        };
        recorder.write_line(&Header {
            weir_recording: VERSION,
            control: control.clone(),
        });
        Ok(recorder)
    }

    /// Records that the machines of a graph took a message in, or decided where there is none, and what was carried out.
    pub(crate) fn record_control(&self, at: Timestamp, message: Option<Message>, effects: Vec<Acted>) {
        self.write_line(&Line::Control {
            graph: self.graph,
            at,
            message,
            effects,
        });
    }

    /// Records that another graph is in force; gives the recorder of its steps.
    pub(crate) fn record_graph(&self, number: u32, control: &ControlSpec) -> Self {
        self.write_line(&Line::Graph {
            number,
            control: Box::new(control.clone()),
        });
        Self {
            graph: number,
            ..self.clone()
        }
    }

    /// Records a step of the levels of decoding.
    pub(crate) fn record_levels(&self, at: Timestamp, events: &[DecodeEvent], effects: &[DecodeEffect]) {
        self.write_line(&Line::DecodeLevels {
            at,
            events: events.to_vec(),
            effects: effects.to_vec(),
        });
    }

    /// Records steps of the gate of a stream, of one by the camera with its hold time.
    pub(crate) fn record_gate(&self, stream: StreamId, hold_ms: Option<f64>, steps: Vec<GateStep>) {
        self.write_line(&Line::MotionGate {
            stream,
            hold_ms,
            steps,
        });
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
        Err(TryLockError::Error(error)) if weir_files::has_no_locks(&error) => tracing::warn!(
            "{} cannot be locked ({error}): another run that writes it is not noticed",
            path.display()
        ),
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
