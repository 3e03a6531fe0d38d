//! How many tokens a model will generate, by what its prompt says (GoodServe 3.2): small nets, run in microseconds.
//!
//! The prediction is made beside the policy and comes into it as a number with the request, so that decisions stay pure and
//! are decided again the same. [`Experts`] are nets for tiers of input and output lengths under a gate; a single [`Net`] is
//! what they are compared with. [`LengthNets`] are those of a model, with what they are given of a prompt; that of the model
//! that ships is trained by `models/training/lengths.py`. `train-lengths` (`benches/reproduction`) compares kinds of nets.

mod experts;
mod model;
mod net;

pub use experts::{Experts, ExpertsError};
pub use model::{LengthNets, LengthNetsError};
pub use net::{Layer, Net, NetError};
