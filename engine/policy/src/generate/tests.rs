use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_types::{DropReason, InstanceId, SequenceId, Span, StepCurve, StepProfile, Timestamp};

use super::*;

fn curve() -> StepCurve {
    StepCurve::from_points(&[(1, Span::from_millis(10)), (64, Span::from_millis(40))]).unwrap()
}

fn spec(prompt_gives_token: bool) -> InstanceSpec {
    InstanceSpec {
        steps: StepProfile {
            decode: curve(),
            prompt: curve(),
        },
        max_step_tokens: 16,
        max_sequences: 8,
        max_sequence_tokens: 64,
        blocks: 20,
        block_tokens: 4,
        reserve_blocks: 1,
        prompt_gives_token,
        prefix_tokens: 0,
    }
}

fn arrived(sequence: u64, prompt: u32) -> InstanceEvent {
    InstanceEvent::Arrived {
        sequence: SequenceId(sequence),
        prompt,
        generated: 0,
        cached: 0,
        due: Timestamp::ZERO,
        prefix: None,
    }
}

/// An instance with its driver, which counts the tokens of each sequence.
struct Driven {
    instance: Instance,
    now: Timestamp,
    step: Option<Step>,
    /// Tokens generated, and to generate, by sequence that is on the instance.
    open: BTreeMap<u64, (u32, u32)>,
    ended: Vec<u64>,
    dropped: Vec<u64>,
    moved: Vec<(u64, u32)>,
}

impl Driven {
    fn new(spec: InstanceSpec) -> Self {
        Self {
            instance: Instance::new(spec).unwrap(),
            now: Timestamp::ZERO,
            step: None,
            open: BTreeMap::new(),
            ended: Vec::new(),
            dropped: Vec::new(),
            moved: Vec::new(),
        }
    }

    fn event(&mut self, event: InstanceEvent) {
        let mut effects = Vec::new();
        self.instance.step([event], self.now, &mut effects);
        for effect in effects {
            match effect {
                InstanceEffect::Step(step) => {
                    assert!(self.step.is_none(), "one step at a time");
                    self.step = Some(step);
                }
                InstanceEffect::Evict { .. } => {}
                InstanceEffect::Drop { sequence, reason } => {
                    assert_eq!(reason, DropReason::MemoryFull);
                    self.open.remove(&sequence.0).expect("a drop of one that is here");
                    self.dropped.push(sequence.0);
                }
                InstanceEffect::Move {
                    sequence, generated, ..
                } => {
                    let (known, _) = self.open.remove(&sequence.0).expect("a move of one that is here");
                    assert_eq!(known, generated, "no token is lost or repeated");
                    self.moved.push((sequence.0, generated));
                }
            }
        }
    }

    fn arrive(&mut self, sequence: u64, prompt: u32, length: u32) {
        self.open.insert(sequence, (0, length));
        self.event(arrived(sequence, prompt));
    }

    fn run(&mut self) -> bool {
        let Some(step) = self.step.take() else {
            return false;
        };
        let mut finished = Vec::new();
        let mut seen = Vec::new();
        for part in &step.parts {
            assert!(!seen.contains(&part.sequence), "once in a step");
            seen.push(part.sequence);
            let open = self.open.get_mut(&part.sequence.0);
            let (generated, length) = open.expect("a step has only what is here");
            *generated += u32::from(part.gives_token);
            if generated == length && part.gives_token {
                finished.push(part.sequence);
            }
        }
        assert_eq!(
            step.parts.iter().map(|part| part.tokens).sum::<u32>(),
            step.tokens
        );
        assert!(step.tokens <= self.instance.spec().max_step_tokens);
        for id in &finished {
            self.open.remove(&id.0);
            self.ended.push(id.0);
        }
        self.now = self.now + step.expected;
        self.event(InstanceEvent::Stepped {
            took: step.expected,
            finished,
        });
        true
    }

    fn parts(&self) -> Vec<(u64, u32)> {
        let step = self.step.as_ref().map_or(&[][..], |step| &step.parts);
        step.iter().map(|part| (part.sequence.0, part.tokens)).collect()
    }
}

#[test]
fn running_sequences_go_first_and_prompts_take_what_tokens_are_left() {
    let mut driven = Driven::new(spec(false));
    driven.arrive(1, 6, 9);
    driven.arrive(2, 24, 9);
    assert_eq!(driven.parts(), [(1, 6)], "a step that runs is not added to");
    driven.run();
    assert_eq!(driven.parts(), [(1, 1), (2, 15)]);
    driven.arrive(3, 4, 9);
    driven.run();
    assert_eq!(driven.parts(), [(1, 1), (2, 9), (3, 4)]);
    driven.run();
    assert_eq!(driven.parts(), [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn the_first_token_comes_with_the_prompt_or_a_step_later() {
    for (prompt_gives_token, steps) in [(true, 5), (false, 6)] {
        let mut driven = Driven::new(spec(prompt_gives_token));
        driven.arrive(1, 30, 4);
        let mut count = 0;
        while driven.run() {
            count += 1;
        }
        assert_eq!((count, driven.ended.as_slice()), (steps, &[1][..]));
    }
}

#[test]
fn where_blocks_run_out_the_latest_goes_back_and_is_computed_again() {
    let mut driven = Driven::new(spec(false));
    // 19 of 20 blocks for two prompts of 36 and 38 tokens.
    driven.arrive(1, 36, 20);
    driven.arrive(2, 38, 20);
    while driven.run() {}
    assert_eq!(driven.ended, [1, 2]);
    let stats = driven.instance.stats();
    assert_eq!((stats.evicted, stats.joined), (1, 3));
    assert_eq!(stats.generated, 40, "tokens that were generated are kept");
}

#[test]
fn what_the_cache_cannot_hold_is_dropped() {
    let mut driven = Driven::new(spec(false));
    driven.arrive(1, 64, 1);
    assert_eq!(driven.dropped, [1]);
    // One that does not stop.
    driven.arrive(2, 20, u32::MAX);
    while driven.run() {}
    assert_eq!(driven.dropped, [1, 2]);
    assert_eq!(driven.instance.state().free_blocks, 20);
}

#[test]
fn a_prompt_that_all_blocks_together_cannot_hold_is_dropped() {
    let spec = InstanceSpec {
        // 32 tokens, fewer than a sequence may have.
        blocks: 8,
        ..spec(false)
    };
    let mut driven = Driven::new(spec);
    driven.arrive(1, 36, 1);
    assert_eq!(driven.dropped, [1]);
    driven.arrive(2, 20, 4);
    while driven.run() {}
    assert_eq!(
        (driven.dropped.as_slice(), driven.ended.as_slice()),
        (&[1][..], &[2][..])
    );
    assert_eq!(driven.instance.state().free_blocks, 8);
}

#[test]
fn a_sequence_leaves_after_the_step_that_has_it() {
    let mut driven = Driven::new(spec(false));
    driven.arrive(1, 4, 9);
    driven.run();
    let to = InstanceId(1);
    driven.event(InstanceEvent::Reassigned {
        sequence: SequenceId(1),
        to,
    });
    assert!(driven.moved.is_empty());
    driven.run();
    assert_eq!(driven.moved, [(1, 1)], "with the token of that step");
    // A sequence that ends with the step does not move.
    driven.arrive(2, 4, 1);
    driven.run();
    driven.event(InstanceEvent::Reassigned {
        sequence: SequenceId(2),
        to,
    });
    driven.run();
    assert_eq!((driven.moved.len(), driven.ended.as_slice()), (1, &[2][..]));
}

#[test]
fn a_sequence_that_came_with_its_cache_generates_at_once() {
    let mut driven = Driven::new(spec(true));
    driven.open.insert(1, (5, 6));
    driven.event(InstanceEvent::Arrived {
        sequence: SequenceId(1),
        prompt: 30,
        generated: 5,
        cached: 34,
        due: Timestamp::ZERO,
        prefix: None,
    });
    let step = driven.step.clone().unwrap();
    assert_eq!((step.tokens, step.prompt_tokens), (1, 0));
    driven.run();
    assert_eq!(driven.ended, [1]);
}

#[test]
fn shared_prefix_is_computed_once_while_it_is_held() {
    let mut driven = Driven::new(InstanceSpec {
        prefix_tokens: 16,
        ..spec(true)
    });
    let computed = |driven: &mut Driven, sequence: u64, id: u64| {
        driven.open.insert(sequence, (0, 1));
        driven.event(InstanceEvent::Arrived {
            sequence: SequenceId(sequence),
            prompt: 20,
            generated: 0,
            cached: 0,
            due: Timestamp::ZERO,
            prefix: Some(Prefix { id, tokens: 12 }),
        });
        let (mut tokens, mut kept) = (0, 0);
        while let Some(step) = driven.step.clone() {
            tokens += step.tokens;
            kept += step.kept.len();
            driven.run();
        }
        (tokens, kept)
    };
    // There is room for one of the two prefixes.
    let found =
        [(1, 7), (2, 7), (3, 8), (4, 7), (5, 7)].map(|(sequence, id)| computed(&mut driven, sequence, id));
    assert_eq!(found, [(20, 1), (8, 0), (20, 1), (20, 1), (8, 0)]);
    driven.event(InstanceEvent::PrefixesLost);
    assert_eq!(computed(&mut driven, 6, 7), (20, 1));
    assert_eq!(driven.instance.stats().reused, 24);
}

#[test]
fn bounds_that_do_not_fit_are_refused() {
    let check = |change: fn(&mut InstanceSpec), expected: InstanceSpecError| {
        let mut spec = spec(false);
        change(&mut spec);
        assert_eq!(spec.check(), Err(expected));
    };
    check(
        |spec| spec.max_sequences = 0,
        InstanceSpecError::Zero("max_sequences"),
    );
    check(
        |spec| spec.reserve_blocks = 20,
        InstanceSpecError::NoBlocks {
            reserve: 20,
            blocks: 20,
        },
    );
    check(
        |spec| spec.max_step_tokens = 65,
        InstanceSpecError::Unknown { known: 64, max: 65 },
    );
}

#[derive(Debug, Clone)]
enum Act {
    Arrive(u32, u32),
    Run,
    Cancel(u64),
    Evict(u64),
    Move(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1_u32..50, 1_u32..30).prop_map(|(prompt, length)| Act::Arrive(prompt, length)),
        6 => Just(Act::Run),
        1 => (0_u64..20).prop_map(Act::Cancel),
        1 => (0_u64..20).prop_map(Act::Evict),
        1 => (0_u64..20).prop_map(Act::Move),
    ]
}

proptest! {
    /// Every sequence ends once, is dropped, cancelled or moved; steps stay within their limits; at the end
    /// all blocks are free.
    #[test]
    fn whatever_happens_nothing_is_lost(acts in prop::collection::vec(act(), 1..120), gives in any::<bool>()) {
        let mut driven = Driven::new(spec(gives));
        let (mut arrived, mut cancelled) = (0, 0);
        for act in acts {
            match act {
                Act::Arrive(prompt, length) => {
                    driven.arrive(arrived, prompt, length);
                    arrived += 1;
                }
                Act::Run => {
                    driven.run();
                }
                Act::Cancel(which) => {
                    // Cancelling an absent sequence has no effect; one in a step leaves at the end of the
                    // step.
                    let is_in_step = driven.parts().iter().any(|(id, _)| *id == which);
                    driven.event(InstanceEvent::Cancelled { sequence: SequenceId(which) });
                    if !is_in_step && driven.open.remove(&which).is_some() {
                        cancelled += 1;
                    }
                }
                Act::Evict(which) => driven.event(InstanceEvent::Evicted { sequence: SequenceId(which) }),
                Act::Move(which) => driven.event(InstanceEvent::Reassigned {
                    sequence: SequenceId(which),
                    to: InstanceId(1),
                }),
            }
            let held: usize = driven.instance.sequences().count();
            prop_assert!(held <= driven.open.len());
        }
        while driven.run() {}
        prop_assert_eq!(driven.instance.sequences().count(), 0);
        prop_assert_eq!(driven.instance.state().free_blocks, 20);
        // Sequences that were cancelled within a step are still open.
        let gone = driven.ended.len() + driven.dropped.len() + driven.moved.len() + cancelled + driven.open.len();
        prop_assert_eq!(gone as u64, arrived);
    }
}
