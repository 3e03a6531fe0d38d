//! Expected results beside measured ones.

use weir_policy::groups::{Operations, QueueRule};

use super::returning;
use super::setting::Case;
use super::studies::{
    DELTAS, QUEUES, RATES, RULES, SCALES, SLOW, Studies, TAILS, URGENT, crowded, estimated, many, queued,
};
use crate::plot::markdown;

/// Rows of a table of verdicts.
#[derive(Debug, Default)]
struct Verdicts(Vec<Vec<String>>);

impl Verdicts {
    fn add(&mut self, what: &str, paper: &str, wanted: &str, found: impl Into<String>, holds: bool) {
        let verdict = if holds { "yes" } else { "no" };
        let cells = [what, paper, wanted].map(str::to_owned);
        let rest = [found.into(), verdict.to_owned()];
        self.0.push(cells.into_iter().chain(rest).collect());
    }

    fn table(&self) -> String {
        markdown(&["what", "paper", "wanted", "found", "holds"], &self.0)
    }
}

fn list(values: &[f64]) -> String {
    let texts: Vec<String> = values.iter().map(|value| format!("{value:.1}")).collect();
    texts.join(", ")
}

/// Points of attainment by which `rule` is above `sticky`, by case of workload A.
fn above_sticky(studies: &Studies, rule: QueueRule) -> Vec<f64> {
    let all = RATES.into_iter().flat_map(|rate| TAILS.map(|tail| (rate, tail)));
    all.map(|(rate, tail)| {
        let of = |rule| studies.mean(&many(rule, rate, tail), |run| run.all);
        of(rule) - of(QueueRule::Sticky)
    })
    .collect()
}

/// The least scale of objectives at which a rule meets 99.5 % of them.
fn scale_met(studies: &Studies, rule: QueueRule) -> f64 {
    let met = SCALES.into_iter().find(|scale| {
        let case = Case {
            scale: *scale,
            ..crowded(rule)
        };
        studies.mean(&case, |run| run.all) >= 99.5
    });
    met.unwrap_or(f64::INFINITY)
}

/// Throughput of `virtual` with eight models over that of `fcfs` and `edf`.
fn add_many_throughput(verdicts: &mut Verdicts, studies: &Studies) {
    let times = |rule: QueueRule| {
        let cases = RATES.into_iter().flat_map(|rate| TAILS.map(|tail| (rate, tail)));
        let ratios = cases.map(|(rate, tail)| {
            let of = |rule| studies.mean(&many(rule, rate, tail), |run| run.throughput);
            of(QueueRule::WEIR) / of(rule)
        });
        ratios.collect::<Vec<f64>>()
    };
    for (name, rule) in [("fcfs", QueueRule::Fcfs), ("edf", QueueRule::Edf)] {
        let ratios = times(rule);
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        verdicts.add(
            &format!("eight models: throughput over `{name}`, by rate and tail"),
            "3 to 4 times",
            "3 times at least",
            format!("{least:.1} to {most:.1} times"),
            least >= 3.0,
        );
    }
}

/// Attainment of `virtual` with eight models beside `sticky`.
fn add_many_attainment(verdicts: &mut Verdicts, studies: &Studies) {
    for (name, rule) in [
        ("as in the paper", QueueRule::PAPER),
        ("the default", QueueRule::WEIR),
    ] {
        let above = above_sticky(studies, rule);
        let worst = above.iter().copied().fold(f64::INFINITY, f64::min);
        let ahead = above.iter().filter(|points| **points >= 3.0).count();
        verdicts.add(
            &format!("eight models: `virtual` ({name}) against `sticky`, worst case (points)"),
            "no such rule",
            "-1 at least",
            format!("{worst:.1}"),
            worst >= -1.0,
        );
        verdicts.add(
            &format!("eight models: cases in which `virtual` ({name}) is 3 points above `sticky`"),
            "no such rule",
            "a third",
            format!("{ahead} of {}", above.len()),
            3 * ahead >= above.len(),
        );
    }
}

/// The operation that costs most throughput with eight models when it is switched off.
fn add_many_operations(verdicts: &mut Verdicts, studies: &Studies) {
    let cold = Operations {
        warm_start: false,
        ..Operations::ALL
    };
    let losses: Vec<(&str, f64)> = super::studies::ablations()
        .into_iter()
        .skip(1)
        .map(|(name, operations)| {
            let of = |operations| {
                let case = Case {
                    operations,
                    ..crowded(QueueRule::WEIR)
                };
                studies.mean(&case, |run| run.throughput)
            };
            (name, 100.0 * (1.0 - of(operations) / of(Operations::ALL)))
        })
        .collect();
    let most = losses
        .iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map_or("", |loss| loss.0);
    let without = Case {
        operations: cold,
        ..crowded(QueueRule::WEIR)
    };
    verdicts.add(
        "eight models: which operation costs most throughput when it is switched off",
        "warm start",
        "warm start",
        format!(
            "{most} (throughput without warm start {:.2} of {:.2} a second)",
            studies.mean(&without, |run| run.throughput),
            studies.mean(&crowded(QueueRule::WEIR), |run| run.throughput)
        ),
        most == "no warm start",
    );
}

fn add_many(verdicts: &mut Verdicts, studies: &Studies) {
    add_many_throughput(verdicts, studies);
    let urgent: Vec<f64> = URGENT
        .into_iter()
        .filter(|share| *share <= 0.05)
        .map(|urgent_share| {
            let case = Case {
                urgent_share,
                ..crowded(QueueRule::WEIR)
            };
            studies.mean(&case, |run| run.urgent)
        })
        .collect();
    verdicts.add(
        "eight models: urgent in time while they are 5 % of the queue at most",
        "above 90 %",
        "above 90 %",
        format!("{} %", list(&urgent)),
        urgent.iter().all(|share| *share > 90.0),
    );
    add_many_attainment(verdicts, studies);
    add_many_operations(verdicts, studies);
    let scales = [QueueRule::Edf, QueueRule::Shepherd, QueueRule::Fcfs].map(|rule| scale_met(studies, rule));
    verdicts.add(
        "scales of objectives at which `edf`, `shepherd`, `fcfs` meet all (99.5 %)",
        "3, 5, 11",
        "in this order",
        list(&scales),
        scales[0] <= scales[1] && scales[1] <= scales[2] && scales[2].is_finite(),
    );
}

fn add_one(verdicts: &mut Verdicts, studies: &Studies) {
    let throughput = |rule| studies.mean(&Case::one(rule), |run| run.throughput);
    for (name, rule, paper, least) in [
        ("fcfs", QueueRule::Fcfs, "20 %", 20.0),
        ("edf", QueueRule::Edf, "20 %", 20.0),
        ("shepherd", QueueRule::Shepherd, "50 %", 50.0),
    ] {
        let gain = 100.0 * (throughput(QueueRule::WEIR) / throughput(rule) - 1.0);
        verdicts.add(
            &format!("one model: throughput over `{name}`"),
            paper,
            paper,
            format!("{gain:.1} %"),
            gain >= least,
        );
    }
    let operations = Operations {
        evict: false,
        swap: false,
        ..Operations::ALL
    };
    let mega = Case {
        mega_share: 0.1,
        ..Case::one(QueueRule::WEIR)
    };
    let no_evict = super::studies::ablations()[1].1;
    let part = |case: Case| {
        let without = Case {
            operations: no_evict,
            ..case
        };
        studies.mean(&case, |run| run.urgent) - studies.mean(&without, |run| run.urgent)
    };
    let parts = [part(Case::one(QueueRule::WEIR)), part(mega)];
    verdicts.add(
        "one model: eviction's part in urgent attainment, without and with mega prompts (points)",
        "80 (of a single model)",
        "above 0",
        list(&parts),
        parts.iter().any(|part| *part > 0.0) && operations != no_evict,
    );
    let gains = QUEUES.map(|requests| {
        let of = |rule| studies.mean(&queued(rule, requests), |run| run.urgent);
        of(QueueRule::WEIR) - of(QueueRule::Fcfs)
    });
    verdicts.add(
        "one model: urgent in time above `fcfs` by the length of the queue (points)",
        "none at first, then growing",
        "none at first, then growing",
        list(&gains),
        gains[0].abs() < 1.0 && gains[QUEUES.len() - 1] > 10.0,
    );
}

fn add_robust(verdicts: &mut Verdicts, studies: &Studies) {
    let ratios: Vec<f64> = SLOW
        .into_iter()
        .map(|slow| {
            let of = |balance| {
                let operations = Operations {
                    balance,
                    ..Operations::ALL
                };
                let case = crowded(QueueRule::WEIR);
                studies.mean(
                    &Case {
                        slow,
                        operations,
                        ..case
                    },
                    |run| run.throughput,
                )
            };
            of(true) / of(false)
        })
        .collect();
    let text: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    verdicts.add(
        "unequal instances: throughput over one after the other, 0 to 4 of 4 slow",
        "more where they are unequal",
        "more where they are unequal",
        text.join(", "),
        ratios[1].max(ratios[2]).max(ratios[3]) > ratios[0].max(ratios[4]),
    );
    let r2 = studies.mean(&estimated(), |run| run.r2);
    verdicts.add(
        "R2 of estimated and actual completion times",
        "0.99",
        "0.95",
        format!("{r2:.3}"),
        r2 >= 0.95,
    );
    let returning = returning::all(&studies.returning).share();
    verdicts.add(
        "computed again or swapped: the cheaper of both, tried, is picked (%)",
        "by measured cost",
        "95 at least",
        format!("{returning:.1}"),
        returning >= 95.0,
    );
    let by_delta = DELTAS.map(|delta| {
        let case = Case {
            delta,
            ..crowded(QueueRule::WEIR)
        };
        studies.mean(&case, |run| run.all)
    });
    verdicts.add(
        "groups of 1, 2, 4, 8, 16 mean batches: in time (%)",
        "best to 4, then less",
        "4 within 1 of the best",
        list(&by_delta),
        by_delta.iter().all(|share| by_delta[2] >= share - 1.0),
    );
}

/// All of them.
#[must_use]
pub fn table(studies: &Studies) -> String {
    let mut verdicts = Verdicts::default();
    add_many(&mut verdicts, studies);
    add_one(&mut verdicts, studies);
    add_robust(&mut verdicts, studies);
    verdicts.table()
}

/// Points of attainment by which each rule is above `sticky`, by rate and part of the tail.
#[must_use]
pub fn sticky_table(studies: &Studies) -> String {
    let mut rows = Vec::new();
    for (name, rule) in RULES {
        if matches!(rule, QueueRule::Sticky) {
            continue;
        }
        for rate in RATES {
            let cells = TAILS.map(|tail| {
                let of = |rule| studies.mean(&many(rule, rate, tail), |run| run.all);
                format!("{:+.1}", of(rule) - of(QueueRule::Sticky))
            });
            let first = [name.to_owned(), format!("{rate:.0}/s")];
            rows.push(first.into_iter().chain(cells).collect::<Vec<String>>());
        }
    }
    let tails = TAILS.map(|tail| format!("tail {:.0} %", 100.0 * tail));
    let head: Vec<String> = ["rule", "rate"]
        .map(str::to_owned)
        .into_iter()
        .chain(tails)
        .collect();
    markdown(&head, &rows)
}
