//! Evaluations of published systems, run again in the simulator, as tables and plots.

pub mod arrivals;
pub mod cpu_time;
pub mod document;
pub mod goodserve;
pub mod ken;
pub mod memory_chain;
pub mod parallel;
pub mod pard;
pub mod plot;
pub mod ppipe;
pub mod qlm;
