//! What a module knows of its slots, that is of its workers.

use weir_types::{Profile, SlotId, Span, Timestamp};

use crate::measure::correction::Correction;

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
    /// Places of those that are there.
    up: Vec<usize>,
    /// Whose turn it is to get a request, where each has a mailbox of its own.
    turn: usize,
    profile: Profile,
    /// Durations by batch size, as the profile has them.
    durations: Vec<Span>,
}

/// Batch sizes whose durations are kept.
const MAX_KEPT_SIZES: u32 = 1_024;

impl Workers {
    /// Workers on `slots`, whose batches of up to `max_batch` items take as long as `profile` says.
    pub(super) fn new(slots: &[SlotId], profile: &Profile, max_batch: u32) -> Self {
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
        Self {
            up: (0..all.len()).collect(),
            all,
            ratio: 1.0,
            turn: 0,
            durations: (0..=max_batch.min(MAX_KEPT_SIZES))
                .map(|size| profile.duration(size))
                .collect(),
            profile: profile.clone(),
        }
    }

    /// Duration of a batch of `size` by the profile.
    pub(super) fn profiled(&self, size: u32) -> Span {
        let known = self.durations.get(size as usize).copied();
        known.unwrap_or_else(|| self.profile.duration(size))
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

    /// A batch took `actual` on a slot where `expected` was profiled.
    pub(super) fn measured(&mut self, slot: SlotId, expected: Span, actual: Span) {
        let Some(worker) = self.of_mut(slot) else { return };
        let before = worker.correction.ratio();
        worker.correction.on_measured(expected, actual);
        if worker.correction.ratio() != before {
            let sum: f64 = self.all.iter().map(|worker| worker.correction.ratio()).sum();
            self.ratio = sum / self.all.len().max(1) as f64;
        }
    }

    /// Durations are as the profile has them again, until they are measured anew.
    pub(super) fn forget(&mut self) {
        for worker in &mut self.all {
            worker.correction = Correction::default();
        }
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
