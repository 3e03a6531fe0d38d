//! Errors of planning.

use thiserror::Error;
use weir_types::Span;

/// Reason why a problem cannot be planned, or a plan is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// Every class has a count of 0.
    #[error("the cluster has no devices; give at least one class a count above 0")]
    NoDevices,
    /// The list of models is empty.
    #[error("there are no models to plan for; name at least one")]
    NoModels,
    /// A number is out of its range.
    #[error("{what} is {value}; {must}")]
    InvalidValue {
        /// Quantity of the problem that is invalid.
        what: String,
        /// Value that was given.
        value: f64,
        /// Requirement that the value violates.
        must: &'static str,
    },
    /// Two classes or two models have the same name.
    #[error("two {kind} are named \"{name}\"; names must differ")]
    DuplicateName {
        /// `classes` or `models`.
        kind: &'static str,
        /// The duplicate name.
        name: String,
    },
    /// A profile is incomplete or has values out of range.
    #[error("the profile of model \"{model}\" {what}")]
    InvalidProfile {
        /// Name of the model.
        model: String,
        /// The class, share, block and batch size concerned, and the error.
        what: String,
    },
    /// A plan that was modified, or belongs to another problem.
    #[error("the plan of model \"{model}\" {what}; plan again")]
    InvalidPlan {
        /// Name of the model.
        model: String,
        /// Block, class or time that is invalid, and the reason.
        what: String,
    },
    /// No pipeline meets the latency budget.
    #[error(
        "model \"{model}\": no pipeline takes at most {budget} (its SLO of {slo} less the margin); the least latency on this \
         cluster is {least}, so give it an SLO of at least {needed} or a smaller margin"
    )]
    Infeasible {
        /// Name of the model.
        model: String,
        /// Latency objective of the model.
        slo: Span,
        /// The SLO less the margin.
        budget: Span,
        /// The latency of the fastest pipeline.
        least: Span,
        /// The least SLO that this pipeline would meet.
        needed: Span,
    },
    /// The cluster is too small.
    #[error("{0}")]
    TooSmall(String),
    /// The LP solver failed: a bug, or numbers of extreme magnitude.
    #[error("the solver failed: {0}; numbers of very different magnitude in one problem can cause this")]
    Solver(String),
}
