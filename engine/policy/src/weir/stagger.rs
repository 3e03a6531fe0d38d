//! Staggered batches: the workers of a pool are kept out of phase (rule `weir`).
//!
//! At the start of a burst all idle workers start a full batch at about the same time and stay synchronized:
//! their output arrives at the next module in bursts of a round of batches, and waits there. Batches that end
//! evenly spaced give an even output. So a batch that would end together with another is made smaller, to end
//! before it. One round later the workers are spread, and all batches are full again.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

/// Parameters of staggered batches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StaggerSpec {
    /// Minimum time between ends of batches, as a fraction of a full batch's duration divided by the number
    /// of workers.
    pub min_gap: f64,
    /// Divisor of the full batch size for the smallest size that a batch is reduced to, at least 1.
    pub min_size_divisor: u32,
}

impl Default for StaggerSpec {
    fn default() -> Self {
        Self {
            min_gap: 0.8,
            min_size_divisor: 10,
        }
    }
}

/// Maximum size, up to `full` items, of a batch that starts at `start` on an idle worker and keeps the gap to
/// all running batches; `full` if no size does. `ends`: expected ends of running batches; `workers`: workers
/// that are up.
pub(crate) fn staggered_batch_limit(
    spec: StaggerSpec,
    full: u32,
    start: Timestamp,
    workers: usize,
    ends: &(impl Iterator<Item = Timestamp> + Clone),
    expected: impl Fn(u32) -> Span,
) -> u32 {
    let gap = expected(full).scale(spec.min_gap / workers.max(1) as f64);
    let end_of = |size: u32| start + expected(size);
    let conflict = |end: Timestamp| {
        let mut others = ends.clone();
        others.find(|other| other.micros().abs_diff(end.micros()) < gap.micros())
    };
    let mut size = full;
    while let Some(other) = conflict(end_of(size)) {
        let mut smaller = (full / spec.min_size_divisor.max(1) + 1..size).rev();
        let Some(before) = smaller.find(|&size| end_of(size) + gap <= other) else {
            return full;
        };
        size = before;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{Module, ModuleEffect, ModuleEvent, ModuleSpec, Pool};
    use crate::strategy::Policy;
    use crate::weir::joint_batching::ModuleInfo;
    use weir_types::Profile;
    use weir_types::Span;
    use weir_types::Topology;
    use weir_types::{ModuleId, RequestId, SlotId, StreamId};

    const FULL: u32 = 32;

    fn module(workers: u32) -> Module {
        let points = [1, FULL].map(|size| (size, Span::from_millis(5 + 4 * u64::from(size))));
        let profile = Profile::new(points.to_vec()).unwrap();
        let batch = vec![1, 2, 4, 8, 16, FULL];
        Module::new(ModuleSpec {
            ends: Vec::new(),
            generate: None,
            id: ModuleId(0),
            slo: Span::from_secs(10),
            policy: Policy {
                drop: serde_json::from_value(serde_json::json!("weir")).unwrap(),
                ..Policy::default()
            },
            slots: (0..workers).map(SlotId).collect(),
            pool: Pool::Own,
            batch: batch.clone(),
            profile: profile.clone(),
            topology: Topology::new(vec![vec![]]),
            peers: vec![ModuleInfo {
                profile,
                batch,
                workers,
                fallback: crate::gears::Fallback::Never,
            }],
            share: 1.0,
            shares: Vec::new(),
            seed: 1,
            overlap: None,
        })
    }

    /// `(start, end, items)` of all batches when `requests` arrive at once.
    fn batches(workers: u32, requests: u64) -> Vec<(Timestamp, Timestamp, u32)> {
        let mut module = module(workers);
        let arrived = |request| ModuleEvent::Arrived {
            request: RequestId(request),
            stream: StreamId(0),
            sent_at: Timestamp::ZERO,
            items: 1,
            droppable: true,
            slo: None,
        };
        let mut now = Timestamp::ZERO;
        let mut events: Vec<ModuleEvent> = (0..requests).map(arrived).collect();
        let (mut ran, mut in_flight) = (Vec::new(), Vec::new());
        loop {
            let mut effects = Vec::new();
            module.step(events.drain(..), now, &mut effects);
            for effect in effects {
                if let ModuleEffect::Run {
                    batch,
                    slices,
                    expected,
                    ..
                } = effect
                {
                    ran.push((now, now + expected, slices.len() as u32));
                    in_flight.push((now + expected, batch, expected));
                }
            }
            in_flight.sort_unstable_by_key(|run| std::cmp::Reverse(run.0));
            let Some((end, batch, took)) = in_flight.pop() else {
                return ran;
            };
            now = end;
            events.push(ModuleEvent::Finished { batch, took });
        }
    }

    #[test]
    fn batches_end_apart_and_are_full_after_the_first_round() {
        for workers in 2..=6 {
            let requests = 20 * u64::from(workers * FULL);
            let ran = batches(workers, requests);
            let items: u32 = ran.iter().map(|batch| batch.2).sum();
            assert_eq!(u64::from(items), requests, "each once");
            let gap = Span::from_millis(133).scale(StaggerSpec::default().min_gap / f64::from(workers));
            let queued = &ran[..ran.len() - 2 * workers as usize];
            for (at, &(start, end, items)) in queued.iter().enumerate() {
                let concurrent = queued[..at].iter().filter(|other| other.1 > start);
                for other in concurrent {
                    let distance = other.1.micros().abs_diff(end.micros());
                    assert!(distance >= gap.micros(), "{workers} workers: {distance} us apart");
                }
                assert!(at < workers as usize || items == FULL, "batch {at} of {items}");
            }
        }
    }

    #[test]
    fn single_requests_are_not_delayed() {
        let ran = batches(4, 3);
        assert_eq!(ran.iter().map(|batch| batch.2).sum::<u32>(), 3);
        assert!(ran.iter().all(|batch| batch.0 == Timestamp::ZERO));
    }
}
