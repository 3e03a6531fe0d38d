//! Names of policies, in the paper's words if it has one: the drop rule, and the departures from its preset.

use weir_policy::{BatchBinding, Mailboxes, Policy};

/// Drop rule, a departure from its preset (if empty: none of the departures listed here), and the name of
/// both.
const NAMES: [(&str, &str, &str); 11] = [
    ("none", "", "naive"),
    ("nexus", "drop.scan = \"deadline\"", "nexus (deadline)"),
    ("clipper++", "drop.budget = \"local\"", "clipper++ (local)"),
    ("clipper++", "drop.over = \"modules\"", "clipper++"),
    ("clipper++", "", "clipper++ (path)"),
    ("split", "drop.budget = \"local\"", "split (local)"),
    ("pard", "order = \"fcfs\"", "fcfs"),
    ("pard", "order = \"hbf\"", "hbf"),
    ("pard", "order = \"lbf\"", "lbf"),
    ("pard", "order = \"instant\"", "instant"),
    ("pard", "", PARD),
];

/// PARD in its own architecture.
pub const PARD: &str = "pard";

/// The rule that does not come from the architecture of the paper.
pub const WEIR: &str = "weir";

/// Name of a trace, from its description.
#[must_use]
pub fn trace(origin: &str) -> String {
    let end = origin.find([':', ' ']).unwrap_or(origin.len());
    origin[..end].to_owned()
}

/// Name of a policy by its rule and the departures from it; with its architecture, if it differs from that of
/// the rule.
#[must_use]
pub fn policy(policy: &Policy) -> String {
    let name = match policy.estimation().overload_control {
        Some(control) => format!(
            "{} T={:.0} ms a={}",
            policy.drop.name(),
            control.threshold.as_millis_f64(),
            control.alpha
        ),
        None => rule(policy).to_owned(),
    };
    let late = policy.binding() == BatchBinding::Late && policy.mailboxes() == Mailboxes::Pool;
    match (late, policy.drop.name() == WEIR) {
        (true, false) => format!("{name} (late)"),
        (false, true) => format!("{name} (eager)"),
        _ => name,
    }
}

/// A policy by its rule and what departs from it.
#[must_use]
pub fn rule(policy: &Policy) -> &'static str {
    let (rule, departures) = (policy.drop.name(), policy.departures());
    let departs = |line: &str| line.is_empty() || departures.iter().any(|departure| departure == line);
    let named = NAMES.iter().find(|(of, line, _)| *of == rule && departs(line));
    named.map_or(rule, |(.., name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_called_after_what_departs_from_their_rule() {
        let check = |text: &str, name: &str| {
            let paper =
                format!("{text}\nforming = \"eager\"\nmailbox = \"worker\"\nsweep = false\nfair = false");
            assert_eq!(policy(&toml::from_str(&paper).unwrap()), name, "{text}");
        };
        check("drop = \"none\"\norder = \"fcfs\"", "naive");
        check("drop = \"nexus\"", "nexus");
        check(
            "drop = { rule = \"nexus\", scan = \"deadline\" }",
            "nexus (deadline)",
        );
        check("drop = \"clipper++\"", "clipper++ (path)");
        check("drop = { rule = \"clipper++\", over = \"modules\" }", "clipper++");
        check(
            "drop = { rule = \"clipper++\", budget = \"local\" }",
            "clipper++ (local)",
        );
        check("drop = { rule = \"split\", budget = \"local\" }", "split (local)");
        check(
            "drop = { rule = \"oc\", threshold = \"20ms\", alpha = 0.2 }",
            "oc T=20 ms a=0.2",
        );
        check("drop = { rule = \"pard\", queueing = \"recent\" }", "pard");
        check(
            "drop = { rule = \"pard\", queueing = \"recent\" }\norder = \"hbf\"",
            "hbf",
        );
        check("drop = { rule = \"upper\", queueing = \"recent\" }", "upper");
        check("drop = \"weir\"", "weir (eager)");
        assert_eq!(policy(&Policy::default()), "pard (late)");
    }
}
