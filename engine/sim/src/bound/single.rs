//! One resource: the most jobs that it can do in time.
//!
//! Jobs have agreeable windows (none is released earlier and due later than another), so that the earliest deadline is
//! also the first arrival, preemption gains nothing, and the most jobs in time are found by the rule of Kise, Ibaraki and
//! Mine (1978; Moore and Hodgson's, with release times): take jobs in order; when one would be late, drop the one
//! without which the work is done soonest.

use std::collections::BTreeMap;

use super::slack::Slacks;

/// A request's work on one resource. Times are in the resource's own time, which runs as fast as it has capacity: one
/// unit of time does one unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) request: u32,
    pub(super) release: i64,
    pub(super) due: i64,
    pub(super) work: i64,
}

/// The requests that are dropped, ascending where all jobs are alike: as few as can be.
pub(super) fn fewest_losses(jobs: &[Job]) -> Vec<u32> {
    let alike = jobs.windows(2).all(|pair| pair[0].work == pair[1].work);
    if alike {
        losses_of_equal_work(jobs)
    } else {
        losses_of_unequal_work(jobs)
    }
}

/// Losses if all jobs have the same size. The newest job is dropped, since the work before it is done
/// soonest.
fn losses_of_equal_work(jobs: &[Job]) -> Vec<u32> {
    let mut lost = Vec::new();
    let mut done = i64::MIN;
    for job in jobs {
        let finish = done.max(job.release) + job.work;
        if finish <= job.due {
            done = finish;
        } else {
            lost.push(job.request);
        }
    }
    lost
}

fn losses_of_unequal_work(jobs: &[Job]) -> Vec<u32> {
    let mut lost = Vec::new();
    let mut slacks = Slacks::new(jobs.len());
    // Accepted jobs by size, in order: of a size only the last is a candidate, since least waits for it.
    let mut by_work: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    // Work done before this job cannot come later jobs to good: it starts as it is released.
    let mut first = 0;
    let mut done = i64::MIN;
    for (at, job) in jobs.iter().enumerate() {
        if done <= job.release {
            if job.release + job.work > job.due {
                lost.push(job.request);
                continue;
            }
            by_work.clear();
            first = at;
        }
        let start = done.max(job.release);
        slacks.push(at, start - job.release);
        by_work.entry(job.work).or_default().push(at);
        done = start + job.work;
        if done > job.due {
            let (gone, gain) = best_removal(&mut by_work, &slacks, first, at, job.work);
            lost.push(jobs[gone].request);
            by_work.entry(jobs[gone].work).or_default().pop();
            done -= gain;
            slacks.remove(gone);
            first = first.max(advance_after_removal(&mut slacks, gone, gain));
        }
    }
    lost
}

/// The job without which the work is done soonest, and by how much. The newest, `at`, is always one.
fn best_removal(
    by_work: &mut BTreeMap<i64, Vec<usize>>,
    slacks: &Slacks,
    first: usize,
    at: usize,
    own: i64,
) -> (usize, i64) {
    let (mut gone, mut gain) = (at, own);
    for (&work, accepted) in by_work.iter_mut().rev() {
        if work <= gain {
            break;
        }
        let Some(&last) = accepted.last() else { continue };
        if last < first {
            accepted.clear();
            continue;
        }
        let waits = slacks.min_after(last).map_or(i64::MAX, |least| least.0);
        if work.min(waits) > gain {
            (gone, gain) = (last, work.min(waits));
        }
    }
    (gone, gain)
}

/// Moves the jobs after `gone` ahead; returns the first job that can still be moved by dropping it or one after it.
fn advance_after_removal(slacks: &mut Slacks, gone: usize, gain: i64) -> usize {
    match slacks.min_after(gone) {
        Some((least, last)) if least <= gain => {
            slacks.advance_after(last, gain);
            last
        }
        Some(_) => {
            slacks.advance_after(gone, gain);
            0
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fewest jobs that must go, by trying all subsets in order.
    fn fewest(jobs: &[Job]) -> usize {
        let fits = |subset: usize| {
            let mut done = i64::MIN;
            jobs.iter()
                .enumerate()
                .filter(|(at, _)| subset >> at & 1 == 1)
                .all(|(_, job)| {
                    done = done.max(job.release) + job.work;
                    done <= job.due
                })
        };
        let kept = (0..1_usize << jobs.len())
            .filter(|&subset| fits(subset))
            .map(usize::count_ones)
            .max();
        jobs.len() - kept.unwrap_or(0) as usize
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn no_choice_keeps_more(
            gaps in prop::collection::vec((0_i64..6, 0_i64..6, 1_i64..12), 1..12),
            stay in 4_i64..30,
        ) {
            let (mut release, mut due) = (0, stay);
            let jobs: Vec<Job> = (0_u32..).zip(gaps).map(|(request, (wait, more, work))| {
                release += wait;
                due = (due + more).max(release + 1);
                Job { request, release, due, work }
            }).collect();
            let gone = fewest_losses(&jobs);
            prop_assert_eq!(gone.len(), fewest(&jobs));
            let kept: Vec<Job> = jobs.iter().copied().filter(|job| !gone.contains(&job.request)).collect();
            prop_assert_eq!(fewest(&kept), 0, "what is kept is in time");
        }
    }
}
