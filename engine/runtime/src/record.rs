//! The event log of a run: every step of the policy with its events and effects, a JSON line each.

use std::cell::RefCell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use weir_policy::gears::ShiftSpec;
use weir_policy::reservations::PlanSpec;
use weir_policy::{BreakerSpec, ModuleSpec, SlotsSpec};
use weir_types::Timestamp;

use crate::state_machine::{Line, StateMachine};

/// The first line: what the state machines were made from.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) weir_recording: u32,
    pub(crate) modules: Vec<ModuleSpec>,
    pub(crate) slots: SlotsSpec,
    #[serde(default)]
    pub(crate) breaker: BreakerSpec,
}

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

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
    pub(crate) fn create(
        path: &Path,
        modules: &[ModuleSpec],
        slots: &SlotsSpec,
        breaker: BreakerSpec,
    ) -> std::io::Result<Self> {
        let writer = BufWriter::new(open_empty(path)?);
        let recorder = Self {
            writer: Rc::new(RefCell::new(Some(writer))),
            path: Rc::new(path.to_owned()),
            graph: 0,
            error: Rc::default(),
        };
        recorder.write_line(&Header {
            weir_recording: VERSION,
            modules: modules.to_vec(),
            slots: slots.clone(),
            breaker,
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
        let line = machine.line(at, events.to_vec(), effects.to_vec());
        self.write_line(&line.of_graph(self.graph));
    }

    /// Records that another graph is in force; gives what records its steps.
    pub(crate) fn record_graph(
        &self,
        number: u32,
        modules: &[ModuleSpec],
        slots: &SlotsSpec,
        breaker: BreakerSpec,
    ) -> Self {
        self.write_line(&Line::Graph {
            number,
            modules: modules.to_vec(),
            slots: slots.clone(),
            breaker,
        });
        Self {
            graph: number,
            ..self.clone()
        }
    }

    /// Records what the gears of its graph are shifted by in the beginning.
    pub(crate) fn record_gears(&self, spec: &ShiftSpec) {
        self.write_line(&Line::GearPlan {
            graph: self.graph,
            spec: spec.clone(),
        });
    }

    /// Records the plan that a run begins with.
    pub(crate) fn record_plan(&self, plan: &PlanSpec) {
        let PlanSpec {
            number,
            reserve,
            owners,
        } = plan.clone();
        self.write_line(&Line::Plan {
            spec: reserve,
            number,
            owners,
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
