//! Why there is no plan.

use thiserror::Error;
use weir_types::Span;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// There is nothing to run on.
    #[error("the cluster has no devices; give at least one class a count above 0")]
    NoDevices,
    /// There is nothing to run.
    #[error("there are no models to plan for; name at least one")]
    NoModels,
    /// A number is not what it must be.
    #[error("{what} is {value}; {must}")]
    InvalidValue {
        /// Of what.
        what: String,
        /// What it is.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
    /// Two classes or models have one name.
    #[error("two {kind} are named \"{name}\"; names must differ")]
    DuplicateName {
        /// Classes or models.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A profile lacks something, or holds what cannot be.
    #[error("the profile of model \"{model}\" {what}")]
    InvalidProfile {
        /// Whose profile.
        model: String,
        /// Which class, share, block and batch, and what is wrong.
        what: String,
    },
    /// A plan that was changed, or is another problem's.
    #[error("the plan of model \"{model}\" {what}; plan again")]
    InvalidPlan {
        /// Whose plan.
        model: String,
        /// What is wrong.
        what: String,
    },
    /// No pipeline is fast enough.
    #[error(
        "model \"{model}\": no pipeline takes at most {budget} (its SLO of {slo} less the margin); the least latency on this \
         cluster is {least}, so give it an SLO of at least {needed} or a smaller margin"
    )]
    Infeasible {
        /// Which model.
        model: String,
        /// Its SLO.
        slo: Span,
        /// What the margin leaves of it.
        budget: Span,
        /// The latency of the fastest pipeline.
        least: Span,
        /// The SLO with which that one would do.
        needed: Span,
    },
    /// The cluster is too small for what is asked.
    #[error("{0}")]
    TooSmall(String),
    /// The LP solver gave up; a bug or a problem of extreme numbers.
    #[error("the solver failed: {0}; numbers of very different magnitude in one problem can cause this")]
    Solver(String),
}
