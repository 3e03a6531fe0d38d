//! A function in Python as a model: each session has a worker process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_flow::{Batching, DeviceKind, Frame, Image, Item, Model, Region, Session, SessionError};

use super::process::{PythonFunction, WorkerProcess};
use super::session::PythonSession;

/// Size of the blank pictures by which a function is measured: of frames, and of crops.
const BLANK_FRAME: (u32, u32) = (640, 360);
const BLANK_CROP: (u32, u32) = (128, 128);

/// A function that worker processes call.
pub struct PythonModel(Arc<Shared>);

/// Parts that the sessions of a model share.
pub(super) struct Shared {
    pub(super) function: PythonFunction,
    /// Processes of sessions that were closed after a failure of the function alone. The next session takes one instead of
    /// another start of the interpreter.
    idle: Mutex<Vec<WorkerProcess>>,
    /// Batches that failed.
    failures: AtomicU64,
}

impl PythonModel {
    /// The function as a model. No process is started.
    #[must_use]
    pub fn new(function: PythonFunction) -> Self {
        Self(Arc::new(Shared {
            function,
            idle: Mutex::default(),
            failures: AtomicU64::new(0),
        }))
    }
}

impl Model for PythonModel {
    fn batching(&self) -> Batching {
        Batching {
            max: Some(self.0.function.max_batch),
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        let process = self.0.process().map_err(|reason| SessionError::Load {
            model: self.0.function.name.clone(),
            reason,
        })?;
        Ok(Box::new(PythonSession::new(Arc::clone(&self.0), process)))
    }
}

impl Shared {
    fn process(&self) -> Result<WorkerProcess, String> {
        while let Some(mut process) = self.take_idle() {
            if process.is_running() {
                return Ok(process);
            }
        }
        WorkerProcess::start(&self.function)
    }

    fn take_idle(&self) -> Option<WorkerProcess> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps the process of a session that is closed. There are never more than sessions were open at once.
    pub(super) fn keep(&self, process: WorkerProcess) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(process);
    }

    /// A batch failed. Its reason is logged at powers of two: a function may fail on every frame.
    pub(super) fn on_failure(&self, reason: &str) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures.is_power_of_two() {
            tracing::warn!("{}: batch {failures} that failed: {reason}", self.function.name);
        }
    }

    /// Blank items, of a stream without a name.
    pub(super) fn blank_items(&self, count: usize) -> Vec<Item> {
        let (width, height) = if self.function.crops {
            BLANK_CROP
        } else {
            BLANK_FRAME
        };
        let image = Image::from_rgb(width, height, vec![0; width as usize * height as usize * 3]);
        let frame = Arc::new(Frame::new(0, 0.0, image));
        let item = Item {
            frame,
            region: Region::Whole,
            object: None,
            class: self.function.crops.then(|| "".into()),
        };
        vec![item; count.max(1)]
    }
}
