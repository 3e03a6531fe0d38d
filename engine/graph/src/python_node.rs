//! An operator that users write in Python, as the model of its module.

use std::path::PathBuf;

use weir_types::Span;

/// Function of a Python module, which worker processes call with batches of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonNode {
    /// Folder of the Python modules, an absolute path without links.
    pub folder: PathBuf,
    /// Name of the Python module, with dots.
    pub module: String,
    /// Name of the function in the module.
    pub function: String,
    /// Interpreter below the folder; `None`: `python3` of the search path.
    pub interpreter: Option<PathBuf>,
    /// Longest time of one call.
    pub timeout: Span,
    /// Address space of a worker process in bytes; `None`: no limit.
    pub memory: Option<u64>,
    /// Whether its items are crops of objects, and not whole frames.
    pub crops: bool,
}
