//! The devices of a model that runs on several, and how long it takes on each.

use weir_config::{Content, Entry, Fields, Spanned, durations, spelling};
use weir_types::Span;

use super::context::Context;

/// Devices that a model may be on at most.
const MAX_ENDS: usize = 512;

/// Devices of one model with their profiles; empty if the model names no devices.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawEnds {
    /// Names of the devices without repetition, in the order of the text.
    pub(crate) devices: Vec<Spanned<String>>,
    /// Declared durations by the device that they are for.
    pub(crate) profiles: Vec<(String, Vec<(u32, Span)>)>,
}

impl RawEnds {
    /// Whether the model is on several devices.
    pub(crate) fn are_given(&self) -> bool {
        !self.devices.is_empty()
    }

    /// The durations that are declared for a device by itself.
    pub(crate) fn profile_of(&self, device: &str) -> Option<&[(u32, Span)]> {
        let known = self.profiles.iter().find(|(name, _)| name == device);
        known.map(|(_, profile)| &profile[..])
    }
}

pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> RawEnds {
    let devices = fields.texts("devices", context.diagnostics);
    let at = devices.given().map_or(fields.at, |devices| devices.at);
    let is_absent = devices.is_absent();
    let devices = devices.into_value().unwrap_or_default();
    for (place, device) in devices.iter().enumerate() {
        if devices[..place].iter().any(|before| before.value == device.value) {
            let hint =
                "name each device once: `slots` of a device, and `workers`, say how often it runs there";
            let message = format!("`devices` names \"{}\" twice", device.value.escape_debug());
            context.diagnostics.add(device.at, message, Some(hint.to_owned()));
        }
    }
    if !is_absent && (devices.is_empty() || devices.len() > MAX_ENDS) {
        let message = format!("`devices` must name 1 to {MAX_ENDS} devices");
        context.diagnostics.add_if_parsed(at, message, None);
    }
    for key in ["device", "plan"] {
        if let Some(entry) = fields.entry(key).filter(|_| !is_absent) {
            let message = format!("{} has `devices` and `{key}`", fields.owner);
            context
                .diagnostics
                .add(entry.at, message, Some("leave one of them out".to_owned()));
        }
    }
    let profiles = match fields.entry("profiles") {
        Some(entry) => profiles(entry, &devices, context),
        None => Vec::new(),
    };
    RawEnds { devices, profiles }
}

fn profiles(
    entry: &Entry,
    devices: &[Spanned<String>],
    context: &mut Context<'_>,
) -> Vec<(String, Vec<(u32, Span)>)> {
    let Content::Table(entries) = &entry.node.content else {
        if !matches!(entry.node.content, Content::Broken) {
            let message = format!("`profiles` cannot be {}", entry.node.content.kind());
            let hint = "a profile for each device: profiles = { \"cpu\" = { \"1\" = \"8ms\" } }";
            context.diagnostics.add(entry.at, message, Some(hint.to_owned()));
        }
        return Vec::new();
    };
    let mut profiles = Vec::new();
    for own in entries {
        let names = || devices.iter().map(|device| device.value.as_str());
        if !names().any(|device| device == own.name) {
            let message = format!(
                "`profiles` has one for \"{}\", which is not among `devices`",
                own.name
            );
            let hint = spelling::hint(&own.name, "devices", names());
            context.diagnostics.add_if_parsed(own.at, message, hint);
        }
        let read = durations(
            &own.node,
            context.folder,
            context.environment,
            context.diagnostics,
        );
        if let Some(profile) = read {
            profiles.push((own.name.clone(), profile));
        }
    }
    profiles
}
