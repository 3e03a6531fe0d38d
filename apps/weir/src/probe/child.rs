//! The process that opens a model for a trial: it says on standard output what it is at, and how it ended.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::OnceLock;

use weir_flow::{DeviceKind, Model, Sampling, SequenceSpec, SequenceStep};
use weir_operators::{LoadRequest, ModelFile, SessionOperation, observe_sessions};
use weir_types::SequenceId;

use super::{ProbeLine, ProbeRequest};

/// Bytes of a request.
const MAX_REQUEST_BYTES: u64 = 16 << 20;
/// Memory of activations and outputs for each byte of input: those of the widest detectors are a quarter of it.
const BYTES_PER_INPUT_BYTE: u64 = 64;

/// Memory apart from what inputs take, and the largest batch.
static BOUNDS: OnceLock<(u64, u64)> = OnceLock::new();

/// Probes the model that is named on standard input.
pub(crate) fn run() -> ExitCode {
    end_with_parent();
    let mut text = String::new();
    let read = std::io::stdin()
        .take(MAX_REQUEST_BYTES)
        .read_to_string(&mut text)
        .ok()
        .and_then(|_| serde_json::from_str::<ProbeRequest>(&text).ok());
    let Some(request) = read else {
        return ExitCode::FAILURE;
    };
    let _ = BOUNDS.set((request.memory, u64::from(request.max_batch.max(1))));
    limit_memory(request.memory);
    observe_sessions(announce);
    let line = match request.describes {
        true => describe(&request),
        false => open(&request).map(|()| ProbeLine::Passed),
    };
    let line = line.unwrap_or_else(ProbeLine::Refused);
    say(&line);
    ExitCode::SUCCESS
}

fn describe(request: &ProbeRequest) -> Result<ProbeLine, String> {
    let head = Some(request.head.as_str()).filter(|head| !head.is_empty());
    let found = weir_operators::inspect(&request.path, head, &request.settings);
    let found = found.map_err(|error| format!("{}: {error}", request.name))?;
    Ok(ProbeLine::Described(Box::new(found)))
}

/// Opens the model as a run does, on the processor.
fn open(request: &ProbeRequest) -> Result<(), String> {
    let model = weir_operators::load(&LoadRequest {
        name: &request.name,
        file: ModelFile::Path(request.path.clone()),
        head: &request.head,
        settings: &request.settings,
        max_batch: request.max_batch,
        dump: None,
    });
    let model = model.map_err(|error| error.to_string())?;
    match model.generative() {
        Some(_) => generate(&*model),
        None => model.open(DeviceKind::Cpu).map(drop),
    }
    .map_err(|error| error.to_string())
}

/// Generates a token.
fn generate(model: &dyn Model) -> Result<(), weir_flow::SessionError> {
    let Some(model) = model.generative() else {
        return Ok(());
    };
    let mut session = model.open(DeviceKind::Cpu)?;
    let sequence = SequenceId(0);
    let spec = SequenceSpec {
        prompt: vec![0, 0],
        max_tokens: 2,
        stop: Arc::new([]),
        sampling: Sampling::default(),
    };
    session.begin(sequence, spec)?;
    session.step(&[SequenceStep { sequence, tokens: 2 }]).map(drop)
}

fn announce(operation: SessionOperation) {
    let line = match operation {
        SessionOperation::Open => ProbeLine::Open,
        SessionOperation::Run { items, input_bytes } => {
            if let Some((memory, max_batch)) = BOUNDS.get() {
                let item = (input_bytes / items.max(1)) as u64;
                let inputs = item
                    .saturating_mul(*max_batch)
                    .saturating_mul(BYTES_PER_INPUT_BYTE);
                limit_memory(memory.saturating_add(inputs));
            }
            ProbeLine::Run(u32::try_from(items).unwrap_or(u32::MAX))
        }
    };
    say(&line);
}

fn say(line: &ProbeLine) {
    if let Ok(text) = serde_json::to_string(line) {
        let mut output = std::io::stdout().lock();
        // Without a reader it is ended soon.
        let _ = writeln!(output, "{text}").and_then(|()| output.flush());
    }
}

/// Lets the system refuse memory beyond `bytes`. If it does not allow that, the time is the only bound.
fn limit_memory(bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Data).maximum;
        let current = Some(maximum.map_or(bytes, |maximum| bytes.min(maximum)));
        let _ = setrlimit(Resource::Data, Rlimit { current, maximum });
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

/// Ends this process with the one that started it.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}
