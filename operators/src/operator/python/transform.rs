//! Transforms that users write in Python: a process takes in the deliveries of all streams of the transform, as event lines,
//! and gives attributes and incidents.
//!
//! A process that is late or gone is started again on a thread of its own, after a wait that doubles while it fails; frames
//! pass without it meanwhile.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
#[derive(Default)]
pub struct PythonTransforms {
    /// Processes by which functions were checked, for the programs that are made of them: imports may take long.
    checked: Mutex<Vec<(PythonFunction, WorkerProcess)>>,
}

impl PythonTransforms {
    /// Starts the process of a transform with these keys: its function is there and can be loaded. The next program with the same
    /// function and limits takes the process over; without one, it ends with this value.
    ///
    /// # Errors
    /// The reason why it cannot be loaded.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        let function = function(settings)?;
        let process = WorkerProcess::start(&function);
        let process = process.map_err(|reason| format!("{}: {reason}", function.name))?;
        self.checked().push((function, process));
        Ok(())
    }

    fn checked(&self) -> MutexGuard<'_, Vec<(PythonFunction, WorkerProcess)>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for PythonTransforms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PythonTransforms").finish_non_exhaustive()
    }
}

impl TransformPrograms for PythonTransforms {
    fn make(&self, settings: &Settings) -> Result<Box<dyn TransformProgram>, String> {
        let function = function(settings)?;
        let mut checked = self.checked();
        let place = checked.iter().position(|(known, _)| *known == function);
        let process = place.map(|place| checked.swap_remove(place).1);
        let running = |process| State::Running(Box::new(process));
        Ok(Box::new(PythonTransform {
            function,
            state: process.map_or(State::Waiting(None), running),
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
    fn failure(&self, fault: ProgramFault, reason: &str) -> ProgramFailure {
        let reason = format!("{}: {reason}", self.function.name);
        ProgramFailure { fault, reason }
    }

    /// A frame has no result.
    fn failed(&mut self, fault: ProgramFault, reason: &str) -> ProgramFailure {
        self.failures += 1;
        let failure = self.failure(fault, reason);
        if self.failures.is_power_of_two() {
            tracing::warn!("{} (frame {} without a result)", failure.reason, self.failures);
        }
        failure
    }

    /// The fault of a call. A process that is of no use any more is started again.
    fn on_error(&mut self, error: &CallError) -> ProgramFault {
        let fault = match error {
            CallError::Raised(_) => ProgramFault::Failed,
            CallError::Late(_) => ProgramFault::Late,
            CallError::Lost(_) => ProgramFault::Ended,
        };
        if fault.loses_state() {
            self.lose();
        }
        fault
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
        if let State::Running(process) = &mut self.state
            && process.is_running()
        {
            return Ok(());
        }
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
        let State::Running(process) = &mut self.state else {
            return Err(self.failed(ProgramFault::Down, DOWN));
        };
        let mut line = Vec::new();
        if let Err(error) = write_event(frame, &mut line) {
            return Err(self.failed(ProgramFault::Failed, &error.to_string()));
        }
        match process.call_with_line(line, self.function.timeout) {
            Ok(answer) => {
                self.backoff.reset();
                answer_of(answer, frame).map_err(|reason| self.failed(ProgramFault::Failed, &reason))
            }
            Err(error) => {
                let fault = self.on_error(&error);
                Err(self.failed(fault, &error.into_reason()))
            }
        }
    }

    fn on_stream_closed(&mut self, stream: &str) -> Result<(), ProgramFailure> {
        let State::Running(process) = &mut self.state else {
            return Ok(());
        };
        let message = serde_json::json!({ "type": "closed", "stream": stream });
        let called = process.call(&message, self.function.timeout);
        called.map(drop).map_err(|error| {
            let fault = self.on_error(&error);
            self.failure(fault, &error.into_reason())
        })
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
