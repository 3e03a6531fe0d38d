//! Moves of a camera to its presets (ONVIF PTZ Service Specification).

use std::time::Duration;

use super::deadline::Deadline;
use super::device::{MEDIA, MEDIA_2};
use super::place::Camera;
use super::soap::{Client, Problem};
use super::text::{clean, path, place, xml_escaped};

const PTZ: &str = "http://www.onvif.org/ver20/ptz/wsdl";

/// Presets of a camera that are read: cameras have up to 300.
const MAX_PRESETS: usize = 512;

/// Names of presets in a message.
const MAX_SHOWN: usize = 20;

/// Longest time for a move, and between two questions whether it is over.
const MAX_MOVE: Duration = Duration::from_secs(10);
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Time for a move of a camera that does not say whether it moves.
const BLIND_MOVE: Duration = Duration::from_secs(3);

/// Longest time to ask for the presets, and for a move with its questions.
const ANSWER_TIME: Duration = Duration::from_secs(4);

/// A place that a camera has saved, to which it can move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preset {
    pub(crate) token: String,
    /// Its name; its token where it has none.
    pub(crate) name: String,
}

/// The presets of a camera, and where moves are asked for.
pub(crate) struct Presets {
    client: Client,
    path: String,
    /// Token of the profile that moves.
    profile: String,
    pub(crate) presets: Vec<Preset>,
}

impl Presets {
    /// Asks a camera for its presets.
    ///
    /// # Errors
    /// A [`Problem`].
    pub(crate) fn ask(camera: &Camera) -> Result<Self, Problem> {
        let mut connected = camera.connect()?;
        let none = || Problem::Fault("it cannot be moved: it has no PTZ service".to_owned());
        let address = connected.service(PTZ, "PTZ")?.ok_or_else(none)?;
        let (port, ptz) = place(&address, connected.device).ok_or_else(none)?;
        let mut profile = None;
        for (namespace, category) in [(MEDIA_2, "Media2"), (MEDIA, "Media")] {
            let media = connected.service(namespace, category)?;
            let Some(media) = media.as_deref().and_then(path) else {
                continue;
            };
            profile = profile_of(&mut connected.client, &media, namespace)?;
            if profile.is_some() {
                break;
            }
        }
        let no_profile =
            || Problem::Fault("it cannot be moved: no profile has a PTZ configuration".to_owned());
        let profile = profile.ok_or_else(no_profile)?;
        let mut client = connected.client_at(port);
        let request = format!(
            "<GetPresets xmlns=\"{PTZ}\"><ProfileToken>{}</ProfileToken></GetPresets>",
            xml_escaped(&profile)
        );
        let answer = client.call(&ptz, &request)?;
        let presets = answer.all("Preset").take(MAX_PRESETS).map(|preset| {
            let token = preset.attribute("token").to_owned();
            Preset {
                name: clean(preset.text_at(&["Name"]).unwrap_or(&token)),
                token,
            }
        });
        Ok(Self {
            presets: presets.filter(|preset| !preset.token.is_empty()).collect(),
            client,
            path: ptz,
            profile,
        })
    }

    /// The preset of that name, or else of that token.
    ///
    /// # Errors
    /// The presets that there are.
    pub(crate) fn find(&self, name: &str) -> Result<Preset, String> {
        let presets = || self.presets.iter();
        let same = |preset: &&Preset| preset.name.eq_ignore_ascii_case(name.trim());
        let found = presets().find(same);
        let found = found.or_else(|| presets().find(|preset| preset.token == name));
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = presets()
                .take(MAX_SHOWN)
                .map(|preset| preset.name.as_str())
                .collect();
            let more = self.presets.len().saturating_sub(MAX_SHOWN);
            let known = match (names.is_empty(), more) {
                (true, _) => "it has none: save one in the camera".to_owned(),
                (false, 0) => format!("it has {}", names.join(", ")),
                (false, more) => format!("it has {} and {more} more", names.join(", ")),
            };
            format!("the camera has no preset {name:?}; {known}")
        })
    }

    /// Moves the camera, and waits until it stands, for a bounded time, or until `is_stopped`.
    ///
    /// # Errors
    /// A [`Problem`]: it may have moved.
    pub(crate) fn go_to(&mut self, preset: &Preset, is_stopped: &dyn Fn() -> bool) -> Result<(), Problem> {
        let profile = xml_escaped(&self.profile);
        let request = format!(
            "<GotoPreset xmlns=\"{PTZ}\"><ProfileToken>{profile}</ProfileToken><PresetToken>{}</PresetToken></GotoPreset>",
            xml_escaped(&preset.token)
        );
        self.client.limit(ANSWER_TIME, ANSWER_TIME);
        self.client.call(&self.path, &request)?;
        let (end, blind) = (Deadline::after(MAX_MOVE), Deadline::after(BLIND_MOVE));
        let request =
            format!("<GetStatus xmlns=\"{PTZ}\"><ProfileToken>{profile}</ProfileToken></GetStatus>");
        let mut is_blind = false;
        while end.left().is_some() && !is_stopped() {
            std::thread::sleep(STATUS_INTERVAL);
            if is_blind {
                if blind.left().is_none() {
                    break;
                }
                continue;
            }
            self.client.limit(ANSWER_TIME, ANSWER_TIME);
            let status = self.client.call(&self.path, &request);
            let status = status.as_ref().ok();
            let state = status.and_then(|status| status.text_at(&["PTZStatus", "MoveStatus", "PanTilt"]));
            match state {
                Some("IDLE") => break,
                Some("MOVING") => {}
                _ => is_blind = true,
            }
        }
        Ok(())
    }
}

/// The first profile with a PTZ configuration.
fn profile_of(client: &mut Client, path: &str, namespace: &str) -> Result<Option<String>, Problem> {
    let request = if namespace == MEDIA_2 {
        format!("<GetProfiles xmlns=\"{MEDIA_2}\"><Type>PTZ</Type></GetProfiles>")
    } else {
        format!("<GetProfiles xmlns=\"{MEDIA}\"/>")
    };
    let answer = match client.call(path, &request) {
        Ok(answer) => answer,
        Err(Problem::Fault(_)) => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let mut profiles = answer.all("Profiles");
    let profile = profiles.find(|profile| {
        let has = |path: &[&str]| profile.at(path).is_some();
        has(&["PTZConfiguration"]) || has(&["Configurations", "PTZ"])
    });
    let token = profile.map(|profile| profile.attribute("token").to_owned());
    Ok(token.filter(|token| !token.is_empty()))
}
