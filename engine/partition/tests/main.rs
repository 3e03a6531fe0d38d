//! Tests of partitions, in one program.

mod breakage;
mod chain;
mod common;
mod generating;
mod nodes;
mod process;
mod ready;
