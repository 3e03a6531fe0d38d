//! An operator that users write in Python, as the model of its module.

use weir_flow::PythonPlace;
use weir_types::Span;

/// Function of a Python module, which worker processes call with batches of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonNode {
    /// Place of the function.
    pub place: PythonPlace,
    /// Longest time of one call.
    pub timeout: Span,
    /// Address space of a worker process in bytes; `None`: no limit.
    pub memory: Option<u64>,
    /// Whether its items are crops of objects, and not whole frames.
    pub crops: bool,
}
