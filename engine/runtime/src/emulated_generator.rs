//! An emulated model that generates: its steps take the declared time, its texts are as long as is drawn, and empty.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow::{
    Batching, DeviceKind, Frame, Generated, GeneratedToken, GenerativeLimits, GenerativeModel,
    GenerativeSession, Inference, Item, Model, ModuleOutput, Operator, PreparedModel, RequestResults,
    Sampling, SequenceEnd, SequenceSpec, SequenceState, SequenceStep, Session, SessionError, Settings,
};
use weir_graph::ModelNode;
use weir_policy::generate::emulated_length;
use weir_types::{SequenceId, SleepCompensator, Span, StepCurve};

use crate::clock::{Clock, duration};
use crate::emulated::EmulatedOperator;
use crate::instance::millisecond;
use crate::instance_spec::declared_steps;

/// Different tokens of an emulated model.
const VOCABULARY: u32 = 256;
/// Tokens of a prompt.
const PROMPT_TOKENS: usize = 32;

/// A model whose steps take the time of its profile.
#[derive(Debug, Clone)]
pub(crate) struct EmulatedGenerator {
    name: String,
    steps: StepCurve,
    max_sequence_tokens: u32,
    /// Tokens of shared prefixes that a session stores.
    prefix_tokens: u32,
    /// Times to open the model: from its file, and from host memory.
    opening: [Span; 2],
    /// Each such step fails.
    fail_every: Option<u32>,
    /// Steps of all its sessions, those that failed included.
    count: Arc<AtomicU64>,
}

impl EmulatedGenerator {
    /// The model of `node` on one of its devices, with the step times that are declared there.
    pub(crate) fn new(node: &ModelNode, declared: &[(u32, Span)]) -> Self {
        let declared = declared_steps(declared).and_then(Result::ok);
        Self {
            name: node.name.clone(),
            steps: declared.unwrap_or_else(millisecond),
            max_sequence_tokens: node.settings.number("max_sequence_tokens", 512.0) as u32,
            prefix_tokens: node.settings.number("prefix_tokens", 0.0) as u32,
            opening: node.opening_times(),
            fail_every: node.fail_every,
            count: Arc::default(),
        }
    }
}

impl Model for EmulatedGenerator {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn generative(&self) -> Option<Arc<dyn GenerativeModel>> {
        Some(Arc::new(self.clone()))
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Err(SessionError::Load {
            model: self.name.clone(),
            reason: "it generates: run it by the operator describe".to_owned(),
        })
    }
}

impl GenerativeModel for EmulatedGenerator {
    fn limits(&self) -> GenerativeLimits {
        GenerativeLimits {
            vocabulary: VOCABULARY,
            max_sequence_tokens: self.max_sequence_tokens,
        }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        vec![0; text.len().max(1)]
    }

    fn decode(&self, _tokens: &[u32]) -> String {
        String::new()
    }

    fn prefix_tokens(&self) -> u32 {
        self.prefix_tokens
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
        Ok(Box::new(EmulatedSequences {
            model: self.clone(),
            sequences: BTreeMap::new(),
            prefixes: VecDeque::new(),
            clock: Clock::start(),
            compensator: SleepCompensator::default(),
        }))
    }

    fn open_cold(
        &self,
        device: DeviceKind,
    ) -> Result<(Box<dyn GenerativeSession>, Option<PreparedModel>), SessionError> {
        std::thread::sleep(duration(self.opening[0]));
        let prepared = PreparedModel {
            bytes: 0,
            data: Arc::new(()),
        };
        Ok((GenerativeModel::open(self, device)?, Some(prepared)))
    }

    fn open_warm(
        &self,
        device: DeviceKind,
        _prepared: &PreparedModel,
    ) -> Result<Box<dyn GenerativeSession>, SessionError> {
        std::thread::sleep(duration(self.opening[1]));
        GenerativeModel::open(self, device)
    }
}

struct EmulatedSequence {
    spec: SequenceSpec,
    generated: u32,
    computed: u32,
}

struct EmulatedSequences {
    model: EmulatedGenerator,
    sequences: BTreeMap<SequenceId, EmulatedSequence>,
    /// Stored prefixes by their tokens, the one used last first.
    prefixes: VecDeque<Vec<u32>>,
    clock: Clock,
    compensator: SleepCompensator,
}

impl EmulatedSequences {
    fn error(&self, batch: usize, reason: String) -> SessionError {
        SessionError::Run {
            model: self.model.name.clone(),
            batch,
            reason,
        }
    }
}

impl GenerativeSession for EmulatedSequences {
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError> {
        let tokens: u32 = steps.iter().map(|step| step.tokens).sum();
        let (declared, began) = (self.model.steps.duration(tokens), self.clock.now());
        std::thread::sleep(duration(self.compensator.sleep_duration(declared)));
        self.compensator.on_slept(declared, self.clock.now().since(began));
        let number = self.model.count.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(every) = self.model.fail_every
            && number.is_multiple_of(u64::from(every))
        {
            let reason = format!("it is step {number}, and fail_every is {every}");
            return Err(self.error(steps.len(), reason));
        }
        let mut given = Vec::new();
        for step in steps {
            let Some(sequence) = self.sequences.get_mut(&step.sequence) else {
                let reason = format!("sequence {} is not here", step.sequence.0);
                return Err(self.error(steps.len(), reason));
            };
            sequence.computed += step.tokens;
            if sequence.computed < sequence.spec.prompt.len() as u32 + sequence.generated {
                continue;
            }
            sequence.generated += 1;
            let spec = &sequence.spec;
            let length = emulated_length(spec.sampling.seed, spec.max_tokens);
            given.push(GeneratedToken {
                sequence: step.sequence,
                token: 0,
                probability: 1.0,
                end: (sequence.generated >= length).then_some(SequenceEnd::StopToken),
            });
        }
        Ok(given)
    }

    fn evict(&mut self, sequence: SequenceId) {
        if let Some(sequence) = self.sequences.get_mut(&sequence) {
            sequence.computed = 0;
        }
    }

    fn take(&mut self, sequence: SequenceId, _with_cache: bool) -> Option<SequenceState> {
        let taken = self.sequences.remove(&sequence)?;
        Some(SequenceState {
            generated: vec![0; taken.generated as usize],
            ..SequenceState::new(taken.spec)
        })
    }

    fn put(&mut self, sequence: SequenceId, state: SequenceState) -> Result<u32, SessionError> {
        let put = EmulatedSequence {
            generated: state.generated.len() as u32,
            spec: state.spec,
            computed: 0,
        };
        self.sequences.insert(sequence, put);
        Ok(0)
    }

    fn keep_prefix(&mut self, sequence: SequenceId, tokens: u32) {
        let capacity = self.model.prefix_tokens as usize;
        let prompt = self
            .sequences
            .get(&sequence)
            .map(|sequence| &sequence.spec.prompt);
        let prefix = prompt.and_then(|prompt| prompt.get(..tokens as usize));
        let Some(prefix) = prefix.filter(|prefix| (1..=capacity).contains(&prefix.len())) else {
            return;
        };
        let prefix = prefix.to_vec();
        self.prefixes.retain(|stored| *stored != prefix);
        self.prefixes.push_front(prefix);
        while self.prefixes.iter().map(Vec::len).sum::<usize>() > capacity {
            self.prefixes.pop_back();
        }
    }

    fn reuse_prefix(&mut self, sequence: SequenceId, tokens: u32) -> u32 {
        let Some(sequence) = self.sequences.get_mut(&sequence) else {
            return 0;
        };
        let prefix = sequence.spec.prompt.get(..tokens as usize);
        let stored = prefix.and_then(|prefix| {
            let mut stored = self.prefixes.iter();
            stored.position(|stored| stored.starts_with(prefix))
        });
        if let Some(stored) = stored.and_then(|at| self.prefixes.remove(at)) {
            self.prefixes.push_front(stored);
            sequence.computed = sequence.computed.max(tokens);
        }
        sequence.computed
    }

    fn sequences(&self) -> usize {
        self.sequences.len()
    }
}

/// The operator of an emulated model that generates: a prompt for each frame, whose length is drawn by the frame's number.
#[derive(Debug)]
pub(crate) struct EmulatedDescriber {
    max_tokens: u32,
}

impl EmulatedDescriber {
    /// By the settings of the module.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            max_tokens: settings.number("max_tokens", 64.0) as u32,
        }
    }
}

impl Operator for EmulatedDescriber {
    fn items(&self, frame: &Arc<Frame>, results: &RequestResults) -> Vec<Item> {
        EmulatedOperator::default().items(frame, results)
    }

    fn sequences(&self, items: &[Item], _results: &RequestResults) -> Vec<SequenceSpec> {
        let spec = |item: &Item| SequenceSpec {
            prompt: vec![0; PROMPT_TOKENS],
            max_tokens: self.max_tokens,
            stop: Arc::new([]),
            sampling: Sampling {
                seed: item.frame.index,
                ..Sampling::default()
            },
        };
        items.iter().map(spec).collect()
    }

    fn inference(&self, generated: &Generated) -> Inference {
        Inference {
            tokens: Some(generated.tokens.len() as u32),
            ..Inference::default()
        }
    }

    fn output(&self, _module: u32, _items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        ModuleOutput::default()
    }
}
