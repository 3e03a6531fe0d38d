//! Predictors of the length of texts: nets for tiers of lengths behind a gate, a single net, and predictors
//! without training (section 3.2, Figures 8 and 10a). Scenes are distinguished by counts, tasks by their words.

pub mod compare;
pub mod scenes;
pub mod tasks;
pub mod train;
pub mod words;
