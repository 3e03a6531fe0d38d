//! Context that all readers of tables share.

use std::path::Path;

use weir_config::{Diagnostics, Environment};
use weir_flow::Catalog;

use crate::sources::Sources;

/// Catalog, base folder and environment for reading a text, and the problems that are found.
pub(crate) struct Context<'a> {
    pub(crate) catalog: &'a Catalog,
    /// Base of relative paths; absolute.
    pub(crate) folder: &'a Path,
    pub(crate) environment: Environment<'a>,
    pub(crate) sources: Sources,
    pub(crate) diagnostics: &'a mut Diagnostics,
}
