//! A worker process: python3 with the program that calls the function, a socket to it, and memory for pictures.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use weir_flow::{PythonPlace, Settings};

use super::memory::{SHARED_BYTES, SharedMemory};
use super::output::Output;
use super::protocol::{Answer, Setup};

/// The program of worker processes.
const PROGRAM: &str = include_str!("worker.py");
/// Interpreter where none is named.
const PYTHON: &str = "python3";
/// Time for the start of the interpreter and the import of the module: large packages take long.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time that a process has to end by itself, so that its exit status is its own.
const END_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between two looks at that.
const END_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of one request, as in `worker.py`.
const MAX_REQUEST_BYTES: usize = 8 << 20;
/// Bytes of one answer.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Role of a function: the decorator that marks it, and the form of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// Takes pictures, and gives objects or attributes.
    Operator,
    /// Takes the outputs of a model, and gives objects or attributes.
    Head,
    /// Takes deliveries, and gives attributes and incidents.
    Transform,
    /// Takes event lines.
    Sink,
}

impl FunctionKind {
    /// Name of the decorator.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Head => "head",
            Self::Transform => "transform",
            Self::Sink => "sink",
        }
    }
}

/// A function in a Python module, and the limits of its worker processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonFunction {
    /// Role of the function.
    pub kind: FunctionKind,
    /// Name in messages.
    pub name: String,
    /// Place of the function.
    pub place: PythonPlace,
    /// Longest time of one call.
    pub timeout: Duration,
    /// Address space of a process in bytes; `None`: no limit.
    pub memory: Option<u64>,
    /// Largest number of items of one call.
    pub max_batch: u32,
    /// Whether its items are crops of objects.
    pub crops: bool,
}

impl PythonFunction {
    /// The function that the keys of a table name, with the time-out and the memory of the keys `timeout` and `memory`, which
    /// may have other names; `None` if they name none.
    pub(crate) fn of(
        kind: FunctionKind,
        settings: &Settings,
        [timeout, memory]: [&str; 2],
        default_timeout: Duration,
    ) -> Option<Self> {
        let place = PythonPlace::of(settings)?;
        let timeout = settings.number(timeout, default_timeout.as_secs_f64());
        let memory = settings
            .0
            .contains_key(memory)
            .then(|| settings.number(memory, 0.0) as u64);
        Some(Self {
            kind,
            name: place.name(),
            place,
            timeout: Duration::from_secs_f64(timeout),
            memory,
            max_batch: 1,
            crops: false,
        })
    }
}

/// Failure of a call.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The function raised an exception or returned what cannot be; its process can be used again.
    Raised(String),
    /// The process did not answer in time, and is of no use any more.
    Late(String),
    /// The process is of no use any more.
    Lost(String),
}

impl CallError {
    /// The reason in words.
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::Raised(reason) | Self::Late(reason) | Self::Lost(reason) => reason,
        }
    }
}

/// A process that has loaded its function. It is killed when this is dropped.
pub(crate) struct WorkerProcess {
    child: Child,
    channel: UnixStream,
    pub(super) memory: SharedMemory,
    output: Output,
    /// Bytes of an answer that is not complete.
    received: Vec<u8>,
}

impl WorkerProcess {
    /// Starts a process and waits until it has loaded the function.
    ///
    /// # Errors
    /// The reason, which may be the exception that the module raised.
    pub(crate) fn start(function: &PythonFunction) -> Result<Self, String> {
        let place = &function.place;
        let python = place.interpreter.as_deref().unwrap_or(Path::new(PYTHON));
        let failed = |error: std::io::Error| {
            let reason = weir_files::io_reason(&error);
            let hint = if error.kind() == ErrorKind::NotFound {
                ": install Python 3.10 or later with NumPy, or name an interpreter by the key `python`"
            } else {
                ""
            };
            format!("cannot start {}: {reason}{hint}", python.display())
        };
        let (channel, other) = UnixStream::pair().map_err(failed)?;
        let memory = SharedMemory::new().map_err(failed)?;
        let mut child = Command::new(python)
            .args(["-c", PROGRAM])
            .current_dir(&place.folder)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(memory.stream().map_err(failed)?)
            .stderr(Stdio::piped())
            // Ctrl-C is for the engine, which still needs the process for frames in flight.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let output = child.stderr.take();
        let output = output.ok_or_else(|| std::io::Error::from(ErrorKind::BrokenPipe));
        let output = output.and_then(|stderr| Output::read(&function.name, stderr));
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                end(&mut child);
                return Err(failed(error));
            }
        };
        let mut process = Self {
            child,
            channel,
            memory,
            output,
            received: Vec::new(),
        };
        let setup = Setup {
            folder: &place.folder,
            module: &place.module,
            function: &place.function,
            kind: function.kind.name(),
            memory: function.memory,
            bytes: SHARED_BYTES,
        };
        match process.call(&setup, START_TIMEOUT) {
            Ok(_) => Ok(process),
            Err(error) => Err(error.into_reason()),
        }
    }

    /// Whether the process still runs.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a message and waits for the answer.
    pub(super) fn call(&mut self, message: &impl Serialize, timeout: Duration) -> Result<Answer, CallError> {
        let line = serde_json::to_vec(message).map_err(|error| CallError::Raised(error.to_string()))?;
        self.call_with_line(line, timeout)
    }

    /// Sends a JSON text, with or without a line break at its end, and waits for the answer.
    pub(crate) fn call_with_line(
        &mut self,
        mut line: Vec<u8>,
        timeout: Duration,
    ) -> Result<Answer, CallError> {
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if line.len() > MAX_REQUEST_BYTES {
            let reason = format!("its facts take more than {} MiB", MAX_REQUEST_BYTES >> 20);
            return Err(CallError::Raised(reason));
        }
        let answer = self.exchange(&line, now() + timeout).map_err(|lost| match lost {
            Lost::Late => CallError::Late(format!(
                "no answer within {}: the worker process was killed",
                shown(timeout)
            )),
            Lost::Ended => CallError::Lost(self.ending()),
            Lost::Other(reason) => CallError::Lost(reason),
        })?;
        match answer.error.as_deref() {
            None => Ok(answer),
            Some(reason) if answer.ends => Err(CallError::Lost(reason.to_owned())),
            Some(reason) => Err(CallError::Raised(reason.to_owned())),
        }
    }

    fn exchange(&mut self, line: &[u8], until: Instant) -> Result<Answer, Lost> {
        self.channel
            .set_write_timeout(Some(left(until)?))
            .map_err(|error| lost(&error))?;
        self.channel.write_all(line).map_err(|error| lost(&error))?;
        let answer = self.read_line(until)?;
        serde_json::from_slice(&answer)
            .map_err(|error| Lost::Other(format!("the worker process sent no valid answer: {error}")))
    }

    fn read_line(&mut self, until: Instant) -> Result<Vec<u8>, Lost> {
        let mut buffer = [0; 16 << 10];
        loop {
            self.channel
                .set_read_timeout(Some(left(until)?))
                .map_err(|error| lost(&error))?;
            let read = match self.channel.read(&mut buffer) {
                Ok(0) => return Err(Lost::Ended),
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A time-out may come a little early: the time that is left decides.
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(lost(&error)),
            };
            let end = read.iter().position(|byte| *byte == b'\n');
            self.received.extend(&read[..end.unwrap_or(read.len())]);
            if self.received.len() > MAX_ANSWER_BYTES {
                return Err(Lost::Other(format!(
                    "an answer of the worker process has more than {} MiB",
                    MAX_ANSWER_BYTES >> 20
                )));
            }
            match end {
                Some(end) if end + 1 == read.len() => return Ok(std::mem::take(&mut self.received)),
                Some(_) => {
                    return Err(Lost::Other(
                        "the worker process sent more than its answer".to_owned(),
                    ));
                }
                None => {}
            }
        }
    }

    /// Reason for an end that no message announced.
    fn ending(&mut self) -> String {
        let until = now() + END_TIMEOUT;
        let mut status = None;
        while left(until).is_ok() {
            if status.is_none() {
                status = self.child.try_wait().ok().flatten();
            }
            if status.is_some() && self.output.is_at_end() {
                break;
            }
            std::thread::sleep(END_INTERVAL);
        }
        let status = status.map_or_else(|| "it closed its socket".to_owned(), |status| status.to_string());
        let last = self.output.last_lines();
        let last = if last.is_empty() {
            last
        } else {
            format!("; it last wrote: {last}")
        };
        format!("the worker process ended ({status}){last}")
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills a process with all that it started.
fn end(child: &mut Child) {
    // Its number is its own until it was waited for.
    if matches!(child.try_wait(), Ok(None)) {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Reason why there is no answer.
enum Lost {
    Late,
    Ended,
    Other(String),
}

/// Cause of a failed read or write.
fn lost(error: &std::io::Error) -> Lost {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Lost::Late,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Lost::Ended,
        _ => Lost::Other(weir_files::io_reason(error)),
    }
}

fn left(until: Instant) -> Result<Duration, Lost> {
    let left = until.saturating_duration_since(now());
    if left.is_zero() { Err(Lost::Late) } else { Ok(left) }
}

fn shown(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "a process is waited for in real time")]
fn now() -> Instant {
    Instant::now()
}
