//! Opening a source, and opening it again. A camera has no end: what its library calls one is a loss (a killed RTSP server
//! looks like a regular end), and it is tried again for as long as the run lasts, also where it never answered. A
//! recording that is missing is an error, one that ends has ended, and one that is looped begins again.

use weir_flow::{SourceError, StreamState};
use weir_policy::WaitFor;
use weir_types::Span;

use super::outages::Loss;
use super::silence::silence_reason;
use super::{Part, Playback, SourceThread};

/// Maximum number of consecutive attempts to read a looped recording again. The wait starts at
/// [`FIRST_LOOP_RETRY_INTERVAL`] and doubles after each attempt.
const MAX_LOOP_RETRIES: u32 = 6;
const FIRST_LOOP_RETRY_INTERVAL: Span = Span::from_millis(500);

impl SourceThread {
    /// Plays the source as often as it is to be played.
    pub(super) fn connect(&self, playback: &mut Playback) -> Result<(), SourceError> {
        let mut tries = 0;
        loop {
            let before = playback.indices.frames();
            let ended = self.open_and_play(playback);
            if self.stop.is_raised() {
                return Ok(());
            }
            if matches!(playback.part, Part::UpTo(_)) && ended.is_ok() {
                continue;
            }
            if self.is_camera(playback) {
                self.on_loss(playback, ended.err());
                continue;
            }
            if playback.indices.frames() > before {
                tries = 0;
            }
            let again = match &ended {
                // What has never given a frame is missing; what has, may be readable again.
                Err(error) if playback.indices.frames() > 0 && self.repeat => {
                    tracing::warn!(stream = %self.name, "{error}; trying again");
                    true
                }
                Err(_) => false,
                Ok(()) => self.repeat && playback.indices.frames() > 0,
            };
            if !again {
                return ended;
            }
            if playback.indices.frames() == before {
                if tries >= MAX_LOOP_RETRIES {
                    return ended;
                }
                self.sleep_until(self.clock.now() + FIRST_LOOP_RETRY_INTERVAL * (1 << tries));
                tries += 1;
            }
        }
    }

    fn open_and_play(&self, playback: &mut Playback) -> Result<(), SourceError> {
        let stop_flag = playback.silence_watch.stop_flag(&self.stop);
        playback.outages.silence = None;
        // A recording that begins again was live all the time.
        if !playback.live {
            self.report(playback, StreamState::Connecting);
        }
        let silence_watch = playback.silence_watch.clone();
        // A recording on a slow disk is waited for; only a camera can be silent.
        let limit = Some(WaitFor::Opening);
        let opened = if self.is_camera(playback) {
            silence_watch.run_within(limit, || self.factory.open(&stop_flag))
        } else {
            let Some(_turn) = self.decoding.openings.acquire(&self.stop) else {
                return Ok(());
            };
            self.factory.open(&stop_flag)
        };
        playback.outages.silence = silence_watch.silence();
        let mut source = opened?;
        let played = self.play(source.as_mut(), playback);
        // Whatever follows, such as a pause, may take long.
        self.send_skipped(playback);
        playback.outages.silence = silence_watch.silence();
        if let Some(silence) = playback.outages.silence.filter(|_| !self.stop.is_raised()) {
            let reason = silence_reason(silence);
            self.report(playback, StreamState::Stalled { reason });
        }
        // A server that is gone does not answer.
        let limit = self.is_camera(playback).then_some(WaitFor::Closing);
        silence_watch.run_within(limit, || drop(source));
        played
    }

    /// Whether the source counts as a camera. If only the open stream can show that it has no end, a live
    /// source that is not looped counts as a camera until then.
    fn is_camera(&self, playback: &Playback) -> bool {
        playback.endless.unwrap_or(self.droppable && !self.repeat)
    }

    /// A camera is down: reports it, and waits until it is to be tried again.
    fn on_loss(&self, playback: &mut Playback, error: Option<SourceError>) {
        let Loss { reason, wait, begins } = playback.outages.on_loss(error);
        match begins {
            // The first outage of a stream is an error, later ones are warnings.
            Some(1) => tracing::error!(stream = %self.name, "{reason}; retrying until the run ends"),
            Some(_) => tracing::warn!(stream = %self.name, "{reason}; retrying until the run ends"),
            None => tracing::debug!(stream = %self.name, "{reason}; next try in {wait}"),
        }
        self.report(playback, StreamState::Waiting { reason });
        self.sleep_until(self.clock.now() + wait);
    }
}
