//! Presets: strategies of each rule of `drop`, and policies by name.

use weir_types::{ClusterSpec, Span};

use super::admissions::BatchAdmission;
use super::drop_rule::{DropRule, Lookahead};
use super::strategies::Strategies;
use super::values::{BatchBinding, Mailboxes, Order, Sizing};
use super::{Policy, switch::Switch};
use crate::baselines::admit_all::AdmitAll;
use crate::baselines::overload_control::TimedOut;
use crate::baselines::shares::{ShareWeight, Shares};
use crate::pard::estimator::{Estimation, Estimator, Queueing, WaitMeasure, WaitTerm};
use crate::pard::predictive::Predictive;
use crate::reservations::ReserveSpec;
use crate::weir::branch_load::BranchLoadSpec;
use crate::weir::cost_limit::CostLimitSpec;
use crate::weir::duration_spread::DurationSpreadSpec;
use crate::weir::fair_streams::FairStreamsSpec;
use crate::weir::slack::SlackSpec;
use crate::weir::stagger::StaggerSpec;

/// Name of the preset that is more than a drop rule: PARD as it was published.
pub(super) const PARD_PAPER: &str = "pard-paper";

/// Interval at which `weir` publishes the expected items of streams: short, since they change with the
/// content of frames.
const PER_STREAM_INTERVAL: Span = Span::from_millis(50);

fn lookahead(ahead: Lookahead) -> Estimator {
    Estimator {
        quantile: ahead.quantile,
        window: ahead.window,
        samples: ahead.samples,
        reported: ahead.queueing,
        ..Estimator::default()
    }
}

impl DropRule {
    /// Strategies of the rule.
    pub(super) fn strategies(&self) -> Strategies {
        let predictive = Strategies {
            admission: BatchAdmission::Predictive(Predictive::default()),
            ..Strategies::default()
        };
        let nothing_ahead = |admission| Strategies {
            admission,
            estimator: Estimator::none(),
            ..Strategies::default()
        };
        match *self {
            Self::None => nothing_ahead(BatchAdmission::AdmitAll(AdmitAll::default())),
            Self::Pard(ahead) => Strategies {
                estimator: lookahead(ahead),
                ..predictive
            },
            Self::Weir(ahead) => Strategies {
                estimator: Estimator {
                    queueing: false,
                    measured: WaitMeasure::Whole,
                    per_stream: Some(PER_STREAM_INTERVAL),
                    ..lookahead(ahead)
                },
                sizing: Sizing::Together,
                slack: Some(SlackSpec::default()),
                stagger: Some(StaggerSpec::default()),
                cost_limit: Some(CostLimitSpec::default()),
                branch_shedding: Some(BranchLoadSpec::default()),
                duration_spread: Some(DurationSpreadSpec::default()),
                fair_streams: Some(FairStreamsSpec::default()),
                ..predictive
            },
            Self::Back => Strategies {
                estimator: Estimator::none(),
                ..predictive
            },
            Self::Sf => Strategies {
                estimator: Estimator {
                    execution: true,
                    ..Estimator::none()
                },
                ..predictive
            },
            Self::Lower(ahead) => Strategies {
                estimator: Estimator {
                    wait: WaitTerm::None,
                    ..lookahead(ahead)
                },
                ..predictive
            },
            Self::Upper(ahead) => Strategies {
                estimator: Estimator {
                    wait: WaitTerm::Execution,
                    ..lookahead(ahead)
                },
                ..predictive
            },
            Self::Newest => Strategies {
                newest: true,
                sizing: Sizing::One,
                ..nothing_ahead(BatchAdmission::AdmitAll(AdmitAll::default()))
            },
            Self::Nexus(scan) => nothing_ahead(BatchAdmission::NexusScan(scan)),
            Self::Oc(control) => Strategies {
                overload_control: Some(control),
                ..nothing_ahead(BatchAdmission::TimedOut(TimedOut::default()))
            },
            Self::ClipperPlusPlus(split) => nothing_ahead(BatchAdmission::Shares(Shares {
                budget: split.budget,
                over: split.over,
                ..Shares::default()
            })),
            Self::Split(split) => nothing_ahead(BatchAdmission::Shares(Shares {
                budget: split.budget,
                over: split.over,
                execution: true,
                ..Shares::default()
            })),
            Self::Wcl(ahead) => Strategies {
                estimator: Estimator {
                    queueing: false,
                    execution: false,
                    wait: WaitTerm::None,
                    ..lookahead(ahead)
                },
                ..nothing_ahead(BatchAdmission::Shares(Shares {
                    by: ShareWeight::WorstLatency,
                    execution: true,
                    ..Shares::default()
                }))
            },
        }
    }
}

impl Policy {
    /// Names of whole policies: those of the drop rules, and `pard-paper`.
    #[must_use]
    pub fn presets() -> Vec<&'static str> {
        let rules = DropRule::NAMES.iter().copied();
        rules.chain([PARD_PAPER]).collect()
    }

    /// A whole policy by its name; `None` if there is none.
    ///
    /// The name of a drop rule gives that rule with all other keys at their defaults. `pard-paper` is PARD as
    /// it was published: batches bound early, a mailbox for each worker, recent means published once a
    /// second, no early drop, no tie-break.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        if name == PARD_PAPER {
            return Some(Self {
                drop: DropRule::Pard(Lookahead {
                    queueing: Queueing::Recent,
                    ..Lookahead::default()
                }),
                order: Order::Adaptive,
                forming: BatchBinding::Early,
                mailbox: Mailboxes::Worker,
                sweep: false,
                fair: false,
                ..Self::default()
            });
        }
        DropRule::by_name(name).map(|drop| Self {
            drop,
            ..Self::default()
        })
    }

    /// Whether requests that will certainly miss their deadlines are dropped by prediction.
    #[must_use]
    pub fn is_predictive(&self) -> bool {
        self.resolve().admission.rule().is_predictive()
    }

    /// Rules of a [`StatePlanner`](crate::StatePlanner) under this policy.
    #[must_use]
    pub fn estimation(&self) -> Estimation {
        self.resolve().estimation()
    }

    /// Specification of reservations over `cluster`, for a run in which uses of resources are reported.
    #[must_use]
    pub fn reserve_spec(&self, cluster: ClusterSpec) -> ReserveSpec {
        ReserveSpec {
            cluster,
            tables: self.tables,
            feedback: true,
            corrected: true,
            head_min_fraction: self.head_min_fraction,
        }
    }

    /// Resolves the policy into the rule of each decision.
    pub(crate) fn resolve(&self) -> Strategies {
        let preset = self.drop.strategies();
        Strategies {
            admission: self.admission.unwrap_or(preset.admission),
            estimator: self.estimate.unwrap_or_default().over(preset.estimator),
            sizing: self.sizing.unwrap_or(preset.sizing),
            joint_sizing: self.joint_sizing.unwrap_or(preset.joint_sizing),
            slack: Switch::resolve(self.slack, preset.slack),
            stagger: Switch::resolve(self.stagger, preset.stagger),
            cost_limit: Switch::resolve(self.cost_limit, preset.cost_limit),
            branch_shedding: Switch::resolve(self.branch_shedding, preset.branch_shedding),
            duration_spread: Switch::resolve(self.duration_spread, preset.duration_spread),
            fair_streams: Switch::resolve(self.fair_streams, preset.fair_streams),
            overload_control: Switch::resolve(self.overload_control, preset.overload_control),
            newest: preset.newest,
            order: if preset.newest { Order::Fcfs } else { self.order },
            binding: self.forming,
            mailbox: self.mailbox,
            booking_margin: self.booking_margin,
            early_drop: self.sweep,
            tie_break: self.fair,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{DropReason, StreamId, Timestamp};

    use super::*;
    use crate::OverloadControl;
    use crate::admission::{BatchView, Candidate};
    use crate::baselines::shares::{Budget, Split};

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    /// A request with an SLO of 400 ms, sent at 0, at the module since 100 ms; own share 100 ms, shares up to
    /// here 250 ms. The batch takes 40 ms, and 60 ms are estimated downstream if the rule looks ahead.
    fn check(rule: &DropRule, start_ms: u64, expected: Option<DropReason>) {
        let strategies = rule.strategies();
        let looks_ahead = strategies.estimator.execution;
        let batch = BatchView {
            slo: Span::from_millis(400),
            start: at(start_ms),
            duration: Span::from_millis(40),
            downstream: Span::from_millis(if looks_ahead { 60 } else { 0 }),
            own_share: Span::from_millis(100),
            share_up_to_here: Span::from_millis(250),
            waiting_items: 1,
        };
        let request = Candidate {
            sent_at: at(0),
            arrived_at: at(100),
            stream: StreamId(0),
        };
        let verdict = strategies.admission.rule().verdict(&request, &batch);
        assert_eq!(verdict, expected, "{} at {start_ms} ms", rule.name());
    }

    #[test]
    fn each_rule_drops_from_the_moment_that_its_paper_says() {
        let pard = DropRule::Pard(Lookahead::default());
        check(&pard, 300, None);
        check(&pard, 301, Some(DropReason::Infeasible));
        check(&DropRule::Back, 360, None);
        check(&DropRule::Back, 361, Some(DropReason::Infeasible));
        check(&DropRule::None, 10_000, None);
        let cumulative = Split::default();
        let clipper = DropRule::ClipperPlusPlus(cumulative);
        check(&clipper, 250, None);
        check(&clipper, 251, Some(DropReason::OverBudget));
        check(&DropRule::Split(cumulative), 210, None);
        check(&DropRule::Split(cumulative), 211, Some(DropReason::OverBudget));
        let local = DropRule::ClipperPlusPlus(Split {
            budget: Budget::Local,
            ..Split::default()
        });
        check(&local, 200, None);
        check(&local, 201, Some(DropReason::OverBudget));
        let control = DropRule::Oc(OverloadControl::default());
        check(&control, 400, None);
        check(&control, 401, Some(DropReason::Infeasible));
    }

    #[test]
    fn a_part_of_a_preset_is_switched_off_alone_and_takes_parameters() {
        let read = |text: &str| toml::from_str::<Policy>(text).map(|policy| policy.resolve());
        let whole = read("drop = \"weir\"").unwrap();
        assert!(whole.slack.is_some() && whole.stagger.is_some() && whole.cost_limit.is_some());
        let without = read("drop = \"weir\"\nslack = false").unwrap();
        assert_eq!(without, Strategies { slack: None, ..whole });
        let wide = read("drop = \"weir\"\nslack = { margin_divisor = 3 }").unwrap();
        assert_eq!(wide.slack.unwrap().margin_divisor, 3);
        assert_eq!(wide.slack.unwrap().max_growth, whole.slack.unwrap().max_growth);
        let added = read("slack = true").unwrap();
        assert_eq!(added.slack, whole.slack, "a part of weir beside PARD");
        let estimate = read("drop = \"weir\"\nestimate = { quantile = 0.5, queueing = true }").unwrap();
        assert_eq!(
            (estimate.estimator.quantile, estimate.estimator.queueing),
            (0.5, true)
        );
        assert_eq!(estimate.estimator.measured, whole.estimator.measured);
        let shares = read("admission = { rule = \"shares\", execution = true }").unwrap();
        assert!(matches!(shares.admission, BatchAdmission::Shares(shares) if shares.execution));
        for wrong in [
            "admission = \"nothing\"",
            "slack = { width = 3 }",
            "slack = 7",
            "admission = { rule = \"predictive\", x = 1 }",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_policy_that_departs_is_read_again_as_it_was_written() {
        let text =
            "drop = \"weir\"\nstagger = false\nadmission = \"timed-out\"\nslack = { calm_share = 0.5 }\n";
        let policy: Policy = toml::from_str(text).unwrap();
        let again: Policy = serde_json::from_value(serde_json::to_value(&policy).unwrap()).unwrap();
        assert_eq!(again, policy);
        for name in Policy::presets() {
            assert!(Policy::preset(name).is_some(), "{name}");
        }
        assert_eq!(Policy::preset("nothing"), None);
    }
}
