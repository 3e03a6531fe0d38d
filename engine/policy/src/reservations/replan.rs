//! Departure of the measured conditions from those that the plan in force was solved for.
//!
//! ```text
//! Used, Arrived ──> windows ──departed in 2 windows──Replan──> (the driver solves)
//!                                                                 │
//!        plan in force <──better by `min_gain`── PlanOffered <────┘
//!              └──────────otherwise──GiveUp(NotBetter)
//! ```
//!
//! Hysteresis: a departure must last, solutions are [`ReplanSpec::pause`] apart, and what was solved for is what later windows
//! are compared with, whether the solution was used or not. So constant conditions are solved for once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{
    AS_PLANNED, Conditions, DurationRatio, LinkSpeed, MixShare, ModuleId, PlanGain, Span, Timestamp,
};

use super::PlannedUse;

/// Number of consecutive windows in which conditions must depart.
const LASTING: u32 = 2;

/// Minimum number of uses in a window for a ratio of durations or transfer times.
const MIN_USES: u64 = 20;

/// Minimum number of items for a mix; with fewer, the next window is added.
const MIN_ITEMS: u64 = 200;

/// Minimum growth of a module's share of the mix, in thousandths of all items.
const MIN_MIX_CHANGE: u32 = 50;

/// Bounds of a measured ratio, in thousandths.
const RATIOS: (f64, f64) = (10.0, 100_000.0);

/// Condition for solving a plan again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplanSpec {
    /// The mix that the plan was solved for, with each module that it serves.
    pub mix: Vec<MixShare>,
    /// Time over which conditions are measured.
    pub window: Span,
    /// Least relative difference of a measured condition that counts as a departure.
    pub departure: f64,
    /// Least relative gain in throughput for which another plan comes into force.
    pub min_gain: f64,
    /// Least time between two solutions.
    pub pause: Span,
}

impl ReplanSpec {
    /// Defaults for a plan that was solved for this mix: windows of 5 s, departures of a quarter, gains of a tenth, solutions
    /// 30 s apart.
    #[must_use]
    pub fn new(mix: Vec<MixShare>) -> Self {
        Self {
            mix,
            window: Span::from_secs(5),
            departure: 0.25,
            min_gain: 0.1,
            pause: Span::from_secs(30),
        }
    }
}

/// Origin of a plan that was solved again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplanOrigin {
    /// Number of the plan that was solved again.
    pub plan: u64,
    /// Predicted throughput of that plan and of the new one.
    pub gain: PlanGain,
}

/// Uses within a window.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    count: u64,
    expected: Span,
    actual: Span,
    /// Bits that were sent, in millionths.
    microbits: u128,
}

impl Uses {
    /// A single use counts at most for this many times the expected time: a stall is no departure.
    const MAX_RATIO: f64 = 64.0;

    fn add(&mut self, planned: &PlannedUse<'_>, actual: Span) {
        let expected = planned.expected;
        self.count += 1;
        self.expected += expected;
        self.microbits += u128::from(expected.micros()) * u128::from(planned.bandwidth_bps);
        self.actual += actual.min(expected.scale(Self::MAX_RATIO));
    }

    /// Thousandths of the expected time; `None` if too little was measured.
    fn per_mille(self) -> Option<u32> {
        if self.count < MIN_USES || self.expected == Span::ZERO {
            return None;
        }
        let ratio = self.actual.micros() as f64 / self.expected.micros() as f64;
        Some((ratio * f64::from(AS_PLANNED)).round().clamp(RATIOS.0, RATIOS.1) as u32)
    }

    /// The measured speed of a link, by the time that its transfers took.
    fn link(self) -> Option<MeasuredLink> {
        let bandwidth_bps = self.microbits / u128::from(self.actual.micros().max(1));
        Some(MeasuredLink {
            per_mille: self.per_mille()?,
            bandwidth_bps: u64::try_from(bandwidth_bps).unwrap_or(u64::MAX).max(1),
        })
    }
}

/// Speed of the links from one class of devices to another.
#[derive(Debug, Clone, Copy)]
struct MeasuredLink {
    /// Thousandths of the transfer time at the configured bandwidth.
    per_mille: u32,
    bandwidth_bps: u64,
}

/// Conditions by what they are of. What is absent is as planned, or not known yet.
#[derive(Debug, Clone, Default)]
struct Known {
    mix: BTreeMap<ModuleId, u32>,
    durations: BTreeMap<(ModuleId, String), u32>,
    links: BTreeMap<(String, String), MeasuredLink>,
}

impl Known {
    fn planned(spec: &ReplanSpec) -> Self {
        Self {
            mix: spec
                .mix
                .iter()
                .map(|share| (share.module, share.per_mille))
                .collect(),
            ..Self::default()
        }
    }

    /// Whether something differs from what was `assumed` by more than this part.
    fn departs_from(&self, assumed: &Self, departure: f64) -> bool {
        let differs = |known: u32, assumed: Option<&u32>| {
            let known = f64::from(known.max(1));
            let assumed = f64::from(assumed.copied().unwrap_or(AS_PLANNED).max(1));
            (known / assumed).max(assumed / known) > 1.0 + departure
        };
        let has_grown = |share: u32, assumed: u32| {
            let grows = f64::from(share) > f64::from(assumed) * (1.0 + departure);
            grows && share.saturating_sub(assumed) > MIN_MIX_CHANGE
        };
        let mix = self.mix.iter();
        let durations = self.durations.iter();
        let links = self.links.iter();
        durations
            .map(|(key, known)| differs(*known, assumed.durations.get(key)))
            .chain(links.map(|(key, known)| {
                let assumed = assumed.links.get(key);
                differs(known.per_mille, assumed.map(|link| &link.per_mille))
            }))
            .chain(mix.map(|(key, share)| {
                let assumed = assumed.mix.get(key);
                assumed.is_some_and(|assumed| has_grown(*share, *assumed))
            }))
            .any(|departs| departs)
    }

    fn conditions(&self) -> Conditions {
        let share = |(&module, &per_mille): (&ModuleId, &u32)| MixShare { module, per_mille };
        let duration = |((module, class), &per_mille): (&(ModuleId, String), &u32)| DurationRatio {
            module: *module,
            class: class.clone(),
            per_mille,
        };
        let link = |((from, to), link): (&(String, String), &MeasuredLink)| LinkSpeed {
            from: from.clone(),
            to: to.clone(),
            bandwidth_bps: link.bandwidth_bps,
        };
        Conditions {
            mix: self.mix.iter().map(share).collect(),
            durations: self.durations.iter().map(duration).collect(),
            links: self.links.iter().map(link).collect(),
        }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Replan {
    spec: ReplanSpec,
    window_ends: Option<Timestamp>,
    arrived: BTreeMap<ModuleId, u64>,
    runs: BTreeMap<(ModuleId, String), Uses>,
    transfers: BTreeMap<(String, String), Uses>,
    /// The latest measurements.
    known: Known,
    /// Conditions that were solved for last.
    assumed: Known,
    /// Conditions that were solved for before these.
    assumed_before: Known,
    /// Windows in a row that depart; those in which nothing was measured are left out.
    departed: u32,
    /// Time before which no solution is asked for.
    not_before: Timestamp,
}

impl Replan {
    pub(super) fn new(spec: ReplanSpec) -> Self {
        let assumed = Known::planned(&spec);
        Self {
            spec,
            window_ends: None,
            arrived: BTreeMap::new(),
            runs: BTreeMap::new(),
            transfers: BTreeMap::new(),
            known: Known::default(),
            assumed_before: assumed.clone(),
            assumed,
            departed: 0,
            not_before: Timestamp::ZERO,
        }
    }

    /// Items arrived at a module.
    pub(super) fn on_arrived(&mut self, module: ModuleId, items: u64) {
        if self.spec.mix.iter().any(|share| share.module == module) {
            *self.arrived.entry(module).or_default() += items;
        }
    }

    /// A share or a link was used for this long.
    pub(super) fn on_used(&mut self, planned: &PlannedUse<'_>, took: Span) {
        let class = planned.class.to_owned();
        let uses = match planned.from {
            None => self.runs.entry((planned.module, class)).or_default(),
            Some(from) => self.transfers.entry((from.to_owned(), class)).or_default(),
        };
        uses.add(planned, took);
    }

    /// Ends the window where it is over. Gives the conditions to solve for, where they have departed and it is time.
    pub(super) fn look(&mut self, now: Timestamp) -> Option<Conditions> {
        let ends = *self.window_ends.get_or_insert(now + self.spec.window);
        if now < ends {
            return None;
        }
        self.window_ends = Some(now + self.spec.window);
        if !self.close_window() {
            return None;
        }
        if !self.known.departs_from(&self.assumed, self.spec.departure) {
            self.departed = 0;
            return None;
        }
        self.departed = self.departed.saturating_add(1);
        if self.departed < LASTING || now < self.not_before {
            return None;
        }
        self.departed = 0;
        self.not_before = now + self.spec.pause;
        let mut measured = self.known.clone();
        if measured.mix.is_empty() {
            measured.mix.clone_from(&self.assumed.mix);
        }
        self.assumed_before = std::mem::replace(&mut self.assumed, measured);
        Some(self.assumed.conditions())
    }

    /// Takes in what was measured within the window; false if nothing was.
    fn close_window(&mut self) -> bool {
        let mut measured = false;
        for (key, uses) in std::mem::take(&mut self.runs) {
            if let Some(per_mille) = uses.per_mille() {
                self.known.durations.insert(key, per_mille);
                measured = true;
            }
        }
        for (key, uses) in std::mem::take(&mut self.transfers) {
            if let Some(link) = uses.link() {
                self.known.links.insert(key, link);
                measured = true;
            }
        }
        let total: u64 = self.arrived.values().sum();
        if total < MIN_ITEMS {
            return measured;
        }
        let arrived = std::mem::take(&mut self.arrived);
        for share in &self.spec.mix {
            let items = arrived.get(&share.module).copied().unwrap_or_default();
            let per_mille = items.saturating_mul(1_000) / total;
            self.known.mix.insert(share.module, per_mille as u32);
        }
        true
    }

    /// Whether a plan is better enough to take the place of the one in force.
    pub(super) fn accepts(&self, gain: PlanGain) -> bool {
        gain.next as f64 > gain.current as f64 * (1.0 + self.spec.min_gain)
    }

    /// A better plan could not be used, for a reason that may pass: it is solved again while the conditions last.
    pub(super) fn on_given_up(&mut self) {
        self.assumed = self.assumed_before.clone();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MODULES: [ModuleId; 2] = [ModuleId(0), ModuleId(1)];

    fn spec() -> ReplanSpec {
        let share = |module| MixShare {
            module,
            per_mille: 500,
        };
        ReplanSpec::new(MODULES.map(share).to_vec())
    }

    /// Conditions of a second, in thousandths: items of the first module, durations, links.
    type Second = (u32, u32, u32);

    const PLANNED: Second = (500, 1_000, 1_000);

    /// Runs seconds of these conditions with 100 items each; gives what was to be solved for, with the second.
    fn solved(replan: &mut Replan, begin: u64, seconds: &[Second]) -> Vec<(u64, Conditions)> {
        let mut asked = Vec::new();
        for (second, &(first, duration, link)) in (begin..).zip(seconds) {
            let items = u64::from(first / 10);
            replan.on_arrived(MODULES[0], items);
            replan.on_arrived(MODULES[1], 100 - items);
            for _ in 0..20 {
                let expected = Span::from_millis(10);
                let took = |per_mille: u32| expected.scale(f64::from(per_mille) / 1e3);
                let run = PlannedUse {
                    module: MODULES[0],
                    from: None,
                    class: "slow",
                    expected,
                    bandwidth_bps: 0,
                };
                replan.on_used(&run, took(duration));
                let transfer = PlannedUse {
                    from: Some("slow"),
                    class: "fast",
                    bandwidth_bps: 1_000_000,
                    ..run
                };
                replan.on_used(&transfer, took(link));
            }
            let now = Timestamp::ZERO + Span::from_secs(second);
            asked.extend(replan.look(now).map(|conditions| (second, conditions)));
        }
        asked
    }

    #[test]
    fn lasting_departure_is_solved_for_once() {
        for departed in [
            (900, 1_000, 1_000),
            (500, 2_000, 1_000),
            (500, 1_000, 4_000),
            (500, 1_000, 250),
        ] {
            let mut replan = Replan::new(spec());
            assert!(solved(&mut replan, 0, &[PLANNED; 30]).is_empty());
            let asked = solved(&mut replan, 30, &[departed; 300]);
            let [(second, conditions)] = &asked[..] else {
                panic!("{departed:?}: {asked:?}");
            };
            assert!(*second <= 45, "{departed:?}: after {second} s");
            assert_eq!(conditions.mix[0].per_mille, departed.0);
            assert_eq!(conditions.durations[0].per_mille, departed.1);
            let [link] = &conditions.links[..] else {
                panic!("{conditions:?}");
            };
            assert_eq!((&*link.from, &*link.to), ("slow", "fast"));
            assert_eq!(
                link.bandwidth_bps,
                1_000_000_000 / u64::from(departed.2),
                "{departed:?}"
            );
            // As planned is a departure from what was solved for.
            assert_eq!(solved(&mut replan, 330, &[PLANNED; 300]).len(), 1);
        }
    }

    #[test]
    fn short_departure_is_not_solved_for() {
        let mut replan = Replan::new(spec());
        let mut seconds = vec![PLANNED; 60];
        seconds[31..34].fill((500, 4_000, 4_000));
        assert!(solved(&mut replan, 0, &seconds).is_empty());
    }

    #[test]
    fn windows_without_measurements_do_not_count() {
        let mut replan = Replan::new(spec());
        let slow = (500, 4_000, 1_000);
        assert!(solved(&mut replan, 0, &[slow; 6]).is_empty());
        for second in 6..60 {
            let now = Timestamp::ZERO + Span::from_secs(second);
            assert_eq!(replan.look(now), None, "{second} s");
        }
    }

    #[test]
    fn solutions_are_apart_while_conditions_alternate() {
        let mut replan = Replan::new(spec());
        let slow = (500, 1_000, 4_000);
        let seconds: Vec<Second> = (0..600_u32)
            .map(|second| if second / 10 % 2 == 0 { slow } else { PLANNED })
            .collect();
        let asked = solved(&mut replan, 0, &seconds);
        for pair in asked.windows(2) {
            assert!(pair[1].0 - pair[0].0 >= 30, "{} s, {} s", pair[0].0, pair[1].0);
        }
    }

    #[test]
    fn plan_that_could_not_be_used_is_solved_for_again() {
        let mut replan = Replan::new(spec());
        let slow = (500, 2_000, 1_000);
        assert_eq!(solved(&mut replan, 0, &[slow; 60]).len(), 1);
        replan.on_given_up();
        assert_eq!(solved(&mut replan, 60, &[slow; 60]).len(), 1);
    }

    #[test]
    fn plan_is_accepted_for_a_tenth_more() {
        let replan = Replan::new(spec());
        let accepts = |current, next| replan.accepts(PlanGain { current, next });
        assert!(!accepts(100, 100) && !accepts(100, 110) && accepts(100, 111));
        assert!(accepts(0, 1), "the plan in force serves nothing");
    }

    proptest! {
        /// Noise around the planned conditions is no departure.
        #[test]
        fn planned_conditions_are_never_solved_for(
            noise in prop::collection::vec((450_u32..550, 850_u32..1_150, 850_u32..1_150), 1..200),
        ) {
            let mut replan = Replan::new(spec());
            prop_assert!(solved(&mut replan, 0, &noise).is_empty());
        }
    }
}
