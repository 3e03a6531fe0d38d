//! A model that generates the same words without end, or as many of them as is drawn; some of its sessions go away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use weir_flow::{
    Batching, CacheKind, DeviceKind, GeneratedToken, GenerativeLimits, GenerativeModel, GenerativeSession,
    Model, Operator, SequenceEnd, SequenceState, SequenceStep, Session, SessionError, Settings, Value,
};
use weir_operators::OperatorRequest;
use weir_policy::generate::emulated_length;
use weir_types::SequenceId;

/// Text that every sequence repeats without end.
const TEXT: &[u8] = b"It rains. It shines. ";

/// A session that is gone with the first step of a sequence that came from another, once.
#[derive(Default)]
pub(crate) struct Leaving {
    /// Whether a session has gone.
    pub(crate) is_over: AtomicBool,
    /// Sequences that came with tokens until then.
    pub(crate) came: AtomicU32,
}

/// Caches that sessions take from each other.
#[derive(Default)]
pub(crate) struct Caches {
    /// Whether those that come are of no use.
    pub(crate) are_lost: bool,
    /// That were given away.
    pub(crate) given: AtomicU32,
    /// Tokens that all sessions have computed.
    pub(crate) computed: AtomicU64,
}

#[derive(Clone)]
pub(crate) struct Words {
    pub(crate) vocabulary: u32,
    /// Whether sequences end, at a length that is drawn.
    pub(crate) ends: bool,
    pub(crate) leaving: Option<Arc<Leaving>>,
    pub(crate) caches: Option<Arc<Caches>>,
}

impl Words {
    /// Text of a sequence of `tokens` tokens.
    pub(crate) fn text(tokens: usize) -> String {
        let text: Vec<u8> = TEXT.iter().copied().cycle().take(tokens).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The operator `describe` with these settings.
    pub(crate) fn operator(&self, settings: &[(&str, Value)]) -> Arc<dyn Operator> {
        let settings = settings.iter().cloned();
        let settings = Settings(settings.map(|(key, value)| (key.to_owned(), value)).collect());
        let operator = weir_operators::operator(&OperatorRequest {
            operator: "describe",
            regions: &[],
            settings: &settings,
            model: Some(self),
        });
        operator.unwrap()
    }
}

impl Model for Words {
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
        Err(failed("it generates"))
    }
}

impl GenerativeModel for Words {
    fn limits(&self) -> GenerativeLimits {
        GenerativeLimits {
            vocabulary: self.vocabulary,
            max_sequence_tokens: 512,
        }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        std::iter::once(0).chain(text.bytes().map(u32::from)).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().map(|token| *token as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn caches(&self) -> Option<CacheKind> {
        self.caches.as_ref().map(|_| CacheKind {
            number: 1,
            token_bytes: 4,
        })
    }

    fn portable(&self) -> Option<Vec<u8>> {
        Some(vec![u8::from(self.ends)])
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
        Ok(Box::new(WordsSession {
            ends: self.ends,
            leaving: self.leaving.clone(),
            caches: self.caches.clone(),
            is_leaving: false,
            sequences: BTreeMap::new(),
        }))
    }
}

struct WordsSession {
    ends: bool,
    leaving: Option<Arc<Leaving>>,
    caches: Option<Arc<Caches>>,
    is_leaving: bool,
    /// With the tokens that are computed.
    sequences: BTreeMap<SequenceId, (SequenceState, u32)>,
}

fn failed(reason: &str) -> SessionError {
    SessionError::Run {
        model: "words".to_owned(),
        batch: 1,
        reason: reason.to_owned(),
    }
}

impl GenerativeSession for WordsSession {
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError> {
        if self.is_leaving {
            return Err(SessionError::Gone {
                model: "words".to_owned(),
                reason: "it is a test".to_owned(),
            });
        }
        if let Some(caches) = &self.caches {
            let tokens = steps.iter().map(|step| u64::from(step.tokens)).sum();
            caches.computed.fetch_add(tokens, Ordering::SeqCst);
        }
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
                let token = u32::from(TEXT[state.generated.len() % TEXT.len()]);
                state.generated.push(token);
                let length = emulated_length(state.spec.sampling.seed, state.spec.max_tokens);
                let is_last = self.ends && state.generated.len() as u32 >= length;
                given.push(GeneratedToken {
                    sequence: step.sequence,
                    token,
                    probability: 0.5,
                    end: is_last.then_some(SequenceEnd::StopToken),
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

    fn take(&mut self, sequence: SequenceId, with_cache: bool) -> Option<SequenceState> {
        let (mut state, computed) = self.sequences.remove(&sequence)?;
        if let Some(caches) = self.caches.as_ref().filter(|_| with_cache) {
            caches.given.fetch_add(1, Ordering::SeqCst);
            state.cache = Some(Box::new(computed));
        }
        Some(state)
    }

    fn put(&mut self, sequence: SequenceId, mut state: SequenceState) -> Result<u32, SessionError> {
        if let Some(leaving) = &self.leaving
            && !state.generated.is_empty()
        {
            leaving.came.fetch_add(1, Ordering::SeqCst);
            self.is_leaving |= !leaving.is_over.swap(true, Ordering::SeqCst);
        }
        let is_of_use = self.caches.as_ref().is_some_and(|caches| !caches.are_lost);
        let cache = state.cache.take().filter(|_| is_of_use);
        let cache = cache.and_then(|cache| cache.downcast::<u32>().ok());
        let computed = cache.map_or(0, |computed| *computed);
        self.sequences.insert(sequence, (state, computed));
        Ok(computed)
    }

    fn sequences(&self) -> usize {
        self.sequences.len()
    }
}
