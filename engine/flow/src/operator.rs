//! The work of a module around its model.

use std::sync::Arc;

use crate::frame::Frame;
use crate::item::{Inference, Item};
use crate::results::{ModuleOutput, RequestResults};

/// Selects the items of a request and assembles their inferences into the module's output.
pub trait Operator: Send + Sync {
    /// The items of a request, in order of preference if their number is limited. Without items, the request skips the
    /// model.
    fn items(&self, frame: &Arc<Frame>, evidence: &RequestResults) -> Vec<Item>;
    /// The output of module number `module` from the inferences of a request, given in the order of its items.
    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput;
}
