//! A module whose requests are cancelled because a sibling was dropped elsewhere: once the message has come, nothing of
//! them runs, goes on or is dropped here. In whatever order arrivals, cancellations, batches and losses of workers come,
//! for pools of its own with either kind of mailbox.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_policy::*;
use weir_types::*;

#[derive(Debug, Clone)]
enum Happens {
    /// A request with so many items, sent so many milliseconds ago.
    Arrives(u32, u64),
    /// One of those that are here is cancelled.
    Cancelled(prop::sample::Index),
    /// One of the batches that run comes back, or is lost.
    Back(prop::sample::Index, bool),
    /// A worker is lost with its batch, or returns.
    Worker(u32, bool),
    Later(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        5 => (0_u32..6, 0_u64..200).prop_map(|(items, ago)| Happens::Arrives(items, ago)),
        3 => any::<prop::sample::Index>().prop_map(Happens::Cancelled),
        4 => (any::<prop::sample::Index>(), prop::bool::weighted(0.1))
            .prop_map(|(index, failed)| Happens::Back(index, failed)),
        1 => (0_u32..WORKERS, any::<bool>()).prop_map(|(worker, up)| Happens::Worker(worker, up)),
        3 => (1_u64..60).prop_map(Happens::Later),
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
    };
    Module::new(ModuleSpec {
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
        seed: 1,
    })
}

/// What goes on around the module; checks what it wants done.
struct Around {
    module: Module,
    now: Timestamp,
    sent: u64,
    /// Requests that are in the module, with the items that have not run.
    here: BTreeMap<RequestId, u32>,
    gone: BTreeSet<RequestId>,
    running: BTreeMap<SlotId, BatchId>,
    down: BTreeSet<SlotId>,
}

impl Around {
    fn tell(&mut self, fact: ModuleEvent) {
        let mut effects = Vec::new();
        self.module.step([fact], self.now, &mut effects);
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
                        assert!(!self.gone.contains(&request), "{request:?} runs after it ended");
                        let left = self.here.get_mut(&request).unwrap();
                        *left = left.checked_sub(slice.count).unwrap();
                    }
                }
                ModuleEffect::Forward { request } => {
                    assert_eq!(self.here.remove(&request), Some(0), "{request:?} goes on");
                    self.gone.insert(request);
                }
                ModuleEffect::Drop { request, .. } => {
                    assert!(self.here.remove(&request).is_some(), "{request:?} is dropped");
                    self.gone.insert(request);
                }
                ModuleEffect::Bid(_) | ModuleEffect::Decline { .. } => {
                    panic!("a pool of its own asks nobody")
                }
                _ => (),
            }
        }
    }

    fn pass(&mut self, what: &Happens) {
        match *what {
            Happens::Arrives(items, ago) => {
                let request = RequestId(self.sent);
                self.sent += 1;
                self.here.insert(request, items);
                let sent_at = Timestamp::from_micros(self.now.micros().saturating_sub(ago * 1_000));
                self.tell(ModuleEvent::Arrived {
                    request,
                    stream: StreamId(0),
                    sent_at,
                    items,
                    droppable: true,
                });
            }
            Happens::Cancelled(ref index) => {
                if let Some(&request) = nth(index, self.here.keys()) {
                    self.here.remove(&request);
                    self.gone.insert(request);
                    self.tell(ModuleEvent::Cancelled { request });
                }
            }
            Happens::Back(ref index, failed) => {
                if let Some(&slot) = nth(index, self.running.keys()) {
                    self.back(slot, failed);
                }
            }
            Happens::Worker(worker, up) => {
                let slot = SlotId(worker);
                if up && self.down.remove(&slot) {
                    self.tell(ModuleEvent::SlotUp { slot });
                } else if !up && self.down.insert(slot) {
                    self.tell(ModuleEvent::SlotDown { slot });
                    self.back(slot, true);
                }
            }
            Happens::Later(ms) => {
                self.now = self.now + Span::from_millis(ms);
                self.tell(ModuleEvent::Tick);
            }
        }
    }

    fn back(&mut self, slot: SlotId, failed: bool) {
        let Some(batch) = self.running.remove(&slot) else {
            return;
        };
        let took = Span::from_millis(10);
        self.tell(if failed {
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
    fn cancelled_siblings_never_run(story in prop::collection::vec(happens(), 1..150)) {
        for rule in ["none", "pard", "weir", "nexus", "oc"] {
            for mailbox in [Mailboxes::Pool, Mailboxes::Worker] {
                for forming in [BatchBinding::Early, BatchBinding::Late] {
                    let policy = Policy {
                        drop: serde_json::from_value(serde_json::json!(rule)).unwrap(),
                        mailbox,
                        forming,
                        ..Policy::default()
                    };
                    let mut around = Around {
                        module: module(policy),
                        now: Timestamp::ZERO + Span::from_secs(1),
                        sent: 0,
                        here: BTreeMap::new(),
                        gone: BTreeSet::new(),
                        running: BTreeMap::new(),
                        down: BTreeSet::new(),
                    };
                    for what in &story {
                        around.pass(what);
                    }
                    // All workers are back, and time goes by: whatever was not cancelled ends.
                    for worker in 0..WORKERS {
                        around.pass(&Happens::Worker(worker, true));
                    }
                    for _ in 0..2_000 {
                        if around.here.is_empty() && around.running.is_empty() {
                            break;
                        }
                        around.pass(&Happens::Later(10));
                        let running: Vec<SlotId> = around.running.keys().copied().collect();
                        for slot in running {
                            around.back(slot, false);
                        }
                    }
                    prop_assert!(around.here.is_empty(), "{rule} {mailbox:?} {forming:?}: {:?} stay", around.here);
                    prop_assert_eq!(around.module.requests(), 0);
                }
            }
        }
    }
}
