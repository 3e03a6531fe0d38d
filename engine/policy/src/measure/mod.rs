//! Measurements over time: windows, histograms, ratios of measured to expected durations.

pub(crate) mod correction;
pub(crate) mod fan_out;
pub(crate) mod histogram;
pub(crate) mod slot_profiles;
pub(crate) mod starvation_reset;
pub(crate) mod window;
