//! Models that answer in words, with or without pictures, as their exports lie in a folder: a picture encoder, embeddings of tokens, and a
//! decoder with its cache, run by the sequences and runs of `generate`.
//!
//! A prompt comes as text. The token of the picture in it becomes one place for each row of features. Sequences of models whose graph
//! numbers tokens by their columns run one at a time; of the others several share a run.

mod folder;
#[cfg(test)]
mod fuzz;
mod picture;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use prost::Message;
use weir_flow::{
    DeviceKind, GenerativeLimits, GenerativeSession, Sampling, SequenceId, SequenceSpec, SequenceStep,
};

use super::generate::{DecoderCore, DecoderSession, Embedder, Ports};
use super::read_model;
use super::runtime::{OrtSession, SessionOptions};
use super::tokenizer_file::guarded;
pub(crate) use folder::{ChatFolder, ChatTexts};
use picture::PictureEncoder;

/// Tokens of a prompt that one step computes. Logits of all of them are in memory at once.
const MAX_STEP_TOKENS: usize = 128;

/// Bounds of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChatLimits {
    /// Threads of each graph.
    pub(crate) threads: usize,
    /// Tokens of a sequence, with those of its picture and its answer.
    pub(crate) context: usize,
    /// Sequences that run together, if the graph allows it.
    pub(crate) sequences: usize,
}

/// Memory that a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChatMemory {
    /// Bytes of the graphs with their weights.
    pub(crate) weights: u64,
    /// Bytes of the caches of all sequences at their full length, once as the past of a run and once as its result.
    pub(crate) caches: u64,
}

/// Prompt and picture of a question, with the bounds of its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChatQuestion<'a> {
    /// The prompt with its marks, in which the text of [`ChatTexts::image`] stands for the picture.
    pub(crate) prompt: &'a str,
    pub(crate) jpeg: &'a [u8],
    pub(crate) max_tokens: u32,
    pub(crate) temperature: f32,
}

/// An answer that is complete, or cut at its maximum of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatAnswer {
    pub(crate) id: SequenceId,
    pub(crate) text: String,
    pub(crate) prompt_tokens: u64,
    pub(crate) tokens: u64,
}

/// Reason why a question is not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChatError {
    /// It will never be, for this reason.
    Refused(String),
    /// A run failed.
    Failed(String),
}

/// See the module.
pub(crate) struct ChatModel {
    folder: ChatFolder,
    limits: ChatLimits,
    memory: ChatMemory,
    pictures: Option<PictureEncoder>,
    decoder: Arc<DecoderCore>,
    session: DecoderSession,
    running: BTreeMap<SequenceId, Running>,
    next: u64,
}

/// A sequence in the session.
struct Running {
    prompt_tokens: usize,
    /// Tokens of the prompt that are computed.
    computed: usize,
    generated: Vec<u32>,
}

impl ChatModel {
    /// Opens the graphs of a folder on the CPU. Nothing is run.
    ///
    /// # Errors
    /// A file does not fit; the message has its path, its tensor and the expected one.
    pub(crate) fn open(folder: ChatFolder, limits: ChatLimits) -> Result<Self, String> {
        let files = &folder.graphs;
        let mut weights = 0;
        let mut open = |path: &Path| {
            let bytes = read_model(path).map_err(|error| format!("{}: {error}", path.display()))?;
            weights += bytes.len() as u64;
            let options = SessionOptions {
                threads: limits.threads,
                ..SessionOptions::default()
            };
            let session = OrtSession::open_with(&bytes, DeviceKind::Cpu, &options);
            let session = session.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>((session, bytes))
        };
        let (session, bytes) = open(&files.decoder)?;
        let numbers_columns = numbers_columns(&bytes);
        drop(bytes);
        let of_decoder = |reason: String| format!("decoder {}: {reason}", files.decoder.display());
        let mut ports = Ports::find(&session, &files.ports).map_err(of_decoder)?;
        ports.is_exact = numbers_columns || ports.positions.is_none();
        let embedder = match &files.embeddings {
            Some(path) => {
                let embedder = Embedder::new(open(path)?.0, &files.features, files.embedded.as_deref());
                Some(embedder.map_err(|reason| format!("embeddings {}: {reason}", path.display()))?)
            }
            None => None,
        };
        let found = embedder.as_ref().map(Embedder::width);
        if ports.width != found {
            return Err(of_decoder(misfit(ports.width, found)));
        }
        let pictures = match (&files.pictures, &folder.image, found) {
            (Some(path), Some((_, preparation)), Some(width)) => {
                let pictures = PictureEncoder::new(open(path)?.0, files, preparation, width);
                Some(pictures.map_err(|reason| format!("picture encoder {}: {reason}", path.display()))?)
            }
            _ => None,
        };
        let context = limits.context.min(folder.context.unwrap_or(usize::MAX)).max(2);
        let sequences = if ports.is_exact {
            1
        } else {
            limits.sequences.max(1)
        };
        let limits = ChatLimits {
            context,
            sequences,
            ..limits
        };
        let decoder = Arc::new(DecoderCore::without_text(
            folder.path.display().to_string(),
            ports,
            folder.stop_tokens.clone(),
            GenerativeLimits {
                vocabulary: folder.vocabulary,
                max_sequence_tokens: context as u32,
            },
        ));
        let cached = (2 * sequences * context) as u64;
        Ok(Self {
            memory: ChatMemory {
                weights,
                caches: cached.saturating_mul(decoder.token_bytes() as u64),
            },
            session: DecoderSession::new(Arc::clone(&decoder), session, embedder),
            folder,
            limits,
            pictures,
            decoder,
            running: BTreeMap::new(),
            next: 0,
        })
    }

    pub(crate) const fn folder(&self) -> &ChatFolder {
        &self.folder
    }

    /// Bounds, as the graphs and the files allow them.
    pub(crate) const fn limits(&self) -> ChatLimits {
        self.limits
    }

    pub(crate) const fn memory(&self) -> ChatMemory {
        self.memory
    }

    /// Width and height of the pictures that it sees; `None`: it sees none.
    pub(crate) fn picture_size(&self) -> Option<(u32, u32)> {
        self.pictures.as_ref().map(PictureEncoder::size)
    }

    /// Begins a question: its picture is encoded, and its tokens wait for [`Self::step`].
    ///
    /// # Errors
    /// [`ChatError`].
    pub(crate) fn begin(&mut self, question: &ChatQuestion<'_>) -> Result<SequenceId, ChatError> {
        let tokens = self.tokens(question.prompt).map_err(ChatError::Refused)?;
        let (prompt, features) = match (&mut self.pictures, &self.folder.image) {
            (Some(pictures), Some((place, _))) => {
                let at = tokens.iter().position(|token| *token == place.token);
                let is_only = tokens.iter().filter(|token| **token == place.token).count() == 1;
                let at = at.filter(|_| is_only).ok_or_else(|| {
                    let reason = "the prompt has not one place for its picture: look at the chat template";
                    ChatError::Refused(reason.to_owned())
                })?;
                let image = picture::decoded(question.jpeg).map_err(ChatError::Refused)?;
                let features = pictures.encode(&image).map_err(ChatError::Failed)?;
                let width = self.decoder.ports.width.unwrap_or(1);
                let rows = features.len() / width;
                if rows == 0 || rows > self.limits.context {
                    let reason = format!(
                        "the picture has {rows} places in the prompt: expected are 1 to {}",
                        self.limits.context
                    );
                    return Err(ChatError::Refused(reason));
                }
                let places = vec![place.token; rows];
                let parts = [
                    &tokens[..at],
                    &place.before,
                    &places,
                    &place.behind,
                    &tokens[at + 1..],
                ];
                (parts.concat(), Some((place.token, features)))
            }
            _ => (tokens, None),
        };
        let context = self.limits.context;
        let left = context.saturating_sub(prompt.len());
        if left == 0 || prompt.is_empty() {
            return Err(ChatError::Refused(format!(
                "the prompt has {} tokens: expected are 1 to {}, one less than `context`",
                prompt.len(),
                context - 1
            )));
        }
        let id = SequenceId(self.next);
        self.next += 1;
        let running = Running {
            prompt_tokens: prompt.len(),
            computed: 0,
            generated: Vec::new(),
        };
        let spec = SequenceSpec {
            prompt,
            max_tokens: question.max_tokens.min(left as u32).max(1),
            stop: Arc::new([]),
            sampling: Sampling {
                temperature: question.temperature,
                ..Sampling::default()
            },
        };
        let image = features.as_ref().map(|(token, features)| (*token, &features[..]));
        let begun = self.session.begin_with_image(id, spec, image);
        begun.map_err(|error| ChatError::Failed(error.to_string()))?;
        self.running.insert(id, running);
        Ok(id)
    }

    /// Computes one token of each sequence, and a part of one prompt. Returns the answers that are complete.
    ///
    /// # Errors
    /// The runtime's error: no sequence is left then.
    pub(crate) fn step(&mut self) -> Result<Vec<ChatAnswer>, String> {
        let mut has_prompt = false;
        let mut steps = Vec::with_capacity(self.running.len());
        for (id, running) in &mut self.running {
            let left = running.prompt_tokens - running.computed;
            if left > 0 && has_prompt {
                continue;
            }
            has_prompt |= left > 0;
            let tokens = left.clamp(1, MAX_STEP_TOKENS);
            running.computed += tokens.min(left);
            steps.push(SequenceStep {
                sequence: *id,
                tokens: tokens as u32,
            });
        }
        let given = match self.session.step(&steps) {
            Ok(given) => given,
            Err(error) => {
                for id in std::mem::take(&mut self.running).into_keys() {
                    self.session.take(id, false);
                }
                return Err(error.to_string());
            }
        };
        let mut answers = Vec::new();
        for token in given {
            let Some(running) = self.running.get_mut(&token.sequence) else {
                continue;
            };
            running.generated.push(token.token);
            if token.end.is_some() {
                answers.extend(self.end(token.sequence));
            }
        }
        Ok(answers)
    }

    /// Removes a sequence, and returns the number of tokens that it has generated.
    pub(crate) fn remove(&mut self, id: SequenceId) -> usize {
        self.session.take(id, false);
        self.running
            .remove(&id)
            .map_or(0, |running| running.generated.len())
    }

    fn end(&mut self, id: SequenceId) -> Option<ChatAnswer> {
        self.session.take(id, false);
        let running = self.running.remove(&id)?;
        let is_text = |token: &&u32| !self.decoder.stop_tokens.contains(token);
        let tokens: Vec<u32> = running.generated.iter().filter(is_text).copied().collect();
        Some(ChatAnswer {
            id,
            // Tokens that are no text are no answer.
            text: guarded(|| self.folder.tokenizer.decode(&tokens, true).unwrap_or_default())
                .unwrap_or_default(),
            prompt_tokens: running.prompt_tokens as u64,
            tokens: running.generated.len() as u64,
        })
    }

    fn tokens(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoded = guarded(|| self.folder.tokenizer.encode(text, false));
        let encoded = encoded.map_err(|reason| format!("tokenizer.json: {reason}"))?;
        let encoded = encoded.map_err(|error| format!("the prompt has no tokens: {error}"))?;
        Ok(encoded.get_ids().to_vec())
    }
}

/// Mismatch of a decoder and the model of embeddings, in words.
fn misfit(wanted: Option<usize>, found: Option<usize>) -> String {
    match (wanted, found) {
        (Some(wanted), Some(found)) => format!(
            "it takes embeddings of {wanted} numbers, and the model of embeddings gives {found}: their files are of different models"
        ),
        (Some(_), None) => {
            "it takes inputs_embeds, and the folder has no embed_tokens.onnx, which makes them of tokens".to_owned()
        }
        _ => "it takes input_ids, and the folder has a model of embeddings, whose output it does not take: expected is an input \
              inputs_embeds"
            .to_owned(),
    }
}

/// Operators that take the number of valid columns of the cache from the mask: no column before a token may be padding.
const COUNTING_OPERATORS: [&str; 2] = ["GroupQueryAttention", "SparseAttention"];

/// Whether a graph has such an operator.
fn numbers_columns(bytes: &[u8]) -> bool {
    operators::Model::decode(bytes).is_ok_and(|model| model.has(&COUNTING_OPERATORS))
}

/// Names of operators, as much as is decoded of a file for them.
mod operators {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Model {
        #[prost(message, optional, tag = "7")]
        graph: Option<Graph>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Graph {
        #[prost(message, repeated, tag = "1")]
        nodes: Vec<Node>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Node {
        #[prost(string, optional, tag = "4")]
        operator: Option<String>,
        #[prost(message, repeated, tag = "5")]
        attributes: Vec<Attribute>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Attribute {
        #[prost(message, optional, boxed, tag = "6")]
        graph: Option<Box<Graph>>,
    }

    impl Model {
        pub(super) fn has(&self, names: &[&str]) -> bool {
            self.graph.as_ref().is_some_and(|graph| graph.has(names))
        }
    }

    impl Graph {
        /// Decoding bounds how deep graphs lie within graphs.
        fn has(&self, names: &[&str]) -> bool {
            self.nodes.iter().any(|node| {
                let inner = node
                    .attributes
                    .iter()
                    .filter_map(|attribute| attribute.graph.as_ref());
                node.operator.as_deref().is_some_and(|name| names.contains(&name))
                    || inner.into_iter().any(|graph| graph.has(names))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny_onnx::{message, model, node};

    #[test]
    fn operators_that_count_columns_are_found_within_branches() {
        let attention = || node("GroupQueryAttention", &["query"], "out", &[]);
        let plain = message().message(1, &node("MatMul", &["a", "b"], "GroupQueryAttention", &[]));
        let direct = message()
            .message(1, &node("Add", &["a", "b"], "c", &[]))
            .message(1, &attention());
        let branch = message()
            .text(1, "then_branch")
            .message(6, &message().message(1, &attention()));
        let nested = message().message(1, &message().text(2, "out").text(4, "If").message(5, &branch));
        assert!(!numbers_columns(&model(plain)));
        assert!(numbers_columns(&model(direct)) && numbers_columns(&model(nested)));
        assert!(!numbers_columns(b"no model"));
    }
}
