//! Requests that are cancelled because a sibling branch was dropped: after the cancellation they neither run nor are
//! forwarded or dropped here, for any order of arrivals, cancellations, batches and lost workers, with own pools and either
//! kind of mailbox.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_policy::*;
use weir_types::*;

#[derive(Debug, Clone)]
enum Input {
    /// A request with so many items, sent so many milliseconds ago, arrives.
    Arrives(u32, u64),
    /// A request in the module is cancelled.
    Cancelled(prop::sample::Index),
    /// A running batch ends, or fails.
    BatchEnds(prop::sample::Index, bool),
    /// A worker goes down with its batch, or up.
    Worker(u32, bool),
    Advance(u64),
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        5 => (0_u32..6, 0_u64..200).prop_map(|(items, ago)| Input::Arrives(items, ago)),
        3 => any::<prop::sample::Index>().prop_map(Input::Cancelled),
        4 => (any::<prop::sample::Index>(), prop::bool::weighted(0.1))
            .prop_map(|(index, failed)| Input::BatchEnds(index, failed)),
        1 => (0_u32..WORKERS, any::<bool>()).prop_map(|(worker, up)| Input::Worker(worker, up)),
        3 => (1_u64..60).prop_map(Input::Advance),
    ]
}

const WORKERS: u32 = 3;

fn module(policy: Policy) -> Module {
    let ms = Span::from_millis;
    let profile = Profile::new(vec![(1, ms(10)), (4, ms(22))]).unwrap();
    let peer = ModuleInfo {
        profile: profile.clone(),
        batch: vec![1, 2, 4],
        workers: WORKERS,
        fallback: weir_policy::gears::Fallback::Never,
    };
    Module::new(ModuleSpec {
        ends: Vec::new(),
        generate: None,
        id: ModuleId(1),
        slo: ms(300),
        policy,
        slots: (0..WORKERS).map(SlotId).collect(),
        pool: Pool::Own,
        batch: vec![1, 2, 4],
        profile,
        topology: Topology::new(vec![
            vec![ModuleId(1), ModuleId(2)],
            vec![ModuleId(3)],
            vec![ModuleId(3)],
            vec![],
        ]),
        peers: vec![peer; 4],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        overlap: None,
    })
}

/// Drives the module and checks its effects.
struct Harness {
    module: Module,
    now: Timestamp,
    sent: u64,
    /// Requests in the module, with the items that have not run.
    pending: BTreeMap<RequestId, u32>,
    ended: BTreeSet<RequestId>,
    running: BTreeMap<SlotId, BatchId>,
    down: BTreeSet<SlotId>,
}

impl Harness {
    fn send(&mut self, event: ModuleEvent) {
        let mut effects = Vec::new();
        self.module.step([event], self.now, &mut effects);
        for effect in effects {
            match effect {
                ModuleEffect::Run {
                    slot, batch, slices, ..
                } => {
                    assert!(!self.down.contains(&slot), "a batch on a lost worker");
                    let before = self.running.insert(slot, batch);
                    assert_eq!(before, None, "two batches on {slot:?}");
                    for slice in slices {
                        let request = slice.request;
                        assert!(!self.ended.contains(&request), "{request:?} runs after it ended");
                        let left = self.pending.get_mut(&request).unwrap();
                        *left = left.checked_sub(slice.count).unwrap();
                    }
                }
                ModuleEffect::Forward { request } => {
                    assert_eq!(self.pending.remove(&request), Some(0), "{request:?} goes on");
                    self.ended.insert(request);
                }
                ModuleEffect::Drop { request, .. } => {
                    assert!(self.pending.remove(&request).is_some(), "{request:?} is dropped");
                    self.ended.insert(request);
                }
                ModuleEffect::Bid(_) | ModuleEffect::Decline { .. } => {
                    panic!("an own pool needs no arbiter")
                }
                _ => (),
            }
        }
    }

    fn apply(&mut self, what: &Input) {
        match *what {
            Input::Arrives(items, ago) => {
                let request = RequestId(self.sent);
                self.sent += 1;
                self.pending.insert(request, items);
                let sent_at = Timestamp::from_micros(self.now.micros().saturating_sub(ago * 1_000));
                self.send(ModuleEvent::Arrived {
                    request,
                    stream: StreamId(0),
                    sent_at,
                    items,
                    droppable: true,
                    slo: None,
                });
            }
            Input::Cancelled(ref index) => {
                if let Some(&request) = nth(index, self.pending.keys()) {
                    self.pending.remove(&request);
                    self.ended.insert(request);
                    self.send(ModuleEvent::Cancelled { request });
                }
            }
            Input::BatchEnds(ref index, failed) => {
                if let Some(&slot) = nth(index, self.running.keys()) {
                    self.end_batch(slot, failed);
                }
            }
            Input::Worker(worker, up) => {
                let slot = SlotId(worker);
                if up && self.down.remove(&slot) {
                    self.send(ModuleEvent::SlotUp { slot });
                } else if !up && self.down.insert(slot) {
                    self.send(ModuleEvent::SlotDown { slot });
                    self.end_batch(slot, true);
                }
            }
            Input::Advance(ms) => {
                self.now = self.now + Span::from_millis(ms);
                self.send(ModuleEvent::Tick);
            }
        }
    }

    fn end_batch(&mut self, slot: SlotId, failed: bool) {
        let Some(batch) = self.running.remove(&slot) else {
            return;
        };
        let took = Span::from_millis(10);
        self.send(if failed {
            ModuleEvent::Failed { batch, took }
        } else {
            ModuleEvent::Finished { batch, took }
        });
    }
}

fn nth<'a, T>(index: &prop::sample::Index, mut of: impl ExactSizeIterator<Item = &'a T>) -> Option<&'a T> {
    (of.len() > 0).then(|| of.nth(index.index(of.len())))?
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cancelled_requests_never_run_and_never_go_on(inputs in prop::collection::vec(input(), 1..150)) {
        for rule in ["none", "pard", "weir", "nexus", "oc"] {
            for mailbox in [Mailboxes::Pool, Mailboxes::Worker] {
                for forming in [BatchBinding::Early, BatchBinding::Late] {
                    let policy = Policy {
                        drop: serde_json::from_value(serde_json::json!(rule)).unwrap(),
                        mailbox: Some(mailbox),
                        forming: Some(forming),
                        ..Policy::default()
                    };
                    let mut harness = Harness {
                        module: module(policy),
                        now: Timestamp::ZERO + Span::from_secs(1),
                        sent: 0,
                        pending: BTreeMap::new(),
                        ended: BTreeSet::new(),
                        running: BTreeMap::new(),
                        down: BTreeSet::new(),
                    };
                    for what in &inputs {
                        harness.apply(what);
                    }
                    // All workers are up and time passes, so every request that was not cancelled ends.
                    for worker in 0..WORKERS {
                        harness.apply(&Input::Worker(worker, true));
                    }
                    for _ in 0..2_000 {
                        if harness.pending.is_empty() && harness.running.is_empty() {
                            break;
                        }
                        harness.apply(&Input::Advance(10));
                        let running: Vec<SlotId> = harness.running.keys().copied().collect();
                        for slot in running {
                            harness.end_batch(slot, false);
                        }
                    }
                    prop_assert!(harness.pending.is_empty(), "{rule} {mailbox:?} {forming:?}: {:?} stay", harness.pending);
                    prop_assert_eq!(harness.module.requests(), 0);
                }
            }
        }
    }
}
