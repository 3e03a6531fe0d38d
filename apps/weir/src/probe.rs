//! Models of users are opened first in a process of their own, with bounds on time and memory: a model that loops for ever, or
//! whose outputs are gigabytes, can then be refused. In this process neither could be stopped.

pub(crate) mod child;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_flow::{PythonPlace, Settings, StopFlag};
use weir_operators::{Inspection, LoadRequest, ModelFile};
use weir_runtime::Clock;

use crate::error::UserError;

/// First argument of a process that probes a model.
pub(crate) const COMMAND: &str = "--probe-model";

/// Time for opening a small graph, with the start of the process.
const OPEN_TIME: Duration = Duration::from_secs(60);
/// Time for one run of a small graph on one item, by far.
const RUN_TIME: Duration = Duration::from_secs(20);
/// Bytes of weights that allow a second more.
const BYTES_PER_SECOND: u64 = 8 << 20;
/// A batch may take so many times what its items took alone.
const BATCH_FACTOR: u32 = 4;
/// Memory for a model without weights, with the libraries. Faster R-CNN of torchvision with ResNet-50 takes 2.2 GiB for 160 MiB of weights.
const BASE_BYTES: u64 = 1536 << 20;
/// Copies of the weights in memory, at most: the file, its edited form, and sessions that arrange weights anew.
const COPIES_OF_WEIGHTS: u64 = 8;
/// Time between two looks whether the program is asked to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The command that starts this program, which understands [`COMMAND`]; programs of others that use this library may not.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();
/// Raised when the program is to end.
static STOP: OnceLock<StopFlag> = OnceLock::new();
/// Hashes of the models that passed.
static PASSED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// A model to open.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ProbeRequest {
    name: String,
    path: PathBuf,
    head: String,
    settings: Settings,
    max_batch: u32,
    /// Memory apart from what inputs take.
    memory: u64,
    /// Describe it, as a model for that head if one is named, instead of opening it.
    describes: bool,
}

/// A line of a process that probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProbeLine {
    /// A graph is being opened.
    Open,
    /// A graph is being run on so many items.
    Run(u32),
    /// The model was opened.
    Passed,
    /// The model was described.
    Described(Box<Inspection>),
    /// The model is refused.
    Refused(String),
}

/// The program that answers [`COMMAND`], with arguments before it.
pub(crate) fn enable(program: &[OsString]) {
    let _ = PROGRAM.set(program.to_vec());
}

/// The program of this process.
pub(crate) fn own_program() -> Vec<OsString> {
    if cfg!(target_os = "linux") {
        // It can be started even where its file was replaced since.
        return vec!["/proc/self/exe".into()];
    }
    std::env::current_exe().into_iter().map(OsString::from).collect()
}

/// A probe ends when `stop` is raised.
pub(crate) fn end_on(stop: &StopFlag) {
    let _ = STOP.set(stop.clone());
}

/// Opens the model in a process of its own, if it is a file of the user and not known yet.
///
/// # Errors
/// The model's problem, or the bound that it exceeds.
pub(crate) fn probe(request: &LoadRequest<'_>) -> Result<(), UserError> {
    let ModelFile::Path(path) = &request.file else {
        return Ok(());
    };
    let Some(program) = PROGRAM.get().filter(|_| path.is_file()) else {
        return Ok(());
    };
    let weights = weights_bytes(path, request.settings);
    let mut settings = request.settings.clone();
    // The bounds are those of the file: a head in Python has a process of its own.
    PythonPlace::remove_from(&mut settings);
    let own = ProbeRequest {
        name: request.name.to_owned(),
        path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
        head: request.head.to_owned(),
        settings,
        max_batch: request.max_batch,
        memory: BASE_BYTES + weights.saturating_mul(COPIES_OF_WEIGHTS),
        describes: false,
    };
    let key = key(&own);
    let has_passed = |key| passed().contains(&key);
    if key.is_some_and(has_passed) {
        return Ok(());
    }
    let child = match start(program, &own) {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(
                model = request.name,
                "it is opened without limits, because no process can be started: {error}"
            );
            return Ok(());
        }
    };
    child.finish(&own, weights)?;
    passed().extend(key);
    Ok(())
}

/// Describes the file at `path` in a process of its own, as a model for `head` if one is named, with keys that are known of it.
///
/// # Errors
/// The file is no model that can be opened, or the bound that it exceeds.
pub(crate) fn describe(
    path: &Path,
    head: Option<&str>,
    settings: &Settings,
) -> Result<Inspection, UserError> {
    let weights = weights_bytes(path, settings);
    let request = ProbeRequest {
        name: path.display().to_string(),
        path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        head: head.unwrap_or_default().to_owned(),
        settings: settings.clone(),
        max_batch: 1,
        memory: BASE_BYTES + weights.saturating_mul(2 * COPIES_OF_WEIGHTS),
        describes: true,
    };
    let started = PROGRAM.get().and_then(|program| start(program, &request).ok());
    let Some(child) = started else {
        let described = weir_operators::inspect(path, head, settings);
        return described.map_err(|error| UserError::new(format!("{}: {error}", request.name)));
    };
    let described = child.finish(&request, weights)?;
    described.ok_or_else(|| {
        UserError::new(format!(
            "{}: the process that describes it says nothing",
            request.name
        ))
    })
}

fn passed() -> std::sync::MutexGuard<'static, BTreeSet<u64>> {
    PASSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hash of a request with the state of its file.
fn key(request: &ProbeRequest) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(request).ok()?.hash(&mut hasher);
    let found = std::fs::metadata(&request.path).ok()?;
    (found.modified().ok()?, found.len()).hash(&mut hasher);
    Some(hasher.finish())
}

/// Bytes of a model's weights: of its file, of a second one, and of the files beside it that may hold external data. Too many
/// do no harm.
fn weights_bytes(path: &Path, settings: &Settings) -> u64 {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let second = settings
        .text("second")
        .map_or(0, |second| length(Path::new(second)));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let may_be_data = |beside: &Path| {
        let is_of_stem = beside
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&*stem));
        let is_kind = beside
            .extension()
            .and_then(OsStr::to_str)
            .is_none_or(|kind| ["data", "bin", "weights", "weight", "pb", "onnx_data"].contains(&kind));
        beside != path && (is_of_stem || is_kind)
    };
    let folder = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let beside = folder.into_iter().flatten().take(10_000).flatten();
    let data = beside.map(|entry| entry.path()).filter(|path| may_be_data(path));
    data.map(|path| length(&path))
        .fold(length(path).saturating_add(second), u64::saturating_add)
}

/// A process that probes a model; ended when this is dropped.
struct ProbeProcess {
    child: Child,
    lines: Receiver<ProbeLine>,
}

impl Drop for ProbeProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(program: &[OsString], request: &ProbeRequest) -> std::io::Result<ProbeProcess> {
    let (program, arguments) = program.split_first().ok_or(ErrorKind::NotFound)?;
    let mut child = Command::new(program)
        .args(arguments)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (sender, lines) = channel();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let process = ProbeProcess { child, lines };
    let text = serde_json::to_string(request)?;
    if let Some(mut stdin) = stdin {
        // One that ended before it has read says nothing, which is reported.
        let _ = stdin.write_all(text.as_bytes());
    }
    std::thread::Builder::new()
        .name("weir-probe".to_owned())
        .spawn(move || {
            let lines = stdout
                .into_iter()
                .flat_map(|stdout| BufReader::new(stdout).lines());
            let lines = lines.map_while(Result::ok);
            for line in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        })?;
    Ok(process)
}

impl ProbeProcess {
    /// Waits for the result, as long as the operation that runs may take: the description, if that was asked for.
    fn finish(mut self, request: &ProbeRequest, weights: u64) -> Result<Option<Inspection>, UserError> {
        let refused = |reason: String| {
            let (name, path) = (&request.name, request.path.display());
            UserError::new(format!("cannot load model {name} ({path}): {reason}"))
        };
        let mut limits = Limits::new(weights);
        let clock = Clock::start();
        let mut began = clock.now();
        let elapsed = |began| Duration::from_micros(clock.now().since(began).micros());
        loop {
            match self.lines.recv_timeout(POLL_INTERVAL) {
                Ok(ProbeLine::Passed) => return Ok(None),
                Ok(ProbeLine::Described(found)) => return Ok(Some(*found)),
                Ok(ProbeLine::Refused(reason)) if is_for_memory(&reason) => {
                    return Err(refused(format!("{}: {reason}", too_much_memory(request))));
                }
                Ok(ProbeLine::Refused(reason)) => return Err(UserError::new(reason)),
                Ok(line) => {
                    limits.on_line(line, elapsed(began));
                    began = clock.now();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = self
                        .child
                        .wait()
                        .map_or(String::new(), |status| status.to_string());
                    let memory = too_much_memory(request);
                    return Err(refused(format!(
                        "the process that opens it for a trial ended ({ended}): {memory}, or it breaks ONNX Runtime"
                    )));
                }
            }
            if STOP.get().is_some_and(StopFlag::is_raised) {
                return Err(refused("stopped while it was opened".to_owned()));
            }
            let limit = limits.limit();
            if elapsed(began) >= limit {
                return Err(refused(format!(
                    "it does not end: {} takes longer than {} s; does it loop for ever?",
                    limits.operation(),
                    limit.as_secs()
                )));
            }
        }
    }
}

fn too_much_memory(request: &ProbeRequest) -> String {
    let mib = request.memory >> 20;
    format!(
        "it needs more memory than a model of its size may take ({mib} MiB beside its inputs); are its outputs giant?"
    )
}

/// True if the runtime refused a model for its memory.
fn is_for_memory(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    ["bad_alloc", "bad alloc", "failed to allocate", "out of memory"]
        .iter()
        .any(|sign| reason.contains(sign))
}

/// Time that the operation of a model may take.
#[derive(Debug)]
struct Limits {
    /// For its weights.
    more: Duration,
    operation: ProbeLine,
    /// The most that an item took.
    slowest_item: Duration,
}

impl Limits {
    const fn new(weights: u64) -> Self {
        Self {
            more: Duration::from_secs(weights / BYTES_PER_SECOND),
            operation: ProbeLine::Open,
            slowest_item: Duration::ZERO,
        }
    }

    /// The operation has ended, after so long, and another one begins.
    fn on_line(&mut self, line: ProbeLine, took: Duration) {
        if let ProbeLine::Run(items) = self.operation {
            self.slowest_item = self.slowest_item.max(took / items.max(1));
        }
        self.operation = line;
    }

    fn limit(&self) -> Duration {
        match self.operation {
            ProbeLine::Run(items) => {
                let alike = self
                    .slowest_item
                    .saturating_mul(items.saturating_mul(BATCH_FACTOR));
                (RUN_TIME + self.more).max(alike)
            }
            _ => OPEN_TIME + self.more,
        }
    }

    fn operation(&self) -> String {
        match self.operation {
            ProbeLine::Run(1) => "a run on one item".to_owned(),
            ProbeLine::Run(items) => format!("a run on {items} items"),
            _ => "opening it".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_with_weights_and_with_the_time_of_single_items() {
        let seconds = Duration::from_secs;
        let mut small = Limits::new(1000);
        assert_eq!(small.limit(), OPEN_TIME);
        small.on_line(ProbeLine::Run(1), seconds(50));
        assert_eq!(small.limit(), RUN_TIME, "opening says nothing of runs");
        small.on_line(ProbeLine::Run(16), seconds(2));
        assert_eq!(small.limit(), seconds(128));
        assert_eq!(small.operation(), "a run on 16 items");
        let large = Limits::new(800 << 20);
        assert_eq!(large.limit(), OPEN_TIME + seconds(100));
    }

    #[test]
    fn weights_are_those_of_the_file_and_of_data_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, length: usize| std::fs::write(folder.path().join(name), vec![0; length]).unwrap();
        for (name, length) in [
            ("m.onnx", 1),
            ("m.onnx.data", 10),
            ("layer_7", 100),
            ("video.mp4", 1000),
        ] {
            write(name, length);
        }
        let path = folder.path().join("m.onnx");
        assert_eq!(weights_bytes(&path, &Settings::default()), 111);
    }

    #[test]
    fn errors_of_memory_are_recognised() {
        assert!(is_for_memory("it fails on a blank item: std::bad_alloc"));
        assert!(is_for_memory(
            "Failed to allocate memory for requested buffer of size 5600000000"
        ));
        assert!(!is_for_memory("the head yolov8 expects one image"));
    }
}
