//! Weighted rendezvous hashing.

use super::api::{EngineId, StreamKey};
use crate::queue::tie_break::{GOLDEN_GAMMA, uniform_hash};

/// Rendezvous score of a stream on an engine of that capacity; the engine with the largest score wins. Over
/// many streams each engine wins in proportion to its capacity, and a change of one capacity moves streams
/// only to or from that engine.
#[must_use]
pub fn score(stream: StreamKey, engine: EngineId, capacity: f64) -> f64 {
    // Two rounds, so that close keys have unrelated hashes.
    let of_engine = (uniform_hash(engine.0) * (1_u64 << 53) as f64) as u64;
    let mixed = stream.0.wrapping_mul(GOLDEN_GAMMA) ^ of_engine;
    let uniform = uniform_hash((uniform_hash(mixed) * (1_u64 << 53) as f64) as u64 ^ stream.0);
    // Neither 0, which has no logarithm, nor 1.
    let within = uniform.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
    capacity / -within.ln()
}

/// Engine with the largest score; among equals the one with the smallest id. `None` if there is no engine.
#[must_use]
pub fn home(stream: StreamKey, engines: impl Iterator<Item = (EngineId, f64)>) -> Option<EngineId> {
    let scored = engines.map(|(engine, capacity)| (score(stream, engine, capacity), engine));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)));
    best.map(|(_, engine)| engine)
}
