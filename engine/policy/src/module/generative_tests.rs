//! Tests of a module with a generative model, driven step by step.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_types::{
    DropReason, ModuleId, Profile, RequestId, SequenceId, SlotId, Span, StepCurve, StepProfile, StreamId,
    Timestamp, Topology,
};

use super::*;
use crate::generate::{InstanceSpec, LengthSource, Prefix, Step, emulated_length};
use crate::route::{JustEnough, Link, MoveCost, Moves, RouteRule, RouterSpec};
use crate::{ModuleInfo, Policy};

const MAX_TOKENS: u32 = 24;

fn instance(step_ms: u64, blocks: u32) -> InstanceSpec {
    let points = [
        (1, Span::from_millis(step_ms)),
        (32, Span::from_millis(2 * step_ms)),
    ];
    let curve = StepCurve::from_points(&points).unwrap();
    InstanceSpec {
        steps: StepProfile {
            decode: curve.clone(),
            prompt: curve,
        },
        max_step_tokens: 32,
        max_sequences: 8,
        max_sequence_tokens: 64,
        blocks,
        block_tokens: 4,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: 0,
    }
}

fn spec(drop: &str, rule: RouteRule, slo: Span) -> ModuleSpec {
    let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
    let instances = vec![instance(5, 40), instance(10, 64), instance(20, 64)];
    ModuleSpec {
        ends: Vec::new(),
        id: ModuleId(0),
        slo,
        policy: Policy::preset(drop).unwrap(),
        slots: (3..6).map(SlotId).collect(),
        pool: Pool::Own,
        batch: vec![1],
        profile: profile.clone(),
        topology: Topology::new(vec![vec![]]),
        peers: vec![ModuleInfo {
            profile,
            batch: vec![1],
            workers: 3,
            fallback: crate::gears::Fallback::Never,
        }],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        overlap: None,
        generate: Some(GenerateSpec {
            instances,
            router: RouterSpec {
                check_tokens: 5,
                ..RouterSpec::new(rule)
            },
            max_tokens: MAX_TOKENS,
            answer: Answer::Whole,
            length: LengthSource::default(),
        }),
    }
}

/// Bytes of a token's part of the cache: too many for the link, and few enough.
const CACHE_BYTES: [f64; 2] = [1e12, 1e3];

/// The same, with a link for moves, which transfers token ids or the cache, whichever is faster.
fn over_link(mut spec: ModuleSpec, latency_ms: u64, cache_bytes: f64) -> ModuleSpec {
    if let Some(generate) = &mut spec.generate {
        generate.router.transfer = Some(MoveCost {
            link: Link {
                latency: Span::from_millis(latency_ms),
                bandwidth_bps: 1e9,
            },
            cache_bytes,
        });
    }
    spec
}

/// Beginning that all prompts share.
const SHARED: Prefix = Prefix { id: 9, tokens: 8 };

/// The same, with room for the shared beginning on each instance.
fn with_prefixes(mut spec: ModuleSpec) -> ModuleSpec {
    for instance in spec
        .generate
        .iter_mut()
        .flat_map(|generate| &mut generate.instances)
    {
        instance.prefix_tokens = 12;
    }
    spec
}

/// State of a sequence on its slot.
struct Live {
    slot: SlotId,
    request: RequestId,
    prompt: u32,
    generated: u32,
    computed: u32,
    /// Number of computed tokens whose cache was kept when the sequence was taken off its slot.
    kept: Option<u32>,
}

/// A module with its instances.
struct Driven {
    module: Module,
    now: Timestamp,
    prompts: BTreeMap<RequestId, Vec<u32>>,
    live: BTreeMap<SequenceId, Live>,
    /// By slot: the running step, and the time at which it ends.
    running: BTreeMap<SlotId, (Step, Timestamp)>,
    /// By request: sequences that have their last token.
    complete: BTreeMap<RequestId, u32>,
    forwarded: BTreeSet<RequestId>,
    dropped: BTreeMap<RequestId, DropReason>,
    moves: u32,
    /// Moves that transferred the cache.
    with_cache: u32,
    /// Times at which the module asked to be called.
    timers: BTreeSet<Timestamp>,
    /// Remaining lengths that come with the next step.
    predicted_again: Vec<(SequenceId, u32)>,
    /// By slot: number of tokens of the shared beginning whose cache is stored.
    shared: BTreeMap<SlotId, u32>,
    /// Prompt tokens that were taken from there.
    reused: u32,
}

impl Driven {
    fn new(spec: ModuleSpec) -> Self {
        Self {
            module: Module::new(spec),
            now: Timestamp::ZERO,
            prompts: BTreeMap::new(),
            live: BTreeMap::new(),
            running: BTreeMap::new(),
            complete: BTreeMap::new(),
            forwarded: BTreeSet::new(),
            dropped: BTreeMap::new(),
            moves: 0,
            with_cache: 0,
            timers: BTreeSet::new(),
            predicted_again: Vec::new(),
            shared: BTreeMap::new(),
            reused: 0,
        }
    }

    fn prompted(&mut self, request: u64, prompts: &[u32], slo: Span) {
        self.predicted(request, prompts, &[], slo);
    }

    fn predicted(&mut self, request: u64, prompts: &[u32], predicted: &[u32], slo: Span) {
        self.prompts.insert(RequestId(request), prompts.to_vec());
        self.event(ModuleEvent::Prompted {
            request: RequestId(request),
            stream: StreamId(0),
            sent_at: self.now,
            prompts: prompts.to_vec(),
            predicted: predicted.to_vec(),
            prefixes: vec![Some(SHARED); prompts.len()],
            droppable: true,
            slo: Some(slo),
        });
    }

    fn event(&mut self, event: ModuleEvent) {
        self.ask([event]);
    }

    fn ask(&mut self, events: impl IntoIterator<Item = ModuleEvent>) {
        let mut effects = Vec::new();
        self.module.step(events, self.now, &mut effects);
        for effect in effects {
            self.apply(effect);
        }
    }

    fn apply(&mut self, effect: ModuleEffect) {
        match effect {
            ModuleEffect::Place {
                slot,
                sequence,
                request,
                item,
                cached,
            } => {
                let prompt = self.prompts[&request][item as usize];
                let live = self.live.entry(sequence).or_insert(Live {
                    slot,
                    request,
                    prompt,
                    generated: 0,
                    computed: 0,
                    kept: None,
                });
                self.moves += u32::from(live.slot != slot);
                let kept = live.kept.take().unwrap_or(0);
                assert!(
                    cached == 0 || cached == kept,
                    "{cached} come of {kept} that were kept"
                );
                (live.slot, live.computed) = (slot, cached);
                self.with_cache += u32::from(cached > 0);
            }
            ModuleEffect::Remove {
                slot,
                sequence,
                keeps_cache,
            } => {
                if let Some(live) = self.live.get_mut(&sequence) {
                    assert_eq!(live.slot, slot, "it is taken off the slot that it is on");
                    live.kept = keeps_cache.then_some(live.computed);
                    let request = live.request;
                    let is_over = !self.is_open(request);
                    if is_over {
                        self.live.remove(&sequence);
                    }
                }
            }
            ModuleEffect::EvictSequence { slot, sequence } => {
                if let Some(live) = self.live.get_mut(&sequence) {
                    assert_eq!(live.slot, slot);
                    live.computed = 0;
                }
            }
            ModuleEffect::RunStep { slot, step } => {
                assert!(step.tokens <= 32 && !self.running.contains_key(&slot));
                for part in &step.parts {
                    let live = &self.live[&part.sequence];
                    assert_eq!(live.slot, slot, "a sequence is on one instance");
                }
                for reused in &step.reused {
                    let stored = self.shared.get(&slot).copied().unwrap_or(0);
                    assert!(reused.tokens <= stored, "{reused:?} of {stored} that are stored");
                    if let Some(live) = self.live.get_mut(&reused.sequence) {
                        live.computed = live.computed.max(reused.tokens);
                    }
                    self.reused += reused.tokens;
                }
                let end = self.now + step.expected;
                self.running.insert(slot, (step, end));
            }
            ModuleEffect::Forward { request } => {
                let sequences = self.prompts[&request].len() as u32;
                let complete = self.complete.get(&request).copied().unwrap_or(0);
                assert_eq!(complete, sequences, "all that it asked for is there");
                assert!(self.forwarded.insert(request), "it ends once");
            }
            ModuleEffect::Drop { request, reason, .. } => {
                assert!(!self.forwarded.contains(&request));
                assert!(self.dropped.insert(request, reason).is_none(), "it ends once");
                self.live.retain(|_, live| live.request != request);
            }
            ModuleEffect::SetTimer { at } => {
                self.timers.insert(at);
            }
            _ => {}
        }
    }

    fn is_open(&self, request: RequestId) -> bool {
        !self.forwarded.contains(&request) && !self.dropped.contains_key(&request)
    }

    /// Advances to the end of the next step, the next timer, or `until`; returns whether a step or timer came
    /// first.
    fn step_done(&mut self, until: Timestamp, fails: bool) -> bool {
        let next = self.running.iter().min_by_key(|(_, (_, end))| *end);
        let timer = self.timers.first().copied().filter(|at| *at <= until);
        if let Some(at) = timer
            && next.is_none_or(|(_, (_, end))| at <= *end)
        {
            self.timers.remove(&at);
            self.now = self.now.max(at);
            self.ask([]);
            return true;
        }
        let Some((slot, end)) = next
            .map(|(slot, (_, end))| (*slot, *end))
            .filter(|(_, end)| *end <= until)
        else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(end);
        let Some((step, _)) = self.running.remove(&slot) else {
            return false;
        };
        let mut finished = Vec::new();
        for part in &step.parts {
            let Some(live) = self.live.get_mut(&part.sequence) else {
                continue;
            };
            if fails {
                continue;
            }
            live.computed += part.tokens;
            let is_whole = live.computed == live.prompt + live.generated;
            assert_eq!(is_whole, part.gives_token, "{part:?}");
            if part.gives_token {
                live.generated += 1;
                if live.generated >= emulated_length(part.sequence.0, MAX_TOKENS).min(MAX_TOKENS) {
                    finished.push(part.sequence);
                    *self.complete.entry(live.request).or_default() += 1;
                    self.live.remove(&part.sequence);
                }
            }
        }
        for kept in step.kept.iter().filter(|_| !fails) {
            self.shared.insert(slot, kept.tokens);
        }
        if fails {
            self.shared.remove(&slot);
            for live in self.live.values_mut().filter(|live| live.slot == slot) {
                live.computed = 0;
            }
        }
        let predicted = std::mem::take(&mut self.predicted_again);
        self.event(ModuleEvent::Stepped {
            slot,
            took: step.expected,
            finished,
            failed: fails,
            predicted,
        });
        true
    }

    /// Loses a slot, with its running step and its caches.
    fn lose(&mut self, slot: SlotId) {
        self.running.remove(&slot);
        self.shared.remove(&slot);
        for live in self.live.values_mut().filter(|live| live.slot == slot) {
            live.computed = 0;
        }
        self.event(ModuleEvent::SlotDown { slot });
    }

    fn run_out(&mut self) {
        while self.step_done(self.now + Span::from_secs(1_000), false) {}
    }
}

#[test]
fn a_prompt_is_answered_and_one_without_items_passes() {
    let mut driven = Driven::new(spec("pard", RouteRule::Earliest, Span::from_secs(5)));
    driven.prompted(1, &[10, 3], Span::from_secs(5));
    driven.prompted(2, &[], Span::from_secs(5));
    assert_eq!(driven.module.requests(), 1);
    driven.run_out();
    assert_eq!(driven.forwarded, [1, 2].map(RequestId).into());
    assert_eq!((driven.module.requests(), driven.live.len()), (0, 0));
    let stats = driven.module.instance_stats();
    assert_eq!(stats[0].finished + stats[1].finished + stats[2].finished, 2);
}

#[test]
fn shared_beginning_is_reused_until_its_slot_loses_it() {
    let spec = spec("naive", RouteRule::Earliest, Span::from_secs(5));
    let mut driven = Driven::new(with_prefixes(spec));
    let mut reused_by = |request: u64, fails: bool| {
        let before = driven.reused;
        driven.prompted(request, &[20], Span::from_secs(5));
        if fails {
            driven.step_done(driven.now + Span::from_secs(1), true);
        }
        driven.run_out();
        driven.reused - before
    };
    // An idle module routes each to the fastest instance.
    let reused = [1, 2, 3].map(|request| reused_by(request, false));
    assert_eq!(reused, [0, 8, 8]);
    assert_eq!(
        reused_by(4, true),
        8,
        "its step fails with all caches of the slot"
    );
    assert_eq!([5, 6].map(|request| reused_by(request, false)), [0, 8]);
    driven.lose(SlotId(3));
    driven.event(ModuleEvent::SlotUp { slot: SlotId(3) });
    driven.prompted(7, &[20], Span::from_secs(5));
    driven.run_out();
    driven.prompted(8, &[20], Span::from_secs(5));
    driven.run_out();
    assert_eq!(driven.reused, 8 * 5);
    let stats = driven.module.instance_stats();
    assert_eq!(stats.iter().map(|stats| stats.reused).sum::<u64>(), 8 * 5);
}

#[test]
fn length_predicted_again_from_the_text_so_far_decides_moves() {
    for (again, moves) in [(None, 0), (Some(1), 0), (Some(19), 1)] {
        let rule = RouteRule::JustEnough(JustEnough {
            moves: Moves::Late,
            ..JustEnough::default()
        });
        let mut spec = spec("naive", rule, Span::from_millis(200));
        if let Some(generate) = &mut spec.generate {
            generate.length = LengthSource::Experts;
        }
        let mut driven = Driven::new(spec);
        // Six tokens are in time on the slowest instance, 24 are not.
        driven.predicted(1, &[1], &[6], Span::from_millis(200));
        for _ in 0..4 {
            driven.step_done(driven.now + Span::from_secs(1), false);
        }
        driven.predicted_again = again.into_iter().map(|tokens| (SequenceId(0), tokens)).collect();
        driven.step_done(driven.now + Span::from_secs(1), false);
        assert_eq!(driven.moves, moves, "{again:?}");
        driven.run_out();
        assert_eq!(driven.forwarded.len(), 1);
    }
}

#[test]
fn instances_without_room_for_prefixes_reuse_none() {
    let mut driven = Driven::new(spec("naive", RouteRule::Earliest, Span::from_secs(5)));
    for request in 1..4 {
        driven.prompted(request, &[20], Span::from_secs(5));
        driven.run_out();
    }
    assert_eq!((driven.reused, driven.shared.len()), (0, 0));
}

#[test]
fn what_no_instance_can_finish_in_time_is_dropped_unless_the_policy_drops_nothing() {
    for (drop, is_dropped) in [("pard", true), ("naive", false)] {
        let mut driven = Driven::new(spec(drop, RouteRule::Earliest, Span::from_secs(5)));
        driven.prompted(1, &[10], Span::from_millis(20));
        assert_eq!(!driven.dropped.is_empty(), is_dropped, "{drop}");
        driven.run_out();
        assert_eq!(driven.forwarded.len() + driven.dropped.len(), 1);
    }
}

#[test]
fn a_length_that_comes_with_a_request_is_what_it_is_expected_to_have_and_else_the_mean() {
    for source in [LengthSource::Experts, LengthSource::Single] {
        let mut spec = spec("pard", RouteRule::Earliest, Span::from_secs(5));
        if let Some(generate) = &mut spec.generate {
            generate.length = source;
        }
        let mut driven = Driven::new(spec);
        // The mean length is half of the maximum, for which there is no time; a single token can be in time.
        driven.predicted(1, &[1], &[1], Span::from_millis(40));
        assert_eq!(driven.dropped.len(), 0, "{source:?}");
        driven.predicted(2, &[1], &[MAX_TOKENS], Span::from_millis(40));
        driven.predicted(3, &[1], &[], Span::from_millis(40));
        assert_eq!(
            driven.dropped.keys().copied().collect::<Vec<_>>(),
            [2, 3].map(RequestId),
            "{source:?}"
        );
        driven.run_out();
    }
}

#[test]
fn a_prompt_longer_than_the_cache_is_a_counted_drop() {
    let mut driven = Driven::new(spec("naive", RouteRule::Earliest, Span::from_secs(5)));
    driven.prompted(1, &[64], Span::from_secs(5));
    assert_eq!(driven.dropped, [(RequestId(1), DropReason::MemoryFull)].into());
    assert_eq!((driven.module.requests(), driven.live.len()), (0, 0));
}

#[test]
fn of_a_request_with_one_prompt_that_fits_nowhere_no_other_is_begun() {
    let mut driven = Driven::new(spec("naive", RouteRule::Earliest, Span::from_secs(5)));
    driven.prompted(1, &[3, 64, 3], Span::from_secs(5));
    assert_eq!(driven.dropped, [(RequestId(1), DropReason::MemoryFull)].into());
    driven.run_out();
    let stats = driven.module.instance_stats();
    assert_eq!(stats.iter().map(|stats| stats.finished).sum::<u64>(), 0);
    assert_eq!((driven.module.requests(), driven.live.len()), (0, 0));
}

#[test]
fn what_is_on_an_instance_that_is_lost_goes_on_elsewhere_with_its_tokens() {
    let mut driven = Driven::new(spec("pard", RouteRule::RoundRobin, Span::from_secs(60)));
    for request in 0..6 {
        driven.prompted(request, &[10], Span::from_secs(60));
    }
    for _ in 0..4 {
        driven.step_done(driven.now + Span::from_secs(1), false);
    }
    let lost = SlotId(4);
    assert!(driven.live.values().any(|live| live.slot == lost));
    driven.lose(lost);
    assert!(
        driven.live.values().all(|live| live.slot != lost),
        "all went on elsewhere"
    );
    driven.run_out();
    assert_eq!((driven.forwarded.len(), driven.dropped.len()), (6, 0));
    driven.event(ModuleEvent::SlotUp { slot: lost });
    for request in 6..9 {
        driven.prompted(request, &[10], Span::from_secs(60));
    }
    assert!(
        driven.live.values().any(|live| live.slot == lost),
        "it is used again"
    );
    for slot in 3..6 {
        driven.lose(SlotId(slot));
    }
    assert_eq!(
        (driven.dropped.len(), driven.live.len()),
        (3, 0),
        "there is nowhere to go"
    );
}

/// Requests that are late on their instance, so that they move whenever allowed.
fn late(link: Option<(u64, f64)>) -> Driven {
    let rule = RouteRule::JustEnough(JustEnough {
        moves: Moves::Late,
        ..JustEnough::default()
    });
    let slo = Span::from_millis(150);
    let spec = spec("naive", rule, slo);
    let mut driven = Driven::new(match link {
        Some((latency_ms, cache_bytes)) => over_link(spec, latency_ms, cache_bytes),
        None => spec,
    });
    for request in 0..12 {
        driven.prompted(request, &[10], slo);
    }
    driven
}

/// Until one of them is on a link.
fn until_moved(latency_ms: u64) -> Driven {
    let mut driven = late(Some((latency_ms, CACHE_BYTES[0])));
    while driven.timers.is_empty() {
        assert!(
            driven.step_done(driven.now + Span::from_secs(1), false),
            "one is late, and moves"
        );
    }
    driven
}

#[test]
fn one_whose_instance_is_lost_between_its_move_and_the_first_answer_goes_on_elsewhere() {
    let mut driven = late(None);
    while driven.moves == 0 {
        assert!(
            driven.step_done(driven.now + Span::from_secs(1), false),
            "one is late, and moves"
        );
    }
    let moved = |live: &&Live| live.generated > 0 && live.computed == 0;
    let slot = driven.live.values().find(moved).map(|live| live.slot);
    driven.lose(slot.unwrap());
    driven.run_out();
    assert_eq!(
        (driven.forwarded.len(), driven.dropped.len(), driven.live.len()),
        (12, 0, 0)
    );
    assert_eq!(driven.module.requests(), 0);
}

#[test]
fn a_sequence_that_moves_over_a_link_is_on_no_instance_until_it_is_there() {
    let mut driven = until_moved(40);
    let there = driven.timers.first().copied().unwrap();
    assert!(there >= driven.now + Span::from_millis(40));
    assert_eq!(driven.moves, 0, "it is on its way");
    while driven.now < there {
        driven.step_done(there, false);
    }
    assert!(driven.moves > 0, "it is there");
    driven.run_out();
    assert_eq!((driven.forwarded.len(), driven.live.len()), (12, 0));
}

#[test]
fn one_on_a_link_goes_on_elsewhere_when_its_instance_is_lost_meanwhile() {
    for lost in [3, 4, 5] {
        let mut driven = until_moved(5_000);
        driven.lose(SlotId(lost));
        driven.run_out();
        assert_eq!(
            (driven.forwarded.len(), driven.dropped.len(), driven.live.len()),
            (12, 0, 0),
            "slot {lost} is lost"
        );
    }
    // No other instance is left.
    let mut driven = until_moved(5_000);
    (3..6).for_each(|slot| driven.lose(SlotId(slot)));
    driven.run_out();
    assert_eq!(driven.forwarded.len() + driven.dropped.len(), 12);
    assert_eq!((driven.module.requests(), driven.live.len()), (0, 0));
}

#[test]
fn a_cache_goes_along_where_that_takes_less_than_computing_it_again() {
    for cache_bytes in CACHE_BYTES {
        let mut driven = late(Some((1, cache_bytes)));
        driven.run_out();
        assert_eq!((driven.forwarded.len(), driven.live.len()), (12, 0));
        assert!(driven.moves > 0, "those that are late move");
        let with_cache = if cache_bytes < 1e6 { driven.moves } else { 0 };
        assert_eq!(driven.with_cache, with_cache, "of {} moves", driven.moves);
    }
}

proptest! {
    #[test]
    fn every_request_ends_once_and_no_token_is_lost_or_repeated(
        actions in prop::collection::vec((0_u32..10, prop::collection::vec(1_u32..40, 0..4), 1_u64..60), 1..60),
        rule in 0..RouteRule::all().len(),
        drop in prop::sample::select(vec!["pard", "weir", "naive", "nexus"]),
        slo_ms in 100_u64..3_000,
        link in prop::option::of((0_u64..40, prop::sample::select(CACHE_BYTES.to_vec()))),
        caches_prefixes in any::<bool>(),
    ) {
        let slo = Span::from_millis(slo_ms);
        let spec = spec(drop, RouteRule::all()[rule], slo);
        let spec = if caches_prefixes { with_prefixes(spec) } else { spec };
        let mut driven = Driven::new(match link {
            Some((latency_ms, cache_bytes)) => over_link(spec, latency_ms, cache_bytes),
            None => spec,
        });
        for (number, (kind, prompts, wait_ms)) in (0_u64..).zip(&actions) {
            match kind {
                0 if *wait_ms % 5 == 0 => {
                    let slot = SlotId(3 + (*wait_ms / 5) as u32 % 3);
                    driven.lose(slot);
                    driven.event(ModuleEvent::SlotUp { slot });
                }
                0 => driven.event(ModuleEvent::Tick),
                1 if number > 0 => {
                    let request = RequestId(number - 1);
                    if driven.prompts.contains_key(&request) && driven.is_open(request) {
                        driven.live.retain(|_, live| live.request != request);
                        driven.dropped.insert(request, DropReason::Stopped);
                    }
                    driven.event(ModuleEvent::Cancelled { request });
                }
                _ => driven.prompted(number, prompts, slo),
            }
            let until = driven.now + Span::from_millis(*wait_ms);
            while driven.step_done(until, *kind == 2) {}
        }
        driven.run_out();
        for request in driven.prompts.keys() {
            prop_assert!(!driven.is_open(*request), "request {} has not ended", request.0);
        }
        prop_assert_eq!((driven.module.requests(), driven.live.len()), (0, 0));
    }
}
