//! The examples of embedding the engine run.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

#[path = "../examples/custom.rs"]
mod custom;
#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn the_engine_is_embedded() {
    embed::main().unwrap();
}

#[test]
fn an_operator_and_a_sink_of_ones_own_are_used() {
    custom::main().unwrap();
}
