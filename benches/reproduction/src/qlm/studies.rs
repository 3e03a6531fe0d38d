//! All parts of the evaluation, run.

use weir_policy::groups::{Operations, QueueRule};

use super::ReproduceError;
use super::returning::{self, Returning};
use super::setting::{Case, Devices, Outcome, Run, SEEDS};
use crate::parallel::in_parallel;

/// Rules with their names.
pub const RULES: [(&str, QueueRule); 6] = [
    ("fcfs", QueueRule::Fcfs),
    ("edf", QueueRule::Edf),
    ("shepherd", QueueRule::Shepherd),
    ("sticky", QueueRule::Sticky),
    ("virtual, as in the paper", QueueRule::PAPER),
    ("virtual", QueueRule::WEIR),
];
/// Requests a second of workload A.
pub const RATES: [f64; 3] = [4.0, 8.0, 12.0];
/// Parts of requests that are for the tail.
pub const TAILS: [f64; 4] = [0.05, 0.2, 0.35, 0.5];
/// Parts of requests that are urgent.
pub const URGENT: [f64; 6] = [0.02, 0.05, 0.1, 0.25, 0.5, 0.9];
/// Scales of objectives (Figure 20).
pub const SCALES: [f64; 6] = [0.5, 1.0, 2.0, 3.0, 5.0, 11.0];
/// Lengths of the queue (Figure 16), in requests that arrive at once.
pub const QUEUES: [usize; 5] = [50, 250, 500, 1_000, 2_000];
/// Mean batches of which a group has at most so many (Figure 18).
pub const DELTAS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Parts of requests that are far larger than the rest (Figure 15).
pub const MEGAS: [f64; 4] = [0.0, 0.01, 0.03, 0.1];
/// Instances of four that are slow (Figure 14).
pub const SLOW: [usize; 5] = [0, 1, 2, 3, 4];

/// Operations, each switched off.
#[must_use]
pub fn ablations() -> [(&'static str, Operations); 6] {
    let all = Operations::ALL;
    [
        ("all", all),
        ("no eviction", Operations { evict: false, ..all }),
        ("no swapping", Operations { swap: false, ..all }),
        (
            "no balancing",
            Operations {
                balance: false,
                ..all
            },
        ),
        (
            "no warm start",
            Operations {
                warm_start: false,
                ..all
            },
        ),
        (
            "no reordering",
            Operations {
                reorder: false,
                ..all
            },
        ),
    ]
}

/// Workload A at a rate and with a part of the tail.
#[must_use]
pub fn many(rule: QueueRule, rate: f64, tail_share: f64) -> Case {
    Case {
        rate,
        tail_share,
        ..Case::many(rule)
    }
}

/// Workload A at which the queue is long: arrivals are faster than any rule serves them.
#[must_use]
pub fn crowded(rule: QueueRule) -> Case {
    Case {
        rate: 12.0,
        tail_share: 0.35,
        ..Case::many(rule)
    }
}

/// One model, and as many requests at once as the queue is long.
#[must_use]
pub fn queued(rule: QueueRule, requests: usize) -> Case {
    Case {
        rate: 400.0,
        requests,
        ..Case::one(rule)
    }
}

/// One model and one class of objectives (Figure 17), so that a request overtakes only requests of other tiers, by
/// joining a group before them.
#[must_use]
pub fn estimated() -> Case {
    Case {
        urgent_share: 0.0,
        ..Case::one(QueueRule::PAPER)
    }
}

/// Results of all studies.
#[derive(Debug, Clone, PartialEq)]
pub struct Studies {
    /// Outcome of each case, without repetition.
    pub outcomes: Vec<Outcome>,
    /// Estimated and actual completion times in seconds, of one seed of [`estimated`].
    pub estimates: Vec<(f64, f64)>,
    /// Costs of returning sequences to the queue, by profile.
    pub returning: Vec<Returning>,
}

impl Studies {
    /// Runs all of them.
    ///
    /// # Errors
    /// [`ReproduceError`]: no asset pack, or one that is not as it should be.
    pub fn run() -> Result<Self, ReproduceError> {
        let devices = Devices::from_env()?;
        let mut cases: Vec<(Case, usize)> = Vec::new();
        let mut add = |case: Case, seeds: usize| {
            if !cases.iter().any(|(other, _)| *other == case) {
                cases.push((case, seeds));
            }
        };
        for (_, rule) in RULES {
            for rate in RATES {
                for tail in TAILS {
                    add(many(rule, rate, tail), SEEDS.len());
                }
            }
            for urgent_share in URGENT {
                let case = crowded(rule);
                add(Case { urgent_share, ..case }, 3);
                let case = Case::one(rule);
                add(Case { urgent_share, ..case }, 3);
            }
            add(Case::one(rule), 3);
            for scale in SCALES {
                add(
                    Case {
                        scale,
                        ..crowded(rule)
                    },
                    3,
                );
            }
            for requests in QUEUES {
                add(queued(rule, requests), 3);
            }
            for mega_share in MEGAS {
                let case = Case::many(rule);
                add(Case { mega_share, ..case }, 3);
            }
        }
        for (_, operations) in ablations() {
            for case in [crowded(QueueRule::WEIR), Case::one(QueueRule::WEIR)] {
                add(Case { operations, ..case }, 3);
            }
            let case = Case {
                mega_share: 0.1,
                operations,
                ..Case::one(QueueRule::WEIR)
            };
            add(case, 3);
        }
        for slow in SLOW {
            for balance in [true, false] {
                let operations = Operations {
                    balance,
                    ..Operations::ALL
                };
                let case = crowded(QueueRule::WEIR);
                add(
                    Case {
                        slow,
                        operations,
                        ..case
                    },
                    3,
                );
            }
        }
        for delta in DELTAS {
            add(
                Case {
                    delta,
                    ..crowded(QueueRule::WEIR)
                },
                3,
            );
        }
        add(estimated(), SEEDS.len());
        let (_, result) = estimated().run_one(&devices, SEEDS[0])?;
        let estimates = result
            .requests
            .iter()
            .filter_map(|outcome| Some((outcome.estimate?.as_secs_f64(), outcome.last?.as_secs_f64())));
        Ok(Self {
            returning: returning::run(&super::setting::assets()?)?,
            estimates: estimates.collect(),
            outcomes: in_parallel(&cases, |(case, seeds)| case.run(&devices, *seeds))?,
        })
    }

    /// Outcome of a case; `None` if it was not run.
    #[must_use]
    pub fn outcome(&self, case: &Case) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.case == *case)
    }

    /// Its mean over the seeds.
    #[must_use]
    pub fn mean(&self, case: &Case, of: impl Fn(&Run) -> f64) -> f64 {
        self.outcome(case).map_or(f64::NAN, |outcome| outcome.mean(of))
    }
}
