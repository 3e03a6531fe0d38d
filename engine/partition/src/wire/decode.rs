//! Decodes the body of a frame to a message.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_flow::{Element, Tensor};
use weir_types::{BatchId, ModuleId, Span, Timestamp};

use super::body::Body;
use super::codes::{self, kind};
use super::error::WireError;
use super::generate;
use super::message::{
    Address, BatchFailure, BatchKey, Hop, LoadPartition, Message, PartitionId, Resource, StageInput,
    StageTimes, Usage, Welcome,
};
use crate::node::NodeName;

type Read_<T> = Result<T, WireError>;

pub(super) fn message<R: Read>(kind: u8, mut body: Body<R>) -> Read_<Message> {
    let b = &mut body;
    let message = match kind {
        kind::HELLO => Message::Hello { engine: b.u64()? },
        kind::PEER => Message::Peer,
        kind::WELCOME => Message::Welcome(welcome(b)?),
        kind::REFUSED => Message::Refused { reason: reason(b)? },
        kind::LOAD => Message::LoadPartition(load(b)?),
        kind::LOADED => Message::Loaded {
            partition: PartitionId(b.u32()?),
            took: Span::from_micros(b.u64()?),
        },
        kind::NOT_LOADED => Message::NotLoaded {
            partition: PartitionId(b.u32()?),
            reason: reason(b)?,
        },
        kind::UNLOAD => Message::Unload {
            partition: PartitionId(b.u32()?),
        },
        kind::ACTIVATE => Message::Activate { plan: b.u64()? },
        kind::ACTIVATED => Message::Activated { plan: b.u64()? },
        kind::RUN => Message::Run(input(b)?),
        kind::FEATURE => Message::Feature(input(b)?),
        kind::USED => used(b)?,
        kind::DONE => Message::Done {
            key: key(b)?,
            times: times(b)?,
            outputs: tensors(b)?,
        },
        kind::FAILED => Message::Failed {
            key: key(b)?,
            stage: b.u32()?,
            failure: failure(b)?,
        },
        kind::PING => Message::Ping {
            sent: moment(b)?,
            offset: if b.flag()? {
                Some(b.u64()?.cast_signed())
            } else {
                None
            },
        },
        kind::PONG => Message::Pong {
            sent: moment(b)?,
            at: moment(b)?,
        },
        kind::GENERATE => Message::Generate,
        kind::LOAD_GENERATOR => Message::LoadGenerator {
            model: Arc::new(b.block()?),
        },
        kind::GENERATOR_LOADED => Message::GeneratorLoaded {
            vocabulary: b.u32()?,
            max_sequence_tokens: b.u32()?,
        },
        kind::STEP => Message::Step(generate::decode_step(b)?),
        kind::STEPPED => Message::Stepped {
            took: Span::from_micros(b.u64()?),
            tokens: generate::decode_tokens(b)?,
        },
        kind::STEP_FAILED => Message::StepFailed { reason: reason(b)? },
        _ => return Err(b.bad("there is no such kind")),
    };
    body.finish()?;
    Ok(message)
}

fn reason<R: Read>(b: &mut Body<R>) -> Read_<String> {
    b.text(codes::MAX_TEXT_BYTES)
}

fn moment<R: Read>(b: &mut Body<R>) -> Read_<Timestamp> {
    Ok(Timestamp::from_micros(b.u64()?))
}

fn usage<R: Read>(b: &mut Body<R>) -> Read_<Usage> {
    Ok(Usage {
        from: moment(b)?,
        to: moment(b)?,
    })
}

fn key<R: Read>(b: &mut Body<R>) -> Read_<BatchKey> {
    Ok(BatchKey {
        graph: b.u32()?,
        module: ModuleId(b.u32()?),
        batch: BatchId(b.u64()?),
    })
}

fn welcome<R: Read>(b: &mut Body<R>) -> Read_<Welcome> {
    let class = b.text(codes::MAX_NAME_BYTES)?;
    let (shares, emulated, max_message_bytes) = (b.u32()?, b.flag()?, b.u32()?);
    let count = b.count(codes::MAX_PARTITIONS, "too many partitions")?;
    let held = (0..count).map(|_| b.u32().map(PartitionId));
    Ok(Welcome {
        class,
        shares,
        emulated,
        max_message_bytes,
        held: held.collect::<Read_<_>>()?,
    })
}

fn load<R: Read>(b: &mut Body<R>) -> Read_<LoadPartition> {
    let (partition, plan) = (PartitionId(b.u32()?), b.u64()?);
    let count = b.count(codes::MAX_SHARES, "too many shares")?;
    let shares = (0..count).map(|_| b.u32()).collect::<Read_<_>>()?;
    let (half, batch) = (b.flag()?, b.u32()?);
    let count = b.count(codes::MAX_SHARES, "too many declared durations")?;
    let point = |_| Ok((b.u32()?, Span::from_micros(b.u64()?)));
    let declared = (0..count).map(point).collect::<Read_<_>>()?;
    Ok(LoadPartition {
        partition,
        plan,
        shares,
        half,
        batch,
        declared,
        model: Arc::new(b.block()?),
    })
}

fn used<R: Read>(b: &mut Body<R>) -> Read_<Message> {
    Ok(Message::Used {
        key: key(b)?,
        stage: b.u32()?,
        what: match b.u8()? {
            0 => Resource::Transfer,
            1 => Resource::Run,
            _ => return Err(b.bad("there is no such resource")),
        },
        usage: usage(b)?,
    })
}

fn failure<R: Read>(b: &mut Body<R>) -> Read_<BatchFailure> {
    Ok(match b.u8()? {
        0 => BatchFailure::Session(reason(b)?),
        1 => BatchFailure::Panicked(reason(b)?),
        2 => BatchFailure::NotHeld,
        3 => BatchFailure::QueueFull,
        4 => BatchFailure::Unreachable(reason(b)?),
        5 => BatchFailure::WorkerDown(reason(b)?),
        6 => BatchFailure::Lost,
        _ => return Err(b.bad("there is no such failure")),
    })
}

fn times<R: Read>(b: &mut Body<R>) -> Read_<Vec<StageTimes>> {
    let count = b.count(codes::MAX_STAGES, "too many stages")?;
    let stage = |_| {
        Ok(StageTimes {
            transfer: usage(b)?,
            run: usage(b)?,
        })
    };
    (0..count).map(stage).collect()
}

fn hop<R: Read>(b: &mut Body<R>) -> Read_<Hop> {
    let address = match b.u8()? {
        0 => {
            let address = b.text(codes::MAX_NAME_BYTES)?;
            let address: Result<SocketAddr, _> = address.parse();
            Address::Tcp(address.map_err(|_| b.bad("an address is none"))?)
        }
        1 => Address::Local(b.u32()?),
        2 => {
            let name = b.text(codes::MAX_NAME_BYTES)?;
            Address::Node(NodeName::new(&name).ok_or_else(|| b.bad("a node has no such name"))?)
        }
        _ => return Err(b.bad("there is no such kind of address")),
    };
    Ok(Hop {
        address,
        share: b.u32()?,
        partition: PartitionId(b.u32()?),
        booked: moment(b)?,
        sent: moment(b)?,
    })
}

fn input<R: Read>(b: &mut Body<R>) -> Read_<StageInput> {
    let (engine, key) = (b.u64()?, key(b)?);
    let (items, stage, share, partition) = (b.u32()?, b.u32()?, b.u32()?, PartitionId(b.u32()?));
    let booked = moment(b)?;
    let count = b.count(codes::MAX_STAGES, "too many stages")?;
    let rest = (0..count).map(|_| hop(b)).collect::<Read_<_>>()?;
    let times = times(b)?;
    if times.len() != stage as usize {
        return Err(b.bad("the stages before are not those that were timed"));
    }
    Ok(StageInput {
        engine,
        key,
        items,
        stage,
        share,
        partition,
        booked,
        rest,
        times,
        began: moment(b)?,
        tensors: tensors(b)?,
    })
}

fn tensors<R: Read>(b: &mut Body<R>) -> Read_<Vec<Tensor>> {
    let count = b.count(codes::MAX_TENSORS, "too many tensors")?;
    (0..count).map(|_| tensor(b)).collect()
}

fn tensor<R: Read>(b: &mut Body<R>) -> Read_<Tensor> {
    let name = b.text(codes::MAX_NAME_BYTES)?.into();
    let code = b.u8()?;
    let element = codes::ELEMENTS.iter().find(|(_, as_code)| *as_code == code);
    let element: Element = element.ok_or_else(|| b.bad("there is no such element"))?.0;
    let count = b.count(codes::MAX_DIMENSIONS, "too many dimensions")?;
    let dimension = |_| usize::try_from(b.u64()?).map_err(|_| b.bad("a dimension is too large"));
    let shape = (0..count).map(dimension).collect::<Read_<Vec<usize>>>()?;
    let data = b.block()?;
    let bytes = shape
        .iter()
        .try_fold(element.bytes(), |all, &n| all.checked_mul(n));
    if bytes != Some(data.len()) {
        return Err(b.bad("a tensor's data is not what its shape says"));
    }
    Ok(Tensor {
        name,
        element,
        shape,
        data,
    })
}
