//! Tests of the planner, in one program.

mod plan;
mod plan_errors;
mod replan;
