//! What can run short: a module's workers, the slots that several modules share, or a weighted sum of them; and the jobs
//! that the requests are to it.

use weir_policy::Timestamp;

use super::BoundError;
use super::cost::PARTS;
use super::input::{Capacity, Scene};
use super::single::Job;

/// Keeps sums of times and works far from the end of `i64`.
const WORK_MOST: u128 = 1 << 60;

/// Modules, weighted, and the capacity for the weighted sum of their slot times.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) members: Vec<(usize, u64)>,
    /// From each moment (microseconds) on, so much slot time a microsecond.
    steps: Vec<(u64, u64)>,
}

impl Resource {
    pub(super) fn new(members: Vec<(usize, u64)>, capacity: &Capacity) -> Self {
        let steps = capacity
            .0
            .iter()
            .map(|&(from, workers)| (from.micros(), u64::from(workers)));
        Self {
            members,
            steps: steps.collect(),
        }
    }

    /// Every module by itself, then every group of shared slots.
    pub(super) fn all(scene: &Scene<'_>) -> Vec<Self> {
        let modules = scene.modules.iter().enumerate();
        let alone = modules.map(|(module, station)| Self::new(vec![(module, 1)], &station.workers));
        let shared = scene.shared.iter().map(|shared| {
            let mut members: Vec<(usize, u64)> =
                shared.modules.iter().map(|module| (module.index(), 1)).collect();
            members.sort_unstable();
            members.dedup();
            Self::new(members, &shared.slots)
        });
        alone.chain(shared).collect()
    }

    /// The sum of several, each times its weight: slot time of any of them counts so much.
    pub(super) fn sum(parts: &[(&Self, u64)]) -> Self {
        let mut members = Vec::new();
        let mut changes: Vec<(u64, i128)> = Vec::new();
        for (part, weight) in parts {
            members.extend(part.members.iter().map(|&(module, own)| (module, own * weight)));
            let mut before = 0;
            for &(from, capacity) in &part.steps {
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

    /// Whether they have a module in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.members
            .iter()
            .any(|(module, _)| other.members.iter().any(|(theirs, _)| module == theirs))
    }

    /// The most slot time a microsecond that it ever offers.
    pub(super) fn most(&self) -> u64 {
        self.steps.iter().map(|step| step.1).max().unwrap_or(0)
    }
}

/// What a request is to a resource, in real time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stay {
    pub(super) request: u32,
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) work: u128,
}

/// Widens windows until none begins earlier and ends later than another, then counts time in slot time.
pub(super) fn jobs(
    resource: &Resource,
    mut stays: Vec<Stay>,
    origin: Timestamp,
) -> Result<Vec<Job>, BoundError> {
    let mut earliest = u64::MAX;
    for stay in stays.iter_mut().rev() {
        earliest = earliest.min(stay.from);
        stay.from = earliest;
    }
    let mut latest = 0;
    for stay in &mut stays {
        latest = latest.max(stay.until);
        stay.until = latest;
    }
    let clock = SlotClock::new(resource, origin.micros());
    if clock.at(latest) > WORK_MOST {
        return Err(BoundError::TooLong);
    }
    let jobs = stays.into_iter().map(|stay| Job {
        request: stay.request,
        release: clock.at(stay.from) as i64,
        due: clock.at(stay.until) as i64,
        work: stay.work.min(WORK_MOST) as i64,
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
