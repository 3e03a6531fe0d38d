//! The gate of a source: the keys `gate`, `gate_ignore` and `gate_hold`.

use weir_config::Fields;
use weir_types::Span;

use super::context::Context;
use super::objects;
use crate::gate_node::GateNode;
use crate::keys::MAX_GATE_POLYGONS;

/// Points of a polygon: each costs a step for each cell of the grid, once.
const MAX_POINTS: usize = 64;

/// Hold time of a gate by the camera: the default, and the bounds.
const HOLD: Span = Span::from_secs(5);
const MIN_HOLD: Span = Span::from_millis(100);
const MAX_HOLD: Span = Span::from_secs(600);

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
    let hold = hold(fields, context);
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

fn hold(fields: &Fields<'_>, context: &mut Context<'_>) -> Span {
    let hold = fields.span("gate_hold", context.diagnostics);
    let Some(hold) = hold.given() else { return HOLD };
    if !(MIN_HOLD..=MAX_HOLD).contains(&hold.value) {
        let message = format!("`gate_hold` must lie between {MIN_HOLD} and {MAX_HOLD}");
        let hint = format!("the default is {HOLD}");
        context.diagnostics.add(hold.at, message, Some(hint));
    }
    hold.value
}
