//! Rules that shift gears beside each gear alone, as config/experiments/gear-rules.toml compares them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a test says what it finds")]

use std::collections::BTreeMap;
use std::path::Path;

use weir_graph::Catalog;
use weir_sim::experiment::load;

/// Right answers in time a second by gears file, for each setting of the experiment with these rates.
fn right(rates: &[&str], variables: &[(&str, &str)]) -> Vec<(String, BTreeMap<String, f64>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/experiments/gear-rules.toml");
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let experiment = load(&path, &Catalog::default(), &variable, Some(&[1])).unwrap();
    let mut settings: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for run in experiment.runs() {
        let (mut rule, mut setting, mut is_asked) = (String::new(), Vec::new(), false);
        for (key, label) in &run.labels {
            let label = label.to_string();
            is_asked |= key.ends_with("rate") && rates.contains(&&*label);
            if key.ends_with("gears") {
                rule = label;
            } else {
                setting.push(format!("{key} {label}"));
            }
        }
        if is_asked {
            let right = run.simulate().report.right_rps.unwrap();
            settings
                .entry(setting.join(", "))
                .or_default()
                .insert(rule, right);
        }
    }
    settings.into_iter().collect()
}

fn best_fixed(of: &BTreeMap<String, f64>) -> f64 {
    let fixed = of.iter().filter(|(rule, _)| rule.starts_with("fixed"));
    fixed.map(|(_, right)| *right).fold(0.0, f64::max)
}

#[test]
fn gears_by_backlog_are_not_below_the_best_gear_alone() {
    let settings = right(&["140", "250", "400"], &[]);
    assert_eq!(settings.len(), 12);
    let (mut by_backlog, mut by_rate) = (0.0, 0.0);
    for (setting, of) in &settings {
        println!("{setting}: {of:.1?}");
        assert_eq!(of.len(), 5, "{of:?}");
        let best = best_fixed(of);
        assert!(of["by-backlog"] >= 0.95 * best, "{setting}: {of:?}");
        by_backlog += of["by-backlog"];
        by_rate += of["by-rate"];
    }
    assert!(by_backlog >= by_rate, "{by_backlog} {by_rate}");
}

#[test]
fn gears_by_backlog_need_no_ranges_of_a_slower_machine() {
    let (mut by_backlog, mut by_rate) = (0.0, 0.0);
    for (setting, of) in right(&["140"], &[("LARGE", "30ms")]) {
        println!("{setting}: {of:.1?}");
        assert!(of["by-backlog"] >= 0.95 * best_fixed(&of), "{setting}: {of:?}");
        by_backlog += of["by-backlog"];
        by_rate += of["by-rate"];
    }
    assert!(by_backlog > by_rate, "{by_backlog} {by_rate}");
}
