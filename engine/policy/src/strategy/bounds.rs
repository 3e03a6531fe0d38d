//! Bounds of the parameters of strategies. A policy is checked once, so that no decision meets a meaningless
//! value.

use weir_types::Span;

use super::{Policy, Switch};

/// Largest number of samples, and largest divisor of the SLO, that is accepted; more is taken as a mistake.
const MAX_COUNT: u64 = 1_000_000;

/// Largest factor that is accepted; more is taken as a mistake.
const MAX_FACTOR: f64 = 1e6;

impl Policy {
    /// Message about the first parameter that is out of bounds, as `key must ...`; `None` if all are valid.
    #[must_use]
    pub fn bad_parameter(&self) -> Option<String> {
        let mut checks = Checks(None);
        if let Some(estimate) = &self.estimate {
            checks.share("quantile", estimate.quantile);
            checks.span("window", estimate.window);
            checks.span("per_stream_interval", estimate.per_stream_interval);
            checks.count("samples", estimate.samples.map(|samples| samples as u64));
        }
        if let Some(Switch::With(slack)) = &self.slack {
            checks.count("margin_divisor", Some(slack.margin_divisor));
            checks.count("end_divisor", Some(slack.end_divisor));
            checks.count("relaxed_divisor", Some(slack.relaxed_divisor));
            checks.factor("full_backlog", slack.full_backlog);
            checks.factor("max_growth", slack.max_growth);
            checks.factor("calm_load", slack.calm_load);
            checks.factor("burst_load", slack.burst_load);
            checks.span("growth_time", Some(slack.growth_time));
            checks.share("calm_share", Some(slack.calm_share));
            checks.holds(
                slack.burst_load > slack.calm_load,
                "`burst_load` must be above `calm_load`",
            );
        }
        if let Some(Switch::With(stagger)) = &self.stagger {
            checks.factor("min_gap", stagger.min_gap);
            checks.count("min_size_divisor", Some(u64::from(stagger.min_size_divisor)));
        }
        if let Some(Switch::With(limit)) = &self.cost_limit {
            checks.share("gain", Some(limit.gain));
            checks.factor("capacity", limit.capacity);
        }
        if let Some(Switch::With(branches)) = &self.branch_shedding {
            checks.span("window", Some(branches.window));
            checks.factor("min_items", branches.min_items);
        }
        if let Some(Switch::With(spread)) = &self.duration_spread {
            checks.span("window", Some(spread.window));
            checks.count("samples", Some(spread.samples as u64));
            checks.share("calm_quantile", Some(spread.calm_quantile));
            checks.share("busy_quantile", Some(spread.busy_quantile));
            checks.factor("tolerance", spread.tolerance);
            checks.factor("full_spread", spread.full_spread);
            checks.holds(
                spread.calm_quantile <= spread.busy_quantile,
                "`calm_quantile` must not be above `busy_quantile`",
            );
        }
        if let Some(Switch::With(fair)) = &self.fair_streams {
            checks.span("window", Some(fair.window));
            checks.share("tolerance", Some(fair.tolerance));
        }
        if let Some(Switch::With(control)) = &self.overload_control {
            checks.holds(
                (0.0..1.0).contains(&control.alpha),
                "`alpha` must be at least 0 and below 1",
            );
        }
        if let Some(sizing) = &self.joint_sizing {
            checks.factor("min_gain", sizing.min_gain);
            checks.factor("headroom", sizing.headroom);
            checks.factor("budget", sizing.budget);
        }
        checks.0
    }
}

/// The first check that failed.
struct Checks(Option<String>);

impl Checks {
    fn holds(&mut self, holds: bool, problem: &str) {
        if !holds && self.0.is_none() {
            self.0 = Some(problem.to_owned());
        }
    }

    fn share(&mut self, key: &str, value: Option<f64>) {
        let within = value.is_none_or(|value| (0.0..=1.0).contains(&value));
        self.holds(within, &format!("`{key}` must lie between 0 and 1"));
    }

    fn factor(&mut self, key: &str, value: f64) {
        let within = (0.0..=MAX_FACTOR).contains(&value);
        self.holds(within, &format!("`{key}` must lie between 0 and {MAX_FACTOR}"));
    }

    fn span(&mut self, key: &str, value: Option<Span>) {
        let above = value != Some(Span::ZERO);
        self.holds(above, &format!("`{key}` must be above zero"));
    }

    fn count(&mut self, key: &str, value: Option<u64>) {
        let within = value.is_none_or(|value| (1..=MAX_COUNT).contains(&value));
        self.holds(within, &format!("`{key}` must lie between 1 and {MAX_COUNT}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_out_of_bounds_is_named() {
        let check = |text: &str, key: Option<&str>| {
            let policy: Policy = toml::from_str(text).unwrap();
            let bad = policy.bad_parameter();
            assert_eq!(bad.is_some(), key.is_some(), "{text}: {bad:?}");
            assert!(key.is_none_or(|key| bad.unwrap().contains(key)), "{text}");
        };
        check("slack = true", None);
        check("slack = { margin_divisor = 0 }", Some("margin_divisor"));
        check("slack = { calm_load = 2.0 }", Some("burst_load"));
        check("branch_shedding = { window = \"0s\" }", Some("window"));
        check("estimate = { quantile = 1.5 }", Some("quantile"));
        check("estimate = { samples = 0 }", Some("samples"));
        check("cost_limit = { capacity = nan }", Some("capacity"));
        check("overload_control = { alpha = 1.0 }", Some("alpha"));
        check("duration_spread = { window = \"0s\" }", Some("window"));
        check("duration_spread = { samples = 0 }", Some("samples"));
        check("duration_spread = { busy_quantile = 0.4 }", Some("calm_quantile"));
    }
}
