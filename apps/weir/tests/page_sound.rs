//! Sound of cameras on the page in a real browser.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use crate::browser::Browser;
use crate::common::service::{GRAPH, Service};
use crate::page::{assert_clean, clip};
use crate::sound_tracks::{AAC, write_with_tone};

fn tile(name: &str, rest: &str) -> String {
    format!("document.querySelector('.tile[aria-label={name}]').querySelector({rest})")
}

#[test]
fn sound_of_one_camera_at_a_time_is_switched_on_by_its_button() {
    let folder = tempfile::tempdir().unwrap();
    clip(folder.path(), "live-room.mp4");
    let [silent, with_tone] = ["clip.mp4", "tone.mp4"].map(|name| folder.path().join(name));
    write_with_tone(&silent, (&[], AAC), &with_tone);
    let sources: String = ["door", "hall", "mute"]
        .map(|name| {
            let sound = if name == "mute" { "" } else { "sound = true\n" };
            format!("[sources.{name}]\nuri = \"tone.mp4\"\nmode = \"live\"\nloop = true\n{sound}")
        })
        .concat();
    let graph = GRAPH.replace("[sources.steady]\nuri = \"emulated:uniform?rate=50\"\n", &sources);
    let graph = graph.replace("inputs = [\"steady\"]", "inputs = [\"*\"]");
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    let button = |name: &str| tile(name, "'button[aria-label^=Sound]'");
    let video = |name: &str| tile(name, "'video'");
    for name in ["door", "hall", "mute"] {
        browser.wait_until(&format!("({}?.currentTime ?? 0) > 1", video(name)));
    }
    // Off at first, and not offered where there is none.
    for name in ["door", "hall"] {
        browser.wait_until(&format!("!{}.hidden", button(name)));
        assert_eq!(browser.value(&format!("{}.ariaPressed", button(name))), "false");
        assert_eq!(browser.value(&format!("{}.muted", video(name))), true);
    }
    assert_eq!(browser.value(&format!("{}.hidden", button("mute"))), true);
    assert_eq!(browser.accessibility(), [""; 0]);
    for (name, other) in [("door", "hall"), ("hall", "door")] {
        browser.click(&format!(".tile[aria-label={name}] button[aria-label^=Sound]"));
        browser.wait_until(&format!("{}.ariaPressed === 'true'", button(name)));
        browser.wait_until(&format!("{}.ariaPressed === 'false'", button(other)));
        // Sound is decoded, and pictures go on.
        browser.wait_until(&format!(
            "!{0}.muted && {1}.muted && {0}.webkitAudioDecodedByteCount > 1000 && {0}.currentTime > 1",
            video(name),
            video(other)
        ));
    }
    browser.click(".tile[aria-label=hall] button[aria-label^=Sound]");
    browser.wait_until(&format!(
        "{}.ariaPressed === 'false' && {}.muted",
        button("hall"),
        video("hall")
    ));
    assert_clean(&browser, &service);
    service.drain();
}
