//! A source's thread: decodes, keeps the pace of the media, and lets frames in at the gate. It opens the source again at
//! its end where it is to be looped, and when a camera goes away.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::Addr;
use weir_flow::{Evidence, Frame, Source, SourceError, SourceFactory, StopFlag, StreamState};
use weir_policy::{RequestId, Span, StreamId, Timestamp};

use crate::actors::{
    Completed, Deliver, Egress, FrameInfo, ModuleActor, Opened, StreamEnded, StreamStateChanged,
};
use crate::assembly::Pace;
use crate::clock::Clock;
use crate::gate::{Pass, StreamGate};
use crate::request::{Parcel, Request};
use crate::telemetry;
use crate::worker::words;

/// How long at most the thread sleeps without looking whether it is to stop.
const LOOK_UP: Duration = Duration::from_millis(20);

/// How often a camera that went away is tried again, and how long to wait before each try: doubled from the first.
const RETRIES: u32 = 6;
const RETRY_FIRST: Span = Span::from_millis(500);

/// What a source's thread works with.
pub(crate) struct SourceLine {
    pub(crate) stream: StreamId,
    pub(crate) name: String,
    pub(crate) factory: Box<dyn SourceFactory>,
    pub(crate) repeat: bool,
    pub(crate) droppable: bool,
    pub(crate) pace: Pace,
    pub(crate) gate: Arc<StreamGate>,
    pub(crate) clock: Clock,
    pub(crate) stop: StopFlag,
    pub(crate) numbers: Arc<AtomicU64>,
    pub(crate) egress: Addr<Egress>,
    /// Modules that its frames enter, each with how many parts make a request whole there.
    pub(crate) entries: Vec<(Addr<ModuleActor>, u32)>,
}

/// Where a stream stands.
#[derive(Default)]
struct Position {
    /// Frames sent so far, over all rounds of a loop.
    frames: u64,
    damaged: u64,
    /// Whether it is a camera, which has no end of its own.
    live: bool,
    /// Media time at which the present round began, in milliseconds.
    round_began_ms: f64,
    last_pts_ms: f64,
    interval_ms: f64,
    /// When media time 0 was on the clock.
    media_began: Option<Timestamp>,
}

impl SourceLine {
    /// Runs until the source ends or the run stops.
    pub(crate) fn run(self) {
        let mut at = Position::default();
        // The end of a stream must be told whatever happens, or the run would wait for it.
        let error = match catch_unwind(AssertUnwindSafe(|| self.rounds(&mut at))) {
            // Somebody who is told to stop while opening says so as an error.
            Ok(Err(_)) if self.stop.raised() => None,
            Ok(Ok(())) if at.frames == 0 && !self.stop.raised() => Some(format!(
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
            tracing::warn!(stream = %self.name, "{error}");
        }
        self.egress.do_send(StreamEnded {
            stream: self.stream,
            damaged: at.damaged,
            error,
        });
    }

    fn rounds(&self, at: &mut Position) -> Result<(), SourceError> {
        let mut tries = 0;
        loop {
            let before = at.frames;
            let ended = self
                .factory
                .open(&self.stop)
                .and_then(|mut source| self.round(source.as_mut(), at));
            if at.frames > before {
                tries = 0;
            }
            let lasting = self.repeat || at.live;
            let (again, error) = match ended {
                // What has never given a frame is not there; what has, will perhaps come back.
                Err(error) if at.frames == 0 || !lasting => return Err(error),
                Err(error) => {
                    tracing::warn!(stream = %self.name, "{error}; trying again");
                    self.egress.do_send(StreamStateChanged {
                        stream: self.stream,
                        state: StreamState::Down {
                            reason: error.to_string(),
                        },
                    });
                    (true, Some(error))
                }
                Ok(()) => (lasting && at.frames > 0, None),
            };
            if !again || self.stop.raised() {
                return Ok(());
            }
            if at.frames == before {
                if tries >= RETRIES {
                    return error.map_or(Ok(()), Err);
                }
                self.sleep_until(self.clock.now() + RETRY_FIRST * (1 << tries));
                tries += 1;
            }
            at.round_began_ms = at.last_pts_ms + at.interval_ms.max(1.0);
        }
    }

    /// Plays the source once.
    fn round(&self, source: &mut dyn Source, at: &mut Position) -> Result<(), SourceError> {
        let info = source.info();
        at.live = info.live;
        let damaged_before = at.damaged;
        if let Some(fps) = info.fps.filter(|fps| *fps > 0.0) {
            at.interval_ms = 1e3 / fps;
        }
        while !self.stop.raised() {
            let next = source.next();
            at.damaged = damaged_before + source.counts().damaged;
            let Some(mut frame) = next? else { break };
            frame.index = at.frames;
            frame.pts_ms += at.round_began_ms;
            at.frames += 1;
            at.last_pts_ms = frame.pts_ms;
            let due = self.wait_until_due(info.live, frame.pts_ms, at);
            if !self.send(frame, due) {
                break;
            }
        }
        Ok(())
    }

    /// Keeps the pace; gives the moment at which the frame counts as sent, where that is not the present one.
    fn wait_until_due(&self, live: bool, pts_ms: f64, at: &mut Position) -> Option<Timestamp> {
        let speed = match self.pace {
            Pace::Times(speed) if !live => speed,
            Pace::Times(_) | Pace::Max => return None,
        };
        let media = Span::from_secs_f64(pts_ms / 1e3 / speed);
        let now = self.clock.now();
        let began = *at.media_began.get_or_insert(now.saturating_sub(media));
        let due = began + media;
        self.sleep_until(due);
        Some(due)
    }

    fn sleep_until(&self, due: Timestamp) {
        while !self.stop.raised() {
            let left = self.clock.until(due);
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_UP));
        }
    }

    /// Lets the frame in as a request, or refuses it; says whether to go on.
    fn send(&self, mut frame: Frame, due: Option<Timestamp>) -> bool {
        let Some(admission) = self.gate.enter(frame.image.bytes(), &self.stop) else {
            return false;
        };
        let id = RequestId(self.numbers.fetch_add(1, Ordering::Relaxed));
        // A camera's frame is sent when it is there, however late we are to take it up; an archive's when it is let in.
        let now = self.clock.now();
        let sent_at = due.filter(|_| self.droppable).unwrap_or(now).min(now);
        let info = FrameInfo {
            index: frame.index,
            pts_ms: frame.pts_ms,
            sent_at,
        };
        let (pass, loan) = match admission {
            Ok(entered) => entered,
            Err(reason) => {
                self.egress.do_send(Opened {
                    request: id,
                    stream: self.stream,
                    frame: info,
                    refused: Some(reason),
                });
                return true;
            }
        };
        telemetry::frame_bytes(&self.name, self.gate.bytes());
        frame.reservation = Some(Box::new(loan));
        let pass: Arc<Pass> = Arc::new(pass);
        let request = Request::new(id, self.stream, Arc::new(frame), sent_at, self.droppable, pass);
        self.egress.do_send(Opened {
            request: id,
            stream: self.stream,
            frame: info,
            refused: None,
        });
        let parcel = Parcel {
            request: Arc::new(request),
            evidence: Evidence::default(),
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
}
