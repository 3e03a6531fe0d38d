//! Devices as a table and as JSON.

use serde_json::json;

use super::facts::{Device, Found, Stream};
use crate::report::plain_table;

/// All that is known, as JSON.
pub(crate) fn as_json(found: &Found) -> serde_json::Value {
    json!({ "devices": found.devices, "warnings": found.warnings })
}

/// Devices with a table of their streams each.
pub(crate) fn as_text(found: &Found) -> String {
    let devices = found.devices.iter().filter(|device| has_lines(device));
    devices.map(lines).collect::<Vec<_>>().join("\n\n")
}

fn has_lines(device: &Device) -> bool {
    device.answered || !device.hints.is_empty()
}

fn lines(device: &Device) -> String {
    let mut lines = vec![head(device)];
    if !device.cameras.is_empty() {
        let mut table = plain_table(&["camera", "profile", "size", "codec", "fps", "address"]);
        for camera in &device.cameras {
            for stream in &camera.streams {
                table.add_row([
                    camera.name.clone(),
                    stream.profile.clone(),
                    size(stream),
                    stream.codec.clone().unwrap_or_default(),
                    stream.fps.map(|fps| fps.to_string()).unwrap_or_default(),
                    stream.uri.clone(),
                ]);
            }
        }
        lines.push(table.trim_fmt());
    }
    if !device.hints.is_empty() {
        lines.push("usual addresses by brand, which were not tried:".to_owned());
        let mut table = plain_table(&["brand", "main stream", "second stream"]);
        for hint in &device.hints {
            table.add_row([hint.brand, hint.main.as_str(), hint.second.as_str()]);
        }
        lines.push(table.trim_fmt());
    }
    lines.join("\n")
}

/// One line about a device.
pub(super) fn head(device: &Device) -> String {
    let maker = [&device.manufacturer, &device.model];
    let maker: Vec<&str> = maker.into_iter().flatten().map(String::as_str).collect();
    let mut facts = vec![maker.join(" ")];
    facts.extend(
        device
            .firmware
            .as_ref()
            .map(|firmware| format!("firmware {firmware}")),
    );
    facts.extend(device.name.as_ref().map(|name| format!("named \"{name}\"")));
    facts.retain(|fact| !fact.is_empty());
    if facts.is_empty() {
        let facts = if device.answered {
            "speaks ONVIF"
        } else {
            "speaks RTSP, and not ONVIF"
        };
        return format!("{}: {facts}", device.address);
    }
    format!("{}: {}", device.address, facts.join(", "))
}

/// Width and height, such as `1920x1080`; empty if unknown.
pub(super) fn size(stream: &Stream) -> String {
    match (stream.width, stream.height) {
        (Some(width), Some(height)) => format!("{width}x{height}"),
        _ => String::new(),
    }
}
