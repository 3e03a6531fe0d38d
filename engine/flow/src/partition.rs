//! Partitioned models: preprocessing before the first partition, postprocessing after the last, and the partitions.
//!
//! The engine keeps the frames: it preprocesses a batch into tensors and postprocesses the outputs of the last partition.
//! Partitions exchange tensors only, so they can run in another process.

use std::ops::Range;
use std::sync::Arc;

use crate::device::DeviceKind;
use crate::error::SessionError;
use crate::generate::GenerativeModel;
use crate::item::{Inference, Item};
use crate::tensor::Tensor;

/// A model with its head, cut into blocks.
pub trait PartitionedModel: Send + Sync {
    /// Number of blocks.
    fn blocks(&self) -> usize;
    /// Extracts a range of blocks as a model of its own, as bytes for a [`PartitionLoader`].
    ///
    /// # Errors
    /// [`SessionError::Load`] where the model cannot be cut there.
    fn partition(&self, blocks: Range<usize>) -> Result<Vec<u8>, SessionError>;
    /// Pre- and postprocessing for one thread.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    fn pre_post(&self) -> Result<Box<dyn PrePost>, SessionError>;
}

/// Pre- and postprocessing of a partitioned model: from items to its input, and from its outputs to inferences.
pub trait PrePost: Send {
    /// The input tensors of a batch.
    ///
    /// # Errors
    /// [`SessionError::Run`].
    fn preprocess(&mut self, items: &[Item]) -> Result<Vec<Tensor>, SessionError>;
    /// Returns one inference for each item, in order, from the outputs of their batch. Another instance may
    /// have preprocessed the batch, since several batches are in flight.
    ///
    /// # Errors
    /// [`SessionError::Run`] if the outputs are not those of the model.
    fn postprocess(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, SessionError>;
}

/// Loader that opens sessions of partitions and of generative models.
pub trait PartitionLoader: Send + Sync {
    /// Opens a session of a partition on a device. With `half`, tensors sent to the next partition are converted to half
    /// precision, and received ones are converted back. The outputs of the last partition are sent unconverted.
    ///
    /// # Errors
    /// [`SessionError::Load`] where the bytes are no model that this machine can run.
    fn load(
        &self,
        partition: &[u8],
        device: DeviceKind,
        half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError>;
    /// Opens a generative model from the bytes that [`GenerativeModel::portable`] returned.
    ///
    /// # Errors
    /// [`SessionError::Load`] if the bytes are no such model, or if this loader supports none.
    fn load_generator(&self, _model: &[u8]) -> Result<Arc<dyn GenerativeModel>, SessionError> {
        Err(SessionError::Load {
            model: "that was sent".to_owned(),
            reason: "this worker opens no models that generate".to_owned(),
        })
    }
}

/// A partition opened on one slot, owned by the thread that runs it.
pub trait PartitionSession: Send {
    /// Runs a batch. Inputs are matched by name, in any order; outputs of the model that earlier partitions computed are
    /// passed through.
    ///
    /// # Errors
    /// [`SessionError::Run`]; the batch failed.
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError>;

    /// Prepares the session for batches of `batch` items; called by the thread that runs it, before the first
    /// batch. By default there is nothing to prepare.
    ///
    /// # Errors
    /// [`SessionError::Run`] if it cannot run such a batch.
    fn begin(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}
