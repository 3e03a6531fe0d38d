//! Runs all parts of the evaluation.

use weir_policy::route::{JustEnough, Moves, RouteRule};
use weir_sim::generate::LengthRule;

use super::ReproduceError;
use super::lengths::compare::{Compared, predictors};
use super::moving::{self, Move};
use super::setting::{Case, Devices, OBJECTIVES, Outcome, RATES};
use crate::parallel::in_parallel;

/// Predictor that knows the true lengths.
pub const TRUE: LengthRule = LengthRule::Oracle { error: 0.0 };
/// Predictors of lengths that are compared, with their names.
pub const LENGTHS: [(&str, LengthRule); 4] = [
    ("true lengths", TRUE),
    ("log-normal error 0.3", LengthRule::Oracle { error: 0.3 }),
    ("log-normal error 0.6", LengthRule::Oracle { error: 0.6 }),
    ("history", LengthRule::History),
];
/// Intervals in tokens between two checks of a sequence (Figure 10b).
pub const CHECKS: [u32; 5] = [10, 25, 50, 100, 200];
/// Rate in requests per second and objective in seconds at which single parts are compared.
pub const MIDDLE: (u32, u32) = (30, 6);

/// Rule `just-enough` that moves so.
#[must_use]
pub fn just_enough(moves: Moves) -> RouteRule {
    RouteRule::JustEnough(JustEnough {
        moves,
        ..JustEnough::default()
    })
}

/// All rules, and `just-enough` with other migration settings, with their names.
#[must_use]
pub fn rules() -> Vec<(String, RouteRule)> {
    let all = RouteRule::all().map(|rule| (rule.name().to_owned(), rule));
    let variants = [
        ("just-enough, moves for the better", Moves::Better),
        ("just-enough, no moves", Moves::Never),
    ];
    let variants = variants.map(|(name, moves)| (name.to_owned(), just_enough(moves)));
    all.into_iter().chain(variants).collect()
}

/// The paper's baselines.
#[must_use]
pub fn baselines() -> Vec<RouteRule> {
    RouteRule::all()
        .into_iter()
        .filter(|rule| !matches!(rule.name(), "earliest" | "just-enough" | "weir"))
        .collect()
}

/// Rules by their names, as [`RouteRule::all`] has them.
#[must_use]
pub fn rule(name: &str) -> RouteRule {
    let found = RouteRule::all().into_iter().find(|rule| rule.name() == name);
    found.unwrap_or(RouteRule::Earliest)
}

/// Results of all studies.
#[derive(Debug, Clone, PartialEq)]
pub struct Studies {
    /// Names of the devices.
    pub devices: Vec<&'static str>,
    /// Outcome of each case, without repetition.
    pub outcomes: Vec<Outcome>,
    /// Comparison of length predictors.
    pub predictors: Vec<Compared>,
    /// Share of scenes described in time with each predictor, by rule of [`COMPARED`].
    pub described: Vec<Vec<f64>>,
    /// Costs of migrations, by tokens and by cache.
    pub moves: Vec<Move>,
}

/// Rules that are compared by where lengths come from, in the order of [`rules`].
pub const COMPARED: [&str; 4] = [
    "earliest",
    "just-enough",
    "weir",
    "just-enough, moves for the better",
];
/// Rate and objective at which scenes are described: lengths are half as long again as in the other cases.
pub const SCENES: (u32, u32) = (30, 6);

impl Studies {
    /// Runs all of them.
    ///
    /// # Errors
    /// [`ReproduceError`]: no asset pack, or one that is not as it should be.
    pub fn run() -> Result<Self, ReproduceError> {
        let devices = Devices::from_env()?;
        let mut cases: Vec<Case> = Vec::new();
        let mut add = |case: Case| {
            if !cases.contains(&case) {
                cases.push(case);
            }
        };
        for objective_s in OBJECTIVES {
            for rate in RATES {
                for rule in RouteRule::all() {
                    add(Case::new(rule, TRUE, rate, objective_s));
                }
                for (_, lengths) in LENGTHS {
                    for name in ["earliest", "just-enough", "weir"] {
                        add(Case::new(rule(name), lengths, rate, objective_s));
                    }
                }
                for (_, lengths) in LENGTHS {
                    add(Case::new(just_enough(Moves::Better), lengths, rate, objective_s));
                }
                add(Case::new(just_enough(Moves::Never), TRUE, rate, objective_s));
            }
        }
        let (rate, objective_s) = MIDDLE;
        for check_tokens in CHECKS {
            for name in ["just-enough", "weir"] {
                let case = Case::new(rule(name), TRUE, rate, objective_s);
                add(Case { check_tokens, ..case });
            }
        }
        for name in ["earliest", "just-enough", "weir"] {
            add(Case::new(rule(name), LengthRule::Mean, rate, objective_s));
        }
        let predictors = predictors();
        let mut described = Vec::new();
        for compared in &predictors {
            let mut own = Vec::new();
            for (name, rule) in rules() {
                if COMPARED.contains(&name.as_str()) {
                    let case = Case::new(rule, LengthRule::Given, SCENES.0, SCENES.1);
                    own.push(case.run_scenes(&devices, &compared.predictor)?);
                }
            }
            described.push(own);
        }
        Ok(Self {
            outcomes: in_parallel(&cases, |case| case.run(&devices))?,
            predictors,
            described,
            moves: moving::moves(&devices),
            devices: devices.names,
        })
    }

    /// Outcome of a case; `None` if it was not run.
    #[must_use]
    pub fn outcome(&self, case: &Case) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.case == *case)
    }

    /// Mean share of requests within the objective, in percent.
    #[must_use]
    pub fn percent(&self, case: &Case) -> f64 {
        self.outcome(case)
            .map_or(f64::NAN, |outcome| 100.0 * outcome.share())
    }

    /// Mean number of requests within the objective per second.
    #[must_use]
    pub fn goodput(&self, case: &Case) -> f64 {
        self.outcome(case).map_or(f64::NAN, Outcome::goodput)
    }
}
