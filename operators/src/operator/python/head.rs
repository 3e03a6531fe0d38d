//! Heads that users write in Python: a function gets the outputs of a batch as arrays, and gives objects or attributes of
//! each item.
//!
//! Outputs travel as pictures of operators do, in memory that a worker process shares. Each session that decodes at the same
//! time has a process of its own. A process that is lost again before a batch was decoded is started later and later; batches fail
//! with that reason meanwhile.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_flow::{
    HeadOutput, Inference, KeyKind, KeySpec, PYTHON_FUNCTION, PYTHON_INTERPRETER, Point, Settings,
};

use super::memory::SHARED_BYTES;
use super::process::{CallError, FunctionKind, PythonFunction, WorkerProcess};
use super::protocol::{HeadRequest, OutputFacts, RowFacts};
use super::restarts::Restarts;
use super::results::head_inferences;
use crate::heads::input::{BYTES, InputDefaults, PixelMap};
use crate::heads::settings::INPUT_KEYS;
use crate::heads::{Head, HeadKind, Input, ItemTransform, Output, OutputSpec};
use crate::model::float_bytes;
use crate::pixels::Channels;

/// Longest time of one call without the key `head_timeout`.
const TIMEOUT: Duration = Duration::from_secs(10);

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "head_timeout",
        kind: KeyKind::Duration,
        about: "longest time of one call: a process that takes longer is killed and started again; default 10s",
    },
    KeySpec {
        name: "head_memory",
        kind: KeyKind::Bytes,
        about: "address space of each process; Python raises MemoryError beyond it; default no limit",
    },
    PYTHON_INTERPRETER,
];

pub(crate) const KIND: HeadKind = HeadKind {
    name: PYTHON_FUNCTION,
    about: "calls a function in Python with the outputs of a batch, of a module in the folder of `--python` \
            (docs/how-to/python-functions.md); RGB from 0 to 1, letterboxed",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        std: [255.0; 3],
        size: (640, 640),
        ..BYTES
    },
    build,
};

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let keys = ["head_timeout", "head_memory"];
    let function = PythonFunction::of(FunctionKind::Head, settings, keys, TIMEOUT);
    let Some(function) = function else {
        return Ok(Box::new(Undecoded));
    };
    if let Some(spec) = specs.iter().find(|spec| !spec.readable) {
        return Err(format!(
            "output {} holds no floats; export the model with such outputs",
            spec.name
        ));
    }
    let process = WorkerProcess::start(&function).map_err(|reason| format!("{}: {reason}", function.name))?;
    let outputs = specs.iter().map(|spec| (spec.name.clone(), spec.shape.clone()));
    Ok(Box::new(PythonHead {
        function,
        outputs: outputs.collect(),
        processes: Arc::new(Mutex::new(Processes {
            idle: vec![process],
            started: 1,
            sessions: 0,
            restarts: Restarts::new(),
        })),
        failures: AtomicU64::new(0),
    }))
}

/// The head of a model that is opened for a trial of its file alone: nothing is decoded.
struct Undecoded;

impl Head for Undecoded {
    fn decode(&self, _: &[Output<'_>], _: &ItemTransform) -> Inference {
        Inference::default()
    }
}

/// A head whose worker processes are shared by the sessions of its model.
struct PythonHead {
    function: PythonFunction,
    /// Names of the outputs, and their sizes for one item as they were when the model was loaded.
    outputs: Vec<(String, Vec<usize>)>,
    processes: Arc<Mutex<Processes>>,
    /// Batches and items without a result, for the log.
    failures: AtomicU64,
}

/// Processes of a head: as many as sessions were open at once.
struct Processes {
    /// Those that no session uses.
    idle: Vec<WorkerProcess>,
    /// All that run.
    started: usize,
    /// Open sessions of the model.
    sessions: usize,
    restarts: Restarts,
}

/// An open session of a model.
struct Registered(Arc<Mutex<Processes>>);

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.0).sessions -= 1;
    }
}

fn lock(processes: &Mutex<Processes>) -> MutexGuard<'_, Processes> {
    processes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PythonHead {
    fn named(&self, reason: &str) -> String {
        format!("{}: {reason}", self.function.name)
    }

    fn process(&self) -> Result<WorkerProcess, String> {
        while let Some(mut process) = self.take_idle() {
            if process.is_running() {
                return Ok(process);
            }
            self.on_lost("the worker process ended while it was idle");
        }
        self.start()
    }

    fn start(&self) -> Result<WorkerProcess, String> {
        let may_start = lock(&self.processes).restarts.check(now());
        may_start.map_err(|reason| self.named(&reason))?;
        let started = WorkerProcess::start(&self.function);
        let mut processes = lock(&self.processes);
        match started {
            Ok(process) => {
                processes.started += 1;
                Ok(process)
            }
            Err(reason) => {
                processes.restarts.on_lost(&reason, now());
                Err(self.named(&reason))
            }
        }
    }

    fn take_idle(&self) -> Option<WorkerProcess> {
        lock(&self.processes).idle.pop()
    }

    fn keep(&self, process: WorkerProcess) {
        lock(&self.processes).idle.push(process);
    }

    fn on_lost(&self, reason: &str) {
        let mut processes = lock(&self.processes);
        processes.started -= 1;
        processes.restarts.on_lost(reason, now());
    }

    /// A batch or an item has no result. The reason is logged at powers of two: a function may fail on every frame.
    fn on_failure(&self, reason: &str) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures.is_power_of_two() {
            tracing::warn!("{reason} (failure {failures})");
        }
    }

    fn call(
        &self,
        data: &[&[f32]],
        rows: usize,
        located: &[ItemTransform],
    ) -> Result<Vec<Inference>, String> {
        let mut process = self.process()?;
        let facts = match self.write(&process, data, (rows, located.len())) {
            Ok(facts) => facts,
            Err(reason) => {
                self.keep(process);
                return Err(reason);
            }
        };
        let request = HeadRequest {
            outputs: facts,
            rows: located.iter().map(row_facts).collect(),
        };
        let answer = match process.call(&request, self.function.timeout) {
            Ok(answer) => answer,
            Err(CallError::Raised(reason)) => {
                self.keep(process);
                return Err(self.named(&reason));
            }
            Err(error) => {
                let reason = error.into_reason();
                self.on_lost(&reason);
                return Err(self.named(&reason));
            }
        };
        self.keep(process);
        if answer.items.len() != located.len() {
            return Err(self.named(&format!(
                "the head returned {} results for {} items",
                answer.items.len(),
                located.len()
            )));
        }
        Ok(head_inferences(answer.items, located, &self.function.name))
    }

    /// As [`Self::call`], with failures in the log.
    fn call_and_log(
        &self,
        data: &[&[f32]],
        rows: usize,
        located: &[ItemTransform],
    ) -> Result<Vec<Inference>, String> {
        let decoded = self.call(data, rows, located);
        match &decoded {
            Ok(inferences) => {
                let failures = inferences
                    .iter()
                    .filter_map(|inference| inference.failure.as_ref());
                failures.for_each(|reason| self.on_failure(reason));
            }
            Err(reason) => self.on_failure(reason),
        }
        decoded
    }

    /// Writes the outputs of the first items, and gives their places.
    fn write(
        &self,
        process: &WorkerProcess,
        data: &[&[f32]],
        (rows, items): (usize, usize),
    ) -> Result<Vec<OutputFacts<'_>>, String> {
        let mut facts = Vec::with_capacity(data.len());
        let mut offset = 0_u64;
        for ((name, shape), data) in self.outputs.iter().zip(data) {
            let each = data.len() / rows.max(1);
            let data = &data[..each * items];
            let bytes = size_of_val(data) as u64;
            if offset + bytes > SHARED_BYTES {
                return Err(self.named(&format!(
                    "the outputs of {items} items take more than {} MiB: lower the largest batch",
                    SHARED_BYTES >> 20
                )));
            }
            let written = process.memory.write(&float_bytes(data), offset);
            written.map_err(|error| {
                self.named(&format!(
                    "no memory for its outputs: {}",
                    weir_files::io_reason(&error)
                ))
            })?;
            facts.push(OutputFacts {
                name,
                offset,
                shape: batch_shape(items, shape, each),
            });
            offset += bytes;
        }
        Ok(facts)
    }
}

impl Head for PythonHead {
    /// Items are decoded in batches.
    fn decode(&self, _: &[Output<'_>], _: &ItemTransform) -> Inference {
        Inference::default()
    }

    fn decode_batch(
        &self,
        data: &[&[f32]],
        rows: usize,
        located: &[ItemTransform],
    ) -> Result<Vec<Inference>, String> {
        let decoded = self.call_and_log(data, rows, located)?;
        lock(&self.processes).restarts.on_decoded();
        Ok(decoded)
    }

    fn decode_blank(&self, data: &[&[f32]], rows: usize, located: &[ItemTransform]) -> Result<(), String> {
        self.call_and_log(data, rows, located).map(drop)
    }

    fn open(&self) -> Result<Option<Box<dyn Any + Send>>, String> {
        let is_short = {
            let mut processes = lock(&self.processes);
            processes.sessions += 1;
            processes.started < processes.sessions
        };
        let registered = Registered(Arc::clone(&self.processes));
        if is_short {
            self.keep(self.start()?);
        }
        Ok(Some(Box::new(registered)))
    }

    fn is_measured(&self) -> bool {
        true
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        let data: Vec<&[f32]> = outputs.iter().map(|output| output.data).collect();
        let whole = ItemTransform::identity(input.spec.width, input.spec.height);
        let mut decoded = self.decode_batch(&data, 1, &[whole]);
        if let Ok(inferences) = &mut decoded
            && let Some(reason) = inferences.pop().and_then(|inference| inference.failure)
        {
            decoded = Err(reason.to_string());
        }
        decoded
            .map(|_| None)
            .map_err(|reason| format!("{reason} (with the outputs of a blank picture, by which it is tried)"))
    }
}

/// Sizes of an output of so many items. Where the first size of an item's output depends on the picture, it follows from the
/// number of elements.
fn batch_shape(items: usize, shape: &[usize], elements: usize) -> Vec<usize> {
    let mut sizes = vec![items];
    let inner: usize = shape.iter().skip(1).product();
    if shape.iter().product::<usize>() == elements {
        sizes.extend(shape);
    } else if inner > 0 && elements.is_multiple_of(inner) {
        sizes.push(elements / inner);
        sizes.extend(shape.iter().skip(1));
    } else {
        sizes.push(elements);
    }
    sizes
}

fn row_facts(item: &ItemTransform) -> RowFacts {
    RowFacts {
        input: [item.width, item.height],
        frame: [item.frame.0, item.frame.1],
        matrix: match &item.map {
            PixelMap::Warped(projective) => projective.coefficients(),
            PixelMap::Scaled(_) => {
                let origin = item.point(Point::new(0.0, 0.0));
                let one = item.point(Point::new(1.0, 1.0));
                let (x, y) = (f64::from(origin.x), f64::from(origin.y));
                let scale = (f64::from(one.x) - x, f64::from(one.y) - y);
                [scale.0, 0.0, x, 0.0, scale.1, y, 0.0, 0.0, 1.0]
            }
        },
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process is started again in real time"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use weir_flow::PythonPlace;

    use super::*;

    #[test]
    fn batches_fail_with_the_reason_while_no_process_may_start() {
        let head = PythonHead {
            function: PythonFunction {
                kind: FunctionKind::Head,
                name: "python:mine.decode".to_owned(),
                place: PythonPlace {
                    folder: "/".into(),
                    module: "mine".to_owned(),
                    function: "decode".to_owned(),
                    interpreter: Some("/no/python3".into()),
                },
                timeout: TIMEOUT,
                memory: None,
                max_batch: 1,
                crops: false,
            },
            outputs: Vec::new(),
            processes: Arc::new(Mutex::new(Processes {
                idle: Vec::new(),
                started: 0,
                sessions: 0,
                restarts: Restarts::waiting(now() + Duration::from_secs(600), "exit status: 7"),
            })),
            failures: AtomicU64::new(0),
        };
        let located = [ItemTransform::identity(64, 48)];
        let decoded = head.decode_batch(&[], 1, &located).map(drop);
        for reason in [decoded.unwrap_err(), head.open().map(drop).unwrap_err()] {
            assert!(reason.starts_with("python:mine.decode: "), "{reason}");
            assert!(reason.ends_with("exit status: 7"), "{reason}");
        }
        assert_eq!(lock(&head.processes).sessions, 0);
        lock(&head.processes).restarts = Restarts::new();
        let reason = head.decode_batch(&[], 1, &located).map(drop).unwrap_err();
        assert!(reason.contains("cannot start /no/python3"), "{reason}");
    }

    #[test]
    fn first_size_of_an_output_may_depend_on_the_picture() {
        assert_eq!(batch_shape(2, &[3, 4], 12), [2, 3, 4]);
        assert_eq!(batch_shape(1, &[3, 4], 20), [1, 5, 4]);
        assert_eq!(batch_shape(1, &[3, 4], 21), [1, 21]);
        assert_eq!(batch_shape(4, &[], 1), [4]);
    }
}
