//! Tests of the evaluations, in one program.

mod planned_chains;
mod ppipe_objectives;
