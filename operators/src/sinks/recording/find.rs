//! Where the clip of an incident is.

use std::path::PathBuf;

use weir_flow::{Incident, Settings};

use super::names;
use super::places::{self, Places};

/// The clip of an incident of that stream that a sink of type `clips` with these settings has written; `None` before it is
/// whole, and once it is removed.
#[must_use]
pub fn find_clip(settings: &Settings, stream: &str, incident: &Incident) -> Option<PathBuf> {
    let path = places::path(settings, "clips").ok()?;
    let number = incident.id.rsplit('/').next().unwrap_or_default();
    let stem = names::stem(incident.began_ms, &[&incident.transform, number]);
    let clip = Places::new(path, &[])
        .folder_of(stream)
        .join(format!("{stem}.mp4"));
    clip.is_file().then_some(clip)
}
