//! Verdicts: expected results, measured results, and whether they agree.

use super::acceptance::Acceptance;
use super::clusters::{Clusters, GAINS_DART_R, GAINS_NP};
use super::setting::SCHEMES;
use super::source::GAP;
use super::studies::Studies;
use super::{ablation, published};
use crate::pard::words::{Check, checks};

/// Table of all verdicts.
#[must_use]
pub fn verdicts(studies: &Studies) -> String {
    let mut all = Vec::new();
    if let Some(acceptance) = &studies.acceptance {
        all.extend(published_checks(acceptance));
    }
    for (clusters, trace) in [(&studies.poisson, "2019"), (&studies.bursty, "2021")] {
        all.push(proof(clusters, trace));
    }
    all.extend(gains(&studies.poisson, studies.is_published));
    for at in &studies.ablation {
        let (reserved, reactive) = (at.factor(0), at.factor(1));
        let paper = if at.margin == published::MARGIN {
            format!(
                " (the paper: {:.2} and {:.2})",
                ablation::PAPER[0],
                ablation::PAPER[1]
            )
        } else {
            String::new()
        };
        all.push(Check::new(
            format!(
                "margin {}: reservation takes more than reaction{paper}",
                at.margin
            ),
            format!("{reserved:.2} and {reactive:.2}"),
            reserved > reactive,
        ));
    }
    checks(&all)
}

fn published_checks(acceptance: &Acceptance) -> Vec<Check> {
    let seconds = acceptance.pooled_seconds();
    let total: f64 = seconds.iter().sum();
    let each: Vec<String> = seconds.iter().map(|seconds| format!("{seconds:.3}")).collect();
    let mut all = vec![
        Check::new(
            format!("{} published objectives within 1e-4", acceptance.objectives.len()),
            format!("at most {:.1e} off", acceptance.worst()),
            acceptance.worst() <= 1e-4,
        ),
        Check::new(
            "the six v4 problems in under 15 s on one thread",
            format!("{total:.2} s: {}", each.join(", ")),
            total < 15.0,
        ),
        Check::new(
            format!(
                "{} published load factors within 0.05, seed by seed",
                acceptance.loads.len()
            ),
            format!("at most {:.2} off", acceptance.farthest()),
            acceptance.farthest() <= 0.05 + 1e-9,
        ),
    ];
    for algorithm in ["v4", "bl", "dart-r"] {
        let (theirs, ours) = acceptance.means(algorithm);
        all.push(Check::new(
            format!("mean load factor of {algorithm} within 0.01"),
            format!("{ours:.4}, published {theirs:.4}"),
            (ours - theirs).abs() <= 0.01,
        ));
    }
    all
}

/// Whether plans for all clusters are proved to be the best.
fn proof(clusters: &Clusters, trace: &str) -> Check {
    let proved = clusters
        .outcomes
        .iter()
        .filter(|outcome| outcome.gap <= GAP)
        .count();
    Check::new(
        format!(
            "the plans simulated are within {:.2} % of the best, weights of {trace}",
            100.0 * GAP
        ),
        format!(
            "{proved} of {} groups; the greatest gap is {:.3} %",
            clusters.outcomes.len(),
            100.0 * clusters.gap()
        ),
        proved == clusters.outcomes.len(),
    )
}

/// The gains on the four clusters within five points of the paper's; without published latencies, that there are any.
fn gains(clusters: &Clusters, is_published: bool) -> Vec<Check> {
    let mut all = Vec::new();
    for (scheme, paper) in [(0, GAINS_NP), (1, GAINS_DART_R)] {
        for (cluster, theirs) in paper.into_iter().enumerate() {
            let (name, hc) = (SCHEMES[scheme].0, cluster + 1);
            let ours = clusters.gain(cluster, scheme);
            all.push(if is_published {
                Check::new(
                    format!("HC{hc}-L: PPipe takes {theirs:.1} % more than {name}, within 5 points"),
                    format!("{ours:.1} %"),
                    (ours - theirs).abs() <= 5.0,
                )
            } else {
                Check::new(
                    format!("HC{hc}-L: PPipe takes more than {name}"),
                    format!("{ours:.1} %"),
                    ours > 0.0,
                )
            });
        }
    }
    all
}
