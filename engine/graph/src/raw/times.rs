//! Times of a source: the keys `active` and `gate_schedule`.

use weir_analytics::transforms::{Schedule, ScheduleKeys};
use weir_config::Fields;
use weir_flow::KeySpec;

use super::context::Context;
use crate::gate_node::GateNode;
use crate::keys::{SCHEDULE_KEYS, schedule_specs};
use crate::settings;

/// Reads the times at which frames of a source are analysed; `None`: always.
pub(super) fn active(source: &Fields<'_>, is_emulated: bool, context: &mut Context<'_>) -> Option<Schedule> {
    let entry = source.entry("active")?;
    if is_emulated {
        let message = "`active` is for streams with pictures, not for emulated ones";
        let hint = Some("leave it out".to_owned());
        context.diagnostics.add(entry.at, message, hint);
        return None;
    }
    schedule("active", source, context)
}

/// Reads the times at which the gate of a source applies; `None`: always.
pub(super) fn gate_schedule(
    source: &Fields<'_>,
    gate: Option<&GateNode>,
    context: &mut Context<'_>,
) -> Option<Schedule> {
    let entry = source.entry("gate_schedule")?;
    let is_none = source.peek("gate").is_none_or(|gate| gate.value == "none");
    if gate.is_none() && is_none {
        let message = "`gate_schedule` has a meaning only with `gate`";
        let hint = Some("gate = \"motion\", or take it out".to_owned());
        context.diagnostics.add(entry.at, message, hint);
    }
    schedule("gate_schedule", source, context)
}

/// Reads a table with the keys of a schedule.
fn schedule(key: &str, source: &Fields<'_>, context: &mut Context<'_>) -> Option<Schedule> {
    let entry = source.entry(key)?;
    let owner = format!("`{key}` of {}", source.owner);
    let mut fields = Fields::open(owner, entry, context.diagnostics)?;
    fields.expect(&SCHEDULE_KEYS, false, context.diagnostics);
    let keys: Vec<KeySpec> = schedule_specs().collect();
    let read = settings::read(&fields, &keys, context.folder, context.diagnostics);
    if !read.whole {
        return None;
    }
    let mut faults = Vec::new();
    let schedule = ScheduleKeys::PLAIN.read(&read.settings, &mut faults);
    if faults.is_empty() && schedule.is_always() {
        let message = format!("{} has no `hours`, `days` or `except`", fields.owner);
        let hint = format!("{key} = {{ hours = \"20:00-06:00\" }}; without `{key}` it is always");
        context.diagnostics.add_if_parsed(entry.at, message, Some(hint));
    }
    for fault in faults {
        let at = fields.entry(fault.key).map_or(fields.at, |entry| entry.node.at);
        let message = format!("{}: {}", fields.owner, fault.message);
        context.diagnostics.add_if_parsed(at, message, fault.hint);
    }
    Some(schedule)
}
