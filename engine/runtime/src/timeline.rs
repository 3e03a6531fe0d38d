//! Occupation of slots over the last seconds, and bookings on the shares and links of partitioned models. The
//! timeline is for display and has bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;
use weir_types::{SlotId, Span, Timestamp};

use crate::clock::Clock;

/// Age of the oldest entry that is kept.
const KEPT: Span = Span::from_secs(10);

/// Maximum number of batches and bookings that are kept; beyond it, the oldest are dropped before [`KEPT`]
/// has passed.
const MAX_KEPT: usize = 4_000;

/// Resource that batches or bookings occupy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// A slot: what ran on it.
    Slot(SlotId),
    /// A share of a worker: what is booked on it.
    Share(Arc<str>, u32),
    /// The link into a worker: transfers that are booked.
    Link(Arc<str>),
}

/// A batch on a lane.
#[derive(Debug, Clone)]
struct Occupation {
    lane: Lane,
    module: Arc<str>,
    from: Timestamp,
    to: Timestamp,
    items: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    clock: OnceLock<Clock>,
    kept: Mutex<VecDeque<Occupation>>,
}

/// The last seconds at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimelineSnapshot {
    /// Length of the timeline in seconds, up to now.
    pub seconds: f64,
    /// Modules, whose places spans name.
    pub modules: Vec<Arc<str>>,
    /// Occupied slots, shares and links, in order.
    pub lanes: Vec<LaneSnapshot>,
}

/// A slot, a share or a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneSnapshot {
    /// `slot`, `share` or `link`.
    pub kind: &'static str,
    /// Name of the slot, share or link.
    pub name: String,
    /// Place of the module, beginning in seconds from now (before it is negative), seconds that it takes, and items.
    pub spans: Vec<(usize, f64, f64, u32)>,
}

impl Timeline {
    /// The clock of the run, by which all times are.
    pub(crate) fn set_clock(&self, clock: Clock) {
        // There is one run to it.
        let _ = self.clock.set(clock);
    }

    /// A batch ran, or is booked.
    pub(crate) fn record(
        &self,
        lane: Lane,
        module: &Arc<str>,
        (from, to): (Timestamp, Timestamp),
        items: u32,
    ) {
        let mut kept = self.lock();
        while kept.len() >= MAX_KEPT || kept.front().is_some_and(|first| first.to + KEPT < from) {
            kept.pop_front();
        }
        kept.push_back(Occupation {
            lane,
            module: Arc::clone(module),
            from,
            to,
            items,
        });
    }

    /// The last seconds, as of now.
    pub(crate) fn snapshot(&self) -> TimelineSnapshot {
        let now = self.clock.get().map(Clock::now).unwrap_or_default();
        let mut modules: Vec<Arc<str>> = Vec::new();
        let mut lanes: BTreeMap<Lane, Vec<(usize, f64, f64, u32)>> = BTreeMap::new();
        for occupation in self.lock().iter().filter(|it| it.to + KEPT >= now) {
            let known = modules.iter().position(|module| *module == occupation.module);
            let module = known.unwrap_or_else(|| {
                modules.push(Arc::clone(&occupation.module));
                modules.len() - 1
            });
            let from = if occupation.from >= now {
                occupation.from.since(now).as_secs_f64()
            } else {
                -now.since(occupation.from).as_secs_f64()
            };
            let takes = occupation.to.since(occupation.from).as_secs_f64();
            let spans = lanes.entry(occupation.lane.clone()).or_default();
            spans.push((module, from, takes, occupation.items));
        }
        let lane = |(lane, spans): (Lane, _)| {
            let (kind, name) = match lane {
                Lane::Slot(slot) => ("slot", format!("slot {}", slot.0)),
                Lane::Share(worker, share) => ("share", format!("{worker}, share {share}")),
                Lane::Link(worker) => ("link", format!("link into {worker}")),
            };
            LaneSnapshot { kind, name, spans }
        };
        TimelineSnapshot {
            seconds: KEPT.as_secs_f64(),
            modules,
            lanes: lanes.into_iter().map(lane).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Occupation>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn slots_come_before_shares_and_links_and_modules_are_named_once() {
        let timeline = Timeline::default();
        let (detect, read): (Arc<str>, Arc<str>) = ("detect".into(), "read".into());
        timeline.record(Lane::Link("left".into()), &read, (at(30), at(40)), 2);
        timeline.record(Lane::Slot(SlotId(1)), &detect, (at(0), at(10)), 4);
        timeline.record(Lane::Share("left".into(), 0), &read, (at(40), at(60)), 2);
        timeline.record(Lane::Slot(SlotId(1)), &read, (at(10), at(15)), 1);
        // Without a clock it is the beginning of the run.
        let snapshot = timeline.snapshot();
        assert_eq!(snapshot.modules, [Arc::clone(&read), detect]);
        let names: Vec<&str> = snapshot.lanes.iter().map(|lane| &*lane.name).collect();
        assert_eq!(names, ["slot 1", "left, share 0", "link into left"]);
        assert_eq!(snapshot.lanes[0].spans, [(1, 0.0, 0.01, 4), (0, 0.01, 0.005, 1)]);
    }

    #[test]
    fn what_is_older_or_too_much_is_left_out() {
        let timeline = Timeline::default();
        let module: Arc<str> = "detect".into();
        for number in 0..MAX_KEPT as u64 + 10 {
            let from = at(number);
            timeline.record(
                Lane::Slot(SlotId(0)),
                &module,
                (from, from + Span::from_millis(1)),
                1,
            );
        }
        assert_eq!(timeline.lock().len(), MAX_KEPT);
        timeline.record(Lane::Slot(SlotId(0)), &module, (at(60_000), at(60_001)), 1);
        assert_eq!(timeline.lock().len(), 1);
    }
}
