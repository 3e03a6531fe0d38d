//! A plan file: a solution with its problem, which is all that running it needs.

use serde::{Deserialize, Serialize};

use crate::check::check;
use crate::{Blocks, PipelinePlan, PlanError, Problem, Solution, StagePlan};

/// A problem and its solution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Solution of `problem`.
    pub solution: Solution,
    /// Problem that was solved, kept so that the plan can be checked and solved again.
    pub problem: Problem,
}

impl Plan {
    /// Validates the plan: the problem is valid, and each pipeline covers all blocks of its model in order, in measured
    /// batch sizes, on non-empty pools. Solutions of [`solve`](crate::solve()) are valid; a file may have been modified.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(&self) -> Result<(), PlanError> {
        check(&self.problem)?;
        for plan in &self.solution.models {
            let invalid = |what: String| PlanError::InvalidPlan {
                model: plan.model.clone(),
                what,
            };
            let served = self
                .problem
                .model(&plan.model)
                .ok_or_else(|| invalid("is one for a model that its problem does not name".to_owned()))?;
            for (at, pipeline) in plan.pipelines.iter().enumerate() {
                if let Some(what) = pipeline_error(pipeline, &served.blocks) {
                    return Err(invalid(format!("has a pipeline, number {at}, that {what}")));
                }
            }
        }
        Ok(())
    }
}

/// Reason why a pipeline does not fit these blocks; `None` if it does.
fn pipeline_error(pipeline: &PipelinePlan, blocks: &Blocks) -> Option<String> {
    let count = blocks.boundary_bytes.len() + 1;
    let mut next = 0;
    for stage in &pipeline.stages {
        let StagePlan {
            from,
            to,
            class,
            shares,
            ..
        } = stage;
        if *from != next || to <= from {
            return Some(format!(
                "has blocks {from}..{to} where block {next} should follow"
            ));
        }
        if stage.pool == 0 {
            return Some(format!("has nothing to run blocks {from}..{to} on"));
        }
        let times = blocks
            .times
            .iter()
            .find(|times| times.class == *class && times.shares == *shares);
        if times.is_none_or(|times| !times.batch.contains(&pipeline.batch)) {
            let batch = pipeline.batch;
            return Some(format!(
                "runs batches of {batch} on 1/{shares} of a \"{class}\", for which its profile has no times"
            ));
        }
        next = *to;
    }
    (next as usize != count).then(|| format!("runs {next} of {count} blocks"))
}
