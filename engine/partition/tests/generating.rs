//! Models that generate on workers in processes of their own, one of which is killed.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;

use weir_flow::{
    DeviceKind, GeneratedToken, GenerativeLimits, GenerativeModel, GenerativeSession, PartitionLoader,
    PartitionSession, Sampling, SequenceEnd, SequenceSpec, SequenceState, SequenceStep, SessionError,
};
use weir_partition::wire::Address;
use weir_partition::{RemoteGenerator, Worker, WorkerOptions};
use weir_types::SequenceId;

use crate::common::clock;
use crate::common::process::{Process, park};

const AT: &str = "WEIR_TEST_GENERATING_AT";
const VOCABULARY: u32 = 97;

/// Model whose next token depends on all tokens before it.
struct Sums {
    vocabulary: u32,
}

impl GenerativeModel for Sums {
    fn limits(&self) -> GenerativeLimits {
        GenerativeLimits {
            vocabulary: self.vocabulary,
            max_sequence_tokens: 64,
        }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        format!("{tokens:?}")
    }

    fn portable(&self) -> Option<Vec<u8>> {
        Some(VOCABULARY.to_le_bytes().to_vec())
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
        Ok(Box::new(SumsSession::default()))
    }
}

#[derive(Default)]
struct SumsSession {
    sequences: std::collections::BTreeMap<SequenceId, (SequenceState, u32)>,
}

fn failed(reason: &str) -> SessionError {
    SessionError::Run {
        model: "sums".to_owned(),
        batch: 1,
        reason: reason.to_owned(),
    }
}

impl GenerativeSession for SumsSession {
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError> {
        let mut given = Vec::new();
        for step in steps {
            let known = self.sequences.get_mut(&step.sequence);
            let (state, computed) = known.ok_or_else(|| failed("there is no such sequence"))?;
            *computed += step.tokens;
            let all = (state.spec.prompt.len() + state.generated.len()) as u32;
            if *computed > all {
                return Err(failed("it has not so many tokens"));
            }
            if *computed == all {
                let before = state.spec.prompt.iter().chain(&state.generated);
                let token = before.fold(7, |sum, token| (sum * 31 + token) % VOCABULARY);
                state.generated.push(token);
                let is_last = state.generated.len() as u32 == state.spec.max_tokens;
                given.push(GeneratedToken {
                    sequence: step.sequence,
                    token,
                    probability: 0.5,
                    end: is_last.then_some(SequenceEnd::MaxTokens),
                });
            }
        }
        Ok(given)
    }

    fn evict(&mut self, sequence: SequenceId) {
        if let Some((_, computed)) = self.sequences.get_mut(&sequence) {
            *computed = 0;
        }
    }

    fn take(&mut self, sequence: SequenceId, _with_cache: bool) -> Option<SequenceState> {
        self.sequences.remove(&sequence).map(|(state, _)| state)
    }

    fn put(&mut self, sequence: SequenceId, state: SequenceState) -> Result<u32, SessionError> {
        self.sequences.insert(sequence, (state, 0));
        Ok(0)
    }

    fn sequences(&self) -> usize {
        self.sequences.len()
    }
}

/// Opens what [`Sums`] sends; refuses anything else.
struct Loader;

impl PartitionLoader for Loader {
    fn load(
        &self,
        _partition: &[u8],
        _device: DeviceKind,
        _half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError> {
        Err(failed("it has no partitions"))
    }

    fn load_generator(&self, model: &[u8]) -> Result<Arc<dyn GenerativeModel>, SessionError> {
        if model != VOCABULARY.to_le_bytes() {
            return Err(failed("these are no sums"));
        }
        Ok(Arc::new(Sums {
            vocabulary: VOCABULARY,
        }))
    }
}

fn listen(at: &str) -> Worker {
    Worker::listen(
        at.parse().unwrap(),
        WorkerOptions::default(),
        Arc::new(Loader),
        clock(),
    )
    .unwrap()
}

/// Not a test: what the processes of the test below run.
#[test]
fn generating_process() {
    let Ok(at) = std::env::var(AT) else { return };
    let worker = listen(&at);
    park(worker.address());
}

const START: [&str; 2] = ["generating::generating_process", AT];

fn remote(address: &str, vocabulary: u32) -> RemoteGenerator {
    RemoteGenerator::new("sums", address, Arc::new(Sums { vocabulary }), clock()).unwrap()
}

fn spec(number: u64) -> SequenceSpec {
    SequenceSpec {
        prompt: (0..3 + number as u32).collect(),
        max_tokens: 12,
        stop: Arc::new([]),
        sampling: Sampling::default(),
    }
}

/// Runs steps until all sequences have this many tokens.
fn go_on(
    session: &mut dyn GenerativeSession,
    states: &mut [SequenceState],
    until: usize,
) -> Result<(), SessionError> {
    for (id, state) in (0..).map(SequenceId).zip(states.iter()) {
        let known = SequenceState {
            generated: state.generated.clone(),
            ..SequenceState::new(state.spec.clone())
        };
        session.put(id, known)?;
    }
    let mut first = true;
    while states[0].generated.len() < until {
        let step = |(number, state): (u64, &SequenceState)| SequenceStep {
            sequence: SequenceId(number),
            tokens: if first {
                (state.spec.prompt.len() + state.generated.len()) as u32
            } else {
                1
            },
        };
        let steps: Vec<SequenceStep> = (0..).zip(states.iter()).map(step).collect();
        first = false;
        for token in session.step(&steps)? {
            states[token.sequence.0 as usize].generated.push(token.token);
        }
    }
    for id in (0..states.len() as u64).map(SequenceId) {
        assert_eq!(session.take(id, false).unwrap().generated.len(), until);
    }
    Ok(())
}

fn fresh() -> Vec<SequenceState> {
    (0..3).map(|number| SequenceState::new(spec(number))).collect()
}

#[test]
fn sequences_go_on_with_the_same_tokens_when_their_worker_is_killed_and_comes_back() {
    let mut alone = fresh();
    go_on(&mut SumsSession::default(), &mut alone, 12).unwrap();

    let process = Process::start(START, "127.0.0.1:0");
    let at = process.address.to_string();
    let model = remote(&at, VOCABULARY);
    let mut session = GenerativeModel::open(&model, DeviceKind::Cpu).unwrap();
    let mut states = fresh();
    go_on(session.as_mut(), &mut states, 5).unwrap();
    drop(process);
    let error = go_on(session.as_mut(), &mut states, 12).unwrap_err();
    assert!(matches!(error, SessionError::Gone { .. }), "{error}");
    let error = GenerativeModel::open(&model, DeviceKind::Cpu)
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, SessionError::Gone { .. }), "{error}");
    assert!(error.to_string().contains(&at), "it says which: {error}");

    let _again = Process::start(START, &at);
    let mut session = GenerativeModel::open(&model, DeviceKind::Cpu).unwrap();
    go_on(session.as_mut(), &mut states, 12).unwrap();
    for (state, alone) in states.iter().zip(&alone) {
        assert_eq!(state.generated, alone.generated);
    }
}

#[test]
fn worker_computes_a_prefix_that_it_has_not_stored() {
    let mut alone = fresh();
    go_on(&mut SumsSession::default(), &mut alone, 1).unwrap();
    let worker = listen("127.0.0.1:0");
    let model = remote(&worker.address().to_string(), VOCABULARY);
    let mut session = GenerativeModel::open(&model, DeviceKind::Cpu).unwrap();
    // Sessions of `Sums` store none.
    for number in 0..3 {
        let id = SequenceId(number);
        session.begin(id, spec(number)).unwrap();
        assert_eq!(session.reuse_prefix(id, 2), 2);
        let tokens = 3 + number as u32 - 2;
        let step = SequenceStep { sequence: id, tokens };
        let given = session.step(&[step]).unwrap();
        session.keep_prefix(id, 2);
        let tokens: Vec<u32> = given.iter().map(|token| token.token).collect();
        assert_eq!(tokens, alone[number as usize].generated);
    }
}

#[test]
fn what_does_not_fit_is_one_clear_error() {
    let worker = listen("127.0.0.1:0");
    let Address::Tcp(address) = worker.address() else {
        panic!("it listens")
    };
    let at = address.to_string();
    let error = GenerativeModel::open(&remote(&at, 5), DeviceKind::Cpu)
        .map(drop)
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("97 different tokens") && text.contains("one of 5"),
        "{text}"
    );

    // A step with an unknown sequence fails and returns an error.
    let mut session = GenerativeModel::open(&remote(&at, VOCABULARY), DeviceKind::Cpu).unwrap();
    let steps = [SequenceStep {
        sequence: SequenceId(9),
        tokens: 1,
    }];
    let error = session.step(&steps).unwrap_err();
    assert!(
        matches!(&error, SessionError::Run { reason, .. } if reason.contains("no such sequence")),
        "{error}"
    );

    /// Model that the worker does not know.
    struct Other;
    impl GenerativeModel for Other {
        fn limits(&self) -> GenerativeLimits {
            Sums { vocabulary: 97 }.limits()
        }
        fn encode(&self, _text: &str) -> Vec<u32> {
            vec![0]
        }
        fn decode(&self, _tokens: &[u32]) -> String {
            String::new()
        }
        fn portable(&self) -> Option<Vec<u8>> {
            Some(b"none".to_vec())
        }
        fn open(&self, _device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
            Err(failed("it is none"))
        }
    }
    let other = RemoteGenerator::new("other", &at, Arc::new(Other), clock()).unwrap();
    let error = GenerativeModel::open(&other, DeviceKind::Cpu)
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("these are no sums"), "{error}");
}
