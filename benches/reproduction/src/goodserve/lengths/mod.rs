//! Predictors of the length of scene descriptions: nets for tiers of lengths behind a gate, a single net, and
//! predictors without training (section 3.2, Figures 8 and 10a).

pub mod compare;
pub mod scenes;
pub mod train;
