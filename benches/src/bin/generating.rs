//! Benchmark of batching in a generative model, on one core: tokens per second of 1 to 16 concurrent
//! sequences by their number of past tokens, beside a bare loop over the same runs; and texts of mixed
//! lengths that join as places become free, beside whole batches.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use weir_flow::{
    DeviceKind, GenerativeModel, GenerativeSession, Sampling, SequenceSpec, SequenceStep, Settings, Value,
};
use weir_operators::{BareDecoder, LoadRequest, ModelFile};
use weir_policy::generate::{Instance, InstanceEffect, InstanceEvent, InstanceSpec, Step};
use weir_types::{SequenceId, Span, StepCurve, StepProfile, Timestamp};

/// Rounds of each measurement; the median counts.
const ROUNDS: usize = 5;
/// Tokens that each sequence generates where past is measured.
const STEPS: usize = 16;
/// Places of an instance.
const PLACES: u32 = 16;

fn main() -> anyhow::Result<()> {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    let Some(assets) = assets else {
        println!("skipped: WEIR_ASSETS is not set");
        return Ok(());
    };
    let bytes: Arc<[u8]> = std::fs::read(assets.join("models/stories260k_decoder.onnx"))?.into();
    let vocabulary = assets.join("models/tok512.bin").display().to_string();
    let settings = Settings([("vocabulary".to_owned(), Value::Text(vocabulary))].into());
    let model = weir_operators::load(&LoadRequest {
        name: "stories260k",
        file: ModelFile::Bytes(Arc::clone(&bytes)),
        head: "generate",
        settings: &settings,
        max_batch: 1,
        dump: None,
    })?;
    let model = model.generative().context("it generates")?;
    // Both keep their session, as an engine does: the runtime plans memory once for each shape of inputs.
    let mut bare = BareDecoder::open(&bytes, &settings).map_err(anyhow::Error::msg)?;
    let mut session = model.open(DeviceKind::Cpu)?;
    println!("past  at a time  tokens/s  of one at a time  of the bare loop");
    for past in [1, 16, 64, 100, 256] {
        let mut one = 0.0;
        for batch in [1, 4, 16] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                // In turn: what else the machine does meets both.
                ours.push(session_rate(session.as_mut(), batch, past)?);
                theirs.push(bare_rate(&mut bare, batch, past)?);
            }
            let (ours, theirs) = (median(ours), median(theirs));
            if batch == 1 {
                one = ours;
            }
            println!(
                "{past:4}  {batch:9}  {ours:8.0}  {:16.2}  {:16.2}",
                ours / one,
                ours / theirs
            );
        }
    }
    let (mut continuous, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        continuous.push(continuous_rate(model.as_ref())?);
        whole.push(whole_batch_rate(model.as_ref())?);
    }
    let (continuous, whole) = (median(continuous), median(whole));
    println!(
        "texts of 4 to 100 tokens, {PLACES} places: {continuous:.0} tokens/s as places are free, {whole:.0} in whole batches: {:.2}",
        continuous / whole
    );
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn spec(prompt: usize) -> SequenceSpec {
    SequenceSpec {
        prompt: (0..prompt).map(|place| 3 + (place % 500) as u32).collect(),
        max_tokens: u32::MAX,
        stop: Arc::new([]),
        sampling: Sampling::default(),
    }
}

fn steps(count: usize, tokens: u32) -> Vec<SequenceStep> {
    let ids = (0..count as u64).map(SequenceId);
    ids.map(|sequence| SequenceStep { sequence, tokens }).collect()
}

/// Tokens per second with `batch` sequences of `past` tokens.
fn session_rate(session: &mut dyn GenerativeSession, batch: usize, past: usize) -> anyhow::Result<f64> {
    for id in 0..batch as u64 {
        session.begin(SequenceId(id), spec(past))?;
    }
    session.step(&steps(batch, past as u32))?;
    session.step(&steps(batch, 1))?;
    let began = Instant::now();
    for _ in 0..STEPS {
        session.step(&steps(batch, 1))?;
    }
    let rate = (batch * STEPS) as f64 / began.elapsed().as_secs_f64();
    for id in 0..batch as u64 {
        session.take(SequenceId(id), false);
    }
    Ok(rate)
}

fn bare_rate(bare: &mut BareDecoder, batch: usize, past: usize) -> anyhow::Result<f64> {
    bare.begin(batch, past).map_err(anyhow::Error::msg)?;
    bare.step().map_err(anyhow::Error::msg)?;
    let began = Instant::now();
    for _ in 0..STEPS {
        bare.step().map_err(anyhow::Error::msg)?;
    }
    Ok((batch * STEPS) as f64 / began.elapsed().as_secs_f64())
}

/// Lengths of 96 texts, from 4 to 100 tokens.
fn lengths() -> Vec<u32> {
    let mut state = 7_u64;
    let mut length = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        4 + (state >> 33) as u32 % 97
    };
    (0..96).map(|_| length()).collect()
}

/// Texts join as places are free, as an instance decides.
fn continuous_rate(model: &dyn GenerativeModel) -> anyhow::Result<f64> {
    let mut session = model.open(DeviceKind::Cpu)?;
    let curve = StepCurve::from_points(&[(1, Span::from_millis(1)), (256, Span::from_millis(4))])?;
    let mut instance = Instance::new(InstanceSpec {
        steps: StepProfile {
            decode: curve.clone(),
            prompt: curve,
        },
        max_step_tokens: 256,
        max_sequences: PLACES,
        max_sequence_tokens: 512,
        blocks: 1024,
        block_tokens: 16,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: 0,
    })?;
    let lengths = lengths();
    let mut left: BTreeMap<SequenceId, u32> = BTreeMap::new();
    let mut events = Vec::new();
    for (id, length) in (0..).map(SequenceId).zip(&lengths) {
        session.begin(id, spec(8))?;
        left.insert(id, *length);
        events.push(InstanceEvent::Arrived {
            sequence: id,
            prompt: 8,
            generated: 0,
            cached: 0,
            due: Timestamp::ZERO,
            prefix: None,
        });
    }
    let began = Instant::now();
    let now = || Timestamp::from_micros(began.elapsed().as_micros() as u64);
    loop {
        let mut effects = Vec::new();
        instance.step(events.drain(..), now(), &mut effects);
        let step = effects.into_iter().find_map(|effect| match effect {
            InstanceEffect::Step(step) => Some(step),
            _ => None,
        });
        let Some(step) = step else { break };
        let before = now();
        let finished = run(session.as_mut(), &step, &mut left)?;
        let took = now().since(before);
        events.push(InstanceEvent::Stepped { took, finished });
    }
    anyhow::ensure!(left.is_empty(), "all texts end");
    let tokens: u32 = lengths.iter().sum();
    Ok(f64::from(tokens) / began.elapsed().as_secs_f64())
}

/// Runs a step; gives those that have all their tokens.
fn run(
    session: &mut dyn GenerativeSession,
    step: &Step,
    left: &mut BTreeMap<SequenceId, u32>,
) -> anyhow::Result<Vec<SequenceId>> {
    let parts = step.parts.iter().map(|part| SequenceStep {
        sequence: part.sequence,
        tokens: part.tokens,
    });
    let parts: Vec<SequenceStep> = parts.collect();
    let mut finished = Vec::new();
    for token in session.step(&parts)? {
        let tokens = left.get_mut(&token.sequence).context("it is open")?;
        *tokens -= 1;
        if *tokens == 0 {
            left.remove(&token.sequence);
            session.take(token.sequence, false);
            finished.push(token.sequence);
        }
    }
    Ok(finished)
}

/// A batch begins when the one before has ended as a whole.
fn whole_batch_rate(model: &dyn GenerativeModel) -> anyhow::Result<f64> {
    let mut session = model.open(DeviceKind::Cpu)?;
    let lengths = lengths();
    let began = Instant::now();
    for batch in lengths.chunks(PLACES as usize) {
        for id in 0..batch.len() as u64 {
            session.begin(SequenceId(id), spec(8))?;
        }
        session.step(&steps(batch.len(), 8))?;
        // Those that have ended stay in the batch, as its rows do.
        for _ in 1..batch.iter().copied().max().unwrap_or(1) {
            session.step(&steps(batch.len(), 1))?;
        }
        for id in 0..batch.len() as u64 {
            session.take(SequenceId(id), false);
        }
    }
    let tokens: u32 = lengths.iter().sum();
    Ok(f64::from(tokens) / began.elapsed().as_secs_f64())
}
