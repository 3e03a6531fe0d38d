//! A question to a camera that refused FFmpeg: how it wants to be logged in to.

use std::io::{Read, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use weir_flow::StopFlag;

use super::camera::{Camera, Limit, STOP_CHECK_INTERVAL};
use super::certificates::Trust;
use super::challenge;
use super::messages::{Messages, Piece};
use super::session::Target;

/// Longest wait for an answer.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Why FFmpeg cannot log in to the camera at `uri`; `None` where it could, or the camera does not say.
pub(in super::super) fn unknown_to_ffmpeg(uri: &str, stop: &StopFlag) -> Option<String> {
    let (target, _) = Target::of(uri).filter(|(target, _)| !target.is_encrypted())?;
    let limit = Limit::new(MAX_WAIT, stop);
    let mut camera = Camera::connect(&target, &Trust::Anything, &limit).ok()?;
    let Target { origin, path } = &target;
    let request = format!("DESCRIBE {origin}{path} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n");
    camera.write_all(request.as_bytes()).ok()?;
    let (mut messages, mut buffer) = (Messages::default(), [0; 4096]);
    loop {
        limit.left().ok()?;
        let mut polled = [PollFd::new(camera.socket(), PollFlags::IN)];
        if matches!(poll(&mut polled, Some(&STOP_CHECK_INTERVAL)), Ok(0) | Err(_)) {
            continue;
        }
        let length = camera.read(&mut buffer).ok().filter(|length| *length > 0)?;
        messages.push(&buffer[..length]);
        if let Some(Piece::Head(head)) = messages.next() {
            let offered = challenge::choose(head.all("WWW-Authenticate"));
            return offered.is_ok_and(|challenge| challenge.is_sha_256()).then(|| {
                "401 Unauthorized: the camera wants Digest by SHA-256, which is answered with `transport \
                 = \"tcp\"` only: set it, or let the camera offer Digest by MD5 alone"
                    .to_owned()
            });
        }
    }
}
