//! The engine that Python starts, and what takes its deliveries. All that may take long is done without the interpreter lock, and
//! looks for Ctrl-C meanwhile.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyStopAsyncIteration, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use weir::Setup;
use weir::flow::{StopFlag, StreamNames};
use weir::graph::{Graph, WhenSlow, parse_streams};
use weir::runtime::{Assembly, Control, Engine as LiveEngine, Handle, NewStream, Pace, RunOptions};
use weir_policy::Report;

use crate::delivery::Delivery;
use crate::errors::{EngineError, graph_error, raised, refused};
use crate::events::Notice;
use crate::queue::{Queue, QueueFactory, Taken, Taker};

/// Time between two looks for signals while something is waited for.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Name of the sink that deliveries go to Python through; no sink of a graph can have it. Reports list it so.
const SINK: &str = "(python)";

/// Default of `RUST_LOG`, as the command has it.
const DEFAULT_LOG: &str =
    "error,ffmpeg=off,weir_operators::media::video_place=warn,weir_operators::sinks=warn,weir_operators::operator::python=info";

/// Settings and models of this machine, with the folder of operators in Python.
fn load_setup(python: Option<&Path>) -> anyhow::Result<Setup> {
    static BEFORE_FIRST: Once = Once::new();
    BEFORE_FIRST.call_once(|| {
        // As in the program: a broken invariant is counted and logged, and the run goes on.
        weir_types::invariant::set_mode(weir_types::invariant::Mode::Count);
        weir_terminal::log_to_stderr(DEFAULT_LOG);
    });
    Setup::load()?.with_python(python)
}

/// A graph as Python names it: a file, or a text that stands for one.
struct GraphText {
    path: PathBuf,
    text: Option<String>,
}

impl GraphText {
    fn read(&self, setup: &Setup) -> anyhow::Result<Graph> {
        match &self.text {
            Some(text) => setup.parse_graph(text, &self.path),
            None => setup.load_graph(&self.path),
        }
    }
}

/// The parts of the graph, with the queue beside its sinks.
fn assemble(graph: Graph, setup: &Setup, queue: &Arc<Queue>) -> anyhow::Result<Assembly> {
    let mut assembly = setup.assemble(graph)?;
    assembly.graph = assembly
        .graph
        .with_observer(SINK, "python", queue.when_slow(), StreamNames::default());
    assembly.sinks.push(Box::new(QueueFactory(Arc::clone(queue))));
    Ok(assembly)
}

/// Reads and checks a graph; gives its warnings.
#[pyfunction]
#[pyo3(signature = (path, text=None, python=None))]
pub(crate) fn check(
    py: Python<'_>,
    path: PathBuf,
    text: Option<String>,
    python: Option<PathBuf>,
) -> PyResult<Vec<String>> {
    let graph = GraphText { path, text };
    let read = py.detach(|| load_setup(python.as_deref()).and_then(|setup| graph.read(&setup)));
    let graph = read.map_err(|error| raised(&error))?;
    Ok(graph.warnings().iter().map(ToString::to_string).collect())
}

/// An engine that runs a graph.
#[pyclass(frozen, module = "weir._weir")]
pub(crate) struct Engine(Arc<Running>);

struct Running {
    setup: Arc<Setup>,
    /// The file of the graph that it began with: paths of streams that are added are relative to its folder.
    path: PathBuf,
    control: Control,
    stop: StopFlag,
    queue: Arc<Queue>,
    keeps_frames: bool,
    state: Mutex<State>,
}

enum State {
    Running(Handle),
    /// Its report, or why there is none.
    Ended(Result<Box<Report>, String>),
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (path, text, *, capacity, when_slow, frames, speed, duration, until_stopped, python))]
    #[expect(clippy::too_many_arguments, reason = "the package gives each a default")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        text: Option<String>,
        capacity: usize,
        when_slow: Option<&str>,
        frames: bool,
        speed: Option<f64>,
        duration: Option<f64>,
        until_stopped: bool,
        python: Option<PathBuf>,
    ) -> PyResult<Self> {
        let when_slow = when_slow.map(parse_when_slow).transpose()?;
        let pace = match speed {
            None => Pace::Max,
            Some(times) if times.is_finite() && times > 0.0 => Pace::Times(times),
            Some(_) => {
                return Err(PyValueError::new_err(
                    "speed must be a positive number, or \"max\"",
                ));
            }
        };
        let duration = duration.map(Duration::try_from_secs_f64).transpose();
        let duration = duration.map_err(|_| PyValueError::new_err("duration must be seconds from 0 on"))?;
        let graph = GraphText { path, text };
        let stop = StopFlag::default();
        let own_stop = stop.clone();
        let start = move || -> anyhow::Result<Running> {
            let setup = Arc::new(load_setup(python.as_deref())?);
            let read = graph.read(&setup)?;
            let when_slow = when_slow.unwrap_or_else(|| default_when_slow(&read));
            let queue = Queue::new(capacity, when_slow, frames);
            let assembly = assemble(read, &setup, &queue)?;
            let options = RunOptions {
                pace,
                duration,
                until_stopped,
                ..setup.run_options()
            };
            let handle = LiveEngine::start(assembly, options, &own_stop)?;
            Ok(Running {
                setup,
                path: graph.path,
                control: handle.control(),
                stop: own_stop,
                queue,
                keeps_frames: frames,
                state: Mutex::new(State::Running(handle)),
            })
        };
        let started = apart(py, start, || stop.raise())?;
        Ok(Self(Arc::new(started.map_err(|error| raised(&error))?)))
    }

    /// Deliveries that were discarded because they were not taken in time.
    #[getter]
    fn skipped(&self) -> u64 {
        self.0.queue.skipped()
    }

    /// Whether the engine has ended.
    #[getter]
    fn finished(&self) -> bool {
        self.0.is_finished()
    }

    /// An iterator's share of the queue.
    fn consumer(&self) -> Consumer {
        Consumer {
            running: Arc::clone(&self.0),
            taker: Taker::new(&self.0.queue),
        }
    }

    /// Notices since the last call.
    fn notices(&self) -> Vec<Notice> {
        self.0.queue.take_notices().into_iter().map(Notice).collect()
    }

    /// Adds a stream that the text of a table `[sources.NAME]` describes.
    #[pyo3(signature = (text, like, into))]
    fn add_stream(
        &self,
        py: Python<'_>,
        text: &str,
        like: Option<String>,
        into: Option<Vec<String>>,
    ) -> PyResult<()> {
        let running = &self.0;
        let nodes = parse_streams(text, &running.path).map_err(|problems| graph_error(&problems))?;
        let Some(node) = nodes.into_iter().next() else {
            return Err(PyValueError::new_err("the keys describe no stream"));
        };
        let stream = NewStream {
            factory: running.setup.source(&node),
            node,
            like,
        };
        let added = py.detach(|| match into {
            Some(into) => running.control.add_stream_into(stream, into),
            None => running.control.add_stream(stream),
        });
        added.map_err(|error| refused(&error))
    }

    /// Removes a stream; gives what it came to as JSON.
    fn remove_stream(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let removed = py.detach(|| self.0.control.remove_stream(name));
        json(&removed.map_err(|error| refused(&error))?)
    }

    fn pause(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let paused = py.detach(|| self.0.control.pause_stream(name));
        paused.map_err(|error| refused(&error))
    }

    fn resume(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let resumed = py.detach(|| self.0.control.resume_stream(name));
        resumed.map_err(|error| refused(&error))
    }

    /// Puts another graph into force.
    #[pyo3(signature = (path, text=None))]
    fn swap(&self, py: Python<'_>, path: PathBuf, text: Option<String>) -> PyResult<()> {
        let graph = GraphText { path, text };
        let running = Arc::clone(&self.0);
        let swap = move || -> anyhow::Result<()> {
            let assembly = assemble(graph.read(&running.setup)?, &running.setup, &running.queue)?;
            Ok(running.control.swap(assembly)?)
        };
        // Once begun it is carried through, whatever is pressed meanwhile.
        apart(py, swap, || {})?.map_err(|error| raised(&error))
    }

    /// The report until now, or the last one, as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        if let Ok(snapshot) = py.detach(|| self.0.control.snapshot()) {
            return json(&snapshot.report);
        }
        json(&*self.0.wait_for_end(py)?)
    }

    /// The state now as JSON.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let mut snapshot = py
            .detach(|| self.0.control.snapshot())
            .map_err(|error| refused(&error))?;
        snapshot.sinks.retain(|sink| sink.name != SINK);
        json(&snapshot)
    }

    /// Waits for the end; gives the report as JSON.
    fn wait(&self, py: Python<'_>) -> PyResult<String> {
        self.0.queue.abandon();
        let report = self.0.wait_for_end(py)?;
        complain(&report)?;
        json(&*report)
    }

    /// Ends its sources and waits for what is in flight; gives the report as JSON.
    fn stop(&self, py: Python<'_>) -> PyResult<String> {
        self.0.stop.raise();
        self.0.queue.stop();
        json(&*self.0.wait_for_end(py)?)
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_finished(&self) -> bool {
        match &*self.lock() {
            State::Running(handle) => handle.is_finished(),
            State::Ended(_) => true,
        }
    }

    /// Waits until it ends by itself or is stopped.
    fn wait_for_end(&self, py: Python<'_>) -> PyResult<Box<Report>> {
        while !self.is_finished() {
            py.detach(|| std::thread::sleep(SIGNAL_INTERVAL));
            py.check_signals()?;
        }
        let ended = py.detach(|| self.ended());
        ended.map_err(EngineError::new_err)
    }

    /// The report or the failure of an engine that has finished.
    fn ended(&self) -> Result<Box<Report>, String> {
        let mut state = self.lock();
        let before = std::mem::replace(&mut *state, State::Ended(Err("the engine failed".to_owned())));
        let ended = match before {
            State::Ended(ended) => ended,
            State::Running(handle) => handle.wait().map(Box::new).map_err(|error| error.to_string()),
        };
        *state = State::Ended(ended.clone());
        ended
    }
}

/// Stopped without being waited for.
impl Drop for Running {
    fn drop(&mut self) {
        self.stop.raise();
        self.queue.stop();
    }
}

/// Takes deliveries of an engine.
#[pyclass(frozen, module = "weir._weir")]
pub(crate) struct Consumer {
    running: Arc<Running>,
    taker: Taker,
}

#[pymethods]
impl Consumer {
    /// Waits for the next delivery.
    ///
    /// Raises StopIteration at the end, or EngineError where something failed.
    fn take(&self, py: Python<'_>) -> PyResult<Delivery> {
        loop {
            match py.detach(|| self.taker.queue.take(SIGNAL_INTERVAL)) {
                Taken::Delivery(delivery) => return Ok(self.delivery(*delivery)),
                Taken::Empty => py.check_signals()?,
                Taken::Ended => {
                    complain(&*self.running.wait_for_end(py)?)?;
                    return Err(PyStopIteration::new_err(()));
                }
            }
        }
    }

    /// The next delivery if it is there.
    ///
    /// Raises StopAsyncIteration at the end, or EngineError where something failed.
    fn take_now(&self, py: Python<'_>) -> PyResult<Option<Delivery>> {
        match self.taker.take_now() {
            Taken::Delivery(delivery) => Ok(Some(self.delivery(*delivery))),
            Taken::Empty => Ok(None),
            Taken::Ended => {
                complain(&*self.running.wait_for_end(py)?)?;
                Err(PyStopAsyncIteration::new_err(()))
            }
        }
    }

    /// A descriptor that is readable when there may be a delivery.
    fn fileno(&self) -> PyResult<i32> {
        let descriptor = self.taker.descriptor();
        descriptor.map_err(|error| PyOSError::new_err(error.to_string()))
    }
}

impl Consumer {
    fn delivery(&self, delivery: weir::flow::Delivery) -> Delivery {
        Delivery::new(delivery, self.running.keeps_frames)
    }
}

/// Does something on a thread of its own, since it may take long, and calls `interrupt` where Ctrl-C is pressed meanwhile.
fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    interrupt: impl FnOnce(),
) -> PyResult<T> {
    let (done, is_done) = sync_channel(1);
    std::thread::Builder::new()
        .name("weir-python".to_owned())
        .spawn(move || {
            let _ = done.send(work());
        })?;
    let is_done = Mutex::new(is_done);
    loop {
        let received = py.detach(|| {
            let is_done = is_done.lock().unwrap_or_else(PoisonError::into_inner);
            is_done.recv_timeout(SIGNAL_INTERVAL)
        });
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = py.check_signals() {
                    interrupt();
                    return Err(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the engine panicked while it started"));
            }
        }
    }
}

/// Raises what could not be read or written, once all the rest has run to its end.
fn complain(report: &Report) -> PyResult<()> {
    let failures = weir::failures(report);
    if failures.is_empty() {
        Ok(())
    } else {
        Err(EngineError::new_err(failures.join("; ")))
    }
}

fn parse_when_slow(name: &str) -> PyResult<WhenSlow> {
    match name {
        "wait" => Ok(WhenSlow::Wait),
        "skip" => Ok(WhenSlow::Skip),
        _ => Err(PyValueError::new_err("when_slow must be \"wait\" or \"skip\"")),
    }
}

/// Archives lose nothing; where frames are live, Python never holds up the engine.
fn default_when_slow(graph: &Graph) -> WhenSlow {
    let mut modes = graph.sources().iter().map(|source| source.mode);
    if !graph.sources().is_empty() && modes.all(|mode| mode == weir::graph::SourceMode::Lossless) {
        WhenSlow::Wait
    } else {
        WhenSlow::Skip
    }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
