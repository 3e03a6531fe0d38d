//! Writes the document and its figures.

use std::path::Path;

use super::ReproduceError;
use super::studies::Studies;
use super::{figures, returning, verdicts};
use crate::document::{self, Filling};

/// Writes the figures (as SVG) and `README.md`, by `template.md`, into `folder`.
///
/// # Errors
/// [`ReproduceError`] where the template does not fit or something cannot be read or written.
pub fn write(studies: &Studies, folder: &Path) -> Result<(), ReproduceError> {
    let drawn = [
        ("figure-8", figures::figure_8(studies)),
        ("figure-9", figures::figure_9(studies)),
        ("figure-10", figures::figure_10(studies)),
        ("figure-11", figures::figure_11(studies)),
        ("figure-12", figures::figure_12(studies)),
        ("figure-13", figures::figure_13(studies)),
        ("figure-14", figures::figure_14(studies)),
        ("figure-15", figures::figure_15(studies)),
        ("figure-16", figures::figure_16(studies)),
        ("figure-17", figures::figure_17(studies)),
        ("figure-18", figures::figure_18(studies)),
        ("figure-20", figures::figure_20(studies)),
    ];
    let mut filling = Filling::default();
    filling.add("verdicts", verdicts::table(studies));
    filling.add("sticky", verdicts::sticky_table(studies));
    filling.add("many", figures::table_many(studies));
    filling.add("operations", figures::table_operations(studies));
    filling.add("returning", returning::table(&studies.returning));
    Ok(document::write(folder, filling, &drawn)?)
}
