//! Jobs of recorded videos come out as of an undisturbed run, however often the engine is killed and the disk runs full; what cannot
//! be done is said once and clearly. `make crash-jobs` kills it 100 times.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "seeds are printed")]

mod crashes;
mod full_disk;
mod outcomes;
