//! Transforms that users write in Python: a process takes in the deliveries of all streams of the transform, as event lines,
//! and gives attributes and incidents.
//!
//! A process that is late or gone is started again on a thread of its own, after a wait that doubles while it fails; frames
//! pass without it meanwhile.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_flow::{
    Delivery, Phase, ProgramAnswer, ProgramFailure, ProgramFault, ProgramIncident, Settings,
    TransformProgram, TransformPrograms,
};

use super::process::{CallError, FunctionKind, PythonFunction, WorkerProcess};
use super::protocol::{Answer, IncidentAnswer, PhaseAnswer};
use super::results::{check_name, named_attributes};
use crate::sinks::{Backoff, write_event};

/// Longest time of one call without the key `timeout`.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Incidents of one frame.
const MAX_INCIDENTS: usize = 100;
/// Reason for frames that pass while there is no process.
const DOWN: &str = "its process is started again";

/// Makes transforms in Python.
#[derive(Debug, Clone, Copy, Default)]
pub struct PythonTransforms;

impl PythonTransforms {
    /// Starts the process of a transform with these keys, and ends it again: its function is there and can be loaded.
    ///
    /// # Errors
    /// The reason why it cannot be loaded.
    pub fn check(settings: &Settings) -> Result<(), String> {
        let function = function(settings)?;
        WorkerProcess::start(&function)
            .map(drop)
            .map_err(|reason| format!("{}: {reason}", function.name))
    }
}

impl TransformPrograms for PythonTransforms {
    fn make(&self, settings: &Settings) -> Result<Box<dyn TransformProgram>, String> {
        Ok(Box::new(PythonTransform {
            function: function(settings)?,
            state: State::Waiting(None),
            backoff: Backoff::new(),
            failures: 0,
        }))
    }
}

fn function(settings: &Settings) -> Result<PythonFunction, String> {
    let function = PythonFunction::of(FunctionKind::Transform, settings, ["timeout", "memory"], TIMEOUT);
    function.ok_or_else(|| "no function in Python is named".to_owned())
}

/// State of the process.
enum State {
    Running(Box<WorkerProcess>),
    /// It is being started.
    Starting(JoinHandle<Result<WorkerProcess, String>>),
    /// It is started again then; `None`: with the next frame.
    Waiting(Option<Instant>),
}

struct PythonTransform {
    function: PythonFunction,
    state: State,
    backoff: Backoff,
    /// Frames without a result, for the log.
    failures: u64,
}

impl PythonTransform {
    fn failed(&mut self, fault: ProgramFault, reason: &str) -> ProgramFailure {
        self.failures += 1;
        let reason = format!("{}: {reason}", self.function.name);
        if self.failures.is_power_of_two() {
            tracing::warn!("{reason} (frame {} without a result)", self.failures);
        }
        ProgramFailure { fault, reason }
    }

    /// The process is of no use any more.
    fn lose(&mut self) {
        let wait = self.backoff.next_wait();
        self.state = State::Waiting(Some(now() + wait));
    }

    /// Goes on with starting the process.
    fn advance(&mut self) {
        if let State::Waiting(due) = &self.state
            && due.is_none_or(|due| due <= now())
        {
            let function = self.function.clone();
            let thread = std::thread::Builder::new().name("weir-python".to_owned());
            match thread.spawn(move || WorkerProcess::start(&function)) {
                Ok(thread) => self.state = State::Starting(thread),
                Err(_) => self.lose(),
            }
        }
        if matches!(&self.state, State::Starting(thread) if thread.is_finished()) {
            self.on_started();
        }
    }

    /// Takes over the process that was started.
    fn on_started(&mut self) {
        let State::Starting(thread) = std::mem::replace(&mut self.state, State::Waiting(None)) else {
            return;
        };
        match thread.join() {
            Ok(Ok(process)) => self.state = State::Running(Box::new(process)),
            Ok(Err(reason)) => {
                tracing::warn!("{}: {reason}", self.function.name);
                self.lose();
            }
            Err(_) => self.lose(),
        }
    }
}

impl TransformProgram for PythonTransform {
    fn timeout(&self) -> Duration {
        self.function.timeout
    }

    fn start(&mut self) -> Result<(), String> {
        match WorkerProcess::start(&self.function) {
            Ok(process) => {
                self.state = State::Running(Box::new(process));
                Ok(())
            }
            Err(reason) => {
                self.lose();
                Err(format!("{}: {reason}", self.function.name))
            }
        }
    }

    fn on_frame(&mut self, frame: &Delivery) -> Result<ProgramAnswer, ProgramFailure> {
        self.advance();
        let mut line = Vec::new();
        let written = write_event(frame, &mut line);
        let State::Running(process) = &mut self.state else {
            return Err(self.failed(ProgramFault::Down, DOWN));
        };
        if let Err(error) = written {
            return Err(self.failed(ProgramFault::Failed, &error.to_string()));
        }
        match process.call_with_line(line, self.function.timeout) {
            Ok(answer) => {
                self.backoff.reset();
                answer_of(answer, frame).map_err(|reason| self.failed(ProgramFault::Failed, &reason))
            }
            Err(CallError::Raised(reason)) => Err(self.failed(ProgramFault::Failed, &reason)),
            Err(CallError::Late(reason)) => {
                self.lose();
                Err(self.failed(ProgramFault::Late, &reason))
            }
            Err(CallError::Lost(reason)) => {
                self.lose();
                Err(self.failed(ProgramFault::Ended, &reason))
            }
        }
    }

    fn on_stream_closed(&mut self, stream: &str) {
        let State::Running(process) = &mut self.state else {
            return;
        };
        let line = serde_json::json!({ "type": "closed", "stream": stream }).to_string();
        match process.call_with_line(line.into_bytes(), self.function.timeout) {
            Ok(_) | Err(CallError::Raised(_)) => {}
            Err(CallError::Late(_) | CallError::Lost(_)) => self.lose(),
        }
    }
}

/// The answer for a frame, checked: it is what a program of the user says.
fn answer_of(answer: Answer, frame: &Delivery) -> Result<ProgramAnswer, String> {
    if answer.incidents.len() > MAX_INCIDENTS {
        return Err(format!(
            "the transform returned {} incidents; {MAX_INCIDENTS} are the most for a frame",
            answer.incidents.len()
        ));
    }
    let is_there = |number: u32, what: &str| {
        let count = frame.objects.len();
        let is_there = (number as usize) < count;
        is_there.then_some(()).ok_or_else(|| {
            format!("{what} is object {number} of the frame, which has {count} objects, numbered from 0")
        })
    };
    let mut attributes = Vec::with_capacity(answer.attributes.len());
    for (place, (object, named)) in answer.attributes.into_iter().enumerate() {
        let what = format!("object {place}");
        is_there(object, &what)?;
        let (removed, given): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, value)| value.is_none());
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let given = named_attributes(given.collect(), &what)?;
        let removed = removed.into_iter().map(|(name, _)| (Arc::from(name), None));
        let given = given.into_iter().map(|(name, attribute)| (name, Some(attribute)));
        attributes.push((object, removed.chain(given).collect()));
    }
    let mut incidents = Vec::with_capacity(answer.incidents.len());
    for (place, incident) in answer.incidents.into_iter().enumerate() {
        let IncidentAnswer {
            phase,
            key,
            object,
            attributes,
        } = incident;
        let what = format!("incident {place}");
        check_name(&key, &format!("the key of {what}"))?;
        if let Some(object) = object {
            is_there(object, &format!("the object of {what}"))?;
        }
        incidents.push(ProgramIncident {
            key: key.into(),
            phase: match phase {
                PhaseAnswer::Begin => Phase::Began,
                PhaseAnswer::Update => Phase::Updated,
                PhaseAnswer::End => Phase::Ended,
            },
            object,
            attributes: named_attributes(attributes, &what)?,
        });
    }
    Ok(ProgramAnswer {
        attributes,
        incidents,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process is started again in real time"
)]
fn now() -> Instant {
    Instant::now()
}
