//! The gate of a source: the keys `gate`, `gate_ignore` and `gate_hold`.

use weir_config::Fields;
use weir_types::Span;

use super::context::Context;
use super::objects;
use crate::gate_node::GateNode;
use crate::keys::{self, MAX_GATE_POLYGONS, SOURCE};

/// Points of a polygon: each costs a step for each cell of the grid, once.
const MAX_POINTS: usize = 64;

/// Default hold time of a gate by the camera.
const HOLD: Span = Span::from_secs(5);

/// Signals by which a gate goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Motion,
    Camera,
    None,
}

/// Reads the gate; `None` where every frame is looked at.
pub(super) fn read(
    fields: &Fields<'_>,
    is_emulated: bool,
    has_events: bool,
    context: &mut Context<'_>,
) -> Option<GateNode> {
    let words = [
        ("motion", Signal::Motion),
        ("camera", Signal::Camera),
        ("none", Signal::None),
    ];
    let signal = fields.word("gate", &words, context.diagnostics).into_value();
    let signal = signal.unwrap_or(Signal::None);
    let ignore = objects::polygons("gate_ignore", fields, context);
    let hold = keys::span(SOURCE, "gate_hold", fields, context.diagnostics);
    let hold = hold.into_value().unwrap_or(HOLD);
    if let Some(entry) = fields
        .entry("gate")
        .filter(|_| signal != Signal::None && is_emulated)
    {
        let message = "`gate` is for streams with pictures, not for emulated ones";
        let hint = Some("leave it out".to_owned());
        context.diagnostics.add(entry.at, message, hint);
        return None;
    }
    if let Some(entry) = fields
        .entry("gate")
        .filter(|_| signal == Signal::Camera && !has_events)
    {
        let message = "gate = \"camera\" goes by events of the camera, and it has no `onvif`";
        let hint = "onvif = \"http://CAMERA/onvif/device_service\", or gate = \"motion\"".to_owned();
        context.diagnostics.add(entry.at, message, Some(hint));
    }
    for (key, of, word) in [
        ("gate_ignore", Signal::Motion, "motion"),
        ("gate_hold", Signal::Camera, "camera"),
    ] {
        if let Some(entry) = fields.entry(key).filter(|_| signal != of) {
            let message = format!("`{key}` has a meaning only with gate = \"{word}\"");
            let hint = Some("set the gate, or take it out".to_owned());
            context.diagnostics.add(entry.node.at, message, hint);
        }
    }
    if let Some(entry) = fields.entry("gate_ignore")
        && signal == Signal::Motion
        && (ignore.len() > MAX_GATE_POLYGONS
            || ignore.iter().any(|outline| outline.points.len() > MAX_POINTS))
    {
        let message =
            format!("`gate_ignore` has at most {MAX_GATE_POLYGONS} polygons of at most {MAX_POINTS} points");
        context.diagnostics.add(entry.node.at, message, None);
    }
    match signal {
        Signal::Motion => Some(GateNode::Motion { ignore }),
        Signal::Camera => Some(GateNode::Camera { hold }),
        Signal::None => None,
    }
}
