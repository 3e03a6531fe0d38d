//! Our planner reaches PPipe's published objectives; skipped without the asset pack.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

use weir_planner::solve;
use weir_reproduction::ppipe::published::{Cluster, Published};

#[test]
fn published_objectives_come_out() {
    let Some(published) = Published::from_env() else {
        println!("skipped: WEIR_ASSETS names no asset pack with profiles/ppipe");
        return;
    };
    let plans = published.plans().unwrap();
    assert_eq!(plans.len(), 18);
    for plan in plans {
        let scheme = plan.scheme().unwrap();
        let classes = Cluster::ALL[0].classes(25, 75);
        let problem = published
            .problem(&plan.models, &plan.weights, classes, scheme)
            .unwrap();
        let ours = solve(&problem).unwrap().objective;
        let difference = (ours / plan.objective - 1.0).abs();
        assert!(
            difference < 1e-4,
            "{} {:?}: {ours} against {}",
            plan.algorithm,
            plan.models,
            plan.objective
        );
    }
}
