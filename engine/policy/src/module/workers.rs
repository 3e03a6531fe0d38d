//! Workers of a module, one for each of its slots: state and durations.

use weir_types::{Profile, SlotId, Span, Timestamp};

use crate::measure::correction::Correction;
use crate::weir::duration_spread::{DurationSpread, DurationSpreadSpec};

use super::api::{BatchSlice, item_count};

/// State of one slot from its module's view.
#[derive(Debug, Clone)]
pub(super) struct WorkerView {
    pub(super) slot: SlotId,
    pub(super) free_at: Timestamp,
    pub(super) correction: Correction,
    /// The batch that is being formed for the slot (early binding only).
    pub(super) forming: Vec<BatchSlice>,
    /// Whether a batch runs on it (own pools only: the arbiter knows that of a shared slot).
    pub(super) busy: bool,
    /// Whether it can be used (own pools only).
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

/// All slots of a module, ascending by slot id. A *place* is an index into this order.
#[derive(Debug, Clone)]
pub(super) struct Workers {
    all: Vec<WorkerView>,
    /// Mean of measured over expected durations.
    ratio: f64,
    /// Present slowness of all slots and the spread of durations around it, if both are measured. The
    /// corrections of slots are then relative to that slowness and slow: they describe lasting differences
    /// between slots.
    spread: Option<DurationSpread>,
    /// Places of the slots that can be used.
    up: Vec<usize>,
    /// Place of the worker that got the last request in turn, if each worker has its own mailbox.
    turn: usize,
    profile: Profile,
    /// Durations by batch size, computed from the profile.
    durations: Vec<Span>,
    /// Durations by place and batch size, if slots differ in speed.
    ends: Vec<Vec<Span>>,
}

/// Weight of one measurement in a slot's correction relative to the other slots.
const SLOT_GAIN: f64 = 0.02;

/// Largest batch size whose duration is kept in the tables.
const MAX_KEPT_SIZES: u32 = 1_024;

impl Workers {
    /// Workers on `slots`. Batches of up to `max_batch` items take as long as `profile` says, or `ends` for
    /// each slot.
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

    /// Profiled duration on the slot at `place`.
    pub(super) fn profiled_at(&self, place: usize, size: u32) -> Span {
        let own = self.ends.get(place);
        let known = own.and_then(|durations| durations.get(size as usize).or(durations.last()));
        known.copied().unwrap_or_else(|| self.profiled(size))
    }

    /// Profiled duration on the slot with that id.
    pub(super) fn profiled_on(&self, slot: SlotId, size: u32) -> Span {
        match self.place(slot) {
            Some(place) => self.profiled_at(place, size),
            None => self.profiled(size),
        }
    }

    /// Least expected duration of a batch of `size`: that on the fastest usable slot, as the slots were
    /// recently.
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

    /// Expected duration of a batch of `size`, as the slots were recently.
    pub(super) fn expected(&self, size: u32) -> Span {
        self.profiled(size).scale(self.ratio)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of slots that can be used.
    pub(super) fn up(&self) -> usize {
        self.up.len()
    }

    /// Mean ratio of measured to expected durations over the slots; 1 before any measurement.
    pub(super) fn ratio(&self) -> f64 {
        self.ratio
    }

    /// Returns the place of `slot`.
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

    /// Expected duration on the slot at `place` of a batch whose profiled duration is `profiled`.
    pub(super) fn expected_at(&self, place: usize, profiled: Span) -> Span {
        let now = self.slowness();
        let of_slot = |worker: &WorkerView| worker.correction.expected_duration(profiled);
        self.at(place).map_or(profiled, of_slot).scale(now)
    }

    /// Duration that is promised for a batch of `size` whose profiled duration is `profiled`, on the slot at
    /// `place`: expected duration plus the mean deviation, or a quantile that fits a backlog of `pressure`
    /// (queued work over the time that requests have here).
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

    /// Factor by which all slots are slow now, and by which waits are scaled; 1 if it is not measured.
    pub(super) fn slowness(&self) -> f64 {
        self.spread.as_ref().map_or(1.0, DurationSpread::factor)
    }

    /// Ratio of the promised to the expected duration of a batch of `size` under a full queue; 1 without a
    /// spread.
    pub(super) fn full_promise(&self, size: u32) -> f64 {
        let spread = self.spread.as_ref();
        spread.map_or(1.0, |spread| spread.promise(size, 1.0))
    }

    /// Degree to which durations deviate from their profiles, 0 to 1; 0 if it is not measured.
    pub(super) fn disturbance(&self) -> f64 {
        self.spread.as_ref().map_or(0.0, DurationSpread::disturbance)
    }

    /// Whether the spread of durations is measured separately from the present slowness.
    pub(super) fn has_spread(&self) -> bool {
        self.spread.is_some()
    }

    /// Drops measurements that are too old from the present slowness.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        if let Some(spread) = &mut self.spread {
            spread.refresh(now);
            self.ratio = spread.factor();
        }
    }

    /// Records that a batch of `size` took `actual` on a slot where `expected` was profiled.
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

    /// Measures durations by another rule from now on, starting without measurements.
    pub(super) fn measure_by(&mut self, spread: Option<DurationSpreadSpec>) {
        self.spread = spread.map(DurationSpread::new);
        self.forget();
    }

    /// Forgets all measurements: durations are as profiled until measured again.
    pub(super) fn forget(&mut self) {
        for worker in &mut self.all {
            worker.correction = Correction::default();
        }
        self.spread = self.spread.as_ref().map(DurationSpread::reset);
        self.ratio = 1.0;
    }

    /// Marks a worker as usable or not; returns whether that is a change.
    pub(super) fn set_up(&mut self, slot: SlotId, up: bool) -> bool {
        let news = self.of_mut(slot).is_some_and(|worker| {
            let news = worker.up != up;
            worker.up = up;
            news
        });
        self.up = (0..self.all.len()).filter(|&place| self.all[place].up).collect();
        news
    }

    /// The next usable worker in turn; the same one again if none is usable.
    pub(super) fn in_turn(&mut self) -> usize {
        let later = self.up.partition_point(|&place| place <= self.turn);
        if let Some(&next) = self.up.get(later).or(self.up.first()) {
            self.turn = next;
        }
        self.turn
    }
}
