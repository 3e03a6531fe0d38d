//! Planning problems as TOML: the shipped example can be planned, and all that is wrong with a file is told at once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_graph::planning::load;
use weir_policy::plan::solve;

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
fn all_that_is_wrong_is_told_at_once() {
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
