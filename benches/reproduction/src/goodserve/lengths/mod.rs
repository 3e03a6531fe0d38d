//! How long descriptions of scenes become, predicted: nets for tiers of lengths under a gate, one net, and what needs no
//! training (section 3.2, Figures 8 and 10a).

pub mod compare;
pub mod scenes;
pub mod train;
