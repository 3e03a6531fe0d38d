//! How TOML is read here, for other files than graphs: a tree with places, tables whose keys are known, and problems that
//! are all told at once.
//!
//! A reader [`parse`]s its text, opens each table as [`Fields`], says which keys it [expects](Fields::expect), takes its
//! values and adds to the [`Reports`] what is wrong; [`Reports::finish`] gives the verdict.

use std::path::Path;

pub use weir_flow::Catalog;
use weir_types::Span;

pub use crate::document::{Content, Entry, Node};
pub use crate::fields::{Field, Fields, Spot};
pub use crate::policy::read as policy;
pub use crate::problem::Reports;
pub use crate::settings::{absolute, bytes, missing};
pub use crate::spelling::{hint, nearest};
pub use crate::variables::Environment;

use crate::raw::{self, Context};
use crate::{Sources, document};

/// The entries of a document, in the order of the text. What is no TOML is reported, and the rest is read on.
pub fn parse(text: &str, environment: Environment<'_>, reports: &mut Reports) -> Vec<Entry> {
    document::parse(Sources::Own, text, environment, reports)
}

/// The text of a file of reasonable size.
///
/// # Errors
/// The reason why it cannot be read.
pub fn text(path: &Path) -> Result<String, String> {
    crate::read_text(path)
}

/// Durations by batch size: a table, or the path of a file with a table `[durations]`, relative to `folder`. `None` where
/// something was reported.
pub fn durations(
    node: &Node,
    folder: &Path,
    environment: Environment<'_>,
    reports: &mut Reports,
) -> Option<Vec<(u32, Span)>> {
    let catalog = Catalog::default();
    let mut context = Context {
        catalog: &catalog,
        folder,
        environment,
        sources: Sources::Own,
        reports,
    };
    raw::profile::read(node, &mut context)
}
