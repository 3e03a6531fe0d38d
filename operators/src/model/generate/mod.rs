//! Decoders that generate text: ONNX graphs that take their cache explicitly and give it back grown.
//!
//! Inputs are the tokens `[batch, tokens]`, their positions, a mask, and a cache for each layer, or one for all; outputs are
//! logits `[batch, tokens, vocabulary]` and the caches grown by the tokens. Names are keys (`ports`); sequences of different
//! length run together by padding and mask (`run`); caches stay where they are as long as the same sequences run (`cache`).

mod bare;
mod cache;
mod embedder;
#[cfg(test)]
mod fuzz;
mod portable;
mod ports;
mod prefixes;
mod run;
mod sampling;
mod session;
mod tokenizer;

use std::path::Path;
use std::sync::Arc;

use weir_flow::{
    Batching, CacheKind, DeviceKind, GenerativeLimits, GenerativeModel, GenerativeSession, HeadOutput,
    HeadSpec, KeyKind, KeySpec, Model, Session, SessionError, Settings,
};

use super::error::{self, ModelError};
use super::onnx::read_metadata;
use super::runtime::OrtSession;
pub use bare::BareDecoder;
use cache::{Gathered, Past};
pub(super) use embedder::Embedder;
use portable::Vocabulary;
use ports::CachePort;
pub(super) use ports::{Ports, listed, whole};
use run::{RowTokens, RunInputs, RunPast};
pub(super) use session::DecoderSession;
use tokenizer::Tokenizer;

/// Tokens of a sequence where the model's settings give no bound.
const MAX_SEQUENCE_TOKENS: f64 = 512.0;

/// The head of decoders.
pub(crate) const HEAD: &str = "generate";

const fn text(name: &'static str, about: &'static str) -> KeySpec {
    KeySpec {
        name,
        kind: KeyKind::Text,
        about,
    }
}

/// Keys of a decoder.
const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "vocabulary",
        kind: KeyKind::File,
        about: "the pieces that its tokens stand for: a `.bin` of llama2.c, or a `.txt` with a piece on each line; default \
                what the metadata of the model has as `vocabulary`, in the form of a `.txt`",
    },
    KeySpec {
        name: "max_sequence_tokens",
        kind: KeyKind::Integer { min: 2, max: 1 << 20 },
        about: "maximum number of tokens of a sequence, its prompt included; default 512",
    },
    KeySpec {
        name: "max_step_tokens",
        kind: KeyKind::Integer { min: 1, max: 65_536 },
        about: "maximum number of tokens that a step computes, of all sequences together; default 256",
    },
    KeySpec {
        name: "max_sequences",
        kind: KeyKind::Integer { min: 1, max: 1024 },
        about: "maximum number of sequences that run at once on a slot; default 32",
    },
    KeySpec {
        name: "cache_tokens",
        kind: KeyKind::Integer {
            min: 16,
            max: 1 << 30,
        },
        about: "tokens that the cache of a slot holds, of all sequences together; default max_sequences whole ones",
    },
    KeySpec {
        name: "prefix_tokens",
        kind: KeyKind::Integer { min: 0, max: 1 << 20 },
        about: "tokens of beginnings that prompts share whose caches a slot stores, beside `cache_tokens`: a prompt that begins \
                alike, in whole blocks of 16 tokens, is computed from there on; default 0, none",
    },
    KeySpec {
        name: "start_token",
        kind: KeyKind::Integer {
            min: -1,
            max: i32::MAX as i64,
        },
        about: "token before every prompt; -1 for none; default 1",
    },
    text(
        "stop_tokens",
        "tokens that end a sequence, such as \"1, 2\"; default \"1, 2\"",
    ),
    text(
        "input_ids",
        "input of the tokens, whole numbers [batch, tokens]; default input_ids, tokens or ids",
    ),
    text(
        "position_ids",
        "input of their positions, where there is one; default position_ids or positions",
    ),
    text(
        "attention_mask",
        "input of the mask: f32 [batch, 1, tokens, past + tokens] that is added, or numbers [batch, past + tokens]; default \
         attention_mask, attn_mask or mask",
    ),
    text("past", "prefix of the names of inputs for caches; default past"),
    text(
        "present",
        "prefix of the names of outputs of caches; default present",
    ),
    text(
        "logits",
        "output of the logits, f32 [batch, tokens, vocabulary]; default logits",
    ),
];

/// Its entry in the catalog.
pub(crate) fn head_spec() -> HeadSpec {
    HeadSpec {
        name: HEAD,
        about: "a decoder that generates text token by token: tokens, their positions, a mask and caches in, logits and grown \
                caches out",
        output: HeadOutput::Attribute,
        classes: &[],
        keys: KEYS.into(),
    }
}

/// Properties of a decoder that its sessions need.
pub(super) struct DecoderCore {
    pub(super) name: String,
    pub(super) ports: Ports,
    /// For texts that end a sequence; without it there are none.
    tokenizer: Option<Tokenizer>,
    pub(super) stop_tokens: Vec<u32>,
    pub(super) limits: GenerativeLimits,
    /// Tokens of shared prefixes that a session stores.
    pub(super) prefix_tokens: u32,
}

impl DecoderCore {
    /// A decoder whose text is made elsewhere.
    pub(super) const fn without_text(
        name: String,
        ports: Ports,
        stop_tokens: Vec<u32>,
        limits: GenerativeLimits,
    ) -> Self {
        Self {
            name,
            ports,
            tokenizer: None,
            stop_tokens,
            limits,
            prefix_tokens: 0,
        }
    }

    /// Bytes of the caches of one token.
    pub(super) fn token_bytes(&self) -> usize {
        let of_token: usize = self.ports.caches.iter().map(CachePort::token_elements).sum();
        size_of::<f32>() * of_token
    }
}

/// A decoder, loaded and checked.
struct Decoder {
    core: Arc<DecoderCore>,
    bytes: Arc<[u8]>,
    settings: Settings,
    vocabulary: Vocabulary,
    start_token: Option<u32>,
}

impl Decoder {
    fn tokenizer(&self) -> Option<&Tokenizer> {
        self.core.tokenizer.as_ref()
    }
}

/// A decoder as a model.
pub(super) struct GenerativeOnnx(Arc<Decoder>);

impl GenerativeOnnx {
    /// Loads a decoder: finds its inputs and outputs, and runs it to see that they fit.
    ///
    /// # Errors
    /// [`ModelError`]: the file is no decoder, its outputs do not match its inputs, or its vocabulary is another.
    pub(super) fn load(name: &str, bytes: Arc<[u8]>, settings: &Settings) -> Result<Self, ModelError> {
        Self::with_vocabulary(name, bytes, settings, |bytes| vocabulary(bytes, settings))
    }

    /// Loads a decoder from what another process sent.
    ///
    /// # Errors
    /// As [`GenerativeOnnx::load`].
    pub(super) fn unpack(bytes: &[u8]) -> Result<Arc<dyn GenerativeModel>, SessionError> {
        let failed = |reason: String| SessionError::Load {
            model: "that was sent".to_owned(),
            reason,
        };
        let portable = portable::unpack(bytes).map_err(failed)?;
        let sent = portable.vocabulary;
        let loaded = Self::with_vocabulary(&portable.name, portable.model.into(), &portable.settings, |_| {
            let tokenizer = Tokenizer::from_vocabulary(&sent)?;
            Ok(((tokenizer, sent), "its vocabulary".to_owned()))
        });
        let loaded = loaded.map_err(|error| failed(error.to_string()))?;
        Ok(Arc::new(loaded))
    }

    fn with_vocabulary(
        name: &str,
        bytes: Arc<[u8]>,
        settings: &Settings,
        read: impl FnOnce(&[u8]) -> Result<((Tokenizer, Vocabulary), String), String>,
    ) -> Result<Self, ModelError> {
        let mut session = OrtSession::open(&bytes, DeviceKind::Cpu)?;
        let ports = Ports::find(&session, settings).map_err(ModelError::Head)?;
        if ports.width.is_some() {
            let reason = "it takes `inputs_embeds`, and the head generate takes `input_ids`: a sink of the type describe runs it by \
                          its `folder`";
            return Err(ModelError::Head(reason.to_owned()));
        }
        let ((tokenizer, words), file) = read(&bytes).map_err(ModelError::Head)?;
        let vocabulary = probe(&mut session, &ports).map_err(ModelError::Run)?;
        if vocabulary != tokenizer.len() {
            return Err(ModelError::Head(format!(
                "it gives logits for {vocabulary} tokens, and {file} has {} pieces",
                tokenizer.len()
            )));
        }
        let start_token = u32::try_from(settings.number("start_token", 1.0) as i64).ok();
        let stop_tokens = stop_tokens(settings.text("stop_tokens").unwrap_or("1, 2"));
        let stop_tokens = stop_tokens.map_err(ModelError::Head)?;
        let mut named = start_token.iter().chain(&stop_tokens);
        if let Some(token) = named.find(|token| **token as usize >= vocabulary) {
            return Err(ModelError::Head(format!(
                "token {token} of `start_token` or `stop_tokens` is not one of its {vocabulary}"
            )));
        }
        let max_sequence_tokens = settings.number("max_sequence_tokens", MAX_SEQUENCE_TOKENS);
        Ok(Self(Arc::new(Decoder {
            core: Arc::new(DecoderCore {
                name: name.to_owned(),
                ports,
                tokenizer: Some(tokenizer),
                stop_tokens,
                limits: GenerativeLimits {
                    vocabulary: vocabulary as u32,
                    max_sequence_tokens: max_sequence_tokens as u32,
                },
                prefix_tokens: settings.number("prefix_tokens", 0.0) as u32,
            }),
            bytes,
            settings: settings.clone(),
            vocabulary: words,
            start_token,
        })))
    }
}

/// The vocabulary of the file that the settings name, or else the model's own, and where it stands.
fn vocabulary(bytes: &[u8], settings: &Settings) -> Result<((Tokenizer, Vocabulary), String), String> {
    if let Some(file) = settings.text("vocabulary") {
        return Ok((Tokenizer::read(Path::new(file))?, file.to_owned()));
    }
    let lines = read_metadata(bytes, "vocabulary").ok_or(
        "a model with the head generate needs `vocabulary`, a file: its metadata has none of its own",
    )?;
    let own = "the vocabulary in its metadata";
    let words = Vocabulary {
        bytes: lines.into_bytes(),
        lines: true,
    };
    let tokenizer = Tokenizer::from_vocabulary(&words).map_err(|reason| format!("{own}: {reason}"))?;
    Ok(((tokenizer, words), own.to_owned()))
}

fn stop_tokens(text: &str) -> Result<Vec<u32>, String> {
    let tokens = text.split(',').map(str::trim).filter(|token| !token.is_empty());
    let parsed: Result<Vec<u32>, _> = tokens.map(str::parse).collect();
    parsed.map_err(|_| format!("`stop_tokens` is \"{text}\": whole numbers are expected, such as \"1, 2\""))
}

/// Runs two sequences of two tokens, then both again behind what that gave; gives the size of the vocabulary.
fn probe(session: &mut OrtSession, ports: &Ports) -> Result<usize, String> {
    let mut inputs = RunInputs::default();
    let mut past = Gathered::default();
    past.gather(&[Past::Nothing; 2], ports)?;
    let rows = [RowTokens::ids(&[0, 0]); 2];
    let first = inputs.run(session, ports, &RunPast::Gathered(&past), &rows)?;
    let again = inputs.run(session, ports, &RunPast::Held(&first.rows), &rows)?;
    Ok(again.vocabulary)
}

impl Model for GenerativeOnnx {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn generative(&self) -> Option<Arc<dyn GenerativeModel>> {
        Some(Arc::new(Self(Arc::clone(&self.0))))
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Err(SessionError::Load {
            model: self.0.core.name.clone(),
            reason: "it generates text: run it by the operator describe".to_owned(),
        })
    }
}

impl GenerativeModel for GenerativeOnnx {
    fn limits(&self) -> GenerativeLimits {
        self.0.core.limits
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let start = self.0.start_token.into_iter();
        let encoded = self.0.tokenizer().map(|tokenizer| tokenizer.encode(text));
        let mut tokens: Vec<u32> = start.chain(encoded.unwrap_or_default()).collect();
        if tokens.is_empty() {
            // A sequence begins with something.
            tokens.push(0);
        }
        tokens
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let is_text = |token: &&u32| !self.0.core.stop_tokens.contains(token);
        let tokens: Vec<u32> = tokens.iter().filter(is_text).copied().collect();
        let text = self.0.tokenizer().map(|tokenizer| tokenizer.decode(&tokens));
        text.unwrap_or_default()
    }

    fn portable(&self) -> Option<Vec<u8>> {
        let decoder = &self.0;
        portable::pack(
            &decoder.core.name,
            &decoder.settings,
            &decoder.vocabulary,
            &decoder.bytes,
        )
    }

    fn caches(&self) -> Option<CacheKind> {
        Some(CacheKind {
            number: Arc::as_ptr(&self.0.core).addr(),
            token_bytes: self.0.core.token_bytes() as u32,
        })
    }

    fn prefix_tokens(&self) -> u32 {
        self.0.core.prefix_tokens
    }

    fn open(&self, device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
        let session = OrtSession::open(&self.0.bytes, device);
        let session = session.map_err(|error| error::session_error(&self.0.core.name, &error))?;
        let core = Arc::clone(&self.0.core);
        Ok(Box::new(DecoderSession::new(core, session, None)))
    }
}
