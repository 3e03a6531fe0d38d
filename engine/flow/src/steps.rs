//! A session in three steps, each of which may run on a thread of its own: while a batch runs, the inputs of
//! the next one are prepared, and the outputs of the previous one are read.

use std::any::Any;

use crate::error::SessionError;
use crate::item::{Inference, Item};

/// Data that one step of a session hands to the next. Its type is known only to the session.
pub type StepData = Box<dyn Any + Send>;

/// First step: converts the pixels of items to the model's input.
pub trait Prepare: Send {
    /// Prepares a batch. Its data is taken by the next step of the same model, of this session or of one opened later; at
    /// most two batches are between the steps at a time.
    ///
    /// # Errors
    /// [`SessionError::Run`]; the batch failed, the session is opened again.
    fn prepare(&mut self, items: &[Item]) -> Result<StepData, SessionError>;
}

/// Second step: runs the model. It is the only step that uses the device.
pub trait Infer: Send {
    /// Runs a batch that was prepared.
    ///
    /// # Errors
    /// As [`Prepare::prepare`].
    fn infer(&mut self, items: &[Item], prepared: StepData) -> Result<StepData, SessionError>;
    /// Runs the model once on a blank batch of `batch` items, to warm it up or to profile it.
    ///
    /// # Errors
    /// As [`Prepare::prepare`].
    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError>;
    /// As [`Session::begin`](crate::Session::begin), on the thread of this step.
    ///
    /// # Errors
    /// As [`Prepare::prepare`].
    fn begin(&mut self) -> Result<(), SessionError> {
        Ok(())
    }
}

/// The last step: outputs of the model to one inference an item.
pub trait ReadOut: Send {
    /// Reads the outputs of a batch, in the order of its items.
    ///
    /// # Errors
    /// As [`Prepare::prepare`].
    fn read_out(&mut self, items: &[Item], outputs: StepData) -> Result<Vec<Inference>, SessionError>;
}

/// The steps of a session, each for a thread.
pub struct SessionSteps {
    /// Before the run.
    pub prepare: Box<dyn Prepare>,
    /// Runs the model.
    pub infer: Box<dyn Infer>,
    /// After the run.
    pub read_out: Box<dyn ReadOut>,
}

/// Returns the data of the step before, as its actual type.
///
/// # Errors
/// [`SessionError::Run`] where `data` is of another type.
pub fn step_data<T: 'static>(data: StepData, items: usize) -> Result<Box<T>, SessionError> {
    data.downcast().map_err(|_| SessionError::Run {
        model: String::new(),
        batch: items,
        reason: "a step was given what another model prepared".to_owned(),
    })
}
