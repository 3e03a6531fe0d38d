//! Encodes a message as a frame: small values are gathered, blocks are written without a copy.

use std::io::{self, Write};

use weir_flow::Tensor;

use super::codes::{self, kind};
use super::generate;
use super::message::{
    Address, BatchFailure, BatchKey, Hop, LoadPartition, Message, Resource, StageInput, StageTimes, Usage,
};
use super::pieces::{Pieces, block, each, text, u8, u32, u64};

/// Counts the bytes of a body, so that its length can be sent first.
#[derive(Default)]
pub(super) struct Length(pub(super) u64);

impl Pieces for Length {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }
}

/// Writes a body to a stream.
pub(super) struct Written<W>(pub(super) W);

impl<W: Write> Pieces for Written<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

pub(super) const fn kind_of(message: &Message) -> u8 {
    match message {
        Message::Hello { .. } => kind::HELLO,
        Message::Peer => kind::PEER,
        Message::Welcome(_) => kind::WELCOME,
        Message::Refused { .. } => kind::REFUSED,
        Message::LoadPartition(_) => kind::LOAD,
        Message::Loaded { .. } => kind::LOADED,
        Message::NotLoaded { .. } => kind::NOT_LOADED,
        Message::Unload { .. } => kind::UNLOAD,
        Message::Activate { .. } => kind::ACTIVATE,
        Message::Activated { .. } => kind::ACTIVATED,
        Message::Run(_) => kind::RUN,
        Message::Feature(_) => kind::FEATURE,
        Message::Used { .. } => kind::USED,
        Message::Done { .. } => kind::DONE,
        Message::Failed { .. } => kind::FAILED,
        Message::Ping { .. } => kind::PING,
        Message::Pong { .. } => kind::PONG,
        Message::Generate => kind::GENERATE,
        Message::LoadGenerator { .. } => kind::LOAD_GENERATOR,
        Message::GeneratorLoaded { .. } => kind::GENERATOR_LOADED,
        Message::Step(_) => kind::STEP,
        Message::Stepped { .. } => kind::STEPPED,
        Message::StepFailed { .. } => kind::STEP_FAILED,
    }
}

pub(super) fn body<P: Pieces>(to: &mut P, message: &Message) -> io::Result<()> {
    match message {
        Message::Peer | Message::Generate => Ok(()),
        Message::Hello { engine } => u64(to, *engine),
        Message::Welcome(welcome) => {
            text(to, &welcome.class, codes::MAX_NAME_BYTES)?;
            u32(to, welcome.shares)?;
            u8(to, welcome.emulated.into())?;
            u32(to, welcome.max_message_bytes)?;
            each(to, &welcome.held, |to, partition| u32(to, partition.0))
        }
        Message::Refused { reason } => text(to, reason, codes::MAX_TEXT_BYTES),
        Message::LoadPartition(of) => load(to, of),
        Message::Loaded { partition, took } => {
            u32(to, partition.0)?;
            u64(to, took.micros())
        }
        Message::NotLoaded { partition, reason } => {
            u32(to, partition.0)?;
            text(to, reason, codes::MAX_TEXT_BYTES)
        }
        Message::Unload { partition } => u32(to, partition.0),
        Message::Activate { plan } | Message::Activated { plan } => u64(to, *plan),
        Message::Run(of) | Message::Feature(of) => input(to, of),
        Message::Used {
            key: of,
            stage,
            what,
            usage: at,
        } => {
            key(to, *of)?;
            u32(to, *stage)?;
            u8(to, u8::from(*what == Resource::Run))?;
            usage(to, *at)
        }
        Message::Done {
            key: of,
            times,
            outputs,
        } => {
            key(to, *of)?;
            each(to, times, stage_times)?;
            each(to, outputs, tensor)
        }
        Message::Failed {
            key: of,
            stage,
            failure: why,
        } => {
            key(to, *of)?;
            u32(to, *stage)?;
            failure(to, why)
        }
        Message::Ping { sent, offset } => {
            u64(to, sent.micros())?;
            u8(to, offset.is_some().into())?;
            offset.map_or(Ok(()), |offset| u64(to, offset.cast_unsigned()))
        }
        Message::Pong { sent, at } => {
            u64(to, sent.micros())?;
            u64(to, at.micros())
        }
        Message::LoadGenerator { model } => block(to, model),
        Message::GeneratorLoaded {
            vocabulary,
            max_sequence_tokens,
        } => {
            u32(to, *vocabulary)?;
            u32(to, *max_sequence_tokens)
        }
        Message::Step(step) => generate::encode_step(to, step),
        Message::Stepped { took, tokens } => {
            u64(to, took.micros())?;
            generate::encode_tokens(to, tokens)
        }
        Message::StepFailed { reason } => text(to, reason, codes::MAX_TEXT_BYTES),
    }
}

fn key<P: Pieces>(to: &mut P, key: BatchKey) -> io::Result<()> {
    u32(to, key.graph)?;
    u32(to, key.module.0)?;
    u64(to, key.batch.0)
}

fn usage<P: Pieces>(to: &mut P, usage: Usage) -> io::Result<()> {
    u64(to, usage.from.micros())?;
    u64(to, usage.to.micros())
}

fn stage_times<P: Pieces>(to: &mut P, times: &StageTimes) -> io::Result<()> {
    usage(to, times.transfer)?;
    usage(to, times.run)
}

fn load<P: Pieces>(to: &mut P, load: &LoadPartition) -> io::Result<()> {
    u32(to, load.partition.0)?;
    u64(to, load.plan)?;
    each(to, &load.shares, |to, share| u32(to, *share))?;
    u8(to, load.half.into())?;
    u32(to, load.batch)?;
    each(to, &load.declared, |to, (size, span)| {
        u32(to, *size)?;
        u64(to, span.micros())
    })?;
    block(to, &load.model)
}

fn hop<P: Pieces>(to: &mut P, hop: &Hop) -> io::Result<()> {
    match hop.address {
        Address::Tcp(address) => {
            u8(to, 0)?;
            text(to, &address.to_string(), codes::MAX_NAME_BYTES)?;
        }
        Address::Local(number) => {
            u8(to, 1)?;
            u32(to, number)?;
        }
        Address::Node(name) => {
            u8(to, 2)?;
            text(to, name.as_str(), codes::MAX_NAME_BYTES)?;
        }
    }
    u32(to, hop.share)?;
    u32(to, hop.partition.0)?;
    u64(to, hop.booked.micros())?;
    u64(to, hop.sent.micros())
}

fn input<P: Pieces>(to: &mut P, input: &StageInput) -> io::Result<()> {
    u64(to, input.engine)?;
    key(to, input.key)?;
    u32(to, input.items)?;
    u32(to, input.stage)?;
    u32(to, input.share)?;
    u32(to, input.partition.0)?;
    u64(to, input.booked.micros())?;
    each(to, &input.rest, hop)?;
    each(to, &input.times, stage_times)?;
    u64(to, input.began.micros())?;
    each(to, &input.tensors, tensor)
}

fn failure<P: Pieces>(to: &mut P, failure: &BatchFailure) -> io::Result<()> {
    let (code, reason) = match failure {
        BatchFailure::Session(reason) => (0, Some(reason)),
        BatchFailure::Panicked(reason) => (1, Some(reason)),
        BatchFailure::NotHeld => (2, None),
        BatchFailure::QueueFull => (3, None),
        BatchFailure::Unreachable(reason) => (4, Some(reason)),
        BatchFailure::WorkerDown(reason) => (5, Some(reason)),
        BatchFailure::Lost => (6, None),
    };
    u8(to, code)?;
    reason.map_or(Ok(()), |reason| text(to, reason, codes::MAX_TEXT_BYTES))
}

fn tensor<P: Pieces>(to: &mut P, tensor: &Tensor) -> io::Result<()> {
    text(to, &tensor.name, codes::MAX_NAME_BYTES)?;
    let code = codes::ELEMENTS
        .iter()
        .find(|(element, _)| *element == tensor.element);
    let (_, code) = code.ok_or(io::ErrorKind::InvalidInput)?;
    u8(to, *code)?;
    each(to, &tensor.shape, |to, &n| u64(to, n as u64))?;
    block(to, &tensor.data)
}
