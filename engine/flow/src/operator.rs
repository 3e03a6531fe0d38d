//! What a module does around its model.

use std::sync::Arc;

use crate::frame::Frame;
use crate::item::{Inference, Item};
use crate::results::{ModuleOutput, RequestResults};

/// What a module does around its model: which items a request brings, and what its inferences mean.
pub trait Operator: Send + Sync {
    /// The items of a request, best first where there is a limit; none passes the request straight through.
    fn items(&self, frame: &Arc<Frame>, evidence: &RequestResults) -> Vec<Item>;
    /// Gathers the inferences of a request, in the order of its items, into what module number `module` found.
    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput;
}
