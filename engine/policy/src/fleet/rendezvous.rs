//! Weighted rendezvous hashing.

use super::api::{EngineId, StreamKey};
use crate::queue::tie_break::{GOLDEN_GAMMA, uniform_hash};

/// How much a stream belongs to an engine of that capacity; the largest wins. Over many streams each engine wins in proportion to its
/// capacity, and a change of one capacity moves streams to or from that engine alone.
#[must_use]
pub fn score(stream: StreamKey, engine: EngineId, capacity: f64) -> f64 {
    // Two rounds, so that close keys have unrelated hashes.
    let of_engine = (uniform_hash(engine.0) * (1_u64 << 53) as f64) as u64;
    let mixed = stream.0.wrapping_mul(GOLDEN_GAMMA) ^ of_engine;
    let uniform = uniform_hash((uniform_hash(mixed) * (1_u64 << 53) as f64) as u64 ^ stream.0);
    // Never 0, of which there is no logarithm, nor 1.
    let within = uniform.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
    capacity / -within.ln()
}

/// The engine that a stream belongs to; of equal scores the smallest id. `None` where there is no engine.
#[must_use]
pub fn home(stream: StreamKey, engines: impl Iterator<Item = (EngineId, f64)>) -> Option<EngineId> {
    let scored = engines.map(|(engine, capacity)| (score(stream, engine, capacity), engine));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)));
    best.map(|(_, engine)| engine)
}
