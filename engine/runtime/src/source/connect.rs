//! Opening a source, and opening it again. A camera has no end: whatever its library calls one is a loss (a killed RTSP
//! server looks like a regular end), and it is tried again for as long as the run lasts, also where it was never there.
//! A recording that is not there is an error, one that ends has ended, and one that is looped begins again.

use weir_flow::{SourceError, StreamState};
use weir_policy::{Silence, WaitFor};
use weir_types::Span;

use super::watch::reason;
use super::{Position, SourceLine};

/// How often a looped recording that cannot be read is tried again, and how long to wait before each try: doubled from
/// the first.
const LOOP_RETRIES: u32 = 6;
const LOOP_RETRY_FIRST: Span = Span::from_millis(500);

impl SourceLine {
    /// Plays the source as often as it is to be played.
    pub(super) fn connect(&self, at: &mut Position) -> Result<(), SourceError> {
        let mut tries = 0;
        loop {
            let before = at.frames;
            let ended = self.open_and_play(at);
            if self.stop.is_raised() {
                return Ok(());
            }
            if self.is_camera(at) {
                self.on_loss(at, ended.err());
                continue;
            }
            if at.frames > before {
                tries = 0;
            }
            let again = match &ended {
                // What has never given a frame is not there; what has, will perhaps come back.
                Err(error) if at.frames > 0 && self.repeat => {
                    tracing::warn!(stream = %self.name, "{error}; trying again");
                    true
                }
                Err(_) => false,
                Ok(()) => self.repeat && at.frames > 0,
            };
            if !again {
                return ended;
            }
            if at.frames == before {
                if tries >= LOOP_RETRIES {
                    return ended;
                }
                self.sleep_until(self.clock.now() + LOOP_RETRY_FIRST * (1 << tries));
                tries += 1;
            }
        }
    }

    fn open_and_play(&self, at: &mut Position) -> Result<(), SourceError> {
        let flag = at.watch.flag(&self.stop);
        at.silence = None;
        let watch = at.watch.clone();
        // A recording on a slow disk is waited for; it is the camera that may be silent.
        let limit = Some(WaitFor::Opening);
        let opened = if self.is_camera(at) {
            watch.within(limit, || self.factory.open(&flag))
        } else {
            let Some(_turn) = self.decoding.openings.take(&self.stop) else {
                return Ok(());
            };
            self.factory.open(&flag)
        };
        at.silence = watch.silence();
        let mut source = opened?;
        let played = self.play(source.as_mut(), at);
        at.silence = watch.silence();
        // Taking leave of a server that is gone may take as long as waiting for its frames.
        let limit = self.is_camera(at).then_some(WaitFor::Frame(Span::ZERO));
        watch.within(limit, || drop(source));
        played
    }

    /// Where only the open stream would tell, what is to be read live is taken for a camera.
    fn is_camera(&self, at: &Position) -> bool {
        at.endless.unwrap_or(self.droppable && !self.repeat)
    }

    /// A camera is away: says so, and waits until it is to be tried again.
    fn on_loss(&self, at: &mut Position, error: Option<SourceError>) {
        let silence = at.silence.take();
        let reason = match (silence, error) {
            (Some(silence), _) => reason(silence),
            (None, Some(error)) => error.to_string(),
            (None, None) => "the connection ended".to_owned(),
        };
        let wait = at.backoff.next_wait();
        if at.reason.is_none() {
            at.outages += 1;
            let words = format!("{reason}; it is tried again until the run ends");
            // The first outage of a stream is said to whoever watches the run, later ones to whoever reads the log.
            if at.outages == 1 {
                tracing::error!(stream = %self.name, "{words}");
            } else {
                tracing::warn!(stream = %self.name, "{words}");
            }
        } else {
            tracing::debug!(stream = %self.name, "{reason}; next try in {wait}");
        }
        if at.reason.as_ref() != Some(&reason) {
            at.reason = Some(reason.clone());
            let silent = matches!(silence, Some(Silence::NoData(_) | Silence::Undecoded(_)));
            self.report(at, StreamState::Down { reason }, silent);
        }
        self.sleep_until(self.clock.now() + wait);
    }
}
