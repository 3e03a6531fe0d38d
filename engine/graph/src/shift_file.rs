//! Rule for shifting gears, as a gears file has it.
//!
//! ```toml
//! shift = { window = "1s", waiting = 8 }                        # by the rate of requests, as in the paper
//! shift = { by = "in-flight", dwell = "2s" }                    # models that generate
//! shift = { by = "backlog", first = 0.4, full = 0.7 }           # queued work and losses
//! ```

use serde::{Deserialize, Serialize};
use weir_policy::gears::{BacklogRule, ShiftBy, ShiftDown, ShiftRule, ShiftScope};
use weir_types::Span;

/// Measure of the load, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShiftMeasure {
    /// Requests a second.
    #[default]
    Rate,
    /// Requests that wait or run.
    InFlight,
    /// Queued work of the slots, and lost requests.
    Backlog,
}

impl ShiftMeasure {
    /// All measures, by their words.
    pub const WORDS: [(&'static str, Self); 3] = [
        ("rate", Self::Rate),
        ("in-flight", Self::InFlight),
        ("backlog", Self::Backlog),
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::InFlight => "in-flight",
            Self::Backlog => "backlog",
        }
    }
}

/// Rule for shifting gears, as it is written in a gears file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShiftFile {
    /// Window over which arrivals and losses are counted, a duration; default 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// A lower gear follows where so many times the waiting items are at most the rate; default 8. By `rate` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// A lower gear follows after this time without a shift; in place of `waiting`. By `in-flight` the default is the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dwell: Option<String>,
    /// Scope over which the load is measured: all streams together (default), or each stream with a gear of
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ShiftScope>,
    /// Measure of the load; default `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ShiftMeasure>,
    /// Backlog at which the second gear comes into force, as a part of the time that requests can wait. This and the keys
    /// below are for `backlog`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
    /// Backlog at which the last gear comes into force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<f64>,
    /// A gear is left below so much of the backlog at which it came into force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<f64>,
    /// Part of the requests of the window that is lost at which the last gear comes into force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses: Option<f64>,
}

impl ShiftFile {
    /// The keys that are set, as people would write them; `None` if there are none.
    pub(crate) fn text(&self) -> Option<String> {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let texts = [
            ("by", self.by.map(|by| by.word().to_owned())),
            ("window", self.window.clone()),
            ("dwell", self.dwell.clone()),
            (
                "scope",
                self.scope.map(|scope| match scope {
                    ShiftScope::Graph => "graph".to_owned(),
                    ShiftScope::Stream => "stream".to_owned(),
                }),
            ),
        ];
        let texts = texts.map(|(key, value)| value.map(|value| format!("{key} = {}", quoted(&value))));
        let numbers = self.numbers();
        let numbers = numbers.map(|(key, value)| value.map(|value| format!("{key} = {value:?}")));
        let keys: Vec<String> = texts.into_iter().chain(numbers).flatten().collect();
        (!keys.is_empty()).then(|| keys.join(", "))
    }

    fn numbers(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("waiting", self.waiting),
            ("first", self.first),
            ("full", self.full),
            ("release", self.release),
            ("losses", self.losses),
        ]
    }

    /// Returns the rule that the file describes, with defaults for absent keys.
    ///
    /// # Errors
    /// A duration or number is invalid, or a key is set that is for another measure; as a text for the author of the file.
    pub fn rule(&self) -> Result<ShiftRule, String> {
        let default = ShiftRule::default();
        let span = |text: &String| match text.parse::<Span>() {
            Ok(span) if span > Span::ZERO => Ok(span),
            _ => Err(format!(
                "shift: \"{text}\" is no duration above zero, such as \"1s\""
            )),
        };
        let window = self.window.as_ref().map(span).transpose()?;
        let window = window.unwrap_or(default.window);
        let by = self.by()?;
        let down = match (by, &self.dwell, self.waiting) {
            (ShiftBy::Backlog(_), Some(_), _) | (ShiftBy::Backlog(_), _, Some(_)) => {
                let reason = "shift: `waiting` and `dwell` are not for by = \"backlog\", which shifts down by `release`";
                return Err(reason.to_owned());
            }
            (ShiftBy::InFlight, _, Some(_)) => {
                return Err("shift: `waiting` is not for by = \"in-flight\"; give `dwell`".to_owned());
            }
            (_, Some(_), Some(_)) => return Err("shift: give `waiting` or `dwell`, not both".to_owned()),
            (_, Some(dwell), None) => ShiftDown::Dwell(span(dwell)?),
            (_, None, Some(factor)) if !(factor >= 0.0 && factor.is_finite()) => {
                return Err(format!("shift: `waiting` must be 0 or above, not {factor}"));
            }
            (_, None, Some(factor)) => ShiftDown::Waiting { factor },
            (ShiftBy::InFlight, None, None) => ShiftDown::Dwell(window),
            (_, None, None) => default.down,
        };
        Ok(ShiftRule {
            window,
            down,
            scope: self.scope.unwrap_or_default(),
            by,
        })
    }

    fn by(&self) -> Result<ShiftBy, String> {
        let measure = self.by.unwrap_or_default();
        let [_, of_backlog @ ..] = self.numbers();
        let given = of_backlog.iter().find(|(_, value)| value.is_some());
        match (measure, given) {
            (ShiftMeasure::Backlog, _) => {}
            (_, Some((key, _))) => return Err(format!("shift: `{key}` is for by = \"backlog\" only")),
            (ShiftMeasure::Rate, None) => return Ok(ShiftBy::Rate),
            (ShiftMeasure::InFlight, None) => return Ok(ShiftBy::InFlight),
        }
        if self.scope == Some(ShiftScope::Stream) {
            let reason =
                "shift: by = \"backlog\" is not for scope = \"stream\": slots have one queue for all streams";
            return Err(reason.to_owned());
        }
        let default = BacklogRule::default();
        let rule = BacklogRule {
            first: self.first.unwrap_or(default.first),
            full: self.full.unwrap_or(default.full),
            release: self.release.unwrap_or(default.release),
            losses: self.losses.unwrap_or(default.losses),
        };
        let between = |key: &str, value: f64, least: f64, most: f64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!(
                "shift: `{key}` must lie between {least} and {most}, not {value}"
            )),
        };
        between("first", rule.first, 0.01, 10.0)?;
        between("full", rule.full, rule.first, 10.0)?;
        between("release", rule.release, 0.0, 1.0)?;
        between("losses", rule.losses, 0.001, 1.0)?;
        Ok(ShiftBy::Backlog(rule))
    }
}
