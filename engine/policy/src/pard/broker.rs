//! The request broker (PARD 4.2): whether a request is dropped when it is about to join a batch.

use weir_types::{DropReason, Span, StreamId, Timestamp};

use crate::pard::state::DownstreamEstimate;
use crate::strategy::{Budget, DropRule, NexusScan, ScanBy};

/// A request as the broker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// When it was sent, `t_s`.
    pub sent_at: Timestamp,
    /// When it reached this module, `t_r`.
    pub arrived_at: Timestamp,
    /// Its stream.
    pub stream: StreamId,
}

/// Decides on one request: its batch is expected to start at `start` (`t_e`) and to take `duration` (`d_k`).
///
/// PARD's Eq. 3: `L = (t_e - t_s) + d_k + max over paths of [sum q_i + sum d_i + F^-1(lambda)]`; dropped if `L > SLO`.
/// The term of the modules downstream is in the estimate, as the rule defines it.
#[must_use]
pub fn admit(
    rule: &DropRule,
    slo: Span,
    downstream_estimate: &DownstreamEstimate,
    request: Candidate,
    start: Timestamp,
    duration: Span,
) -> Option<DropReason> {
    let estimate =
        start.since(request.sent_at) + duration + downstream_estimate.downstream_of(request.stream);
    match rule {
        DropRule::None => None,
        // Nexus drops by windows of the queue, see `nexus_drop_count`; what remains is feasible.
        DropRule::Nexus(NexusScan { scan: ScanBy::Window }) => None,
        // The finish is that of the planned batch size, whatever the batch holds.
        DropRule::Nexus(NexusScan {
            scan: ScanBy::Deadline,
        }) => (start.since(request.sent_at) + duration > slo).then_some(DropReason::Infeasible),
        // Admission is limited on arrival; of admitted requests only those that have timed out are dropped, as in the paper.
        DropRule::Oc(_) => (start.since(request.sent_at) > slo).then_some(DropReason::Infeasible),
        DropRule::Pard(_)
        | DropRule::Weir(_)
        | DropRule::Back
        | DropRule::Sf
        | DropRule::Lower(_)
        | DropRule::Upper(_) => (estimate > slo).then_some(DropReason::Infeasible),
        // Clipper drops requests that have timed out before inference, here by the module's share of the SLO.
        DropRule::ClipperPlusPlus(split) => {
            budget_drop(split.budget, downstream_estimate, request, start, Span::ZERO)
        }
        DropRule::Split(split) => budget_drop(split.budget, downstream_estimate, request, start, duration),
        DropRule::Wcl(_) => budget_drop(Budget::Cumulative, downstream_estimate, request, start, duration),
    }
}

fn budget_drop(
    budget: Budget,
    downstream_estimate: &DownstreamEstimate,
    request: Candidate,
    start: Timestamp,
    duration: Span,
) -> Option<DropReason> {
    let (spent, allowed) = match budget {
        Budget::Cumulative => (
            start.since(request.sent_at),
            downstream_estimate.budget_up_to_here,
        ),
        Budget::Local => (start.since(request.arrived_at), downstream_estimate.own_budget),
    };
    (spent + duration > allowed).then_some(DropReason::OverBudget)
}

/// Nexus as PARD describes it (5.1): a window of one batch slides over the queue in arrival order and stops at the first
/// position at which every request in it meets its deadline; all before it are dropped. Returns their number.
#[must_use]
pub fn nexus_drop_count(
    deadlines: impl IntoIterator<Item = Timestamp>,
    window: usize,
    start: Timestamp,
    duration: Span,
) -> usize {
    let done = start + duration;
    // An infeasible request in the window moves the window past itself.
    let mut first = 0;
    for (place, deadline) in deadlines.into_iter().enumerate() {
        if place >= first + window.max(1) {
            break;
        }
        if deadline < done {
            first = place + 1;
        }
    }
    first
}

/// Whether the rule predicts completion, so that requests that certainly miss their deadline are dropped while they wait.
#[must_use]
pub fn is_predictive(rule: &DropRule) -> bool {
    matches!(
        rule,
        DropRule::Pard(_)
            | DropRule::Weir(_)
            | DropRule::Back
            | DropRule::Sf
            | DropRule::Lower(_)
            | DropRule::Upper(_)
            | DropRule::Wcl(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Lookahead, Split};

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    /// SLO 400 ms, sent at 0, at the module at 100 ms, 60 ms downstream, own budget 100 ms, budget up to here 250 ms; the
    /// batch takes 40 ms.
    fn check(rule: &DropRule, start_ms: u64, expected: Option<DropReason>) {
        let downstream_estimate = DownstreamEstimate {
            downstream: if matches!(rule, DropRule::Back) {
                Span::ZERO
            } else {
                Span::from_millis(60)
            },
            own_budget: Span::from_millis(100),
            budget_up_to_here: Span::from_millis(250),
            ..DownstreamEstimate::default()
        };
        let request = Candidate {
            sent_at: at(0),
            arrived_at: at(100),
            stream: StreamId(0),
        };
        let slo = Span::from_millis(400);
        let verdict = admit(
            rule,
            slo,
            &downstream_estimate,
            request,
            at(start_ms),
            Span::from_millis(40),
        );
        assert_eq!(verdict, expected, "{} at {start_ms} ms", rule.name());
    }

    #[test]
    fn each_rule_drops_beyond_its_bound() {
        let pard = DropRule::Pard(Lookahead::default());
        check(&pard, 300, None);
        check(&pard, 301, Some(DropReason::Infeasible));
        check(&DropRule::Back, 360, None);
        check(&DropRule::Back, 361, Some(DropReason::Infeasible));
        check(&DropRule::None, 10_000, None);
        let cumulative = Split {
            budget: Budget::Cumulative,
            ..Split::default()
        };
        check(&DropRule::ClipperPlusPlus(cumulative), 250, None);
        check(
            &DropRule::ClipperPlusPlus(cumulative),
            251,
            Some(DropReason::OverBudget),
        );
        check(&DropRule::Split(cumulative), 210, None);
        check(&DropRule::Split(cumulative), 211, Some(DropReason::OverBudget));
        let local = Split {
            budget: Budget::Local,
            ..Split::default()
        };
        check(&DropRule::ClipperPlusPlus(local), 200, None);
        check(
            &DropRule::ClipperPlusPlus(local),
            201,
            Some(DropReason::OverBudget),
        );
        check(&DropRule::Oc(crate::OverloadControl::default()), 400, None);
    }

    #[test]
    fn nexus_drops_up_to_the_first_feasible_window() {
        let check = |deadlines_ms: &[u64], expected| {
            let deadlines = deadlines_ms.iter().map(|&ms| at(ms));
            assert_eq!(
                nexus_drop_count(deadlines, 2, at(0), Span::from_millis(50)),
                expected,
                "{deadlines_ms:?}"
            );
        };
        check(&[], 0);
        check(&[60, 70], 0);
        check(&[40, 70, 80], 1);
        check(&[60, 40, 80], 2);
        check(&[60, 70, 40], 0);
        check(&[40, 40, 40], 3);
    }
}
