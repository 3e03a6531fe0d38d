//! PARD's section 7, as config/experiments/rag.toml has it: what is late is dropped once it is, before it is, and with true
//! lengths.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "figures for those who read the test's output")]

use std::path::PathBuf;

use weir_config::ConfigError;
use weir_graph::Catalog;
use weir_policy::Report;
use weir_sim::WorldPool;
use weir_sim::experiment::{Experiment, Run, load};

fn rag() -> Experiment {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/experiments/rag.toml");
    load(&file, &Catalog::default(), &|_| None, Some(&[1])).unwrap()
}

/// True if true lengths are known.
fn is_foretold(run: &Run) -> bool {
    let generating = run.world.modules.iter().filter_map(|node| match &node.pool {
        WorldPool::Generating(generate) => Some(generate.length_error.is_some()),
        _ => None,
    });
    generating.into_iter().all(|is_foretold| is_foretold)
}

#[test]
fn proactive_dropping_drops_less_and_least_with_true_lengths() {
    let experiment = rag();
    let load = |run: &Run| run.labels.iter().find(|(key, _)| key == "load").cloned();
    let mut rates: Vec<(String, bool, bool, f64)> = Vec::new();
    for run in experiment.runs() {
        let is_proactive = run.world.policy.summary() == "pard";
        let report: Report = run.simulate().report;
        assert!(report.requests.is_balanced(), "{:?}", report.requests);
        println!(
            "{:?} {} {}: {} of {} dropped or late, drop rate {:.3}, invalid rate {:.3}",
            load(run),
            run.world.policy.summary(),
            if is_foretold(run) {
                "true lengths"
            } else {
                "mean lengths"
            },
            report.requests.arrived - report.requests.delivered,
            report.requests.arrived,
            report.drop_rate,
            report.invalid_rate,
        );
        rates.push((
            format!("{:?}", load(run)),
            is_proactive,
            is_foretold(run),
            report.drop_rate,
        ));
    }
    let rate = |load: &str, is_proactive, is_foretold| {
        let of = rates
            .iter()
            .find(|rate| (rate.0.as_str(), rate.1, rate.2) == (load, is_proactive, is_foretold));
        of.unwrap().3
    };
    let mut loads: Vec<&str> = rates.iter().map(|rate| rate.0.as_str()).collect();
    loads.dedup();
    for load in loads {
        let [reactive, proactive, foretold] = [
            rate(load, false, false),
            rate(load, true, false),
            rate(load, true, true),
        ];
        assert!(
            reactive > proactive && proactive > foretold,
            "{load}: {reactive} {proactive} {foretold}"
        );
    }
}

#[test]
fn predicted_lengths_are_off_by_as_much_as_the_experiment_says() {
    let world = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/worlds/rag.toml");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.toml");
    let errors = |keys: &str| -> Vec<f64> {
        let head = format!("[experiment]\nworld = \"{}\"\n{keys}\n", world.display());
        let text = format!("{head}[arrivals]\nlength = \"60s\"\nload = 0.5\n[policy]\ndrop = \"none\"\n");
        std::fs::write(&path, text).unwrap();
        let experiment = load(&path, &Catalog::default(), &|_| None, Some(&[1])).unwrap();
        let error = |run: &Run| {
            let report = run.simulate().report;
            let sequences = report.modules["generate"].sequences.clone().unwrap();
            assert!(sequences.finished > 100, "{}", sequences.finished);
            sequences.length_error_mean
        };
        experiment.runs().iter().map(error).collect()
    };
    let mean = errors("lengths = \"mean\"");
    let predicted = errors("length_error = [0.0, 0.1, 0.4]");
    println!("mean {mean:?}, predicted {predicted:?}");
    assert_eq!(predicted[0], 0.0);
    assert!(0.0 < predicted[1] && predicted[1] < predicted[2] && predicted[2] < mean[0]);
    assert_eq!(errors("lengths = \"mean\"\nlength_error = 0.1"), mean);
    assert_eq!(errors("lengths = \"true\"\nlength_error = 0.1"), predicted[1..2]);
}

#[test]
fn instances_compute_the_shared_beginning_of_prompts_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("experiment.toml");
    let experiment = "[experiment]\nworld = \"world.toml\"\n[arrivals]\nlength = \"60s\"\nload = 0.2\n[policy]\ndrop = \"none\"\n";
    std::fs::write(&path, experiment).unwrap();
    let median_first_ms = |shared: &str| {
        let world = format!(
            "[world]\nslo = \"20s\"\n[modules.answer]\nprofile = {{ \"1\" = \"10ms\", \"64\" = \"100ms\" }}\nworkers = 1\n\
             generate = {{ prompt = 60, prompt_spread = 0, output = 10, output_spread = 0{shared} }}\n"
        );
        std::fs::write(folder.path().join("world.toml"), world).unwrap();
        let experiment = load(&path, &Catalog::default(), &|_| None, Some(&[1])).unwrap();
        let report = experiment.runs()[0].simulate().report;
        let sequences = report.modules["answer"].sequences.clone().unwrap();
        assert!(sequences.finished > 20, "{}", sequences.finished);
        sequences.first_token_ms.p50
    };
    let (without, with) = (median_first_ms(""), median_first_ms(", shared = 48"));
    println!("first token after {without} ms, {with} ms with a shared beginning");
    // 12 tokens take a third of the time of 60.
    assert!(with < 0.6 * without);
}

#[test]
fn a_module_that_generates_and_lacks_lengths_or_has_a_device_is_refused_with_all_problems() {
    let folder = tempfile::tempdir().unwrap();
    let world = r#"
[world]
slo = "5s"

[devices.gpu]
slots = 1

[modules.answer]
profile = { "2" = "10ms" }
device = "gpu"
generate = { output = 10, anwser = "whole" }

[modules.other]
profile = { "1" = "10ms" }
workers = 1
generate = { output = 10, anwser = "whole" }
"#;
    std::fs::write(folder.path().join("world.toml"), world).unwrap();
    let path = folder.path().join("experiment.toml");
    std::fs::write(&path, "[experiment]\nworld = \"world.toml\"\n").unwrap();
    let error: ConfigError = load(&path, &Catalog::default(), &|_| None, None).unwrap_err();
    let text = error.to_string();
    for problem in ["hole", "`device`", "anwser", "no `prompt`"] {
        assert!(text.contains(problem), "{problem} is not in {text}");
    }
}
