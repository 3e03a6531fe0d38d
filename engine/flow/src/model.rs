//! A model with its head, and the session that runs it on a slot.

use std::sync::Arc;

use crate::error::SessionError;
use crate::item::{Inference, Item};

/// Where a session is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// One CPU core, one intra-op thread.
    Cpu,
    /// A CUDA GPU by its ordinal.
    Cuda(u32),
}

/// How many items a model takes at once, found by running it when it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batching {
    /// The most items that one run may hold; `None` where there is no such limit.
    pub max: Option<u32>,
    /// What was found out, for the log: "batch dimension made symbolic", "fails above 1: ...".
    pub remark: Option<String>,
}

/// A model with its head, loaded and checked; it opens one session for each slot that it is placed on.
pub trait Model: Send + Sync {
    /// How it can be batched.
    fn batching(&self) -> Batching;
    /// Classes of the objects that it finds, where it is a detector and they are known.
    fn classes(&self) -> &[Arc<str>] {
        &[]
    }
    /// A session of its own for one worker thread.
    ///
    /// # Errors
    /// [`SessionError::Load`]; a provider that does not register is an error, not a run on the CPU.
    fn open(&self, device: DeviceKind) -> Result<Box<dyn Session>, SessionError>;
}

/// The steps of a batch, in order, for whoever times them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Pixels are scaled and converted into the input tensor.
    Preprocessed,
    /// The model ran.
    Inferred,
    /// Outputs are decoded.
    Postprocessed,
}

/// A model on one slot, owned by the slot's worker thread.
pub trait Session: Send {
    /// Runs one batch and gives one inference an item, in order. `on_step` is called as each step ends.
    ///
    /// # Errors
    /// [`SessionError::Run`]; the items are lost, the session may be rebuilt.
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError>;
    /// Runs the model alone once on a blank batch, to warm it up and to measure it.
    ///
    /// # Errors
    /// As [`Session::run`].
    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError>;
}
