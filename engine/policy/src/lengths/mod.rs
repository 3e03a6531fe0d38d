//! Prediction of generated lengths from the tokens of a prompt (GoodServe 3.2): small nets that run in
//! microseconds.
//!
//! The prediction is made beside the policy and enters it as a number with the request, so that decisions
//! stay pure and replayable. [`Experts`] are nets for tiers of input and output lengths under a gate; a
//! single [`Net`] is the baseline. [`LengthNets`] are the nets of a model with the features that they take
//! from a text: counts, and TF-IDF of [`Terms`]. `models/training/lengths.py` trains those of the model that
//! ships. `train-lengths` (`benches/reproduction`) compares kinds of nets.

mod experts;
mod model;
mod net;
mod terms;

pub use experts::{Experts, ExpertsError};
pub use model::{LengthNets, LengthNetsError};
pub use net::{Layer, Net, NetError};
pub use terms::{MAX_TERMS, Term, Terms, TermsError};
