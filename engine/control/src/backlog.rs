//! Backlog of the slots that stages of cascades run on: queued work by the durations as they are measured, on the slots
//! that can be used, with the time that other modules leave of them.
//!
//! ```text
//! backlog(slot) = sum over stages of queued work * part of the slot / (1 - part of its time that other modules take)
//! wait          = latency objective - bare execution of the longest path - max over fixed slots of backlog(slot)
//! backlog       = max over relieved slots of backlog(slot) / wait
//! ```
//!
//! A slot is relieved if another gear would leave it less work. The others are fixed: first stages have the same items in every
//! gear, and the time that these wait is no longer there for the stages after them.

use std::collections::{BTreeMap, BTreeSet};

use weir_policy::gears::InvocationSize;
use weir_types::{ModuleId, SlotId, Span, Topology};

/// Part of a slot that counts as left, however much time other modules take.
const MIN_LEFT: f64 = 0.1;

/// Part of the latency objective that counts as time to wait, however long the bare execution is; and part of that, however
/// much is queued on fixed slots.
const MIN_WAIT: f64 = 0.1;

/// A slot of a module, and what gears set it to last.
#[derive(Debug)]
pub(crate) struct SharedSlot {
    pub(crate) slot: SlotId,
    pub(crate) share: Option<f64>,
    pub(crate) trigger: InvocationSize,
}

/// Work of a module at a look at the load.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ModuleWork {
    /// Slot time of the items of a stage that wait or run; `None`: the module is no stage.
    pub(crate) queued: Option<Span>,
    /// Slot time of all batches so far.
    pub(crate) busy: Span,
    /// Expected duration of a batch of the present size.
    pub(crate) batch: Span,
    /// Number of slots that can be used, of a pool of its own.
    pub(crate) own_slots: usize,
}

/// Work of a slot at a look.
#[derive(Debug, Clone, Copy, Default)]
struct SlotWork {
    /// Seconds of work of stages.
    queued: f64,
    /// Seconds a second that other modules take.
    taken: f64,
    /// Whether the work depends on the gear.
    is_relieved: bool,
}

/// Slot time that a module which is no stage takes.
#[derive(Debug, Clone, Copy, Default)]
struct OtherWork {
    /// Slot time of all batches at the last look; `None` before the first.
    busy: Option<Span>,
    /// Seconds of slot time a second, smoothed over the window.
    rate: f64,
}

impl OtherWork {
    fn look(&mut self, busy: Span, elapsed: Span, window: Span) {
        let seconds = elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let Some(before) = self.busy.replace(busy) else {
            return;
        };
        let done = busy.as_secs_f64() - before.as_secs_f64();
        let gain = seconds / window.as_secs_f64().max(seconds);
        self.rate += (done / seconds - self.rate) * gain;
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SlotBacklog {
    topology: Topology,
    slo: Span,
    /// Slots that cannot be used.
    down: BTreeSet<SlotId>,
    /// Work of modules that are no stages, by module.
    others: Vec<OtherWork>,
}

impl SlotBacklog {
    pub(crate) fn new(topology: Topology, slo: Span) -> Self {
        Self {
            topology,
            slo,
            down: BTreeSet::new(),
            others: Vec::new(),
        }
    }

    /// A slot can be used, or not.
    pub(crate) fn on_slot(&mut self, slot: SlotId, is_up: bool) {
        if is_up {
            self.down.remove(&slot);
        } else {
            self.down.insert(slot);
        }
    }

    /// Forgets what other modules took: the next look begins anew.
    pub(crate) fn forget(&mut self) {
        self.others.clear();
    }

    /// Time until the busiest slot has done what is queued, as a part of the time that requests can wait. `slots` are those
    /// of each module that it shares, `relieved` the modules whose items depend on the gear; `elapsed` is the time since the
    /// last look.
    pub(crate) fn part(
        &mut self,
        modules: &[ModuleWork],
        (slots, relieved): (&[Vec<SharedSlot>], &[bool]),
        elapsed: Span,
        window: Span,
    ) -> f64 {
        self.others.resize(modules.len(), OtherWork::default());
        let (mut longest, mut longest_fixed) = (0.0_f64, 0.0_f64);
        let mut by_slot: BTreeMap<SlotId, SlotWork> = BTreeMap::new();
        let down = &self.down;
        let placed = modules.iter().zip(slots).zip(relieved);
        for (((module, shared), &is_relieved), other) in placed.zip(&mut self.others) {
            if module.queued.is_none() {
                other.look(module.busy, elapsed, window);
            }
            let queued = module.queued.unwrap_or(Span::ZERO).as_secs_f64();
            let usable: Vec<&SharedSlot> = shared.iter().filter(|own| !down.contains(&own.slot)).collect();
            if usable.is_empty() {
                // Work of a stage whose shared slots are all down waits for one of them.
                let left = match shared.is_empty() {
                    true => module.own_slots.max(1) as f64,
                    false => MIN_LEFT,
                };
                let of_kind = if is_relieved {
                    &mut longest
                } else {
                    &mut longest_fixed
                };
                *of_kind = of_kind.max(queued / left);
            }
            let shares: f64 = usable.iter().filter_map(|own| own.share).sum();
            let even = 1.0 / usable.len().max(1) as f64;
            for own in usable {
                let part = match shares > 0.0 {
                    true => own.share.unwrap_or(0.0) / shares,
                    false => even,
                };
                let work = by_slot.entry(own.slot).or_default();
                work.queued += part * queued;
                work.taken += part * other.rate;
                work.is_relieved |= is_relieved;
            }
        }
        for work in by_slot.into_values() {
            let of_kind = if work.is_relieved {
                &mut longest
            } else {
                &mut longest_fixed
            };
            *of_kind = of_kind.max(work.queued / (1.0 - work.taken).max(MIN_LEFT));
        }
        let slo = self.slo.as_secs_f64();
        let wait = (slo - self.bare_s(modules)).max(slo * MIN_WAIT).max(1e-6);
        longest / (wait - longest_fixed).max(wait * MIN_WAIT)
    }

    /// Execution of the longest path through the graph, in seconds. Edges lead to modules with higher ids.
    fn bare_s(&self, modules: &[ModuleWork]) -> f64 {
        let mut paths = vec![0.0_f64; modules.len()];
        for (id, module) in modules.iter().enumerate().rev() {
            let next = self.topology.successors(ModuleId(id as u32)).iter();
            let next = next.filter_map(|next| paths.get(next.index()).copied());
            let longest = next.fold(0.0, f64::max);
            paths[id] = module.batch.as_secs_f64() + longest;
        }
        paths.into_iter().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(slots: &[(u32, Option<f64>)]) -> Vec<SharedSlot> {
        let shared = |&(slot, share)| SharedSlot {
            slot: SlotId(slot),
            share,
            trigger: InvocationSize::default(),
        };
        slots.iter().map(shared).collect()
    }

    fn stage(queued_ms: u64) -> ModuleWork {
        ModuleWork {
            queued: Some(Span::from_millis(queued_ms)),
            batch: Span::from_millis(10),
            own_slots: 1,
            ..ModuleWork::default()
        }
    }

    /// Two stages in a row, and an objective of 120 ms: requests can wait for 100 ms.
    fn backlog() -> SlotBacklog {
        let topology = Topology::new(vec![vec![ModuleId(1)], vec![]]);
        SlotBacklog::new(topology, Span::from_millis(120))
    }

    fn assert_part(part: f64, expected: f64) {
        assert!((part - expected).abs() < 1e-9, "{part} {expected}");
    }

    #[test]
    fn backlog_is_that_of_the_busiest_slot_that_can_be_used() {
        let mut backlog = backlog();
        let modules = [stage(40), stage(60)];
        let part = |backlog: &mut SlotBacklog, placed: &[Vec<SharedSlot>]| {
            let look = Span::from_millis(50);
            backlog.part(&modules, (placed, &[true, true]), look, look)
        };
        let placed = [slots(&[(0, None), (1, None)]), slots(&[(1, None)])];
        assert_part(part(&mut backlog, &placed), 0.8);
        backlog.on_slot(SlotId(0), false);
        assert_part(part(&mut backlog, &placed), 1.0);
        backlog.on_slot(SlotId(1), false);
        assert_part(part(&mut backlog, &placed), 6.0);
        backlog.on_slot(SlotId(0), true);
        backlog.on_slot(SlotId(1), true);
        let shares = [slots(&[(0, Some(1.0)), (1, Some(0.0))]), slots(&[(1, None)])];
        assert_part(part(&mut backlog, &shares), 0.6);
        assert_part(part(&mut backlog, &[Vec::new(), Vec::new()]), 0.6);
    }

    #[test]
    fn wait_for_slots_that_no_gear_relieves_leaves_less_time() {
        let mut backlog = backlog();
        let (modules, look) = ([stage(50), stage(20)], Span::from_millis(50));
        let apart = [slots(&[(0, None)]), slots(&[(1, None)])];
        assert_part(backlog.part(&modules, (&apart, &[false, true]), look, look), 0.4);
        let together = [slots(&[(0, None)]), slots(&[(0, None)])];
        assert_part(
            backlog.part(&modules, (&together, &[false, true]), look, look),
            0.7,
        );
    }

    #[test]
    fn time_that_other_modules_take_is_not_left() {
        let mut backlog = backlog();
        let mut part = |busy| {
            let other = ModuleWork {
                queued: None,
                busy: Span::from_millis(busy),
                batch: Span::from_millis(10),
                own_slots: 1,
            };
            let placed = [slots(&[(0, None)]), slots(&[(0, None)])];
            let look = Span::from_millis(50);
            backlog.part(&[other, stage(30)], (&placed, &[false, true]), look, look)
        };
        assert_part(part(0), 0.3);
        assert_part(part(25), 0.6);
        assert_part(part(75), 3.0);
        assert_part(part(75), 0.3);
    }

    #[test]
    fn work_before_the_first_look_is_not_of_that_look() {
        let mut backlog = backlog();
        let other = ModuleWork {
            busy: Span::from_secs(60),
            batch: Span::from_millis(10),
            ..ModuleWork::default()
        };
        let placed = [slots(&[(0, None)]), slots(&[(0, None)])];
        let (look, window) = (Span::from_millis(50), Span::from_secs(1));
        let mut part = || backlog.part(&[other, stage(30)], (&placed, &[false, true]), look, window);
        assert_part(part(), 0.3);
        assert_part(part(), 0.3);
    }
}
