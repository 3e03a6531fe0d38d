//! A model that was loaded and checked.

use std::sync::Arc;

use super::batch_probe::Rows;
use super::dump::Dump;
use super::runtime::GpuOptions;
use crate::heads::{Head, Input};

/// The state that all sessions of a model share.
pub(super) struct Loaded {
    pub(super) name: String,
    pub(super) head: Box<dyn Head>,
    pub(super) input: Input,
    /// One graph, or two whose outputs are decoded together.
    pub(super) graphs: Vec<Arc<[u8]>>,
    pub(super) rows: Rows,
    pub(super) dump: Option<Dump>,
    /// Name of the input, by which a provider is given its shapes.
    pub(super) input_name: String,
    /// Options of sessions on a GPU.
    pub(super) gpu: GpuOptions,
}
