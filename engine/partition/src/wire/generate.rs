//! Messages for generative models: over a connection of its own, a worker runs one instance, one step at a
//! time.

use std::io::{self, Read};
use std::sync::Arc;

use weir_flow::{GeneratedToken, Sampling, SequenceCommand, SequenceEnd, SequenceSpec, SequenceStep};
use weir_types::SequenceId;

use super::body::Body;
use super::codes;
use super::error::WireError;
use super::pieces::{Pieces, each, text, u8, u32, u64};

/// Maximum number of sequences in a step, and of sequences that are added or removed before it.
const MAX_SEQUENCES: usize = 1 << 16;
/// Maximum number of tokens of a prompt, and of generated tokens.
const MAX_TOKENS: usize = 1 << 20;
/// Texts that end a sequence.
const MAX_STOPS: usize = 1 << 8;

/// A step of an instance, and what goes before it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InstanceStep {
    /// Commands that are executed before the step, in this order.
    pub commands: Vec<SequenceCommand>,
    /// Sequences that the step computes.
    pub steps: Vec<SequenceStep>,
}

type Read_<T> = Result<T, WireError>;

pub(super) fn encode_step<P: Pieces>(to: &mut P, step: &InstanceStep) -> io::Result<()> {
    each(to, &step.commands, |to, command| match command {
        SequenceCommand::Put {
            sequence,
            spec,
            generated,
        } => {
            u8(to, 0)?;
            u64(to, sequence.0)?;
            each(to, &spec.prompt, |to, token| u32(to, *token))?;
            u32(to, spec.max_tokens)?;
            each(to, &spec.stop, |to, stop| text(to, stop, codes::MAX_TEXT_BYTES))?;
            u32(to, spec.sampling.temperature.to_bits())?;
            u32(to, spec.sampling.top_k)?;
            u64(to, spec.sampling.seed)?;
            each(to, generated, |to, token| u32(to, *token))
        }
        SequenceCommand::Remove(sequence) => {
            u8(to, 1)?;
            u64(to, sequence.0)
        }
        SequenceCommand::Evict(sequence) => {
            u8(to, 2)?;
            u64(to, sequence.0)
        }
        SequenceCommand::KeepPrefix { sequence, tokens } => {
            u8(to, 3)?;
            u64(to, sequence.0)?;
            u32(to, *tokens)
        }
        SequenceCommand::ReusePrefix { sequence, tokens } => {
            u8(to, 4)?;
            u64(to, sequence.0)?;
            u32(to, *tokens)
        }
    })?;
    each(to, &step.steps, |to, step| {
        u64(to, step.sequence.0)?;
        u32(to, step.tokens)
    })
}

pub(super) fn decode_step<R: Read>(b: &mut Body<R>) -> Read_<InstanceStep> {
    let count = b.count(MAX_SEQUENCES, "too many sequences")?;
    let commands = (0..count).map(|_| command(b)).collect::<Read_<_>>()?;
    let count = b.count(MAX_SEQUENCES, "too many sequences")?;
    let step = |_| {
        Ok(SequenceStep {
            sequence: SequenceId(b.u64()?),
            tokens: b.u32()?,
        })
    };
    Ok(InstanceStep {
        commands,
        steps: (0..count).map(step).collect::<Read_<_>>()?,
    })
}

fn command<R: Read>(b: &mut Body<R>) -> Read_<SequenceCommand> {
    let (code, sequence) = (b.u8()?, SequenceId(b.u64()?));
    Ok(match code {
        0 => {
            let prompt = tokens(b)?;
            let max_tokens = b.u32()?;
            let count = b.count(MAX_STOPS, "too many texts that end a sequence")?;
            let stop = (0..count).map(|_| b.text(codes::MAX_TEXT_BYTES));
            let stop: Arc<[String]> = stop.collect::<Read_<Vec<String>>>()?.into();
            let temperature = f32::from_bits(b.u32()?);
            if !temperature.is_finite() {
                return Err(b.bad("a temperature is no number"));
            }
            let sampling = Sampling {
                temperature,
                top_k: b.u32()?,
                seed: b.u64()?,
            };
            SequenceCommand::Put {
                sequence,
                spec: SequenceSpec {
                    prompt,
                    max_tokens,
                    stop,
                    sampling,
                },
                generated: tokens(b)?,
            }
        }
        1 => SequenceCommand::Remove(sequence),
        2 => SequenceCommand::Evict(sequence),
        3 => SequenceCommand::KeepPrefix {
            sequence,
            tokens: b.u32()?,
        },
        4 => SequenceCommand::ReusePrefix {
            sequence,
            tokens: b.u32()?,
        },
        _ => return Err(b.bad("there is no such command")),
    })
}

fn tokens<R: Read>(b: &mut Body<R>) -> Read_<Vec<u32>> {
    let count = b.count(MAX_TOKENS, "too many tokens")?;
    (0..count).map(|_| b.u32()).collect()
}

pub(super) fn encode_tokens<P: Pieces>(to: &mut P, tokens: &[GeneratedToken]) -> io::Result<()> {
    each(to, tokens, |to, token| {
        u64(to, token.sequence.0)?;
        u32(to, token.token)?;
        u32(to, token.probability.to_bits())?;
        let end = match token.end {
            None => 0,
            Some(SequenceEnd::StopToken) => 1,
            Some(SequenceEnd::StopText) => 2,
            Some(SequenceEnd::MaxTokens) => 3,
        };
        u8(to, end)
    })
}

pub(super) fn decode_tokens<R: Read>(b: &mut Body<R>) -> Read_<Vec<GeneratedToken>> {
    let count = b.count(MAX_SEQUENCES, "too many tokens")?;
    let token = |_| {
        Ok(GeneratedToken {
            sequence: SequenceId(b.u64()?),
            token: b.u32()?,
            probability: probability(f32::from_bits(b.u32()?)),
            end: match b.u8()? {
                0 => None,
                1 => Some(SequenceEnd::StopToken),
                2 => Some(SequenceEnd::StopText),
                3 => Some(SequenceEnd::MaxTokens),
                _ => return Err(b.bad("a sequence cannot end so")),
            },
        })
    };
    (0..count).map(token).collect()
}

/// Maps NaN, which a model with invalid outputs sends, to 0, and limits other values to 0 to 1.
fn probability(sent: f32) -> f32 {
    if sent.is_nan() { 0.0 } else { sent.clamp(0.0, 1.0) }
}
