//! One group of models on one cluster under all schemes, at the same rates.

use weir_planner::{Class, Problem, Scheme, Solution, solve};
use weir_sim::{bursty, poisson};
use weir_types::Timestamp;

use super::ReproduceError;
use super::data_plane::{DataPlane, ServedRun};
use super::load_factor::{LoadFactorError, Placed, SENDING, load_factor};
use super::source::{PlanningCase, Source};

/// PPipe, DART-r, NP: in this order everywhere.
pub const SCHEMES: [(&str, Scheme); 3] = [
    ("NP", Scheme::Np),
    ("DART-r", Scheme::DartR),
    ("PPipe", Scheme::Pooled { partitions: 2 }),
];

/// PPipe's place in [`SCHEMES`].
pub const PPIPE: usize = 2;

/// Arrival process of items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Poisson process, the paper's "Poisson".
    Poisson,
    /// Process with hyper-exponential gaps, in place of the paper's "Bursty".
    Bursty {
        /// Coefficient of variation of the gaps.
        cv: f64,
    },
}

impl Arrivals {
    /// Draws arrival times at `rate` items per second.
    #[must_use]
    pub fn draw(self, rate: f64, seed: u64) -> Vec<Timestamp> {
        match self {
            Self::Poisson => poisson(rate, SENDING, seed),
            Self::Bursty { cv } => bursty(rate, cv, SENDING, seed),
        }
    }
}

/// A group of models, placed under each scheme.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Device classes of the cluster.
    pub classes: Vec<Class>,
    /// Rate of each model in items per second that corresponds to load factor 1.0, under every scheme: the
    /// model's weight times the least throughput over weight of PPipe's plan, before leftover devices are
    /// given away, rounded to whole items.
    pub rates: Vec<f64>,
    /// Plan of each scheme, in the order of [`SCHEMES`]; `None` if there is none.
    pub placed: Vec<Option<Placed>>,
}

impl Setting {
    /// Plans `case` under every scheme.
    ///
    /// # Errors
    /// When a profile cannot be read or PPipe's plan cannot be laid out.
    pub fn new(source: &Source, case: &PlanningCase) -> Result<Self, ReproduceError> {
        let place = |scheme| -> Result<Option<Placed>, ReproduceError> {
            let problem = source.problem(&PlanningCase {
                scheme,
                ..case.clone()
            })?;
            match Placed::new(problem) {
                Ok(placed) => Ok(Some(placed)),
                // No plan meets the SLO, so nothing is served.
                Err(LoadFactorError::Plan(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        let placed: Vec<Option<Placed>> = SCHEMES
            .iter()
            .map(|(_, scheme)| place(*scheme))
            .collect::<Result<_, _>>()?;
        // The objective is that of the plan before leftover devices are distributed.
        let least = placed[PPIPE]
            .as_ref()
            .map_or(0.0, |placed| placed.solution.objective);
        Ok(Self {
            classes: case.classes.clone(),
            rates: case
                .weights
                .iter()
                .map(|weight| (weight * least + 1e-6).floor())
                .collect(),
            placed,
        })
    }

    /// Serves one model alone at a load factor; `None` if the scheme has no plan.
    #[must_use]
    pub fn serve(
        &self,
        (scheme, model): (usize, usize),
        factor: f64,
        arrivals: Arrivals,
        plane: DataPlane,
        seed: u64,
    ) -> Option<ServedRun> {
        let placed = self.placed[scheme].as_ref()?;
        let arrived = arrivals.draw(self.rates[model] * factor, seed);
        Some(placed.replay(model, &arrived, plane, false))
    }

    /// Largest load factor at which 99 % are in time, with the run at that factor; 0 without a run if there
    /// is none.
    #[must_use]
    pub fn most(
        &self,
        place: (usize, usize),
        arrivals: Arrivals,
        plane: DataPlane,
        seed: u64,
    ) -> (f64, Option<ServedRun>) {
        let mut last = None;
        let factor = load_factor(|factor| {
            last = self.serve(place, factor, arrivals, plane, seed);
            last.as_ref().map_or(1.0, |run| run.miss_rate())
        });
        (factor, last.filter(|_| factor > 0.0))
    }

    /// The greatest gap to what no plan can beat, over the schemes.
    #[must_use]
    pub fn gap(&self) -> f64 {
        let gap = |placed: &Placed| weir_planner::gap(&placed.problem, &placed.solution);
        self.placed.iter().flatten().map(gap).fold(0.0, f64::max)
    }
}

/// Solves, for what it takes: the solution or why there is none, and the seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "how long planning takes is what is measured"
)]
#[must_use]
pub fn solve_timed(problem: &Problem) -> (Option<Solution>, f64) {
    let begun = std::time::Instant::now();
    let solution = solve(problem);
    (solution.ok(), begun.elapsed().as_secs_f64())
}

/// Mean of the finite values; NaN if there are none.
#[must_use]
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}
