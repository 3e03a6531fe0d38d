//! The motion gate of a source: the keys `gate` and `gate_ignore`.

use weir_config::{Content, Diagnostics, Fields, Node, Spanned};

use crate::motion_gate::MotionGateNode;
use crate::settings;

/// Keys of the gate.
pub(super) const KEYS: [&str; 2] = ["gate", "gate_ignore"];

/// Polygons of a source at most, and points of one.
const MAX_POLYGONS: usize = 32;
const MAX_POINTS: usize = 64;

/// Reads the gate; `None` where every frame is looked at.
pub(super) fn read(
    fields: &Fields<'_>,
    is_emulated: bool,
    diagnostics: &mut Diagnostics,
) -> Option<MotionGateNode> {
    let given = fields.word("gate", &[("motion", true), ("none", false)], diagnostics);
    let ignore = fields.read("gate_ignore", diagnostics, |node| match &node.content {
        Content::List(polygons) => Ok(polygons.as_slice()),
        _ => Err("a list of polygons".to_owned()),
    });
    let is_gated = given.into_value() == Some(true);
    let entry = fields.entry("gate").filter(|_| is_gated);
    if let Some(entry) = entry.filter(|_| is_emulated) {
        let message = format!(
            "`{}` is for streams with pictures, not for emulated ones",
            entry.name
        );
        diagnostics.add(entry.at, message, Some("leave it out".to_owned()));
        return None;
    }
    if let Some(ignore) = ignore.given().filter(|_| !is_gated) {
        let message = "`gate_ignore` has a meaning only with gate = \"motion\"";
        diagnostics.add(
            ignore.at,
            message,
            Some("set the gate, or take it out".to_owned()),
        );
    }
    let ignore = ignore
        .given()
        .map(|list| polygons(list, diagnostics))
        .unwrap_or_default();
    is_gated.then_some(MotionGateNode { ignore })
}

fn polygons(list: &Spanned<&[Node]>, diagnostics: &mut Diagnostics) -> Vec<Vec<[f64; 2]>> {
    if list.value.len() > MAX_POLYGONS {
        let message = format!("`gate_ignore` has more than {MAX_POLYGONS} polygons");
        diagnostics.add(list.at, message, None);
        return Vec::new();
    }
    let read = list.value.iter().filter_map(|node| {
        let Content::List(corners) = &node.content else {
            let message = "`gate_ignore` must hold polygons, each a list of points".to_owned();
            diagnostics.add(node.at, message, Some("such as [[[0, 0], [0.3, 0], [0.3, 0.1], [0, 0.1]]]".to_owned()));
            return None;
        };
        let corners = settings::points("gate_ignore", corners, diagnostics)?;
        let is_within = corners.iter().flatten().all(|part| (0.0..=1.0).contains(part));
        if !is_within || !(3..=MAX_POINTS).contains(&corners.len()) {
            let message = format!(
                "a polygon of `gate_ignore` has 3 to {MAX_POINTS} points, in fractions (0 to 1) of the width and height of the picture"
            );
            diagnostics.add(node.at, message, None);
            return None;
        }
        Some(corners)
    });
    read.collect()
}
