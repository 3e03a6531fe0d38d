//! A session of a decoder: its sequences, and what each step runs of them.
//!
//! A step has up to two kinds of sequences: those that take one token, which run together and whose caches stay in the memory
//! of the runtime from step to step; and those that take a chunk of their prompt, which run beside others of about the same
//! length, so that padding is less than half of what is computed.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{
    GeneratedToken, GenerativeSession, SequenceEnd, SequenceId, SequenceSpec, SequenceState, SequenceStep,
    SessionError,
};

use super::DecoderCore;
use super::cache::{Gathered, Past, Rows, SequenceCache};
use super::embedder::Embedder;
use super::prefixes::StoredPrefixes;
use super::run::{RowTokens, RunInputs, RunOutput, RunPast};
use super::sampling::next_token;
use crate::model::runtime::OrtSession;

/// Columns that rows may have more than the longest has tokens, before they are gathered anew.
const MAX_PADDING: usize = 32;

struct Sequence {
    spec: SequenceSpec,
    /// Its prompt, and what it generated.
    tokens: Vec<u32>,
    /// `None` where it has none, or is a row of what the last run gave.
    cache: Option<SequenceCache>,
    /// Embeddings of the prompt, for a model that takes these; else empty.
    embedded: Vec<f32>,
}

impl Sequence {
    fn generated(&self) -> &[u32] {
        &self.tokens[self.spec.prompt.len()..]
    }
}

/// The tokens that a step computes of a sequence.
struct Chunk {
    id: SequenceId,
    /// Position of the first of them in the sequence.
    from: usize,
    ids: Vec<u32>,
    /// Their embeddings, for a model that takes these; else empty.
    embeddings: Vec<f32>,
}

impl Chunk {
    fn tokens(&self) -> RowTokens<'_> {
        RowTokens {
            ids: &self.ids,
            embeddings: &self.embeddings,
        }
    }
}

pub(in crate::model) struct DecoderSession {
    decoder: Arc<DecoderCore>,
    session: OrtSession,
    /// For a model that takes embeddings.
    embedder: Option<Embedder>,
    sequences: BTreeMap<SequenceId, Sequence>,
    /// Cache rows of the last run of single tokens, with the sequence of each row.
    rows: Option<(Vec<Option<SequenceId>>, Rows)>,
    inputs: RunInputs,
    gathered: Gathered,
    prefixes: StoredPrefixes,
}

impl DecoderSession {
    /// `embedder`: for a model that takes embeddings of tokens.
    pub(in crate::model) fn new(
        decoder: Arc<DecoderCore>,
        session: OrtSession,
        embedder: Option<Embedder>,
    ) -> Self {
        Self {
            prefixes: StoredPrefixes::new(decoder.prefix_tokens as usize),
            decoder,
            session,
            embedder,
            sequences: BTreeMap::new(),
            rows: None,
            inputs: RunInputs::default(),
            gathered: Gathered::default(),
        }
    }

    /// Adds a sequence with a picture: `image` has the tokens that stand for it, and its features, a row for each.
    ///
    /// # Errors
    /// The runtime's error, or features that do not fit the tokens.
    pub(in crate::model) fn begin_with_image(
        &mut self,
        id: SequenceId,
        spec: SequenceSpec,
        image: Option<(u32, &[f32])>,
    ) -> Result<(), SessionError> {
        let embedded = match &mut self.embedder {
            Some(embedder) => embedder.prompt(&spec.prompt, image),
            None if image.is_some() => Err("it takes no picture".to_owned()),
            None => Ok(Vec::new()),
        };
        let embedded = embedded.map_err(|reason| self.error(1, reason))?;
        self.put(id, SequenceState::new(spec))?;
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.embedded = embedded;
        }
        Ok(())
    }

    fn error(&self, batch: usize, reason: String) -> SessionError {
        SessionError::Run {
            model: self.decoder.name.clone(),
            batch,
            reason,
        }
    }

    fn row_of(&self, sequence: SequenceId) -> Option<(&Rows, usize)> {
        let (ids, rows) = self.rows.as_ref()?;
        let row = ids.iter().position(|id| *id == Some(sequence))?;
        Some((rows, row))
    }

    fn past(&self, id: SequenceId) -> Past<'_> {
        let cache = self
            .sequences
            .get(&id)
            .and_then(|sequence| sequence.cache.as_ref());
        match (cache, self.row_of(id)) {
            (Some(cache), _) => Past::Alone(cache),
            (None, Some((rows, row))) => Past::Row(rows, row),
            (None, None) => Past::Nothing,
        }
    }

    /// The tokens that a step computes of each of its sequences.
    fn chunks(&self, steps: &[SequenceStep]) -> Result<Vec<Chunk>, String> {
        let mut chunks: Vec<Chunk> = Vec::with_capacity(steps.len());
        for step in steps {
            let id = step.sequence;
            let sequence = self.sequences.get(&id);
            let sequence = sequence.ok_or_else(|| format!("sequence {} is not here", id.0))?;
            if chunks.iter().any(|other| other.id == id) {
                return Err(format!("sequence {} is in the step twice", id.0));
            }
            let computed = self.past(id).tokens();
            let chunk = sequence.tokens.get(computed..computed + step.tokens as usize);
            let chunk = chunk.filter(|chunk| !chunk.is_empty()).ok_or_else(|| {
                format!(
                    "sequence {} has {} tokens, of which {computed} are computed: {} more cannot be",
                    id.0,
                    sequence.tokens.len(),
                    step.tokens
                )
            })?;
            chunks.push(Chunk {
                id,
                from: computed,
                ids: chunk.to_vec(),
                embeddings: Vec::new(),
            });
        }
        Ok(chunks)
    }

    /// Adds the embeddings of the tokens, for a model that takes these: those of prompts are kept, and those of generated tokens are
    /// looked up together.
    fn embed(&mut self, chunks: &mut [Chunk]) -> Result<(), String> {
        let Some(embedder) = &mut self.embedder else {
            return Ok(());
        };
        let width = embedder.width();
        let kept_of = |chunk: &Chunk| {
            let kept = self.sequences.get(&chunk.id);
            let kept = kept.map_or(&[][..], |sequence| &sequence.embedded[..]);
            let to = (kept.len() / width).min(chunk.from + chunk.ids.len());
            (kept, chunk.from.min(to)..to)
        };
        let mut generated = Vec::new();
        for chunk in chunks.iter() {
            generated.extend_from_slice(&chunk.ids[kept_of(chunk).1.len()..]);
        }
        let looked_up = match generated.is_empty() {
            true => Vec::new(),
            false => embedder.tokens(&generated)?,
        };
        let mut rest = &looked_up[..];
        for chunk in chunks {
            let (kept, range) = kept_of(chunk);
            let count = chunk.ids.len() - range.len();
            let (own, others) = rest.split_at(count * width);
            chunk.embeddings = [&kept[range.start * width..range.end * width], own].concat();
            rest = others;
        }
        Ok(())
    }

    /// Gathers the past of the sequences of a run.
    fn gather(&mut self, chunks: &[&Chunk]) -> Result<(), String> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let pasts: Vec<Past<'_>> = chunks.iter().map(|chunk| self.past(chunk.id)).collect();
        let done = gathered.gather(&pasts, &self.decoder.ports);
        self.gathered = gathered;
        done
    }

    /// Runs sequences that take one token each; the cache outputs of the run become their past.
    fn run_single(&mut self, chunks: &[&Chunk], given: &mut Vec<GeneratedToken>) -> Result<(), String> {
        let ids: Vec<Option<SequenceId>> = chunks.iter().map(|chunk| Some(chunk.id)).collect();
        let is_same = self.rows.as_ref().is_some_and(|(before, rows)| {
            let longest = rows.spans.iter().map(|spans| spans.tokens()).max().unwrap_or(0);
            *before == ids && rows.columns <= longest + MAX_PADDING
        });
        if !is_same {
            self.gather(chunks)?;
            self.release_rows(chunks)?;
        }
        let past = match &self.rows {
            Some((_, rows)) => RunPast::Held(rows),
            None => RunPast::Gathered(&self.gathered),
        };
        let tokens: Vec<RowTokens<'_>> = chunks.iter().map(|chunk| chunk.tokens()).collect();
        let output = (self.inputs).run(&mut self.session, &self.decoder.ports, &past, &tokens)?;
        self.give_tokens(chunks, &output, given)?;
        for chunk in chunks {
            if let Some(sequence) = self.sequences.get_mut(&chunk.id) {
                sequence.cache = None;
            }
        }
        self.rows = Some((ids, output.rows));
        Ok(())
    }

    /// The rows of the last run go: those of sequences that are not in the next one are copied.
    fn release_rows(&mut self, next: &[&Chunk]) -> Result<(), String> {
        let Some((ids, rows)) = self.rows.take() else {
            return Ok(());
        };
        for (row, id) in ids.iter().enumerate() {
            if let Some(id) = id
                && !next.iter().any(|other| other.id == *id)
                && let Some(sequence) = self.sequences.get_mut(id)
                && sequence.cache.is_none()
            {
                sequence.cache = Some(rows.copy_row(row, &self.decoder.ports.caches)?);
            }
        }
        Ok(())
    }

    /// Runs chunks of prompts, which are about equally long.
    fn run_chunks(&mut self, chunks: &[&Chunk], given: &mut Vec<GeneratedToken>) -> Result<(), String> {
        self.gather(chunks)?;
        let tokens: Vec<RowTokens<'_>> = chunks.iter().map(|chunk| chunk.tokens()).collect();
        let past = RunPast::Gathered(&self.gathered);
        let output = (self.inputs).run(&mut self.session, &self.decoder.ports, &past, &tokens)?;
        self.give_tokens(chunks, &output, given)?;
        for (row, chunk) in chunks.iter().enumerate() {
            let cache = output.rows.copy_row(row, &self.decoder.ports.caches)?;
            self.forget_row(chunk.id);
            if let Some(sequence) = self.sequences.get_mut(&chunk.id) {
                sequence.cache = Some(cache);
            }
        }
        Ok(())
    }

    /// Its row of the last run is not its cache any more.
    fn forget_row(&mut self, sequence: SequenceId) {
        if let Some((ids, _)) = &mut self.rows {
            for id in ids.iter_mut().filter(|id| **id == Some(sequence)) {
                *id = None;
            }
        }
    }

    /// Chooses the next token of each sequence whose last token was computed.
    fn give_tokens(
        &mut self,
        chunks: &[&Chunk],
        output: &RunOutput,
        given: &mut Vec<GeneratedToken>,
    ) -> Result<(), String> {
        for (row, chunk) in chunks.iter().enumerate() {
            let reached = output.rows.spans[row].tokens();
            let Some(sequence) = self.sequences.get_mut(&chunk.id) else {
                continue;
            };
            if reached < sequence.tokens.len() {
                continue;
            }
            let logits = output.logits_of(row, chunk.ids.len())?;
            if logits.iter().any(|logit| logit.is_nan()) {
                return Err(format!("a logit after {reached} tokens is not a number"));
            }
            let place = sequence.generated().len() as u32;
            let (token, probability) = next_token(logits, &sequence.spec.sampling, place);
            sequence.tokens.push(token);
            given.push(GeneratedToken {
                sequence: chunk.id,
                token,
                probability,
                end: self.decoder.end(&sequence.spec, sequence.generated()),
            });
        }
        Ok(())
    }

    fn run_step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, String> {
        let mut chunks = self.chunks(steps)?;
        self.embed(&mut chunks)?;
        let mut given = Vec::with_capacity(steps.len());
        let (single, mut longer): (Vec<&Chunk>, Vec<&Chunk>) =
            chunks.iter().partition(|chunk| chunk.ids.len() == 1);
        if self.decoder.ports.is_exact && chunks.len() > 1 {
            return Err("its sequences run one at a time".to_owned());
        }
        if !single.is_empty() {
            self.run_single(&single, &mut given)?;
        }
        longer.sort_by_key(|chunk| chunk.ids.len());
        while let Some(longest) = longer.last() {
            let bound = longest.ids.len() / 2;
            let first = longer.partition_point(|chunk| chunk.ids.len() <= bound);
            let alike = longer.split_off(first);
            self.run_chunks(&alike, &mut given)?;
        }
        given.sort_by_key(|token| steps.iter().position(|step| step.sequence == token.sequence));
        Ok(given)
    }

    /// Why a sequence cannot be put in, if so.
    fn refusal(&self, id: SequenceId, prompt: &[u32], tokens: &[u32]) -> Option<String> {
        let limits = self.decoder.limits;
        if self.sequences.contains_key(&id) {
            return Some(format!("sequence {} is here already", id.0));
        }
        if prompt.is_empty() {
            return Some(format!("the prompt of sequence {} is empty", id.0));
        }
        if tokens.len() >= limits.max_sequence_tokens as usize {
            let (has, most) = (tokens.len(), limits.max_sequence_tokens);
            return Some(format!(
                "sequence {} has {has} tokens, and a sequence has {most} at most with what it generates",
                id.0
            ));
        }
        let unknown = tokens.iter().find(|token| **token >= limits.vocabulary)?;
        Some(format!("token {unknown} is not one of {}", limits.vocabulary))
    }
}

impl GenerativeSession for DecoderSession {
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError> {
        let given = self.run_step(steps);
        given.map_err(|reason| self.error(steps.len(), reason))
    }

    fn evict(&mut self, id: SequenceId) {
        self.forget_row(id);
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.cache = None;
        }
    }

    fn take(&mut self, id: SequenceId, with_cache: bool) -> Option<SequenceState> {
        let mut sequence = self.sequences.remove(&id)?;
        let cache = match (sequence.cache.take(), self.row_of(id)) {
            _ if !with_cache => None,
            (Some(cache), _) => Some(cache),
            (None, Some((rows, row))) => rows.copy_row(row, &self.decoder.ports.caches).ok(),
            (None, None) => None,
        };
        self.forget_row(id);
        let model = Arc::clone(&self.decoder);
        Some(SequenceState {
            generated: sequence.generated().to_vec(),
            spec: sequence.spec,
            cache: cache.map(|cache| Box::new(MovedCache { model, cache }) as _),
        })
    }

    fn put(&mut self, id: SequenceId, state: SequenceState) -> Result<u32, SessionError> {
        let SequenceState {
            spec,
            generated,
            cache,
        } = state;
        let tokens = [&*spec.prompt, &*generated].concat();
        if let Some(reason) = self.refusal(id, &spec.prompt, &tokens) {
            return Err(self.error(1, reason));
        }
        let cache = cache
            .and_then(|cache| cache.downcast::<MovedCache>().ok())
            .filter(|moved| Arc::ptr_eq(&moved.model, &self.decoder) && moved.cache.tokens < tokens.len())
            .map(|moved| moved.cache);
        let computed = cache.as_ref().map_or(0, |cache| cache.tokens);
        let sequence = Sequence {
            spec,
            tokens,
            cache,
            embedded: Vec::new(),
        };
        self.sequences.insert(id, sequence);
        Ok(computed as u32)
    }

    fn keep_prefix(&mut self, id: SequenceId, tokens: u32) {
        let Some(sequence) = self.sequences.get(&id) else {
            return;
        };
        let caches = &self.decoder.ports.caches;
        let tokens = tokens as usize;
        let prefix = match (sequence.spec.prompt.get(..tokens), self.past(id)) {
            // Embeddings of pictures stand for equal tokens.
            _ if self.embedder.is_some() => None,
            (Some(prompt), Past::Alone(cache)) => cache.first(tokens, caches).map(|cache| (prompt, cache)),
            (Some(prompt), Past::Row(rows, row)) => {
                let cache = rows.copy_row(row, caches).ok();
                let first = cache.and_then(|cache| cache.first(tokens, caches));
                first.map(|cache| (prompt, cache))
            }
            (None, _) | (_, Past::Nothing) => None,
        };
        if let Some((prompt, cache)) = prefix {
            self.prefixes.store(prompt.to_vec(), cache);
        }
    }

    fn reuse_prefix(&mut self, id: SequenceId, tokens: u32) -> u32 {
        let computed = self.past(id).tokens();
        let tokens = tokens as usize;
        let prompt = self.sequences.get(&id).map(|sequence| &sequence.spec.prompt);
        let prompt = prompt.and_then(|prompt| prompt.get(..tokens));
        let Some(prompt) = prompt.filter(|_| computed < tokens && self.embedder.is_none()) else {
            return computed as u32;
        };
        let Some(cache) = self.prefixes.find(prompt, &self.decoder.ports.caches) else {
            return computed as u32;
        };
        self.forget_row(id);
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.cache = Some(cache);
        }
        tokens as u32
    }

    fn sequences(&self) -> usize {
        self.sequences.len()
    }
}

/// A cache on its way to another session of the same model.
struct MovedCache {
    model: Arc<DecoderCore>,
    cache: SequenceCache,
}

impl DecoderCore {
    /// Whether what was generated is complete.
    fn end(&self, spec: &SequenceSpec, generated: &[u32]) -> Option<SequenceEnd> {
        let last = generated.last()?;
        if self.stop_tokens.contains(last) {
            return Some(SequenceEnd::StopToken);
        }
        if !spec.stop.is_empty() {
            let text = self
                .tokenizer
                .as_ref()
                .map(|tokenizer| tokenizer.decode(generated));
            let text = text.unwrap_or_default();
            let is_complete = |stop: &String| !stop.is_empty() && text.contains(&**stop);
            if spec.stop.iter().any(is_complete) {
                return Some(SequenceEnd::StopText);
            }
        }
        (generated.len() >= spec.max_tokens as usize).then_some(SequenceEnd::MaxTokens)
    }
}
