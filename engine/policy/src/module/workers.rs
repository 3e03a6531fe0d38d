//! What a module knows of its slots, that is of its workers.

use weir_types::{Profile, SlotId, Span, Timestamp};

use crate::measure::correction::Correction;
use crate::weir::duration_spread::{DurationSpread, DurationSpreadSpec};

use super::api::{BatchSlice, item_count};

/// One slot as its module sees it.
#[derive(Debug, Clone)]
pub(super) struct WorkerView {
    pub(super) slot: SlotId,
    pub(super) free_at: Timestamp,
    pub(super) correction: Correction,
    /// The batch that is being formed for it (`eager` only).
    pub(super) forming: Vec<BatchSlice>,
    /// A batch runs on it (own pools only: of a shared one the arbiter knows).
    pub(super) busy: bool,
    /// It is there (own pools only).
    pub(super) up: bool,
}

impl WorkerView {
    /// Items in the batch that is being formed.
    pub(super) fn formed(&self) -> u32 {
        item_count(&self.forming)
    }

    /// Whether a batch may start on it.
    pub(super) fn idle(&self) -> bool {
        self.up && !self.busy
    }
}

/// All slots of a module, in the order of their numbers.
#[derive(Debug, Clone)]
pub(super) struct Workers {
    all: Vec<WorkerView>,
    /// Mean of measured over expected durations.
    ratio: f64,
    /// How slow the slots are now and how that spreads, where both are measured. The corrections of slots are then relative to
    /// it, and slow: they hold what slots differ in for good.
    spread: Option<DurationSpread>,
    /// Places of those that are there.
    up: Vec<usize>,
    /// Whose turn it is to get a request, where each has a mailbox of its own.
    turn: usize,
    profile: Profile,
    /// Durations by batch size, as the profile has them.
    durations: Vec<Span>,
    /// By place, where slots are not alike: durations by batch size.
    ends: Vec<Vec<Span>>,
}

/// Weight of a measurement in what a slot differs in from the others.
const SLOT_GAIN: f64 = 0.02;

/// Batch sizes whose durations are kept.
const MAX_KEPT_SIZES: u32 = 1_024;

impl Workers {
    /// Workers on `slots`, whose batches of up to `max_batch` items take as long as `profile` says, or `ends` by slot.
    pub(super) fn new(
        slots: &[SlotId],
        (profile, ends): (&Profile, &[Profile]),
        max_batch: u32,
        spread: Option<DurationSpreadSpec>,
    ) -> Self {
        let view = |&slot: &SlotId| WorkerView {
            slot,
            free_at: Timestamp::ZERO,
            correction: Correction::default(),
            forming: Vec::new(),
            busy: false,
            up: true,
        };
        let mut all: Vec<WorkerView> = slots.iter().map(view).collect();
        all.sort_by_key(|worker| worker.slot);
        all.dedup_by_key(|worker| worker.slot);
        let durations = |profile: &Profile| -> Vec<Span> {
            let sizes = 0..=max_batch.min(MAX_KEPT_SIZES);
            sizes.map(|size| profile.duration(size)).collect()
        };
        let mut by_slot: Vec<(SlotId, &Profile)> = slots.iter().copied().zip(ends).collect();
        by_slot.sort_by_key(|(slot, _)| *slot);
        by_slot.dedup_by_key(|(slot, _)| *slot);
        Self {
            up: (0..all.len()).collect(),
            all,
            ratio: 1.0,
            spread: spread.map(DurationSpread::new),
            turn: 0,
            ends: by_slot.iter().map(|(_, profile)| durations(profile)).collect(),
            durations: durations(profile),
            profile: profile.clone(),
        }
    }

    /// Duration of a batch of `size` by the profile.
    pub(super) fn profiled(&self, size: u32) -> Span {
        let known = self.durations.get(size as usize).copied();
        known.unwrap_or_else(|| self.profile.duration(size))
    }

    /// The same on the slot at `place`.
    pub(super) fn profiled_at(&self, place: usize, size: u32) -> Span {
        let own = self.ends.get(place);
        let known = own.and_then(|durations| durations.get(size as usize).or(durations.last()));
        known.copied().unwrap_or_else(|| self.profiled(size))
    }

    /// The same on the slot of that number.
    pub(super) fn profiled_on(&self, slot: SlotId, size: u32) -> Span {
        match self.place(slot) {
            Some(place) => self.profiled_at(place, size),
            None => self.profiled(size),
        }
    }

    /// What a batch of `size` takes at least, on the slots as they were recently: on the fastest of those that are there.
    pub(super) fn least(&self, size: u32) -> Span {
        if self.ends.is_empty() {
            return self.expected(size);
        }
        let own = self
            .up
            .iter()
            .map(|&place| self.expected_at(place, self.profiled_at(place, size)));
        own.min().unwrap_or_else(|| self.expected(size))
    }

    /// Expected duration of a batch of `size` on the slots as they were recently.
    pub(super) fn expected(&self, size: u32) -> Span {
        self.profiled(size).scale(self.ratio)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many are there.
    pub(super) fn up(&self) -> usize {
        self.up.len()
    }

    /// Measured over expected durations, the mean of the slots; 1 without any.
    pub(super) fn ratio(&self) -> f64 {
        self.ratio
    }

    /// The place of `slot` among them.
    pub(super) fn place(&self, slot: SlotId) -> Option<usize> {
        self.all.binary_search_by_key(&slot, |worker| worker.slot).ok()
    }

    pub(super) fn at(&self, place: usize) -> Option<&WorkerView> {
        self.all.get(place)
    }

    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut WorkerView> {
        self.all.get_mut(place)
    }

    pub(super) fn of_mut(&mut self, slot: SlotId) -> Option<&mut WorkerView> {
        let place = self.place(slot)?;
        self.all.get_mut(place)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &WorkerView> + Clone {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut WorkerView> {
        self.all.iter_mut()
    }

    /// Expected duration on the slot at `place` of a batch that is profiled at `profiled`.
    pub(super) fn expected_at(&self, place: usize, profiled: Span) -> Span {
        let now = self.slowness();
        let of_slot = |worker: &WorkerView| worker.correction.expected_duration(profiled);
        self.at(place).map_or(profiled, of_slot).scale(now)
    }

    /// What is promised of a batch of `size` that is profiled at `profiled` on the slot at `place`: by the mean deviation,
    /// or by the quantile that suits a backlog of `pressure`, of the time that requests have here.
    pub(super) fn promised_at(&self, place: usize, size: u32, profiled: Span, pressure: f64) -> Span {
        match &self.spread {
            Some(spread) => self
                .expected_at(place, profiled)
                .scale(spread.promise(size, pressure)),
            None => self.at(place).map_or(profiled, |worker| {
                worker.correction.duration_with_margin(profiled)
            }),
        }
    }

    /// How slow the slots are now, by which waits are scaled; 1 where that is not measured by itself.
    pub(super) fn slowness(&self) -> f64 {
        self.spread.as_ref().map_or(1.0, DurationSpread::factor)
    }

    /// What is promised of a batch of `size` in a full queue, over what is expected of it; 1 without a spread.
    pub(super) fn full_promise(&self, size: u32) -> f64 {
        let spread = self.spread.as_ref();
        spread.map_or(1.0, |spread| spread.promise(size, 1.0))
    }

    /// How far durations are from being as profiled, 0 to 1; 0 where that is not looked at.
    pub(super) fn disturbance(&self) -> f64 {
        self.spread.as_ref().map_or(0.0, DurationSpread::disturbance)
    }

    /// Whether the spread of durations is measured apart from how slow they are now.
    pub(super) fn has_spread(&self) -> bool {
        self.spread.is_some()
    }

    /// What was measured long ago counts no more.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        if let Some(spread) = &mut self.spread {
            spread.refresh(now);
            self.ratio = spread.factor();
        }
    }

    /// A batch of `size` took `actual` on a slot where `expected` was profiled.
    pub(super) fn measured(&mut self, slot: SlotId, size: u32, expected: Span, actual: Span, now: Timestamp) {
        if let Some(spread) = &mut self.spread {
            spread.on_measured(size, expected, actual, now);
            let factor = spread.factor();
            self.ratio = factor;
            if let Some(worker) = self.of_mut(slot) {
                worker
                    .correction
                    .update(expected.scale(factor), actual, SLOT_GAIN);
            }
            return;
        }
        let Some(worker) = self.of_mut(slot) else { return };
        let before = worker.correction.ratio();
        worker.correction.on_measured(expected, actual);
        if worker.correction.ratio() != before {
            let sum: f64 = self.all.iter().map(|worker| worker.correction.ratio()).sum();
            self.ratio = sum / self.all.len().max(1) as f64;
        }
    }

    /// Durations are measured in another way from now on.
    pub(super) fn measure_by(&mut self, spread: Option<DurationSpreadSpec>) {
        self.spread = spread.map(DurationSpread::new);
        self.forget();
    }

    /// Durations are as the profile has them again, until they are measured anew.
    pub(super) fn forget(&mut self) {
        for worker in &mut self.all {
            worker.correction = Correction::default();
        }
        self.spread = self.spread.as_ref().map(DurationSpread::reset);
        self.ratio = 1.0;
    }

    /// A worker came or went; says whether that is news.
    pub(super) fn set_up(&mut self, slot: SlotId, up: bool) -> bool {
        let news = self.of_mut(slot).is_some_and(|worker| {
            let news = worker.up != up;
            worker.up = up;
            news
        });
        self.up = (0..self.all.len()).filter(|&place| self.all[place].up).collect();
        news
    }

    /// The next worker in turn among those that are there; the last in turn where none is.
    pub(super) fn in_turn(&mut self) -> usize {
        let later = self.up.partition_point(|&place| place <= self.turn);
        if let Some(&next) = self.up.get(later).or(self.up.first()) {
            self.turn = next;
        }
        self.turn
    }
}
