//! Differences of a policy from its preset, in the words of `[policy]`: the resolved strategies are compared.
//! Repeating a preset's own value is no difference.

use serde::Serialize;
use toml::{Table, Value};
use weir_types::Span;

use super::estimate::Estimate;
use super::preset::PARD_PAPER;
use super::switch::Switch;
use super::{DropRule, Policy};
use crate::baselines::overload_control::OverloadControl;
use crate::weir::branch_load::BranchLoadSpec;
use crate::weir::cost_limit::CostLimitSpec;
use crate::weir::duration_spread::DurationSpreadSpec;
use crate::weir::fair_streams::FairStreamsSpec;
use crate::weir::slack::SlackSpec;
use crate::weir::stagger::StaggerSpec;

impl Policy {
    /// The preset that the policy differs from least: that of its drop rule, or `pard-paper`.
    #[must_use]
    pub fn preset_name(&self) -> &'static str {
        let rule = DropRule::preset_of(&self.drop.name());
        let paper = Self::preset(PARD_PAPER).filter(|paper| paper.drop.name() == rule);
        let plain = Self::preset(rule).unwrap_or_default();
        let lines = self.departures_from(&plain).len();
        if paper.is_some_and(|paper| self.departures_from(&paper).len() < lines) {
            PARD_PAPER
        } else {
            rule
        }
    }

    /// Differences from the preset of [`preset_name`](Self::preset_name). Each is a line of TOML for
    /// `[policy]`, such as `stagger = false` or `slack.margin_divisor = 3`; parameters of the drop rule begin
    /// with `drop.`.
    #[must_use]
    pub fn departures(&self) -> Vec<String> {
        let preset = Self::preset(self.preset_name());
        self.departures_from(&preset.unwrap_or_default())
    }

    /// The preset and the differences from it, in one line: `weir`, or `weir (stagger = false)`.
    #[must_use]
    pub fn summary(&self) -> String {
        summary(self.preset_name(), &self.departures())
    }

    /// Differences from `preset`, which has the same drop rule.
    fn departures_from(&self, preset: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let (rule, of_preset) = (table(&self.drop), table(&preset.drop));
        keys_that_differ("drop", &rule, &of_preset, &mut lines);
        let same_rule = Self {
            drop: self.drop.clone(),
            ..preset.clone()
        };
        let (ours, theirs) = (table(&self.explicit()), table(&same_rule.explicit()));
        let parameters = table(&Self::every_part());
        for (key, value) in ours
            .iter()
            .filter(|(key, value)| theirs.get(*key) != Some(*value))
        {
            match (value, theirs.get(key), parameters.get(key)) {
                // A rule given by name is shown with all its parameters.
                (Value::Table(value), Some(Value::Table(theirs)), _) if !value.contains_key("rule") => {
                    keys_that_differ(key, value, theirs, &mut lines);
                }
                (Value::Table(value), _, Some(Value::Table(defaults))) if value != defaults => {
                    keys_that_differ(key, value, defaults, &mut lines);
                }
                (Value::Table(_), _, Some(_)) => lines.push(format!("{key} = true")),
                _ => lines.push(format!("{key} = {value}")),
            }
        }
        lines
    }

    /// The same policy with every part given explicitly, except for the drop rule.
    fn explicit(&self) -> Self {
        let resolved = self.resolve();
        Self {
            drop: DropRule::None,
            order: Some(resolved.order),
            forming: Some(resolved.binding),
            mailbox: Some(resolved.mailbox),
            sweep: Some(resolved.early_drop),
            fair: Some(resolved.tie_break),
            sizing: Some(resolved.sizing),
            joint_sizing: Some(resolved.joint_sizing),
            admission: Some(resolved.admission),
            estimate: Some(Estimate::from(resolved.estimator)),
            slack: Some(Switch::from(resolved.slack)),
            stagger: Some(Switch::from(resolved.stagger)),
            cost_limit: Some(Switch::from(resolved.cost_limit)),
            branch_shedding: Some(Switch::from(resolved.branch_shedding)),
            duration_spread: Some(Switch::from(resolved.duration_spread)),
            fair_streams: Some(Switch::from(resolved.fair_streams)),
            overload_control: Some(Switch::from(resolved.overload_control)),
            ..self.clone()
        }
    }

    /// All that can be switched on, with the parameters that it has then.
    fn every_part() -> Self {
        Self {
            slack: Some(Switch::With(SlackSpec::default())),
            stagger: Some(Switch::With(StaggerSpec::default())),
            cost_limit: Some(Switch::With(CostLimitSpec::default())),
            branch_shedding: Some(Switch::With(BranchLoadSpec::default())),
            duration_spread: Some(Switch::With(DurationSpreadSpec::default())),
            fair_streams: Some(Switch::With(FairStreamsSpec::default())),
            overload_control: Some(Switch::With(OverloadControl::default())),
            ..Self::default()
        }
    }
}

/// A preset and the differences from it, in one line.
pub(crate) fn summary(preset: &str, departures: &[String]) -> String {
    if departures.is_empty() {
        preset.to_owned()
    } else {
        format!("{preset} ({})", departures.join(", "))
    }
}

/// Keys whose values are durations: stored as microseconds, and written in TOML with a unit.
const DURATIONS: [&str; 4] = ["growth_time", "per_stream_interval", "threshold", "window"];

fn line(under: &str, key: &str, value: &Value) -> String {
    match value.as_integer().map(u64::try_from) {
        Some(Ok(micros)) if DURATIONS.contains(&key) => {
            format!("{under}.{key} = \"{}\"", Span::from_micros(micros))
        }
        _ => format!("{under}.{key} = {value}"),
    }
}

/// The value as a TOML table; empty if it cannot be written, which never happens for a policy that was read.
fn table(value: &impl Serialize) -> Table {
    Table::try_from(value).unwrap_or_default()
}

fn keys_that_differ(under: &str, ours: &Table, theirs: &Table, lines: &mut Vec<String>) {
    let differ = ours
        .iter()
        .filter(|(key, value)| theirs.get(*key) != Some(*value));
    lines.extend(differ.map(|(key, value)| line(under, key, value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the preset of a policy and its differences; writing these out gives the same policy.
    fn check(text: &str, preset: &str, departures: &[&str]) {
        let policy: Policy = toml::from_str(text).unwrap();
        assert_eq!(policy.preset_name(), preset, "{text}");
        assert_eq!(policy.departures(), departures, "{text}");
        if preset != PARD_PAPER {
            let again = format!(
                "drop.rule = \"{}\"\n{}",
                policy.drop.name(),
                policy.departures().join("\n")
            );
            let again: Policy = toml::from_str(&again).unwrap();
            assert_eq!(again.resolve(), policy.resolve(), "{text}");
        }
    }

    #[test]
    fn a_preset_departs_from_itself_in_nothing() {
        for name in Policy::presets() {
            let policy = Policy::preset(name).unwrap();
            assert_eq!((policy.preset_name(), policy.departures()), (name, Vec::new()));
        }
        check(
            "drop = \"weir\"\nstagger = true\nsizing = \"together\"",
            "weir",
            &[],
        );
        check("drop = \"weir\"\nestimate = { quantile = 0.1 }", "weir", &[]);
    }

    #[test]
    fn a_summary_is_the_preset_with_its_departures() {
        let policy: Policy = toml::from_str("drop = \"weir\"\nstagger = false\nslack = false").unwrap();
        assert_eq!(policy.summary(), "weir (slack = false, stagger = false)");
        assert_eq!(Policy::default().summary(), "pard");
    }

    #[test]
    fn what_is_off_or_on_or_has_other_parameters_departs() {
        check("drop = \"weir\"\nstagger = false", "weir", &["stagger = false"]);
        check("slack = true", "pard", &["slack = true"]);
        check(
            "slack = { margin_divisor = 3 }",
            "pard",
            &["slack.margin_divisor = 3"],
        );
        check(
            "drop = \"weir\"\nslack = { margin_divisor = 3 }\nforming = \"eager\"\nfair = false\n\
             estimate = { per_stream = false, quantile = 0.5 }",
            "weir",
            &[
                "estimate.per_stream = false",
                "estimate.quantile = 0.5",
                "fair = false",
                "forming = \"eager\"",
                "slack.margin_divisor = 3",
            ],
        );
        check(
            "admission = \"none\"",
            "pard",
            &["admission = { rule = \"none\" }"],
        );
    }

    #[test]
    fn parameters_of_the_rule_depart_from_those_of_its_paper() {
        check(
            "drop = { rule = \"clipper++\", budget = \"local\" }",
            "clipper++",
            &["drop.budget = \"local\""],
        );
        check(
            "drop = { rule = \"oc\", threshold = \"20ms\" }\norder = \"fcfs\"",
            "oc",
            &["drop.threshold = \"20ms\"", "order = \"fcfs\""],
        );
    }

    #[test]
    fn durations_have_units() {
        check(
            "drop = { rule = \"weir\", window = \"3s\" }\nslack = { growth_time = \"1s\" }\n\
             branch_shedding = { window = \"100ms\" }\nestimate = { per_stream_interval = \"70ms\" }\n\
             overload_control = { threshold = \"250us\" }",
            "weir",
            &[
                "drop.window = \"3s\"",
                "branch_shedding.window = \"100ms\"",
                "estimate.per_stream_interval = \"70ms\"",
                "overload_control.threshold = \"250us\"",
                "slack.growth_time = \"1s\"",
            ],
        );
    }

    #[test]
    fn the_published_pard_is_a_preset_of_its_own() {
        let paper = "drop = { rule = \"pard\", queueing = \"recent\" }\nforming = \"eager\"\nmailbox = \"worker\"\n\
                     sweep = false\nfair = false\n";
        check(paper, PARD_PAPER, &[]);
        check(
            &format!("{paper}order = \"hbf\""),
            PARD_PAPER,
            &["order = \"hbf\""],
        );
        check("forming = \"eager\"", "pard", &["forming = \"eager\""]);
    }
}
