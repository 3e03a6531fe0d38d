//! Other programs on the processors of the workers, as config/experiments/shared-machine.toml has them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;

use weir_graph::Catalog;
use weir_policy::Report;
use weir_sim::experiment::{Run, load};

/// Runs of one world, with their reports.
fn reports(world: &str, wanted: impl Fn(&Run) -> bool) -> Vec<(Run, Report)> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/experiments/shared-machine.toml");
    let experiment = load(&file, &Catalog::default(), &|_| None, Some(&[1])).unwrap();
    let runs = experiment
        .runs()
        .iter()
        .filter(|run| run.name == world && wanted(run));
    runs.map(|run| (run.clone(), run.simulate().report)).collect()
}

fn loops(run: &Run) -> u32 {
    run.world.interference.map_or(0, |others| others.loops)
}

/// Requires at least 0.8 of the goodput that the remaining processors would allow, and at most 5 % of wasted
/// device time.
fn check(world: &str) {
    let all = reports(world, |run| run.world.policy.summary() == "weir");
    let goodput = |report: &Report| report.goodput_rps;
    let alone: Vec<&Report> = all
        .iter()
        .filter(|(run, _)| loops(run) == 0)
        .map(|(_, report)| report)
        .collect();
    let capacity = alone.iter().map(|report| goodput(report)).fold(0.0, f64::max);
    let mut checked = 0;
    for (run, report) in all.iter().filter(|(run, _)| loops(run) > 0) {
        let others = run.world.interference.unwrap();
        let arriving = report.requests.arrived as f64 / report.run.duration_s;
        let beside = arriving.min(capacity * others.share_left(run.world.shared_slots));
        let reference = (arriving.min(capacity) + beside) / 2.0;
        let ratio = goodput(report) / reference;
        let what = format!("{world}, {} loops, {arriving:.0}/s", others.loops);
        assert!(ratio >= 0.8, "{what}: {ratio:.2} of {reference:.1}/s");
        assert!(
            report.invalid_rate <= 0.05,
            "{what}: {:.3} wasted",
            report.invalid_rate
        );
        checked += 1;
    }
    assert_eq!(checked, 4, "two loads beside one and two loops");
}

#[test]
fn beside_other_programs_detection_gives_what_the_remaining_processors_can() {
    check("shared-machine");
}

#[test]
fn beside_other_programs_branches_give_what_the_remaining_processors_can() {
    check("shared-machine-branches");
}

#[test]
fn less_is_wasted_by_the_spread_of_durations_and_nothing_else_changes() {
    for world in ["shared-machine", "shared-machine-branches"] {
        let by = |summary: &str| reports(world, |run| run.world.policy.summary() == summary);
        let (whole, without) = (by("weir"), by("weir (duration_spread = false)"));
        assert_eq!((whole.len(), without.len()), (6, 6));
        for ((run, whole), (_, without)) in whole.iter().zip(&without) {
            let rates = (whole.invalid_rate, without.invalid_rate);
            if loops(run) == 0 {
                assert_eq!(
                    whole.requests, without.requests,
                    "{world}: durations are as profiled"
                );
            } else {
                assert!(
                    rates.0 < rates.1.max(0.005),
                    "{world}, {} loops: {rates:?}",
                    loops(run)
                );
                assert!(
                    whole.goodput_rps > 0.98 * without.goodput_rps,
                    "{world}: {whole:?}"
                );
            }
        }
    }
}
