//! Data that a model has prepared in host memory, so that its sessions open faster.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Prepared form of a model in host memory, from which it opens faster than from its file. Only the model
/// that made it understands it.
#[derive(Clone)]
pub struct PreparedModel {
    /// Size in bytes.
    pub bytes: u64,
    /// Contents, whose type only the model knows.
    pub data: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for PreparedModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PreparedModel({} bytes)", self.bytes)
    }
}
