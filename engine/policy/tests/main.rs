//! Decisions of single modules and reservations, in one program.

mod cancellation;
mod downstream_paths;
mod invocation;
mod pipelines;
