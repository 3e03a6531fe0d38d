//! A plan as it is kept: what was asked and what came out, so that whoever runs it needs nothing else.

use serde::{Deserialize, Serialize};

use super::{Problem, Solution};

/// A problem and its solution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What comes out.
    pub solution: Solution,
    /// What was asked.
    pub problem: Problem,
}
