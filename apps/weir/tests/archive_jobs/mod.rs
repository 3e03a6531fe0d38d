//! Jobs of recorded videos give the same results as an undisturbed run, however often the engine is killed
//! and the disk is full; an impossible job is reported once, with its reason. `make crash-jobs` kills it 100
//! times.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "seeds are printed")]

mod crashes;
mod full_disk;
mod outcomes;
