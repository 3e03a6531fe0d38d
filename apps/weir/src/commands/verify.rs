//! `weir verify`: an event log replayed through the policy.

use crate::args::Verify;
use crate::error::UserError;
use crate::output;

/// Replays the log; every decision must be the recorded one.
///
/// # Errors
/// A file that is no event log, and the first step that is decided otherwise now.
pub(crate) fn verify(args: &Verify) -> anyhow::Result<()> {
    let verified =
        weir_runtime::verify(&args.recording).map_err(|error| UserError::new(error.to_string()))?;
    output::say(&format!(
        "{}: {} steps, {} events: all {} effects decided as recorded",
        args.recording.display(),
        verified.steps,
        verified.events,
        verified.effects
    ))?;
    Ok(())
}
