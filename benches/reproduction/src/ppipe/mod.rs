//! The evaluation of PPipe (ATC 2025, section 7), run again.

pub mod load_factor;
pub mod published;
