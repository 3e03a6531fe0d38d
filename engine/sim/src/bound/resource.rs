//! Resources that can run short: a module's workers, the slots that several modules share, or a weighted sum
//! of them. Each request that visits a resource is a job on it.

use weir_types::{Span, Timestamp};

use super::cost::PARTS;
use super::input::BoundError;
use super::input::{BoundInput, Capacity};
use super::single::Job;

/// Keeps sums of times and works far from the end of `i64`.
const MAX_WORK: u128 = 1 << 60;

/// Module of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) module: usize,
    /// Factor by which its slot time counts in the sum.
    pub(super) weight: u64,
    /// Time by which the module's window is moved ahead: the least time to reach it. Work that a request does
    /// in the modules of a sum, one after the other, then falls into a short window.
    pub(super) shift: Span,
}

/// Modules, weighted, and the capacity for the weighted sum of their slot times.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) members: Vec<Member>,
    /// Slot time that is offered per microsecond, from each time (in microseconds) on.
    steps: Vec<(u64, u64)>,
}

impl Resource {
    pub(super) fn new(modules: Vec<usize>, capacity: &Capacity) -> Self {
        let steps = capacity
            .0
            .iter()
            .map(|&(from, workers)| (from.micros(), u64::from(workers)));
        let member = |module| Member {
            module,
            weight: 1,
            shift: Span::ZERO,
        };
        Self {
            members: modules.into_iter().map(member).collect(),
            steps: steps.collect(),
        }
    }

    /// Every module by itself, then every group of shared slots.
    pub(super) fn all(input: &BoundInput<'_>) -> Vec<Self> {
        let modules = input.modules.iter().enumerate();
        let alone = modules.map(|(module, module_input)| Self::new(vec![module], &module_input.workers));
        let shared = input.shared.iter().map(|shared| {
            let mut members: Vec<usize> = shared.modules.iter().map(|module| module.index()).collect();
            members.sort_unstable();
            members.dedup();
            Self::new(members, &shared.slots)
        });
        alone.chain(shared).collect()
    }

    /// Weighted sum of several resources. `heads` is the least time to reach each module, by which the window
    /// of a module that stands alone in its part is moved ahead.
    pub(super) fn sum(parts: &[(&Self, u64)], heads: &[Span]) -> Self {
        let mut members = Vec::new();
        let mut changes: Vec<(u64, i128)> = Vec::new();
        for (part, weight) in parts {
            let shift = match part.members.as_slice() {
                [only] => heads[only.module],
                _ => Span::ZERO,
            };
            members.extend(part.members.iter().map(|member| Member {
                module: member.module,
                weight: member.weight * weight,
                shift,
            }));
            let mut before = 0;
            for &(from, capacity) in &part.steps {
                let from = from.saturating_sub(shift.micros());
                let capacity = i128::from(capacity) * i128::from(*weight);
                changes.push((from, capacity - before));
                before = capacity;
            }
        }
        changes.sort_unstable();
        let mut capacity = 0_i128;
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for (from, change) in changes {
            capacity += change;
            let now = u64::try_from(capacity).unwrap_or(u64::MAX);
            match steps.last_mut() {
                Some(last) if last.0 == from => last.1 = now,
                _ => steps.push((from, now)),
            }
        }
        Self { members, steps }
    }

    /// True if the two resources have a module in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.members
            .iter()
            .any(|own| other.members.iter().any(|theirs| own.module == theirs.module))
    }

    /// The most slot time a microsecond that it ever offers.
    pub(super) fn max_capacity(&self) -> u64 {
        self.steps.iter().map(|step| step.1).max().unwrap_or(0)
    }
}

/// Time window and work of a request on a resource, in real time (microseconds; work in weighted parts of
/// one).
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestWindow {
    pub(super) request: u32,
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) work: u128,
}

/// Widens windows until none begins earlier and ends later than another, then measures time in slot time.
pub(super) fn jobs(
    resource: &Resource,
    mut windows: Vec<RequestWindow>,
    origin: Timestamp,
) -> Result<Vec<Job>, BoundError> {
    let mut earliest = u64::MAX;
    for window in windows.iter_mut().rev() {
        earliest = earliest.min(window.from);
        window.from = earliest;
    }
    let mut latest = 0;
    for window in &mut windows {
        latest = latest.max(window.until);
        window.until = latest;
    }
    let clock = SlotClock::new(resource, origin.micros());
    if clock.at(latest) > MAX_WORK {
        return Err(BoundError::TooLong);
    }
    let jobs = windows.into_iter().map(|window| Job {
        request: window.request,
        release: clock.at(window.from) as i64,
        due: clock.at(window.until) as i64,
        work: window.work.min(MAX_WORK) as i64,
    });
    Ok(jobs.collect())
}

/// Slot time that a resource has offered since the first arrival, in parts of a microsecond.
struct SlotClock {
    /// `(moment, offered until then, offered a microsecond from then on)`.
    steps: Vec<(u64, u128, u128)>,
}

impl SlotClock {
    fn new(resource: &Resource, origin: u64) -> Self {
        let mut steps = vec![(origin, 0_u128, 0_u128)];
        for &(from, capacity) in &resource.steps {
            let (at, offered, pace) = steps[steps.len() - 1];
            let from = from.max(origin);
            let offered = offered + u128::from(from - at) * pace;
            steps.push((from, offered, u128::from(capacity) * u128::from(PARTS)));
        }
        Self { steps }
    }

    fn at(&self, moment: u64) -> u128 {
        let step = self.steps.partition_point(|step| step.0 <= moment);
        match step {
            0 => 0,
            step => {
                let (from, offered, pace) = self.steps[step - 1];
                offered + u128::from(moment - from) * pace
            }
        }
    }
}
