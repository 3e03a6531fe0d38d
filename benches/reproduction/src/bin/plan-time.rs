//! `plan-time`: PPipe's published objectives beside ours with the planning time of each, and planning time by
//! devices and classes (Figure 14). Needs the asset pack in `WEIR_ASSETS` and a release build. With an
//! argument it solves only the problems whose name contains that text, such as `2021` or `classes`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use weir_planner::{Class, Problem, Scheme, gap, solve};
use weir_reproduction::ppipe::published::{Cluster, Published, PublishedError, WEIGHTS_2019, WEIGHTS_2021};

fn main() -> ExitCode {
    let Some(published) = Published::from_env() else {
        say("plan-time: WEIR_ASSETS names no asset pack with profiles/ppipe; nothing to compare with");
        return ExitCode::FAILURE;
    };
    let shown = objectives(&published)
        .and_then(|()| other_clusters(&published))
        .and_then(|()| scale(&published));
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("plan-time: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// True if the command line selects this problem.
fn is_wanted(what: &str) -> bool {
    std::env::args()
        .nth(1)
        .is_none_or(|wanted| what.contains(&wanted))
}

/// The objective and the seconds that it took; what went wrong as text.
#[expect(
    clippy::disallowed_methods,
    reason = "how long planning takes is what is measured"
)]
fn solve_timed(problem: &Problem) -> (Result<(f64, f64), String>, f64) {
    let begun = Instant::now();
    let solution = solve(problem);
    let took = begun.elapsed().as_secs_f64();
    let found = solution.map(|solution| (solution.objective, gap(problem, &solution)));
    (found.map_err(|error| error.to_string()), took)
}

fn objectives(published: &Published) -> Result<(), PublishedError> {
    let (mut worst, mut pooled) = (0.0_f64, 0.0);
    for plan in published.plans()? {
        let Some(scheme) = plan.scheme() else { continue };
        if !is_wanted(&format!("published {}", plan.algorithm)) {
            continue;
        }
        let classes = Cluster::ALL[0].classes(25, 75);
        let problem = published.problem(&plan.models, &plan.weights, classes, scheme)?;
        let (found, took) = solve_timed(&problem);
        let ours = found.map_or(f64::NAN, |(objective, _)| objective);
        let difference = (ours / plan.objective - 1.0).abs();
        worst = worst.max(if difference.is_nan() {
            f64::INFINITY
        } else {
            difference
        });
        if plan.algorithm == "v4" {
            pooled += took;
        }
        let (name, theirs) = (&plan.algorithm, plan.objective);
        say(&format!(
            "{name:7} {theirs:12.6} {ours:12.6} {difference:8.1e} {took:8.4} s  {}",
            plan.models.join(" ")
        ));
    }
    say(&format!(
        "worst difference {worst:.1e}; the six v4 together {pooled:.2} s"
    ));
    Ok(())
}

fn groups(published: &Published) -> Result<Vec<Vec<String>>, PublishedError> {
    let plans = published.plans()?;
    Ok(plans
        .into_iter()
        .filter(|plan| plan.algorithm == "v4")
        .map(|plan| plan.models)
        .collect())
}

fn other_clusters(published: &Published) -> Result<(), PublishedError> {
    for cluster in Cluster::ALL {
        for (trace, weights) in [("2019", WEIGHTS_2019), ("2021", WEIGHTS_2021)] {
            for models in groups(published)? {
                let scheme = Scheme::Pooled { partitions: 2 };
                let problem = published.problem(&models, &weights, cluster.classes(25, 75), scheme)?;
                show(&format!("{} {trace} {}", cluster.name(), models[0]), &problem);
            }
        }
    }
    Ok(())
}

fn show(what: &str, problem: &Problem) {
    if !is_wanted(what) {
        return;
    }
    let (found, took) = solve_timed(problem);
    match found {
        Ok((objective, gap)) => say(&format!("{what}: {objective:.3}, gap {gap:.1e}, {took:.3} s")),
        Err(error) => say(&format!("{what}: {error} ({took:.3} s)")),
    }
}

/// Figure 14: 3.5 s whatever the number of devices, 35.3 s for three classes and 77.0 s for four.
fn scale(published: &Published) -> Result<(), PublishedError> {
    let models = groups(published)?.swap_remove(3);
    let scheme = Scheme::Pooled { partitions: 2 };
    for devices in [100, 10_000, 100_000] {
        let classes = Cluster::ALL[0].classes(devices / 4, devices / 4 * 3);
        show(
            &format!("{devices} devices"),
            &published.problem(&models, &WEIGHTS_2019, classes, scheme)?,
        );
    }
    for names in [
        &["L4", "P4"][..],
        &["L4", "P4", "T4"],
        &["L4", "P4", "T4", "V100"],
    ] {
        let class = |name: &&str| Class {
            name: (*name).to_owned(),
            count: 100 / names.len() as u32,
            per_server: 1,
            bandwidth_bps: 6_000_000_000,
            cost: 1.0,
        };
        let classes = names.iter().map(class).collect();
        show(
            &format!("{} classes", names.len()),
            &published.problem(&models, &WEIGHTS_2019, classes, scheme)?,
        );
    }
    Ok(())
}
