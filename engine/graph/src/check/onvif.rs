//! Transforms and sinks that need a camera with `onvif`.

use weir_config::{Diagnostics, spelling};

use super::streams::named;
use crate::raw::{RawGraph, RawSink, RawSource};

/// Type of the transforms of events of cameras.
const CAMERA_EVENT: &str = "camera-event";

/// Type of the sinks that move cameras.
const PTZ: &str = "ptz";

pub(super) fn check(raw: &RawGraph, diagnostics: &mut Diagnostics) {
    let of_cameras = raw.transforms.iter().filter(|it| it.kind == Some(CAMERA_EVENT));
    for transform in of_cameras {
        let streams = named(&transform.streams);
        let has_events =
            |source: &RawSource| streams.contains(&source.name.value) && source.connection.onvif.is_some();
        // Streams that are added have keys of their own.
        if raw.sources.iter().any(has_events) || !raw.templates.is_empty() {
            continue;
        }
        let message = format!(
            "\"{}\" can never report: none of its cameras has `onvif`",
            transform.name.value
        );
        let hint = "onvif = \"http://CAMERA/onvif/device_service\" in the table of the camera: `weir discover` finds it";
        diagnostics.warn(transform.name.at, message, Some(hint.to_owned()));
    }
    for sink in &raw.sinks {
        if sink.kind.given().is_some_and(|kind| kind.value == PTZ) {
            check_moved(raw, sink, diagnostics);
        }
    }
}

/// Whether the camera that a sink moves is there, and can be asked.
fn check_moved(raw: &RawGraph, sink: &RawSink, diagnostics: &mut Diagnostics) {
    let Some(name) = sink.settings.text("camera").filter(|name| !name.is_empty()) else {
        return;
    };
    let names = || raw.sources.iter().map(|source| source.name.value.as_str());
    let (message, hint) = match raw.sources.iter().find(|source| source.name.value == name) {
        Some(source) if source.connection.onvif.is_some() => return,
        Some(_) => (
            format!(
                "sink \"{}\" moves the camera \"{name}\", which has no `onvif`",
                sink.name.value
            ),
            Some("onvif = \"http://CAMERA/onvif/device_service\" in its table".to_owned()),
        ),
        None => (
            format!("sink \"{}\": there is no camera \"{name}\"", sink.name.value),
            spelling::hint(name, "cameras", names()),
        ),
    };
    diagnostics.add_if_parsed(sink.name.at, message, hint);
}
