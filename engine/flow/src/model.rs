//! A model with its head, and the session that runs it on a slot.

use std::sync::Arc;
use std::time::Duration;

use crate::device::DeviceKind;
use crate::error::SessionError;
use crate::generate::GenerativeModel;
use crate::item::{Inference, Item};
use crate::prepared_model::PreparedModel;
use crate::steps::{Infer, Prepare, ReadOut, SessionSteps, StepData, step_data};

/// Batch sizes that a model supports, measured when it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batching {
    /// Largest batch of one run, in items; `None` if unlimited.
    pub max: Option<u32>,
    /// Finding for the log: "batch dimension made symbolic", "fails above 1: ...".
    pub remark: Option<String>,
}

/// A model with its head, loaded and checked. It opens one session for each slot that it is placed on.
pub trait Model: Send + Sync {
    /// The batch sizes that it supports.
    fn batching(&self) -> Batching;
    /// Classes of a detector's objects; empty if unknown, or if it is no detector.
    fn classes(&self) -> &[Arc<str>] {
        &[]
    }
    /// Characters that a text recogniser can write; empty for other models.
    fn alphabet(&self) -> &[String] {
        &[]
    }
    /// The same model as a generative one, if it generates; sessions are then opened only by that.
    fn generative(&self) -> Option<Arc<dyn GenerativeModel>> {
        None
    }
    /// Opens a session for one worker thread.
    ///
    /// # Errors
    /// [`SessionError::Load`] and [`SessionError::Device`]; an execution provider that does not register is an error, without a fallback to the CPU.
    fn open(&self, device: DeviceKind) -> Result<Box<dyn Session>, SessionError>;
    /// Opens a session and also returns the prepared form from which further sessions open faster; `None` if
    /// there is none.
    ///
    /// # Errors
    /// As [`Model::open`].
    fn open_cold(
        &self,
        device: DeviceKind,
    ) -> Result<(Box<dyn Session>, Option<PreparedModel>), SessionError> {
        Ok((self.open(device)?, None))
    }
    /// Opens a session from what [`Model::open_cold`] gave.
    ///
    /// # Errors
    /// As [`Model::open`].
    fn open_warm(
        &self,
        device: DeviceKind,
        prepared: &PreparedModel,
    ) -> Result<Box<dyn Session>, SessionError> {
        let _ = prepared;
        self.open(device)
    }
    /// Size of its file in bytes, a lower bound of a session's memory; `None` for models without a file.
    fn file_bytes(&self) -> Option<u64> {
        None
    }
    /// Opens a session in steps, for a slot that prepares the next batch while one runs. One that is not divided does all in
    /// the second.
    ///
    /// # Errors
    /// As [`Model::open`].
    fn open_steps(&self, device: DeviceKind) -> Result<SessionSteps, SessionError> {
        self.open(device).map(whole)
    }
}

/// Completed step of a batch, in order; reported for timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Pixels were scaled and converted into the input tensor.
    Preprocessed,
    /// The model ran.
    Inferred,
    /// The outputs were decoded.
    Postprocessed,
}

/// A model opened on one slot, owned by the slot's worker thread.
pub trait Session: Send {
    /// Runs one batch and returns one inference for each item, in order. `on_step` is called when a step ends.
    ///
    /// # Errors
    /// [`SessionError::Run`]; the batch failed, the session may be rebuilt.
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError>;
    /// Runs the model once on a blank batch of `batch` items, without preprocessing and postprocessing, to warm it up or
    /// to profile it.
    ///
    /// # Errors
    /// As [`Session::run`].
    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError>;
    /// Called once by the thread that runs it from then on, before its first batch: what a runtime makes for each thread that uses a
    /// session is made then, and not while a frame waits.
    ///
    /// # Errors
    /// As [`Session::run`].
    fn begin(&mut self) -> Result<(), SessionError> {
        Ok(())
    }
    /// Sets the time within which the next batch is useful; `None`: no limit. A session that waits for
    /// another machine gives up after that time; a session that computes on this machine runs to its end.
    fn within(&mut self, _limit: Option<Duration>) {}
}

/// Steps of a session that is not divided: all of it is in the second.
fn whole(session: Box<dyn Session>) -> SessionSteps {
    SessionSteps {
        prepare: Box::new(Nothing),
        infer: Box::new(Whole(session)),
        read_out: Box::new(Nothing),
    }
}

struct Nothing;

impl Prepare for Nothing {
    fn prepare(&mut self, _items: &[Item]) -> Result<StepData, SessionError> {
        Ok(Box::new(()))
    }
}

impl ReadOut for Nothing {
    fn read_out(&mut self, items: &[Item], outputs: StepData) -> Result<Vec<Inference>, SessionError> {
        Ok(*step_data(outputs, items.len())?)
    }
}

struct Whole(Box<dyn Session>);

impl Infer for Whole {
    fn infer(&mut self, items: &[Item], _prepared: StepData) -> Result<StepData, SessionError> {
        Ok(Box::new(self.0.run(items, &mut |_| ())?))
    }

    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError> {
        self.0.warm_up(batch)
    }

    fn begin(&mut self) -> Result<(), SessionError> {
        self.0.begin()
    }
}
