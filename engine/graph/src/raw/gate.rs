//! The motion gate of a source: the keys `gate` and `gate_ignore`.

use weir_config::Fields;

use super::context::Context;
use super::objects;
use crate::motion_gate::MotionGateNode;

/// Keys of the gate.
pub(super) const KEYS: [&str; 2] = ["gate", "gate_ignore"];

/// Polygons of a source, and points of one, at most: each costs a step for each cell of the grid, once.
const MAX_POLYGONS: usize = 32;
const MAX_POINTS: usize = 64;

/// Reads the gate; `None` where every frame is looked at.
pub(super) fn read(
    fields: &Fields<'_>,
    is_emulated: bool,
    context: &mut Context<'_>,
) -> Option<MotionGateNode> {
    let words = [("motion", true), ("none", false)];
    let is_gated = fields.word("gate", &words, context.diagnostics).into_value() == Some(true);
    let ignore = objects::polygons("gate_ignore", fields, context);
    if let Some(entry) = fields.entry("gate").filter(|_| is_gated && is_emulated) {
        let message = "`gate` is for streams with pictures, not for emulated ones";
        let hint = Some("leave it out".to_owned());
        context.diagnostics.add(entry.at, message, hint);
        return None;
    }
    if let Some(entry) = fields.entry("gate_ignore") {
        if !is_gated {
            let message = "`gate_ignore` has a meaning only with gate = \"motion\"";
            let hint = Some("set the gate, or take it out".to_owned());
            context.diagnostics.add(entry.node.at, message, hint);
        } else if ignore.len() > MAX_POLYGONS
            || ignore.iter().any(|outline| outline.points.len() > MAX_POINTS)
        {
            let message =
                format!("`gate_ignore` has at most {MAX_POLYGONS} polygons of at most {MAX_POINTS} points");
            context.diagnostics.add(entry.node.at, message, None);
        }
    }
    is_gated.then_some(MotionGateNode { ignore })
}
