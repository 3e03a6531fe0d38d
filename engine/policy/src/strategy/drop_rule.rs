//! `drop` of `[policy]`: a rule by name, with the parameters of its paper. Each rule is a preset of the
//! strategies that decide on drops (see `preset.rs`).

use serde::de::IntoDeserializer;
use serde::de::value::{self, StrDeserializer};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_types::Span;

use crate::baselines::nexus::{NexusScan, ScanBy};
use crate::baselines::overload_control::OverloadControl;
use crate::baselines::shares::{Budget, Split, SplitScope};
use crate::pard::estimator::Queueing;

/// Rule that drops requests. Written as a word (`"none"`) or, with parameters, as a table
/// (`{ rule = "pard", quantile = 0.1 }`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum DropRule {
    /// No request is dropped.
    None,
    /// PARD, Eq. 3: by the latency so far, in this module and downstream.
    Pard(Lookahead),
    /// Clipper++: each module has a share of the SLO by execution time. A request that exceeds the sum of the
    /// shares up to this module is dropped.
    #[serde(rename = "clipper++")]
    ClipperPlusPlus(Split),
    /// Nexus: considers the present module alone, in arrival order by windows of a batch.
    Nexus(NexusScan),
    /// The simple rival: each stream has at most one waiting request, its newest frame; streams take turns;
    /// each frame runs alone.
    Newest,
    /// Weir's own rule: PARD with the additions of weir/README.md, which were found in simulations.
    Weir(Lookahead),
    /// PARD without the modules ahead.
    Back,
    /// PARD with execution times ahead, but no waits.
    Sf,
    /// Overload control after DAGOR: above a queueing delay, upstream admission is cut.
    Oc(OverloadControl),
    /// Fixed shares of the SLO; in the present module PARD's estimate.
    Split(Split),
    /// Shares of the SLO by the worst recent latency.
    #[serde(serialize_with = "window_only")]
    Wcl(Lookahead),
    /// PARD with batch waits downstream taken as zero.
    #[serde(serialize_with = "window_only")]
    Lower(Lookahead),
    /// PARD with batch waits downstream taken as whole executions.
    #[serde(serialize_with = "window_only")]
    Upper(Lookahead),
}

/// Parameters of the estimated latency downstream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lookahead {
    /// Quantile of the summed batch waits that is expected (PARD's lambda), 0 to 1.
    pub quantile: f64,
    /// Window over which queueing delays are averaged, linearly weighted.
    pub window: Span,
    /// Number of recent waits kept for the quantile (PARD's M).
    pub samples: usize,
    /// Queueing delay that a module reports.
    pub queueing: Queueing,
}

/// Serialises the parameters of a rule without a quantile, in a form that can be read again.
fn window_only<S: Serializer>(ahead: &Lookahead, serializer: S) -> Result<S::Ok, S::Error> {
    let mut table = serializer.serialize_struct("Lookahead", 2)?;
    table.serialize_field("window", &ahead.window)?;
    table.serialize_field("queueing", &ahead.queueing)?;
    table.end()
}

impl Default for Lookahead {
    fn default() -> Self {
        Self {
            quantile: 0.1,
            window: Span::from_secs(5),
            samples: 10_000,
            queueing: Queueing::Present,
        }
    }
}

impl Default for DropRule {
    fn default() -> Self {
        Self::Pard(Lookahead::default())
    }
}

impl DropRule {
    /// Names that `rule` may have.
    pub const NAMES: &'static [&'static str] = &[
        "none",
        "pard",
        "weir",
        "clipper++",
        "nexus",
        "newest",
        "back",
        "sf",
        "oc",
        "split",
        "wcl",
        "lower",
        "upper",
    ];

    /// Rule with that name and its paper's parameters; `None` if there is none.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, value::Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }

    /// Its name, as in TOML.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pard(_) => "pard",
            Self::Weir(_) => "weir",
            Self::ClipperPlusPlus(_) => "clipper++",
            Self::Nexus(_) => "nexus",
            Self::Newest => "newest",
            Self::Back => "back",
            Self::Sf => "sf",
            Self::Oc(_) => "oc",
            Self::Split(_) => "split",
            Self::Wcl(_) => "wcl",
            Self::Lower(_) => "lower",
            Self::Upper(_) => "upper",
        }
    }
}

/// Parameters of all rules together; checked afterwards against those of the rule.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rule: String,
    quantile: Option<f64>,
    window: Option<Span>,
    samples: Option<usize>,
    queueing: Option<Queueing>,
    scan: Option<ScanBy>,
    budget: Option<Budget>,
    over: Option<SplitScope>,
    threshold: Option<Span>,
    alpha: Option<f64>,
}

impl Table {
    fn lookahead(&self) -> Lookahead {
        let default = Lookahead::default();
        Lookahead {
            quantile: self.quantile.unwrap_or(default.quantile),
            window: self.window.unwrap_or(default.window),
            samples: self.samples.unwrap_or(default.samples),
            queueing: self.queueing.unwrap_or(default.queueing),
        }
    }

    fn split(&self) -> Split {
        Split {
            budget: self.budget.unwrap_or_default(),
            over: self.over.unwrap_or_default(),
        }
    }

    fn overload_control(&self) -> OverloadControl {
        let default = OverloadControl::default();
        OverloadControl {
            threshold: self.threshold.unwrap_or(default.threshold),
            alpha: self.alpha.unwrap_or(default.alpha),
        }
    }

    /// Names of the parameters that the table gives.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("quantile", self.quantile.is_some()),
            ("window", self.window.is_some()),
            ("samples", self.samples.is_some()),
            ("queueing", self.queueing.is_some()),
            ("scan", self.scan.is_some()),
            ("budget", self.budget.is_some()),
            ("over", self.over.is_some()),
            ("threshold", self.threshold.is_some()),
            ("alpha", self.alpha.is_some()),
        ];
        given
            .into_iter()
            .filter_map(|(key, is_given)| is_given.then_some(key))
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a rule's name, or a table such as { rule = \"pard\", quantile = 0.1 }"
)]
enum Form {
    Word(String),
    Table(Table),
}

impl<'de> Deserialize<'de> for DropRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let table = match Form::deserialize(deserializer)? {
            Form::Word(rule) => Table {
                rule,
                ..Table::default()
            },
            Form::Table(table) => table,
        };
        let (ahead, split, control) = (table.lookahead(), table.split(), table.overload_control());
        let (rule, takes): (Self, &[&str]) = match table.rule.as_str() {
            "none" => (Self::None, &[]),
            "pard" => (Self::Pard(ahead), &["quantile", "window", "samples", "queueing"]),
            "weir" => (Self::Weir(ahead), &["quantile", "window", "samples", "queueing"]),
            "clipper++" => (Self::ClipperPlusPlus(split), &["budget", "over"]),
            "nexus" => (
                Self::Nexus(NexusScan {
                    scan: table.scan.unwrap_or_default(),
                }),
                &["scan"],
            ),
            "newest" => (Self::Newest, &[]),
            "back" => (Self::Back, &[]),
            "sf" => (Self::Sf, &[]),
            "oc" => (Self::Oc(control), &["threshold", "alpha"]),
            "split" => (Self::Split(split), &["budget", "over"]),
            "wcl" => (Self::Wcl(ahead), &["window", "queueing"]),
            "lower" => (Self::Lower(ahead), &["window", "queueing"]),
            "upper" => (Self::Upper(ahead), &["window", "queueing"]),
            other => return Err(D::Error::unknown_variant(other, Self::NAMES)),
        };
        if let Some(key) = table.given().find(|key| !takes.contains(key)) {
            return Err(D::Error::custom(format!(
                "the rule \"{}\" has no parameter \"{key}\"",
                rule.name()
            )));
        }
        if !(0.0..=1.0).contains(&ahead.quantile) {
            return Err(D::Error::custom("quantile must lie between 0 and 1"));
        }
        if !(0.0..1.0).contains(&control.alpha) {
            return Err(D::Error::custom("alpha must be at least 0 and below 1"));
        }
        if ahead.window == Span::ZERO || ahead.samples == 0 {
            return Err(D::Error::custom("window and samples must be above zero"));
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Policy;

    #[derive(Deserialize)]
    struct File {
        policy: Policy,
    }

    fn check(toml: &str, expected: Result<DropRule, &str>) {
        let read = toml::from_str::<File>(&format!("[policy]\ndrop = {toml}")).map(|file| file.policy.drop);
        match expected {
            Ok(rule) => assert_eq!(read.unwrap(), rule),
            Err(part) => {
                let error = read.unwrap_err().to_string();
                assert!(error.contains(part), "{toml}: {error}");
            }
        }
    }

    #[test]
    fn rules_are_words_or_tables() {
        check("\"none\"", Ok(DropRule::None));
        check("\"pard\"", Ok(DropRule::Pard(Lookahead::default())));
        check(
            "{ rule = \"pard\", quantile = 0.2, window = \"2s\" }",
            Ok(DropRule::Pard(Lookahead {
                quantile: 0.2,
                window: Span::from_secs(2),
                ..Lookahead::default()
            })),
        );
        check(
            "{ rule = \"clipper++\", budget = \"local\" }",
            Ok(DropRule::ClipperPlusPlus(Split {
                budget: Budget::Local,
                over: SplitScope::Path,
            })),
        );
        for name in DropRule::NAMES {
            let quoted = format!("\"{name}\"");
            let read = toml::from_str::<File>(&format!("[policy]\ndrop = {quoted}")).unwrap();
            assert_eq!(read.policy.drop.name(), *name);
        }
    }

    #[test]
    fn a_parameter_that_the_rule_lacks_is_refused() {
        check(
            "{ rule = \"nexus\", quantile = 0.2 }",
            Err("no parameter \"quantile\""),
        );
        check("{ rule = \"pard\", quantile = 2.0 }", Err("between 0 and 1"));
        check("\"prd\"", Err("unknown variant `prd`"));
    }
}
