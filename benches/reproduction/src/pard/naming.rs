//! What policies are called, in the paper's words where it has one.

use weir_policy::{BatchBinding, Budget, DropRule, Mailboxes, Order, Policy, ScanBy, SplitScope};

/// Of a trace's origin its name.
#[must_use]
pub fn trace(origin: &str) -> String {
    let end = origin.find([':', ' ']).unwrap_or(origin.len());
    origin[..end].to_owned()
}

/// A policy by its rule and order; and its architecture, where it is not the one that the rule comes from.
#[must_use]
pub fn policy(policy: &Policy) -> String {
    let name = match &policy.drop {
        DropRule::None => "naive".to_owned(),
        DropRule::Nexus(scan) if scan.scan == ScanBy::Deadline => "nexus (deadline)".to_owned(),
        DropRule::ClipperPlusPlus(split)
            if split.budget == Budget::Cumulative && split.over == SplitScope::Path =>
        {
            "clipper++ (path)".to_owned()
        }
        DropRule::ClipperPlusPlus(split) if split.budget == Budget::Local => "clipper++ (local)".to_owned(),
        DropRule::Split(split) if split.budget == Budget::Local => "split (local)".to_owned(),
        DropRule::Pard(_) => match policy.order {
            Order::Adaptive => "pard",
            Order::Fcfs => "fcfs",
            Order::Hbf => "hbf",
            Order::Lbf => "lbf",
            Order::Instant => "instant",
        }
        .to_owned(),
        DropRule::Oc(control) => format!(
            "oc T={:.0} ms a={}",
            control.threshold.as_millis_f64(),
            control.alpha
        ),
        rule => rule.name().to_owned(),
    };
    let modern = policy.forming == BatchBinding::Late && policy.mailbox == Mailboxes::Pool;
    let weir = matches!(policy.drop, DropRule::Weir(_));
    match (modern, weir) {
        (true, false) => format!("{name} (late)"),
        (false, true) => format!("{name} (eager)"),
        _ => name,
    }
}
