//! Fixed capacity: which rules come level with PARD, and how much of the gap to the bound weir closes.

use weir_sim::experiment::Estimate;

use super::outcome::Outcome;
use super::paper::{bar, name, select};
use super::study::{Study, mean_of};
use super::words::{Check, percent, range, share, short, span, with_interval};
use crate::plot::{Axis, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// Baselines that weir is measured by; PARD and its variants among them.
const BASELINES: [&str; 7] = [
    "naive",
    "nexus",
    "clipper++",
    "clipper++ (local)",
    "upper",
    "hbf",
    "pard",
];

/// The drop rate of `policy` less that of `than`, seed by seed: they saw the same arrivals.
#[must_use]
pub fn drop_rate_difference(
    study: &Study,
    workload: &(String, String),
    policy: &str,
    than: &str,
) -> Estimate {
    let (ours, theirs) = (select(study, workload, policy), select(study, workload, than));
    let each = ours.iter().filter_map(|ours| {
        let same = theirs.iter().find(|theirs| theirs.seed == ours.seed)?;
        Some(ours.drop_rate - same.drop_rate)
    });
    Estimate::from_values(&each.collect::<Vec<f64>>())
}

/// Drop rates with the bound.
#[must_use]
pub fn table(study: &Study) -> String {
    let policies = study.policies();
    let mut header = vec!["workload".to_owned()];
    header.extend(policies.iter().cloned());
    header.push("bound".to_owned());
    let row = |workload: &(String, String)| {
        let mut row = vec![name(workload)];
        let rates = policies
            .iter()
            .map(|policy| mean_of(&select(study, workload, policy), |o| o.drop_rate));
        row.extend(rates.map(percent));
        row.push(percent(bound(study, workload)));
        row
    };
    let rows: Vec<Vec<String>> = study.workloads().iter().map(row).collect();
    markdown(&header, &rows)
}

fn bound(study: &Study, workload: &(String, String)) -> Estimate {
    mean_of(&select(study, workload, "pard"), |outcome| {
        outcome.bound.unwrap_or(f64::NAN)
    })
}

/// Table by workload: difference in drop rate between each rival and PARD in percentage points, seed by seed,
/// with its verdict.
#[must_use]
pub fn rival_table(study: &Study) -> String {
    let rivals: Vec<String> = study
        .policies()
        .into_iter()
        .filter(|policy| policy != "pard")
        .collect();
    let mut header = vec!["workload".to_owned()];
    header.extend(rivals.iter().cloned());
    let row = |workload: &(String, String)| {
        let mut row = vec![name(workload)];
        for rival in &rivals {
            let less = drop_rate_difference(study, workload, rival, "pard");
            let verdict = match verdict(less) {
                Verdict::Ahead => "better",
                Verdict::Level => "level",
                Verdict::Behind => "worse",
            };
            row.push(format!(
                "{} {verdict}",
                with_interval(100.0 * less.mean, 100.0 * less.half)
            ));
        }
        row
    };
    let rows: Vec<Vec<String>> = study.workloads().iter().map(row).collect();
    markdown(&header, &rows)
}

/// Verdict of a comparison between a rival and PARD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The rival drops less: the interval excludes zero.
    Ahead,
    /// No clear difference: the interval includes zero, or the rates are within half a percentage point.
    Level,
    /// The rival drops more by over half a percentage point, and the interval excludes zero.
    Behind,
}

/// Verdict for a difference between drop rates, a rival's less PARD's.
#[must_use]
pub fn verdict(less: Estimate) -> Verdict {
    if less.mean + less.half < 0.0 {
        Verdict::Ahead
    } else if less.mean - less.half > 0.0 && less.mean > 0.005 {
        Verdict::Behind
    } else {
        Verdict::Level
    }
}

/// Workloads by the name of their world, and what they are called together.
pub type Group<'a> = (&'a str, &'a dyn Fn(&str) -> bool);

/// Table of verdicts on rivals, by group of workloads.
#[must_use]
pub fn verdict_table(study: &Study, groups: &[Group<'_>]) -> String {
    let rivals = ["clipper++", "clipper++ (local)", "upper", "hbf"];
    let mut header = vec!["workloads".to_owned()];
    header.extend(rivals.map(str::to_owned));
    let row = |(group, within): &Group<'_>| {
        let workloads: Vec<_> = study.workloads().into_iter().filter(|w| within(&w.0)).collect();
        let mut row = vec![(*group).to_owned()];
        for rival in rivals {
            let verdicts: Vec<Verdict> = workloads
                .iter()
                .map(|w| verdict(drop_rate_difference(study, w, rival, "pard")))
                .collect();
            let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
            row.push(format!(
                "{} better, {} level, {} worse",
                count(Verdict::Ahead),
                count(Verdict::Level),
                count(Verdict::Behind)
            ));
        }
        row
    };
    let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
    markdown(&header, &rows)
}

/// PARD, weir and the bound; and the share of the gap that is closed.
#[must_use]
pub fn gaps(study: &Study) -> String {
    let row = |workload: &(String, String)| {
        let of = |policy: &str| mean_of(&select(study, workload, policy), |outcome| outcome.drop_rate);
        let (best, rate) = best_baseline(study, workload);
        vec![
            name(workload),
            percent(of("pard")),
            percent(of("pard (late)")),
            percent(of("weir")),
            percent(bound(study, workload)),
            share(gap_closed(study, workload)),
            format!("{best} {}", short(100.0 * rate)),
            short(100.0 * (of("weir").mean - rate)),
        ]
    };
    let rows: Vec<Vec<String>> = study.workloads().iter().map(row).collect();
    markdown(
        &[
            "workload",
            "pard",
            "pard (late)",
            "weir",
            "bound",
            "gap closed",
            "best baseline",
            "weir less it",
        ],
        &rows,
    )
}

/// The share of PARD's gap to the bound that weir closes.
#[must_use]
pub fn gap_closed(study: &Study, workload: &(String, String)) -> f64 {
    let rate = |policy: &str| mean_of(&select(study, workload, policy), |outcome| outcome.drop_rate).mean;
    let gap = rate("pard") - bound(study, workload).mean;
    if gap > 0.0 {
        (rate("pard") - rate("weir")) / gap
    } else {
        f64::NAN
    }
}

/// Checks that weir closes half of PARD's gap over all workloads with `part` in their name.
#[must_use]
pub fn gap_closed_check(study: &Study, what: &str, part: &str) -> Check {
    let workloads = study.workloads();
    let those = || workloads.iter().filter(|workload| name(workload).contains(part));
    let sum = |policy: &str| -> f64 {
        those()
            .map(|workload| mean_of(&select(study, workload, policy), |outcome| outcome.drop_rate).mean)
            .sum()
    };
    let least: f64 = those().map(|workload| bound(study, workload).mean).sum();
    let (pard, weir) = (sum("pard"), sum("weir"));
    let closed = (pard - weir) / (pard - least);
    Check::new(
        format!("{what}, taken together: weir closes at least half of PARD's gap to the bound"),
        share(closed),
        closed >= 0.5,
    )
}

fn best_baseline(study: &Study, workload: &(String, String)) -> (String, f64) {
    let policies = study
        .policies()
        .into_iter()
        .filter(|policy| BASELINES.contains(&policy.as_str()));
    let rates = policies.map(|policy| {
        let rate = mean_of(&select(study, workload, &policy), |outcome| outcome.drop_rate).mean;
        (policy, rate)
    });
    rates.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// Checks that weir is nowhere worse than the best baseline, and that it halves the gap in `wanted`
/// workloads.
#[must_use]
pub fn claims(study: &Study, what: &str, wanted: usize) -> Vec<Check> {
    let workloads = study.workloads();
    let rate = |w: &(String, String)| mean_of(&select(study, w, "weir"), |o| o.drop_rate).mean;
    let above = |w: &(String, String)| 100.0 * (rate(w) - best_baseline(study, w).1);
    let worse: Vec<String> = workloads.iter().filter(|w| above(w) > 0.1).map(name).collect();
    let found = format!("{} points", span(range(workloads.iter().map(above)), short));
    let found = if worse.is_empty() {
        found
    } else {
        format!("{found}; worse on {}", worse.join(", "))
    };
    let half: Vec<String> = workloads
        .iter()
        .filter(|w| gap_closed(study, w) >= 0.5)
        .map(name)
        .collect();
    let claim = if wanted == workloads.len() {
        format!("{what}: weir closes at least half of PARD's gap to the bound on all {wanted}")
    } else {
        format!("{what}: weir closes at least half of PARD's gap to the bound on at least {wanted}")
    };
    vec![
        Check::new(
            format!("{what}: weir is nowhere worse than the best baseline by more than 0.1 point"),
            found,
            worse.is_empty(),
        ),
        Check::new(
            claim,
            format!("{} of {}: {}", half.len(), workloads.len(), half.join(", ")),
            half.len() >= wanted,
        ),
    ]
}

/// Drop rates as bars.
#[must_use]
pub fn figure(study: &Study, title: &str) -> Figure {
    let workloads = study.workloads();
    let with = |named: String, rates: &dyn Fn(&(String, String)) -> Estimate| BarSeries {
        name: named,
        values: workloads.iter().map(|w| bar(rates(w))).collect(),
    };
    let rate = |policy: String| {
        with(policy.clone(), &move |w| {
            mean_of(&select(study, w, &policy), |o: &Outcome| o.drop_rate)
        })
    };
    let mut series: Vec<BarSeries> = study.policies().into_iter().map(rate).collect();
    series.push(with("bound".to_owned(), &|w| bound(study, w)));
    Figure {
        title: title.to_owned(),
        panels: vec![Panel {
            y: Axis::new("drop rate (%)"),
            kind: Kind::Bars(Bars {
                categories: workloads.iter().map(name).collect(),
                series,
            }),
            ..Panel::default()
        }],
        columns: 1,
        width: 1300,
        height: 460,
    }
}
