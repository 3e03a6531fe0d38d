//! Writes the document, its figures, and the page of migrations.

use std::path::Path;

use super::ReproduceError;
use super::lengths::compare;
use super::studies::Studies;
use super::{figures, moving, verdicts};
use crate::document::{self, Filling};

/// Writes the figures (as SVG) and `README.md`, made from `template.md`, into `folder`, and the page of migrations
/// into its `moves`.
///
/// # Errors
/// [`ReproduceError`] where the template does not fit or something cannot be read or written.
pub fn write(studies: &Studies, folder: &Path) -> Result<(), ReproduceError> {
    let drawn = [
        ("figure-2", figures::figure_2(studies)),
        ("figure-6", figures::figure_6(studies)),
        ("figure-7", figures::figure_7(studies)),
        ("figure-8", figures::figure_8(studies)),
        ("figure-10", figures::figure_10(studies)),
    ];
    let mut filling = Filling::default();
    filling.add("devices", studies.devices.join(", "));
    filling.add("just-enough", verdicts::just_enough_table(studies));
    filling.add("weir", verdicts::weir_table(studies));
    filling.add("rules", figures::table_6(studies));
    filling.add("predictors", compare::table(&studies.predictors));
    filling.add("described", figures::table_predictors(studies));
    filling.add("acceptance-lengths", verdicts::lengths_table(studies));
    filling.add("lengths", figures::table_lengths(studies));
    document::write(folder, filling, &drawn)?;
    let mut filling = Filling::default();
    filling.add("moves", moving::table(&studies.moves));
    Ok(document::write(&folder.join("moves"), filling, &[])?)
}
