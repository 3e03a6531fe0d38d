//! Tests of the simulator, in one program.

mod cascades;
mod common;
mod decoding;
#[path = "../../../tests/shared/edited.rs"]
mod edited;
mod experiments;
mod fuzz;
mod gear_rules;
mod generated_steps;
mod handover;
mod lossless;
mod objectives;
mod overlap;
mod pipelines;
mod planned_gears;
mod properties;
mod queued_models;
mod recovery;
mod replan;
mod retrieval;
mod several_devices;
mod shared_machine;
mod shares;
mod stream_changes;
mod token_traces;
