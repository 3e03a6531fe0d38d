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
    /// The blocks of that range as a model of their own, in the bytes that a [`PartitionLoader`] loads.
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
    /// One inference for each item, in order, from the outputs of their batch. The batch may have been preprocessed by
    /// another instance, since several batches are in flight.
    ///
    /// # Errors
    /// [`SessionError::Run`] where the outputs are not those of the model.
    fn postprocess(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, SessionError>;
}

/// Opens partitions.
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
    /// Opens a model that generates from what [`GenerativeModel::portable`] gave.
    ///
    /// # Errors
    /// [`SessionError::Load`] where the bytes are no such model, or this loader knows none.
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

    /// Makes it ready for batches of `batch` items, called by the thread that runs it before the first of them. By default
    /// nothing is to be done.
    ///
    /// # Errors
    /// [`SessionError::Run`] where it cannot run such a batch.
    fn begin(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}
