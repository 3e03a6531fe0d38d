//! Models that are cut: what comes before the first partition, what comes after the last, and the partitions.
//!
//! The engine holds the frames: it prepares a batch's input, and decodes what comes out of the last partition. The
//! partitions between them know tensors only, so that they can run in another process.

use std::ops::Range;

use crate::error::SessionError;
use crate::item::{Inference, Item};
use crate::model::DeviceKind;
use crate::tensor::Tensor;

/// A model with its head, cut into blocks.
pub trait PartitionedModel: Send + Sync {
    /// How many blocks there are.
    fn blocks(&self) -> usize;
    /// Blocks of that range as a model of its own, for a [`PartitionLoader`].
    ///
    /// # Errors
    /// [`SessionError::Load`] where the model cannot be cut there.
    fn partition(&self, blocks: Range<usize>) -> Result<Vec<u8>, SessionError>;
    /// What fills inputs and reads outputs, for one thread.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    fn pre_post(&self) -> Result<Box<dyn PrePost>, SessionError>;
}

/// The two ends of a model that is cut: from items to its input, from its outputs to inferences.
pub trait PrePost: Send {
    /// The input tensors of a batch.
    ///
    /// # Errors
    /// [`SessionError::Run`].
    fn preprocess(&mut self, items: &[Item]) -> Result<Vec<Tensor>, SessionError>;
    /// One inference an item, in order, out of the outputs of the batch that these items were prepared for, by this or
    /// another of its kind: several batches are under way at a time.
    ///
    /// # Errors
    /// [`SessionError::Run`] where the outputs are not those of the model.
    fn postprocess(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, SessionError>;
}

/// Opens partitions.
pub trait PartitionLoader: Send + Sync {
    /// A session of a partition on a device. With `half`, what it sends on is converted to half precision, and what it
    /// receives in half precision is converted back. What the last partition gives is sent as it is.
    ///
    /// # Errors
    /// [`SessionError::Load`] where the bytes are not a model that runs here.
    fn load(
        &self,
        partition: &[u8],
        device: DeviceKind,
        half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError>;
}

/// One partition on one slot, owned by the thread that runs it.
pub trait PartitionSession: Send {
    /// Runs a batch. Inputs come in any order, named; outputs of the model that earlier partitions gave are passed on.
    ///
    /// # Errors
    /// [`SessionError::Run`]; the batch is lost.
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError>;
}
