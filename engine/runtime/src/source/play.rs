//! Reading a source that is open: each frame has its media time, number and age, waits until it is due, and is sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_flow::{Frame, RequestResults, Source, SourceError, StreamState};
use weir_policy::{FrameTime, MediaFacts, WaitFor};
use weir_types::{RequestId, Span, Timestamp};

use super::watch::DecodeTurns;
use super::{Position, SourceLine};
use crate::actors::{Completed, Deliver, FrameInfo, Opened};
use crate::assembly::Pace;
use crate::clock::thread_time;
use crate::gate::Pass;
use crate::request::{Parcel, Request};
use crate::telemetry;

impl SourceLine {
    /// Plays the source once.
    pub(super) fn play(&self, source: &mut dyn Source, at: &mut Position) -> Result<(), SourceError> {
        source.limit_decoding(Arc::new(DecodeTurns {
            decoding: Arc::clone(&self.decoding),
            watch: at.watch.clone(),
            stop: self.stop.clone(),
        }));
        at.closed = at.closed + std::mem::take(&mut at.counts);
        at.first_index = at.next_index;
        let info = source.info();
        let finite = !self.repeat && !info.live;
        let frames = info.frames.filter(|_| finite);
        self.progress
            .expects(self.stream, frames.map(|frames| self.sampled(frames, info.fps)));
        on_facts(source, at);
        let watch = at.watch.clone();
        let mut first = true;
        while !self.stop.is_raised() {
            let wait = if first {
                WaitFor::FirstFrame
            } else {
                WaitFor::Frame(at.media.interval() * at.steps)
            };
            let began = thread_time();
            let next = watch.within((at.endless == Some(true)).then_some(wait), || source.next());
            let took = thread_time().saturating_sub(began);
            at.counts = source.counts();
            let Some(mut frame) = next? else { break };
            if first {
                // The rate of some streams is known with their first picture.
                on_facts(source, at);
                first = false;
            }
            let time = self.on_frame(&mut frame, at);
            self.watch_load(&time, took, at);
            // After the clock and the load, which reckon with every frame that is decoded.
            if !at.sampler.takes(time.pts_ms) {
                at.not_sampled += 1;
                continue;
            }
            if let Some(due) = time.due {
                self.sleep_until(due);
                // What is not due yet when the run stops was never sent.
                if self.stop.is_raised() && self.clock.now() < due {
                    break;
                }
            }
            if !self.send(frame, &time) {
                break;
            }
        }
        Ok(())
    }

    /// How many of so many frames are taken, about.
    fn sampled(&self, frames: u64, fps: Option<f64>) -> u64 {
        match (self.sample, fps) {
            (Some(sample), Some(fps)) if sample < fps => (frames as f64 * sample / fps).ceil() as u64,
            _ => frames,
        }
    }

    /// Gives the frame its number and media time.
    fn on_frame(&self, frame: &mut Frame, at: &mut Position) -> FrameTime {
        let now = self.clock.now();
        let index = (at.first_index + frame.index).max(at.next_index);
        // Numbers count on over what the source left out.
        let steps = index - at.next_index + 1;
        at.steps = steps;
        let time = at.media.on_frame(frame.pts_ms, steps, now);
        at.first_index += time.missing;
        frame.index = index + time.missing;
        frame.pts_ms = time.pts_ms;
        at.next_index = frame.index + 1;
        at.frames += 1;
        at.stale += u64::from(time.age > self.slo);
        if time.discontinuity {
            at.rebased += 1;
            if at.rebased == 1 {
                tracing::warn!(
                    stream = %self.name, frame = frame.index,
                    "its time stamps jump; media time goes on from here, and further jumps are counted"
                );
            }
        }
        at.backoff.on_frame();
        at.last_frame = now;
        if !at.running {
            if at.outages > 0 {
                tracing::info!(stream = %self.name, "frames come again");
            }
            at.reason = None;
            self.report(at, StreamState::Running, false);
        }
        time
    }

    /// Takes note of what decoding took, and of whether it keeps up.
    fn watch_load(&self, time: &FrameTime, took: Span, at: &Position) {
        let now = self.clock.now();
        // Frames that the source left out were decoded, too.
        let interval = at.media.interval() * at.steps;
        let (interval, lag) = match (time.due, self.pace) {
            (Some(due), Pace::Times(speed)) => (interval.scale(1.0 / speed), now.since(due)),
            // What is not paced takes the time that there is, unless it is a camera.
            _ if at.endless != Some(true) => return,
            _ => (interval, time.age),
        };
        // Who is held back lags because of that.
        if self.droppable {
            self.decoding.on_frame(self.stream, took, interval, lag, now);
        }
    }

    /// Lets the frame in as a request, or refuses it; says whether to go on.
    fn send(&self, mut frame: Frame, time: &FrameTime) -> bool {
        let Some(admission) = self.gate.enter(frame.image.bytes(), &self.stop) else {
            return false;
        };
        let refusal = match &admission {
            Ok(_) => None,
            Err(reason) => match self.refusals.take(&self.stop) {
                Some(refusal) => Some((*reason, refusal)),
                None => return false,
            },
        };
        let id = RequestId(self.numbers.fetch_add(1, Ordering::Relaxed));
        let sent_at = self.sent_at(time);
        self.egress.do_send(Opened {
            request: id,
            stream: self.stream,
            frame: FrameInfo {
                index: frame.index,
                pts_ms: frame.pts_ms,
                sent_at,
            },
            refused: refusal,
        });
        let Ok((pass, loan)) = admission else {
            return true;
        };
        telemetry::frame_bytes(&self.name, self.gate.bytes());
        frame.memory_guard = Some(Box::new(loan));
        let pass: Arc<Pass> = Arc::new(pass);
        let request = Request::new(id, self.stream, Arc::new(frame), sent_at, self.droppable, pass);
        let parcel = Parcel {
            request: Arc::new(request),
            results: RequestResults::default(),
        };
        if self.entries.is_empty() {
            // No module takes these frames: they are out at once.
            self.egress.do_send(Completed(parcel));
            return true;
        }
        for (module, of) in &self.entries {
            module.do_send(Deliver {
                parcel: parcel.clone(),
                of: *of,
            });
        }
        true
    }

    /// A camera's frame is sent when it is made, however late we are to take it up and however long it was on its way; an
    /// archive's when it is let in.
    fn sent_at(&self, time: &FrameTime) -> Timestamp {
        let now = self.clock.now();
        if !self.droppable {
            return now;
        }
        time.due.unwrap_or(now.saturating_sub(time.age)).min(now)
    }
}

fn on_facts(source: &dyn Source, at: &mut Position) {
    let info = source.info();
    at.endless = Some(info.live);
    at.media.on_open(MediaFacts {
        live: info.live,
        stamped: info.stamped,
        fps: info.fps,
    });
}
