//! `weir openapi`: the description of the API, from the rows that the server registers its routes by.

use crate::output;

/// Prints the description of the API.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn openapi() -> anyhow::Result<()> {
    output::say(weir_serve::openapi())
}
