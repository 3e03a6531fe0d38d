//! Sample files, as commands read them.

use std::path::Path;

pub(crate) use weir_sim::gears::{
    SAMPLES_VERSION as VERSION, SampleLine, SamplesHeader, samples_text as text,
};

use crate::error::UserError;

/// Reads a file of samples.
///
/// # Errors
/// [`UserError`] with the file and the line that is none.
pub(crate) fn read(path: &Path) -> Result<(SamplesHeader, Vec<SampleLine>), UserError> {
    weir_sim::gears::read_samples(path)
        .map_err(|reason| UserError::new(format!("samples {}: {reason}", path.display())))
}
