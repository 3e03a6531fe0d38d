//! A pool beside a model of its workers: under any load, faults and openings that fail.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const TICK: Span = Span::from_millis(200);

fn spec(min: u32, max: u32) -> ScalingSpec {
    ScalingSpec {
        rule: AutoscaleRule {
            min_workers: min,
            max_workers: max,
            headroom: 1.0,
            scale_down_delay: Span::from_secs(10),
        },
        initial: min,
        worker_throughput: 10.0,
        is_foretold: true,
    }
}

fn slots(count: u32) -> Vec<SlotId> {
    (0..count).map(SlotId).collect()
}

/// A pool, with the time and what it wanted last.
struct Driven {
    pool: ScaledPool,
    now: Timestamp,
    effects: Vec<PoolEffect>,
}

impl Driven {
    fn new(min: u32, max: u32) -> Self {
        Self {
            pool: ScaledPool::new(spec(min, max), &slots(max)),
            now: Timestamp::ZERO,
            effects: Vec::new(),
        }
    }

    /// Requests of one item come at a rate for a while, with a look at the load every tick.
    fn load(&mut self, rate: u32, over: Span) -> Vec<PoolEffect> {
        for _ in 0..over.micros() / TICK.micros() {
            for _ in 0..rate / 5 {
                self.pool.on_foretold(1, self.now);
            }
            self.now = self.now + TICK;
            self.pool.scale(u32::MAX, self.now, &mut self.effects);
        }
        std::mem::take(&mut self.effects)
    }

    fn tell(&mut self, event: WorkerEvent) -> Vec<PoolEffect> {
        self.pool.on(event, self.now, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    fn opened(&mut self, slot: u32, took: Span) -> Vec<PoolEffect> {
        let slot = SlotId(slot);
        self.tell(WorkerEvent::Opened { slot, took })
    }
}

#[test]
fn a_load_opens_workers_and_their_openings_are_measured() {
    let mut driven = Driven::new(1, 3);
    assert_eq!(driven.pool.closed().collect::<Vec<_>>(), [SlotId(1), SlotId(2)]);
    let effects = driven.load(40, Span::from_secs(6));
    assert_eq!(
        effects,
        [PoolEffect::Open(SlotId(1)), PoolEffect::Open(SlotId(2))]
    );
    assert_eq!((driven.pool.size(), driven.pool.open()), (3, 1));
    assert_eq!(
        driven.opened(2, Span::from_secs(4)),
        [PoolEffect::Up(SlotId(2))],
        "it is used as soon as it is open"
    );
    assert_eq!(driven.opened(1, Span::from_secs(4)), [PoolEffect::Up(SlotId(1))]);
    let report = driven.pool.report();
    assert_eq!((report.open, report.most_open, report.opened), (3, 3, 2));
    assert_eq!(report.cold_start_ms, Some(4_000.0));
}

#[test]
fn a_worker_is_closed_only_after_its_batches() {
    let mut driven = Driven::new(1, 2);
    driven.load(20, Span::from_secs(6));
    driven.opened(1, Span::from_millis(100));
    for _ in 0..2 {
        driven.pool.on_run(SlotId(1));
    }
    assert_eq!(
        driven.load(0, Span::from_secs(20)),
        [PoolEffect::Down(SlotId(1))],
        "it is given no more batches"
    );
    driven.pool.on_run_over(SlotId(1), &mut driven.effects);
    assert!(driven.effects.is_empty(), "another batch is on it");
    driven.pool.on_run_over(SlotId(1), &mut driven.effects);
    assert_eq!(driven.effects, [PoolEffect::Close(SlotId(1))]);
    driven.effects.clear();
    assert!(driven.tell(WorkerEvent::Closed { slot: SlotId(1) }).is_empty());
    assert_eq!(driven.pool.report().closed, 1);
}

#[test]
fn a_worker_that_drains_is_kept_where_the_load_returns() {
    let mut driven = Driven::new(1, 2);
    driven.load(20, Span::from_secs(6));
    driven.opened(1, Span::from_millis(100));
    driven.pool.on_run(SlotId(1));
    driven.load(0, Span::from_secs(20));
    assert_eq!(
        driven.load(20, Span::from_secs(6)),
        [PoolEffect::Up(SlotId(1))],
        "nothing is opened"
    );
}

#[test]
fn fewer_workers_must_do_for_a_while_before_any_is_closed() {
    let mut driven = Driven::new(1, 2);
    driven.load(20, Span::from_secs(6));
    driven.opened(1, Span::from_millis(100));
    // The load halves and doubles again, each for less than the delay.
    for rate in [10, 20, 10, 20] {
        let effects = driven.load(rate, Span::from_secs(8));
        assert!(effects.is_empty(), "at {rate} a second: {effects:?}");
    }
}

#[test]
fn openings_that_fail_are_tried_again_ever_more_seldom() {
    let mut driven = Driven::new(1, 2);
    let mut attempts = Vec::new();
    for _ in 0..600 {
        for effect in driven.load(40, Span::from_secs(1)) {
            let PoolEffect::Open(slot) = effect else {
                panic!("{effect:?}")
            };
            attempts.push(driven.now.micros() / 1_000_000);
            assert!(driven.tell(WorkerEvent::OpenFailed { slot }).is_empty());
        }
    }
    let waits: Vec<u64> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted() && waits[..4] != [1, 1, 1, 1], "{waits:?}");
    assert!(waits.ends_with(&[60]) || waits.ends_with(&[61]), "{waits:?}");
    assert_eq!(driven.pool.report().failed, attempts.len() as u64);
    // Once one opens, the next is tried at once.
    driven.load(40, Span::from_secs(61));
    assert_eq!(driven.opened(1, Span::from_secs(1)), [PoolEffect::Up(SlotId(1))]);
    assert_eq!(driven.pool.retry_at, driven.now);
}

#[test]
fn another_worker_takes_the_place_of_one_that_is_lost() {
    let mut driven = Driven::new(1, 2);
    driven.pool.on_lost(SlotId(0), &mut driven.effects);
    assert_eq!(driven.effects, [PoolEffect::Down(SlotId(0))]);
    driven.effects.clear();
    assert_eq!(driven.load(5, Span::from_secs(1)), [PoolEffect::Open(SlotId(1))]);
    driven.opened(1, Span::from_millis(10));
    driven.pool.on_returned(SlotId(0), &mut driven.effects);
    assert_eq!(driven.effects, [PoolEffect::Up(SlotId(0))]);
    driven.effects.clear();
    let released = [PoolEffect::Down(SlotId(1)), PoolEffect::Close(SlotId(1))];
    assert_eq!(driven.load(5, Span::from_secs(12)), released);
}

#[test]
fn requests_count_as_the_items_that_they_brought_in_the_mean() {
    let counted = ScalingSpec {
        worker_throughput: 12.0,
        is_foretold: false,
        ..spec(1, 4)
    };
    let mut pool = ScaledPool::new(counted, &slots(4));
    let mut effects = Vec::new();
    let mut now = Timestamp::ZERO;
    for _ in 0..60 {
        now = now + Span::from_millis(100);
        pool.on_foretold(1_000, now);
        pool.on_request(now);
        // None of them gets here: they are dropped before, and count all the same.
        if pool.items.1 < 10 {
            pool.on_items(3);
        }
    }
    pool.scale(u32::MAX, now, &mut effects);
    // 10 requests of 3 items a second, for which 3 workers do.
    let opened = [PoolEffect::Open(SlotId(1)), PoolEffect::Open(SlotId(2))];
    assert_eq!(effects, opened);
}

/// Workers as a driver has them.
#[derive(Default)]
struct Site {
    up: BTreeSet<SlotId>,
    open: BTreeSet<SlotId>,
    /// By slot, the time at which its worker is open.
    opening: BTreeMap<SlotId, Timestamp>,
    closing: BTreeSet<SlotId>,
    batches: BTreeMap<SlotId, u32>,
}

impl Site {
    fn carry_out(&mut self, effect: PoolEffect, due: Timestamp) {
        match effect {
            PoolEffect::Open(slot) => {
                assert!(!self.open.contains(&slot) && !self.closing.contains(&slot));
                assert_eq!(self.opening.insert(slot, due), None, "{slot:?} is opened twice");
            }
            PoolEffect::Close(slot) => {
                assert!(self.open.remove(&slot), "{slot:?} is not open");
                assert_eq!(
                    self.batches.get(&slot).copied().unwrap_or(0),
                    0,
                    "{slot:?} is busy"
                );
                assert!(!self.up.contains(&slot));
                self.closing.insert(slot);
            }
            PoolEffect::Up(slot) => {
                assert!(self.open.contains(&slot) && self.up.insert(slot));
            }
            PoolEffect::Down(slot) => assert!(self.up.remove(&slot)),
        }
    }
}

/// Drives a pool for two minutes of random load, then without any.
fn run(seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let max = random.random_range(1..6);
    let min = random.random_range(0..=max);
    let mut pool = ScaledPool::new(spec(min, max), &slots(max));
    let mut site = Site::default();
    site.open.extend(slots(min));
    site.up.extend(slots(min));
    let mut lost: BTreeSet<SlotId> = BTreeSet::new();
    let (mut now, mut effects) = (Timestamp::ZERO, Vec::new());
    for tick in 0..1_000 {
        let loaded = tick < 600;
        now = now + TICK;
        if loaded && random.random_bool(0.8) {
            pool.on_foretold(random.random_range(0..max * 4), now);
        }
        for slot in slots(max) {
            // A worker may prepare one batch while another runs.
            let batches = site.batches.entry(slot).or_default();
            if loaded && site.up.contains(&slot) && *batches < 2 && random.random_bool(0.5) {
                *batches += 1;
                pool.on_run(slot);
            } else if *batches > 0 {
                *batches -= 1;
                pool.on_run_over(slot, &mut effects);
            }
            if site.opening.get(&slot).is_some_and(|due| *due <= now) {
                site.opening.remove(&slot);
                let took = Span::from_millis(random.random_range(0..8_000));
                let event = if loaded && random.random_bool(0.3) {
                    WorkerEvent::OpenFailed { slot }
                } else {
                    site.open.insert(slot);
                    WorkerEvent::Opened { slot, took }
                };
                pool.on(event, now, &mut effects);
            }
            if random.random_bool(0.5) && site.closing.remove(&slot) {
                pool.on(WorkerEvent::Closed { slot }, now, &mut effects);
            }
            if loaded && random.random_bool(0.02) && lost.insert(slot) {
                pool.on_lost(slot, &mut effects);
            } else if (!loaded || random.random_bool(0.1)) && lost.remove(&slot) {
                pool.on_returned(slot, &mut effects);
            }
        }
        let room = if random.random_bool(0.5) { u32::MAX } else { 1 };
        pool.scale(room, now, &mut effects);
        for effect in effects.drain(..) {
            let due = now + Span::from_millis(random.random_range(0..4_000));
            site.carry_out(effect, due);
        }
        assert!(
            pool.size() <= max,
            "seed {seed}: {} workers of {max}",
            pool.size()
        );
        assert_eq!(pool.open() as usize, site.up.len(), "seed {seed}");
    }
    let there = (pool.size(), pool.open());
    assert_eq!(there, (min, min), "seed {seed}: without load the least are there");
}

#[test]
fn workers_stay_within_their_bounds_and_are_never_closed_under_a_batch() {
    for seed in 0..300 {
        run(seed);
    }
}
