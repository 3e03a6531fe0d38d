//! Plan files, as `weir plan --out` writes them.

use std::path::Path;

use weir_config::toml_error;
use weir_planner::Plan;

/// Reads a plan file.
///
/// # Errors
/// Why it cannot be read, is not a plan, or cannot be run.
pub fn read(path: &Path) -> Result<Plan, String> {
    let text = weir_config::read_text(path).map_err(|reason| format!("it cannot be read: {reason}"))?;
    let plan: Plan = toml::from_str(&text).map_err(|error| {
        let reason = toml_error(&text, &error);
        format!("it is not a plan: {reason}; write one by weir plan --out")
    })?;
    plan.check()
        .map_err(|error| format!("it cannot be run: {error}"))?;
    Ok(plan)
}

/// The text of a plan, as [`read`] takes it.
///
/// # Errors
/// A plan that TOML cannot represent.
pub fn text(plan: &Plan) -> Result<String, String> {
    let head = "# A plan, written by weir plan --out: which blocks of which model run where. The problem that it solves is below.\n\n";
    toml::to_string(plan)
        .map(|body| format!("{head}{body}"))
        .map_err(|error| error.to_string())
}
