//! Planning problems as TOML: the shipped example can be planned, and all problems of a file are reported at once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_graph::planning::{load, plan_text, read_plan};
use weir_planner::{Plan, solve};

#[test]
fn the_example_can_be_planned() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/plans/example.toml");
    let solution = solve(&load(&path, &|_| None).unwrap()).unwrap();
    assert!(solution.objective > 0.0);
    let stages = solution
        .models
        .iter()
        .flat_map(|model| &model.pipelines)
        .map(|pipeline| pipeline.stages.len());
    assert_eq!(stages.max(), Some(2));
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("problem.toml");
    let text = "[cluster.l4]\ncount = -1\nbandwith = \"10Gbs\"\n[models.m]\nslo = \"fast\"\nprofile = \"no.toml\"\n[plan]\nscheme = \"poled\"\nmargin = 2\n";
    std::fs::write(&path, text).unwrap();
    let problems = load(&path, &|_| None).unwrap_err().to_string();
    for part in [
        "`count`",
        "\"bandwith\"",
        "no bandwidth",
        "\"fast\"",
        "no.toml",
        "\"poled\"",
        "`margin`",
    ] {
        assert!(problems.contains(part), "{part} is not in\n{problems}");
    }
}

#[test]
fn an_edited_plan_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/plans/example.toml");
    let problem = load(&path, &|_| None).unwrap();
    let solution = solve(&problem).unwrap();
    let mut plan = Plan { solution, problem };
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("plan.toml");
    std::fs::write(&kept, plan_text(&plan).unwrap()).unwrap();
    assert_eq!(read_plan(&kept).as_ref(), Ok(&plan));

    plan.solution.models[0].pipelines[0].batch = 4_000_000_000;
    std::fs::write(&kept, plan_text(&plan).unwrap()).unwrap();
    let refused = read_plan(&kept).unwrap_err();
    assert!(refused.contains("it cannot be run: the plan of model") && refused.contains("plan again"));
}
