//! Reading a source that is open: each frame gets its media time, index and age, waits until it is due, and is sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_flow::{Frame, Joined, PrivacyMask, Source, SourceError, StreamState, Withheld};
use weir_policy::{CatchUp, FrameTime, MediaInfo, WaitFor};
use weir_types::{RequestId, Span, Timestamp};

use super::active::{ActivePackets, SkippedRun};
use super::silence::DecodeTurns;
use super::{Part, Playback, SharedMotionGate, SourceThread};
use crate::actors::{Arrived, FrameInfo, LeftOut, RequestAdmitted, ScheduleChanged, StillFrame};
use crate::admission::StreamPermit;
use crate::assembly::Pace;
use crate::clock::thread_time;
use crate::request::Request;
use crate::telemetry;

/// Frames of an open source after which its rate is known: cameras often state another one.
const EARLY_FRAMES: u32 = 10;

impl SourceThread {
    /// Plays the source once.
    pub(super) fn play(&self, source: &mut dyn Source, playback: &mut Playback) -> Result<(), SourceError> {
        self.begin(source, playback);
        let (mut first, mut early) = (true, EARLY_FRAMES);
        while !self.stop.is_raised() {
            let wait = wait_for(playback, first, early);
            let Some((mut frame, took)) = self.read(source, wait, playback)? else {
                break;
            };
            if !frame.concealed {
                playback.silence_watch.on_decoded();
            }
            if first {
                // The rate of some streams is known with their first picture.
                on_source_info(source, playback);
                if source.goes_on() {
                    playback.media.on_resumption();
                }
                first = false;
                self.wait_as_joined(playback);
            }
            early = early.saturating_sub(1);
            if early == 0 {
                playback.skipped.on_known();
            }
            let time = self.on_frame(&mut frame, playback);
            self.watch_frozen(&frame.image, playback);
            if let Some(stamp_ms) = frame.stamp_ms {
                self.tap.on_frame(stamp_ms, time.pts_ms);
            }
            self.observe_decode_load(&time, took, playback);
            playback.timer.update();
            self.observe_groups(&*source, took, playback);
            if self.is_behind(&time, playback) {
                source.skip_group();
            }
            // After the clock and the load, which count every frame that is decoded.
            if !playback.sampler.sample(time.pts_ms) {
                playback.not_sampled += 1;
                continue;
            }
            if !self.send_when_due(frame, &time, playback) {
                break;
            }
        }
        Ok(())
    }

    /// Prepares a source that was opened, and the playback, for the first frame.
    fn begin(&self, source: &mut dyn Source, playback: &mut Playback) {
        source.limit_decoding(Arc::new(DecodeTurns {
            decoding: Arc::clone(&self.decoding),
            silence_watch: playback.silence_watch.clone(),
            stop: self.stop.clone(),
        }));
        source.tap_packets(Arc::clone(&self.tap));
        playback.skipped.on_open(self.gate_packets(source));
        playback.indices.on_open();
        if let Some(level) = &self.decode_level {
            level.on_open();
        }
        let info = source.info();
        let finite = !self.repeat && !info.live;
        let frames = info.frames.filter(|_| finite);
        self.progress.set_expected_frames(
            self.stream,
            frames.map(|frames| self.sampled_count(frames, info.fps)),
        );
        on_source_info(source, playback);
        self.join(source, playback);
        playback.catch_up = CatchUp::default();
        playback.silence_watch.on_open(source.comes_in_segments());
    }

    /// Reads the next frame, and counts the frames that the source left out before it. Gives the frame with the processor time
    /// that it took; `None` at the end.
    fn read(
        &self,
        source: &mut dyn Source,
        wait: WaitFor,
        playback: &mut Playback,
    ) -> Result<Option<(Frame, Span)>, SourceError> {
        if let Some(level) = &self.decode_level {
            source.set_decode_level(level.level());
        }
        let limit = (playback.endless == Some(true)).then_some(wait);
        let started = thread_time();
        let next = playback.silence_watch.run_within(limit, || source.next());
        let took = thread_time().saturating_sub(started);
        playback.indices.on_counts(source.counts());
        Ok(next?.map(|frame| (frame, took)))
    }

    /// Sends a frame once it is due; `false` where the run stops.
    fn send_when_due(&self, frame: Frame, time: &FrameTime, playback: &mut Playback) -> bool {
        let is_active = self.is_active(time, playback);
        let gate = self.gate.as_ref().filter(|_| is_active);
        let is_still = gate.is_some_and(|gate| gate.is_still(&frame, &self.target.get().route));
        if let Some(due) = time.due {
            self.sleep_until(due);
            // What is not due yet when the run stops was never sent.
            if self.stop.is_raised() && self.clock.now() < due {
                return false;
            }
        }
        if is_active {
            self.send_skipped(playback)
                && self.send_left_out(&frame, time, playback)
                && self.send(frame, time, is_still)
        } else {
            self.skip(&frame, time, playback)
        }
    }

    /// Sets the gate of the packets of a source that was opened: by its schedule, by its own gate, or by both.
    fn gate_packets(&self, source: &mut dyn Source) -> Option<Arc<ActivePackets>> {
        if let Some(gate) = &self.gate {
            gate.on_begun();
        }
        let Some(active) = &self.active else {
            if let Some(gate) = &self.gate {
                source.gate_packets(Arc::new(gate.clone()));
            }
            return None;
        };
        let packets = ActivePackets::new(active, self.clock, self.gate.clone(), (&self.tap, &self.target));
        source.gate_packets(Arc::clone(&packets) as _);
        Some(packets)
    }

    /// Whether a frame comes at a time at which its source is analysed, by the time that rules have of it.
    fn is_active(&self, time: &FrameTime, playback: &mut Playback) -> bool {
        let Some(active) = &self.active else {
            return true;
        };
        let sent_ms = self.clock.utc_ms(self.sent_at(time));
        let is_active = self.target.contains(active, sent_ms);
        if std::mem::replace(&mut playback.is_active, is_active) != is_active {
            self.control.set_outside_schedule(!is_active);
            self.egress.do_send(ScheduleChanged {
                stream: self.stream,
                is_active,
            });
            if is_active {
                playback.indices.count_left_out_as_still();
                if let Some(gate) = &self.gate {
                    gate.on_begun();
                }
            }
        }
        is_active
    }

    /// Counts a frame that is not analysed as still, with those before it, now or with later ones; `false` where the run stops.
    fn skip(&self, frame: &Frame, time: &FrameTime, playback: &mut Playback) -> bool {
        // Only a delivery has what `privacy` hides.
        let is_newest = playback.skipped.is_newest(frame.stamp_ms);
        if is_newest && self.target.get().route.scene.withheld() == Withheld::FromNone {
            self.tap.on_idle_frame(frame);
        }
        playback.indices.count_left_out_as_still();
        let (_, before) = playback.indices.take_left_out();
        let earlier = playback.media.interval() * before;
        let first = FrameInfo {
            index: frame.index.saturating_sub(before),
            pts_ms: frame.pts_ms - earlier.as_millis_f64(),
            sent_at: self.sent_at(time).saturating_sub(earlier),
        };
        !playback.skipped.add(first, before + 1, frame.pts_ms) || self.send_skipped(playback)
    }

    /// Sends that frames outside the schedule are still; `false` where the run stops.
    pub(super) fn send_skipped(&self, playback: &mut Playback) -> bool {
        let Some(SkippedRun { first, still, last }) = playback.skipped.take() else {
            return true;
        };
        let Some(permit) = self.rejections.acquire(&self.stop) else {
            return false;
        };
        let interval = playback.media.interval();
        let span = last + 1 - first.index;
        let took = interval * span;
        self.egress.do_send(LeftOut {
            stream: self.stream,
            count: 0,
            still,
            span,
            next: FrameInfo {
                index: last + 1,
                pts_ms: first.pts_ms + took.as_millis_f64(),
                sent_at: first.sent_at + took,
            },
            interval,
            permit,
        });
        true
    }

    /// Joins a recording at its place, or ends it where it was joined.
    fn join(&self, source: &mut dyn Source, playback: &mut Playback) {
        let fraction = match std::mem::replace(&mut playback.part, Part::Whole) {
            Part::Whole => return,
            Part::UpTo(end) => return source.end_at(end),
            Part::From(fraction) => fraction,
        };
        let joined = source.join_at(fraction);
        // A source that cannot be joined is only out of step with the others.
        let waited = joined.map_or(fraction, |joined| joined.waited as f64);
        playback.waits = Some((self.clock.now(), waited));
        playback.part = match joined {
            // A looped one is opened again also where nothing followed the place.
            Some(Joined { passed: 1.., .. }) if self.repeat => Part::UpTo(u64::MAX),
            Some(Joined {
                passed: end @ 1.., ..
            }) => Part::UpTo(end),
            _ => Part::Whole,
        };
    }

    /// Waits until the first frame of a recording that was joined comes.
    fn wait_as_joined(&self, playback: &mut Playback) {
        if let (Some((joined, frames)), Pace::Times(speed)) = (playback.waits.take(), self.pace) {
            self.sleep_until(joined + playback.media.interval().scale(frames / speed));
        }
    }

    /// The latency objective of the next frame.
    fn slo(&self) -> Span {
        let own = self.control.own_slo();
        own.unwrap_or_else(|| self.target.get().route.slo)
    }

    /// About how many of `frames` are taken.
    fn sampled_count(&self, frames: u64, fps: Option<f64>) -> u64 {
        match (self.sample, fps) {
            (Some(sample), Some(fps)) if sample < fps => (frames as f64 * sample / fps).ceil() as u64,
            _ => frames,
        }
    }

    /// Gives the frame its index and media time.
    fn on_frame(&self, frame: &mut Frame, playback: &mut Playback) -> FrameTime {
        let now = self.clock.now();
        let steps = playback.indices.on_arrival(frame.index);
        let time = playback.media.on_frame(frame.pts_ms, steps, now);
        frame.index = playback.indices.assign(time.missing);
        frame.pts_ms = time.pts_ms;
        frame.stream = self.name.as_str().into();
        playback.last_pts_ms = frame.pts_ms;
        playback.stale += u64::from(time.age > self.slo());
        if time.discontinuity {
            playback.rebased += 1;
            if playback.rebased == 1 {
                tracing::warn!(
                    stream = %self.name, frame = frame.index,
                    "its time stamps jumped; media time continues without a gap, and further jumps are only counted"
                );
            }
        }
        if !frame.concealed {
            playback.outages.on_whole_frame();
        }
        playback.last_frame = now;
        if !playback.live {
            if playback.outages.on_live() {
                tracing::info!(stream = %self.name, "frames arrive again");
            }
            self.report(playback, StreamState::Live);
        }
        time
    }

    /// Observes the processor time of decoding, and whether it keeps up.
    fn observe_decode_load(&self, time: &FrameTime, took: Span, playback: &Playback) {
        let now = self.clock.now();
        // Frames that the source left out were decoded, too.
        let interval = playback.media.interval() * playback.indices.steps();
        let (interval, lag) = match (time.due, self.pace) {
            (Some(due), Pace::Times(speed)) => (interval.scale(1.0 / speed), now.since(due)),
            // What is not paced is decoded as fast as can be, unless it is a camera.
            _ if playback.endless != Some(true) => return,
            _ => (interval, time.age),
        };
        // A stream under backpressure lags because of that.
        if self.droppable {
            self.decoding.on_frame(self.stream, took, interval, lag, now);
        }
    }

    /// Whether decoding has stayed behind for so long that the rest of the group is left out.
    fn is_behind(&self, time: &FrameTime, playback: &mut Playback) -> bool {
        if self.decode_level.is_none() {
            return false;
        }
        let now = self.clock.now();
        let lag = time.due.map_or(time.age, |due| now.since(due));
        playback.catch_up.on_frame(lag, self.slo(), now)
    }

    /// Observes a picture for the level of decoding.
    fn observe_groups(&self, source: &dyn Source, took: Span, playback: &Playback) {
        let (Some(level), Some(groups)) = (&self.decode_level, source.group_counts()) else {
            return;
        };
        let interval = playback.media.interval();
        let interval = match self.pace {
            Pace::Times(speed) if playback.endless != Some(true) => interval.scale(1.0 / speed),
            _ => interval,
        };
        level.on_picture(interval, took, groups);
    }

    /// Sends that frames before this one were not decoded; `false` where the run stops.
    fn send_left_out(&self, frame: &Frame, time: &FrameTime, playback: &mut Playback) -> bool {
        let next = FrameInfo {
            index: frame.index,
            pts_ms: frame.pts_ms,
            sent_at: self.sent_at(time),
        };
        self.send_left_out_before(next, playback)
    }

    fn send_left_out_before(&self, next: FrameInfo, playback: &mut Playback) -> bool {
        let (count, still) = playback.indices.take_left_out();
        if count + still == 0 {
            return true;
        }
        let Some(permit) = self.rejections.acquire(&self.stop) else {
            return false;
        };
        self.egress.do_send(LeftOut {
            stream: self.stream,
            count,
            still,
            span: count + still,
            next,
            interval: playback.media.interval(),
            permit,
        });
        true
    }

    /// Sends that the last frames of the stream were not decoded.
    pub(super) fn send_last_left_out(&self, playback: &mut Playback) {
        if !playback.is_active {
            playback.indices.count_left_out_as_still();
        }
        let next = FrameInfo {
            index: playback.indices.end(),
            pts_ms: playback.last_pts_ms
                + playback.media.interval().as_millis_f64() * (playback.indices.left_out() + 1) as f64,
            sent_at: self.clock.now(),
        };
        self.send_left_out_before(next, playback);
    }

    /// Admits the frame as a request, or rejects it; `false` where the run stops.
    fn send(&self, mut frame: Frame, time: &FrameTime, still: bool) -> bool {
        let Some(admitted) = self.admission.admit(frame.image.bytes(), &self.stop) else {
            return false;
        };
        let rejection = match &admitted {
            Ok(_) => None,
            Err(reason) => match self.rejections.acquire(&self.stop) {
                Some(rejection) => Some((*reason, rejection)),
                None => return false,
            },
        };
        let id = RequestId(self.next_request.fetch_add(1, Ordering::Relaxed));
        let sent_at = self.sent_at(time);
        let info = FrameInfo {
            index: frame.index,
            pts_ms: frame.pts_ms,
            sent_at,
        };
        if !still {
            // Before any actor knows of the request: a batch may take it before the egress has its arrival.
            self.tracer.on_arrived(id, &self.name, frame.index, sent_at);
            if let Some(gate) = self.gate.as_ref().filter(|_| rejection.is_some()) {
                gate.on_lost(frame.index);
            }
            self.egress.do_send(Arrived {
                request: id,
                stream: self.stream,
                frame: info,
                rejected: rejection,
            });
        } else if let Some((_, permit)) = rejection {
            // Without a place for its picture, it is only counted.
            self.egress.do_send(LeftOut {
                stream: self.stream,
                count: 0,
                still: 1,
                span: 1,
                next: FrameInfo {
                    index: info.index + 1,
                    ..info
                },
                interval: Span::ZERO,
                permit,
            });
        }
        let Ok((permit, memory)) = admitted else {
            return true;
        };
        telemetry::record_frame_bytes(&self.name, self.admission.used_bytes());
        frame.memory_guard = Some(Box::new(memory));
        let target = self.target.get();
        let privacy = &target.route.scene.privacy;
        if privacy.hides() {
            frame.privacy = PrivacyMask::pending();
        }
        frame.privacy = frame.privacy.with_private(privacy.private);
        let permit: Arc<StreamPermit> = Arc::new(permit);
        let (frame, slo) = (Arc::new(frame), self.control.own_slo());
        let request = Request {
            id,
            stream: self.stream,
            route: Arc::clone(&target.route),
            frame,
            sent_at,
            slo,
            droppable: self.droppable,
            still,
            gate: self.gate.clone(),
            changes: self.gate.as_ref().and_then(SharedMotionGate::changes),
            permit,
        };
        let request = Arc::new(request);
        if still {
            self.egress.do_send(StillFrame(request));
        } else {
            target.graph.do_send(RequestAdmitted(request));
        }
        true
    }

    /// A frame of a camera is sent when it is made, however late it is read and however long it was in transit; one of an
    /// archive when it is admitted.
    fn sent_at(&self, time: &FrameTime) -> Timestamp {
        let now = self.clock.now();
        if !self.droppable {
            return now;
        }
        time.due.unwrap_or(now.saturating_sub(time.age)).min(now)
    }
}

/// The next step that is expected of an open source; `early`: that many frames until its rate is known.
fn wait_for(playback: &Playback, first: bool, early: u32) -> WaitFor {
    if first {
        return WaitFor::FirstFrame;
    }
    // Packets of frames that are left out arrive, too: silence between them is not longer for that.
    let interval = playback.media.interval() * playback.indices.unread_steps();
    if early > 0 {
        WaitFor::EarlyFrame(interval)
    } else {
        WaitFor::Frame(interval)
    }
}

fn on_source_info(source: &dyn Source, playback: &mut Playback) {
    let info = source.info();
    playback.endless = Some(info.live);
    playback.media.on_open(MediaInfo {
        live: info.live,
        stamped: info.stamped,
        bursts: source.comes_in_segments(),
        fps: info.fps,
    });
}
