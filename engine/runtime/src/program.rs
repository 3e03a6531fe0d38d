//! The thread of a transform that a program of the user computes. It takes deliveries from a bounded queue, and answers each
//! of them once: the egress holds the delivery until then.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use actix::Message;
use crossbeam_channel::{Receiver, Sender};
use weir_analytics::transforms::StreamTransform;
use weir_flow::{Delivery, ProgramAnswer, ProgramFailure, ProgramFault, TransformProgram};
use weir_policy::TransformReport;
use weir_types::{RequestId, Span, StreamId, Timestamp};

use crate::clock::Clock;
use crate::lock::lock;
use crate::panic_message::panic_message;

/// Deliveries that wait for a program; those beyond pass unchanged.
const MAX_WAITING: usize = 256;

/// A delivery for a program.
pub(crate) struct ProgramFrame {
    pub(crate) stream: StreamId,
    pub(crate) request: RequestId,
    pub(crate) delivery: Arc<Delivery>,
    /// Time of handing it over.
    pub(crate) at: Timestamp,
}

enum Job {
    Frame(ProgramFrame),
    Closed(Arc<str>),
}

/// Answer of a program for a delivery.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ProgramDone {
    pub(crate) stream: StreamId,
    pub(crate) request: RequestId,
    /// Name of the transform.
    pub(crate) transform: Arc<str>,
    /// Number of processes that were lost before, with the state of the transform.
    pub(crate) generation: u64,
    /// `None`: the delivery passes unchanged.
    pub(crate) answer: Option<ProgramAnswer>,
}

/// A transform whose thread runs until this is dropped.
pub(crate) struct Program {
    pub(crate) transform: StreamTransform,
    /// Modules of which it sees objects.
    pub(crate) modules: BTreeSet<u32>,
    jobs: Sender<Job>,
    counts: Arc<Mutex<TransformReport>>,
}

impl Program {
    /// Starts the thread.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(crate) fn start(
        (transform, modules): (StreamTransform, BTreeSet<u32>),
        program: Box<dyn TransformProgram>,
        clock: Clock,
        on_done: impl Fn(ProgramDone) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, queue) = crossbeam_channel::bounded(MAX_WAITING);
        let counts = Arc::<Mutex<TransformReport>>::default();
        let thread = ProgramThread {
            name: Arc::clone(&transform.name),
            timeout: Span::from_secs_f64(program.timeout().as_secs_f64()),
            program,
            clock,
            counts: Arc::clone(&counts),
            generation: 0,
        };
        std::thread::Builder::new()
            .name(format!("weir-transform-{}", transform.name))
            .spawn(move || thread.run(&queue, on_done))?;
        Ok(Self {
            transform,
            modules,
            jobs,
            counts,
        })
    }

    /// Hands a delivery over; `false` if it passes unchanged, because too many wait.
    pub(crate) fn submit(&self, frame: ProgramFrame) -> bool {
        let sent = self.jobs.try_send(Job::Frame(frame)).is_ok();
        if !sent {
            lock(&self.counts).on_unchanged("queue-full", None);
        }
        sent
    }

    /// Nothing follows of a stream, until it begins anew.
    pub(crate) fn on_stream_closed(&self, stream: &Arc<str>) {
        // A full queue: the state of the stream is kept.
        let _ = self.jobs.try_send(Job::Closed(Arc::clone(stream)));
    }

    pub(crate) fn report(&self) -> TransformReport {
        lock(&self.counts).clone()
    }
}

struct ProgramThread {
    name: Arc<str>,
    program: Box<dyn TransformProgram>,
    timeout: Span,
    clock: Clock,
    counts: Arc<Mutex<TransformReport>>,
    generation: u64,
}

impl ProgramThread {
    fn run(mut self, queue: &Receiver<Job>, on_done: impl Fn(ProgramDone)) {
        // Frames wait for the first start: it was tried before the run.
        if let Err(reason) = self.program.start() {
            tracing::warn!(transform = &*self.name, "{reason}");
            lock(&self.counts).last_failure = Some(reason);
        }
        let began = self.clock.now();
        while let Ok(job) = queue.recv() {
            match job {
                Job::Frame(frame) => {
                    let answer = self.answer(&frame, began);
                    on_done(ProgramDone {
                        stream: frame.stream,
                        request: frame.request,
                        transform: Arc::clone(&self.name),
                        generation: self.generation,
                        answer,
                    });
                }
                Job::Closed(stream) => {
                    let closed = AssertUnwindSafe(|| self.program.on_stream_closed(&stream));
                    if let Ok(Err(failure)) = catch_unwind(closed) {
                        self.on_fault(failure.fault);
                        lock(&self.counts).last_failure = Some(failure.reason);
                    }
                }
            }
        }
    }

    fn on_fault(&mut self, fault: ProgramFault) {
        if fault.loses_state() {
            self.generation += 1;
        }
    }

    /// The answer for a delivery, which is not asked for where it has waited too long.
    fn answer(&mut self, frame: &ProgramFrame, began: Timestamp) -> Option<ProgramAnswer> {
        if self.clock.now().since(frame.at.max(began)) > self.timeout {
            lock(&self.counts).on_unchanged("waited", None);
            return None;
        }
        let call = AssertUnwindSafe(|| self.program.on_frame(&frame.delivery));
        let answer = catch_unwind(call).unwrap_or_else(|panic| {
            Err(ProgramFailure {
                fault: ProgramFault::Failed,
                reason: format!("the transform panicked: {}", panic_message(panic.as_ref())),
            })
        });
        match answer {
            Ok(answer) => {
                lock(&self.counts).on_answer(answer.incidents.len());
                Some(answer)
            }
            Err(failure) => {
                let name = match failure.fault {
                    ProgramFault::Late => "late",
                    ProgramFault::Failed => "failed",
                    ProgramFault::Ended => "ended",
                    ProgramFault::Down => "restarting",
                };
                self.on_fault(failure.fault);
                // The reason for which it is down was given before.
                let reason = Some(failure.reason).filter(|_| failure.fault != ProgramFault::Down);
                lock(&self.counts).on_unchanged(name, reason);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use weir_analytics::transforms::{Anchor, TransformKind, TransformSpec};
    use weir_flow::{Frame, Image, Settings, StreamNames};

    use super::*;

    /// Loses its process whenever a stream has ended.
    struct Forgetful;

    impl TransformProgram for Forgetful {
        fn timeout(&self) -> Duration {
            Duration::from_secs(600)
        }

        fn start(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn on_frame(&mut self, _: &Delivery) -> Result<ProgramAnswer, ProgramFailure> {
            Ok(ProgramAnswer::default())
        }

        fn on_stream_closed(&mut self, stream: &str) -> Result<(), ProgramFailure> {
            Err(ProgramFailure {
                fault: ProgramFault::Ended,
                reason: format!("it ended with {stream}"),
            })
        }
    }

    fn frame(number: u64) -> ProgramFrame {
        ProgramFrame {
            stream: StreamId(0),
            request: RequestId(number),
            delivery: Arc::new(Delivery::new(
                "north",
                Frame::new(number, 0.0, Image::from_rgb(1, 1, vec![0; 3])),
            )),
            at: Timestamp::ZERO,
        }
    }

    #[test]
    fn process_lost_with_one_stream_loses_the_state_of_others() {
        let transform = StreamTransform {
            name: "watch".into(),
            spec: TransformSpec {
                classes: Vec::new(),
                anchor: Anchor::default(),
                outline: None,
                every_ms: 0.0,
                kind: TransformKind::Python(Arc::new(Settings::default())),
            },
            modules: BTreeSet::new(),
            trackers: BTreeSet::new(),
            streams: StreamNames::default(),
        };
        let (answered, answers) = channel();
        let on_done = move |done: ProgramDone| answered.send((done.request, done.generation)).unwrap();
        let parts = (transform, BTreeSet::new());
        let program = Program::start(parts, Box::new(Forgetful), Clock::start(), on_done).unwrap();
        assert!(program.submit(frame(0)));
        program.on_stream_closed(&"south".into());
        assert!(program.submit(frame(1)));
        for expected in [(RequestId(0), 0), (RequestId(1), 1)] {
            assert_eq!(answers.recv_timeout(Duration::from_secs(60)), Ok(expected));
        }
        assert_eq!(program.report().last_failure.unwrap(), "it ended with south");
    }
}
