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

/// Name of the preset of the rule `none`.
pub(super) const NAIVE: &str = "naive";

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

/// PARD's rule, its order and its architecture, which its variants keep.
fn predictive() -> Strategies {
    Strategies {
        admission: BatchAdmission::Predictive(Predictive::default()),
        ..Strategies::default()
    }
}

/// PARD's order and architecture with another admission, which estimates no latency downstream.
fn nothing_ahead(admission: BatchAdmission) -> Strategies {
    Strategies {
        admission,
        estimator: Estimator::none(),
        ..Strategies::default()
    }
}

/// A rival of PARD as the whole system: first come, first served, a mailbox for each worker, batches bound
/// early.
fn rival(admission: BatchAdmission) -> Strategies {
    Strategies {
        order: Order::Fcfs,
        binding: BatchBinding::Early,
        mailbox: Mailboxes::Worker,
        early_drop: false,
        tie_break: false,
        ..nothing_ahead(admission)
    }
}

/// PARD with the additions of `weir/README.md`.
fn weir(ahead: Lookahead) -> Strategies {
    Strategies {
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
        ..predictive()
    }
}

impl DropRule {
    /// Name of the preset of a rule.
    pub(super) fn preset_of<'a>(rule: &&'a str) -> &'a str {
        if *rule == Self::None.name() { NAIVE } else { rule }
    }

    /// Strategies of the rule.
    pub(super) fn strategies(&self) -> Strategies {
        match *self {
            Self::None => rival(BatchAdmission::AdmitAll(AdmitAll::default())),
            Self::Pard(ahead) => Strategies {
                estimator: lookahead(ahead),
                ..predictive()
            },
            Self::Weir(ahead) => weir(ahead),
            Self::Back => Strategies {
                estimator: Estimator::none(),
                ..predictive()
            },
            Self::Sf => Strategies {
                estimator: Estimator {
                    execution: true,
                    ..Estimator::none()
                },
                ..predictive()
            },
            Self::Lower(ahead) => Strategies {
                estimator: Estimator {
                    wait: WaitTerm::None,
                    ..lookahead(ahead)
                },
                ..predictive()
            },
            Self::Upper(ahead) => Strategies {
                estimator: Estimator {
                    wait: WaitTerm::Execution,
                    ..lookahead(ahead)
                },
                ..predictive()
            },
            Self::Newest => Strategies {
                newest: true,
                order: Order::Fcfs,
                sizing: Sizing::One,
                ..nothing_ahead(BatchAdmission::AdmitAll(AdmitAll::default()))
            },
            Self::Nexus(scan) => rival(BatchAdmission::NexusScan(scan)),
            Self::Oc(control) => Strategies {
                overload_control: Some(control),
                ..nothing_ahead(BatchAdmission::TimedOut(TimedOut::default()))
            },
            Self::ClipperPlusPlus(split) => rival(BatchAdmission::Shares(Shares {
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
    /// Names of whole policies: those of the drop rules, with `naive` for `none`, and `pard-paper`.
    #[must_use]
    pub fn presets() -> Vec<&'static str> {
        let rules = DropRule::NAMES.iter().map(DropRule::preset_of);
        rules.chain([PARD_PAPER]).collect()
    }

    /// A whole policy by its name; `None` if there is none.
    ///
    /// The name of a drop rule gives that rule with all that belongs to it: `nexus`, `clipper++` and `naive`
    /// serve first come, first served, bind batches early and have a mailbox for each worker. `pard-paper` is
    /// PARD as it was published: batches bound early, a mailbox for each worker, recent means published once
    /// a second, no early drop, no tie-break.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        if name == PARD_PAPER {
            return Some(Self {
                drop: DropRule::Pard(Lookahead {
                    queueing: Queueing::Recent,
                    ..Lookahead::default()
                }),
                forming: Some(BatchBinding::Early),
                mailbox: Some(Mailboxes::Worker),
                sweep: Some(false),
                fair: Some(false),
                ..Self::default()
            });
        }
        let rule = DropRule::NAMES
            .iter()
            .find(|rule| DropRule::preset_of(rule) == name)?;
        DropRule::by_name(rule).map(|drop| Self {
            drop,
            ..Self::default()
        })
    }

    /// Number of mailboxes that the policy asks for.
    #[must_use]
    pub fn mailboxes(&self) -> Mailboxes {
        self.resolve().mailbox
    }

    /// Time at which requests are bound to a batch.
    #[must_use]
    pub fn binding(&self) -> BatchBinding {
        self.resolve().binding
    }

    /// The same policy with `mailboxes`, unless it names others itself. For slots that cannot have, or can no
    /// longer get, the mailboxes that belong to the drop rule.
    #[must_use]
    pub fn or_mailboxes(mut self, mailboxes: Mailboxes) -> Self {
        if self.mailbox.is_none() && self.mailboxes() != mailboxes {
            self.mailbox = Some(mailboxes);
        }
        self
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
            order: self.order.unwrap_or(preset.order),
            binding: self.forming.unwrap_or(preset.binding),
            mailbox: self.mailbox.unwrap_or(preset.mailbox),
            booking_margin: self.booking_margin,
            early_drop: self.sweep.unwrap_or(preset.early_drop),
            tie_break: self.fair.unwrap_or(preset.tie_break),
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
    fn rivals_are_whole_systems_and_variants_of_pard_keep_its_architecture() {
        let architecture = |policy: &Policy| {
            let found = policy.resolve();
            (
                found.order,
                found.binding,
                found.mailbox,
                found.early_drop,
                found.tie_break,
            )
        };
        let (rival, pard) = (
            (Order::Fcfs, BatchBinding::Early, Mailboxes::Worker, false, false),
            (Order::Adaptive, BatchBinding::Late, Mailboxes::Pool, true, true),
        );
        for (name, expected) in [
            ("naive", rival),
            ("nexus", rival),
            ("clipper++", rival),
            ("split", pard),
            ("oc", pard),
        ] {
            assert_eq!(architecture(&Policy::preset(name).unwrap()), expected, "{name}");
        }
        let rule: Policy = toml::from_str("drop = \"nexus\"").unwrap();
        assert_eq!(architecture(&rule), rival, "by its rule alone");
        let hybrid: Policy =
            toml::from_str("drop = \"nexus\"\norder = \"adaptive\"\nmailbox = \"pool\"").unwrap();
        assert_eq!(
            architecture(&hybrid),
            (
                Order::Adaptive,
                BatchBinding::Early,
                Mailboxes::Pool,
                false,
                false
            )
        );
        assert_eq!(Policy::preset("none"), None, "the whole system is naive");
    }

    #[test]
    fn mailboxes_of_a_rule_give_way_and_those_that_are_named_stay() {
        let nexus = Policy::preset("nexus").unwrap();
        assert_eq!(nexus.clone().or_mailboxes(Mailboxes::Worker), nexus);
        let shared = nexus.or_mailboxes(Mailboxes::Pool);
        assert_eq!(shared.departures(), ["mailbox = \"pool\""]);
        assert_eq!(shared.clone().or_mailboxes(Mailboxes::Worker), shared);
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
