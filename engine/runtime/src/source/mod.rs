//! A source's thread: opens the source, keeps the pace of the media, and lets frames in at the gate. It opens the source
//! again at its end where it is to be looped, and for as long as the run lasts where it is a camera.
//!
//! What it goes by is the policy's: `MediaClock` says when frames are due and how old they are, `SilenceWatch` when a
//! source is silent, `Backoff` when to try again. [`connect`] opens and opens again, [`play`] reads, waits and sends.

mod connect;
mod play;
mod refusals;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use actix::Addr;
use weir_flow::{SourceCounts, SourceFactory, StopFlag, StreamState};
use weir_policy::{Backoff, FrameSampler, MediaClock, Silence};
use weir_types::{Span, StreamId, Timestamp};

use crate::actors::{Egress, ModuleActor, StreamEnded, StreamStateChanged};
use crate::assembly::Pace;
use crate::clock::Clock;
use crate::decoding::{Decoding, lower_priority};
use crate::gate::StreamGate;
use crate::progress::Progress;
use crate::worker::words;
pub(crate) use refusals::{Refusal, Refusals};
use watch::Watch;

/// How long at most the thread sleeps without looking whether it is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a source's thread works with.
pub(crate) struct SourceLine {
    pub(crate) stream: StreamId,
    pub(crate) name: String,
    pub(crate) factory: Box<dyn SourceFactory>,
    pub(crate) repeat: bool,
    /// Frames a second of media time that are taken; `None`: all.
    pub(crate) sample: Option<f64>,
    pub(crate) droppable: bool,
    pub(crate) pace: Pace,
    pub(crate) slo: Span,
    pub(crate) gate: Arc<StreamGate>,
    pub(crate) clock: Clock,
    pub(crate) stop: StopFlag,
    pub(crate) decoding: Arc<Decoding>,
    pub(crate) refusals: Refusals,
    pub(crate) backoff: Backoff,
    pub(crate) numbers: Arc<AtomicU64>,
    pub(crate) egress: Addr<Egress>,
    pub(crate) progress: Arc<Progress>,
    /// Modules that its frames enter, each with how many parts make a request whole there.
    pub(crate) entries: Vec<(Addr<ModuleActor>, u32)>,
}

/// Where a stream stands.
struct Position {
    media: MediaClock,
    watch: Watch,
    backoff: Backoff,
    /// Frames that came so far, over all openings.
    frames: u64,
    /// The number that a frame has whose source calls it 0.
    first_index: u64,
    /// The number that comes next.
    next_index: u64,
    /// How many numbers the last frame was after the one before: more than one where the source leaves some out.
    steps: u64,
    /// What closed openings counted, and this one so far.
    closed: SourceCounts,
    counts: SourceCounts,
    sampler: FrameSampler,
    not_sampled: u64,
    /// Discontinuities that the media clock found.
    rebased: u64,
    /// Frames that were older than the SLO when they came.
    stale: u64,
    /// Whether it has no end of its own; `None` while nobody knows.
    endless: Option<bool>,
    /// When the last frame came.
    last_frame: Timestamp,
    /// Whether the last state that was reported is that frames come.
    running: bool,
    /// What ended the last opening, where that was silence.
    silence: Option<Silence>,
    /// How often it was away.
    outages: u64,
    /// Why it is away, as reported last.
    reason: Option<String>,
}

impl SourceLine {
    /// Runs until the source ends or the run stops.
    pub(crate) fn run(self) {
        lower_priority();
        let speed = match self.pace {
            Pace::Times(speed) => Some(speed),
            Pace::Max => None,
        };
        let mut at = Position {
            media: MediaClock::new(speed),
            watch: Watch::new(self.clock),
            backoff: self.backoff.clone(),
            frames: 0,
            first_index: 0,
            next_index: 0,
            steps: 1,
            closed: SourceCounts::default(),
            counts: SourceCounts::default(),
            sampler: FrameSampler::new(self.sample),
            not_sampled: 0,
            rebased: 0,
            stale: 0,
            endless: self.factory.is_endless(),
            last_frame: self.clock.now(),
            running: false,
            silence: None,
            outages: 0,
            reason: None,
        };
        // The end of a stream must be told whatever happens, or the run would wait for it.
        let error = match catch_unwind(AssertUnwindSafe(|| self.connect(&mut at))) {
            // Who is asked to stop while opening says so as an error.
            Ok(Err(_)) if self.stop.is_raised() => None,
            Ok(Ok(())) if at.frames == 0 && !self.stop.is_raised() => Some(format!(
                "stream {} gave no frame: check what its source names",
                self.name
            )),
            Ok(ended) => ended.err().map(|error| error.to_string()),
            Err(panic) => Some(format!(
                "the source of stream {} panicked after {} frames: {}",
                self.name,
                at.frames,
                words(panic.as_ref())
            )),
        };
        if let Some(error) = &error {
            // The report has it, and what ends the run says it.
            tracing::debug!(stream = %self.name, "{error}");
        }
        self.decoding.on_ended(self.stream);
        let stopped = self.stop.is_raised();
        if !stopped {
            self.report(&mut at, StreamState::Ended { error: error.clone() }, false);
        }
        let mut counts = at.closed + at.counts;
        counts.discontinuities += at.rebased;
        counts.not_sampled += at.not_sampled;
        self.egress.do_send(StreamEnded {
            stream: self.stream,
            counts,
            stale: at.stale,
            error,
        });
    }

    /// Reports another state of the stream.
    fn report(&self, at: &mut Position, state: StreamState, silent: bool) {
        at.running = state == StreamState::Running;
        self.egress.do_send(StreamStateChanged {
            stream: self.stream,
            since: match state {
                StreamState::Down { .. } => at.last_frame,
                StreamState::Running | StreamState::Ended { .. } => self.clock.now(),
            },
            state,
            silent,
        });
    }

    fn sleep_until(&self, due: Timestamp) {
        while !self.stop.is_raised() {
            let left = self.clock.until(due);
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}
