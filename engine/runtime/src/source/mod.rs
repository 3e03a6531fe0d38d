//! The thread of a source: opens the source, keeps the pace of the media, and admits frames as requests. It opens the
//! source again at its end where that is to be looped, and for as long as the run lasts where it is a camera.
//!
//! The policy decides: `MediaClock` says when frames are due and how old they are, `SilenceWatch` when a source is silent,
//! `Backoff` when to try again. [`connect`] opens and opens again, [`play`] reads, waits and sends.

mod active;
mod camera;
mod connect;
mod control;
mod decode_level;
mod frame_indices;
mod frozen;
mod motion;
mod outages;
mod play;
mod rejections;
mod silence;
mod target;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use actix::Addr;
use weir_analytics::transforms::Schedule;
use weir_flow::{PacketTap, SourceFactory, StopFlag, StreamState};
use weir_policy::{Backoff, CatchUp, FrameSampler, FrozenWatch, MediaClock};
use weir_types::{StreamId, Timestamp};

use crate::actors::{Egress, StreamEnded, StreamPaused, StreamStateChanged};
use crate::admission::StreamAdmission;
use crate::assembly::Pace;
use crate::clock::Clock;
use crate::decoding::{Decoding, lower_priority};
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind, ThreadTimer};
use crate::progress::Progress;
use crate::request_traces::RequestTracer;
use active::SkippedFrames;
pub(crate) use control::SourceControl;
pub(crate) use decode_level::{SharedDecodeLevel, SharedDecodeLevels};
use frame_indices::FrameIndices;
pub(crate) use motion::{GateStep, GateTimes, RecordedGates, SharedMotionGate};
use outages::Outages;
pub(crate) use rejections::{RejectionLimit, RejectionPermit};
use silence::SharedSilenceWatch;
pub(crate) use target::{SharedTarget, SourceTarget};

/// Longest sleep between two looks whether the run stops.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// State of the thread of a source.
pub(crate) struct SourceThread {
    pub(crate) stream: StreamId,
    pub(crate) name: String,
    pub(crate) factory: Box<dyn SourceFactory>,
    pub(crate) repeat: bool,
    /// Frames per second of media time that are taken; `None`: all.
    pub(crate) sample: Option<f64>,
    pub(crate) droppable: bool,
    pub(crate) pace: Pace,
    pub(crate) admission: Arc<StreamAdmission>,
    pub(crate) clock: Clock,
    /// Raised where this source is to end: with the run, when it is removed, or while it is paused.
    pub(crate) stop: StopFlag,
    /// Of the whole run.
    pub(crate) run_stop: StopFlag,
    pub(crate) control: Arc<SourceControl>,
    /// The fraction of a recording that it is joined at; 0: it begins at its start.
    pub(crate) joined_at: f64,
    pub(crate) decoding: Arc<Decoding>,
    pub(crate) processor: Arc<ProcessorTimes>,
    /// Decode level of the source; `None` decodes every frame.
    pub(crate) decode_level: Option<SharedDecodeLevel>,
    /// Times at which frames are analysed; `None`: always.
    pub(crate) active: Option<Arc<Schedule>>,
    /// Says which frames are looked at; `None`: all.
    pub(crate) gate: Option<SharedMotionGate>,
    pub(crate) rejections: RejectionLimit,
    pub(crate) backoff: Backoff,
    /// The id of the next request of any stream.
    pub(crate) next_request: Arc<AtomicU64>,
    pub(crate) egress: Addr<Egress>,
    pub(crate) tracer: RequestTracer,
    pub(crate) progress: Arc<Progress>,
    pub(crate) target: Arc<SharedTarget>,
    /// Receives packets as the source reads them.
    pub(crate) tap: Arc<PacketTap>,
}

/// Position and counts of a stream, over all openings of its source.
struct Playback {
    media: MediaClock,
    silence_watch: SharedSilenceWatch,
    indices: FrameIndices,
    sampler: FrameSampler,
    not_sampled: u64,
    /// Media time of the last frame.
    last_pts_ms: f64,
    /// Whether the last frame came at a time at which the source is analysed.
    is_active: bool,
    skipped: SkippedFrames,
    /// Discontinuities that the media clock found.
    rebased: u64,
    /// Frames that were older than the SLO when they arrived.
    stale: u64,
    /// Whether it has no end of its own; `None` while that is not known.
    endless: Option<bool>,
    /// When the last frame arrived.
    last_frame: Timestamp,
    /// Whether the state that was reported last is that frames arrive.
    live: bool,
    outages: Outages,
    catch_up: CatchUp,
    frozen: FrozenWatch,
    /// The part of a recording that the next opening plays.
    part: Part,
    /// When a recording was joined, and the frames whose time passes until the first one comes.
    waits: Option<(Timestamp, f64)>,
    /// Processor time of its thread.
    timer: ThreadTimer,
}

/// A part of a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Whole,
    /// From this fraction on.
    From(f64),
    /// The frames before this one: the others have been played.
    UpTo(u64),
}

impl SourceThread {
    /// Runs until the source ends or the run stops.
    pub(crate) fn run(self) {
        lower_priority();
        let speed = match self.pace {
            Pace::Times(speed) => Some(speed),
            Pace::Max => None,
        };
        let mut playback = Playback {
            media: MediaClock::new(speed),
            silence_watch: SharedSilenceWatch::new(self.clock),
            indices: FrameIndices::default(),
            sampler: FrameSampler::new(self.sample),
            not_sampled: 0,
            last_pts_ms: 0.0,
            is_active: true,
            skipped: SkippedFrames::default(),
            rebased: 0,
            stale: 0,
            endless: self.factory.is_endless(),
            last_frame: self.clock.now(),
            live: false,
            outages: Outages::new(self.backoff.clone()),
            catch_up: CatchUp::default(),
            frozen: FrozenWatch::default(),
            part: match self.joined_at {
                0.0 => Part::Whole,
                fraction => Part::From(fraction),
            },
            waits: None,
            timer: self.processor.timer(ThreadKind::Decoding),
        };
        // The end of a stream must be reported whatever happens, or the run would wait for it.
        let ended = loop {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                self.listening(|| self.connect(&mut playback))
            }));
            if !self.control.is_interrupted() || !self.pause(&mut playback) {
                break ended;
            }
        };
        let error = match ended {
            // A source that is stopped while it opens returns an error.
            Ok(Err(_)) if self.stop.is_raised() => None,
            Ok(Ok(())) if playback.indices.frames() == 0 && !self.stop.is_raised() => Some(format!(
                "stream {} gave no frame: check what its source names",
                self.name
            )),
            Ok(ended) => ended.err().map(|error| error.to_string()),
            Err(panic) => Some(format!(
                "the source of stream {} panicked after {} frames: {}",
                self.name,
                playback.indices.frames(),
                panic_message(panic.as_ref())
            )),
        };
        if let Some(error) = &error {
            // Debug only: it is in the report, and shown where the run ends.
            tracing::debug!(stream = %self.name, "{error}");
        }
        self.decoding.on_ended(self.stream);
        if let Some(level) = &self.decode_level {
            level.on_ended();
        }
        if let Some(gate) = &self.gate {
            gate.on_ended();
        }
        self.send_skipped(&mut playback);
        let stopped = self.stop.is_raised();
        if !stopped {
            self.send_last_left_out(&mut playback);
            let reason = error.clone();
            self.report(&mut playback, StreamState::Gone { reason });
        }
        let mut counts = playback.indices.counts();
        counts.discontinuities += playback.rebased;
        counts.not_sampled += playback.not_sampled;
        self.egress.do_send(StreamEnded {
            stream: self.stream,
            counts,
            stale: playback.stale,
            error,
        });
    }

    /// The stream is paused, and its source closed: waits until it is resumed. Says whether it goes on.
    fn pause(&self, playback: &mut Playback) -> bool {
        self.decoding.on_ended(self.stream);
        playback.live = false;
        let report = |paused| {
            self.egress.do_send(StreamPaused {
                stream: self.stream,
                paused,
                since: self.clock.now(),
            });
        };
        report(true);
        let goes_on = self.control.wait_for_resume(&self.run_stop);
        report(false);
        goes_on
    }

    /// Reports another state of the stream.
    fn report(&self, playback: &mut Playback, state: StreamState) {
        playback.live = state == StreamState::Live;
        self.egress.do_send(StreamStateChanged {
            stream: self.stream,
            state,
            since: self.clock.now(),
            last_frame: playback.last_frame,
        });
    }

    fn sleep_until(&self, due: Timestamp) {
        while !self.stop.is_raised() {
            let left = self.clock.duration_until(due);
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}
