//! Rules that PARD and Weir are compared with, each with the parameters that its paper gives.

pub(crate) mod admit_all;
pub(crate) mod newest;
pub(crate) mod nexus;
pub(crate) mod overload_control;
pub(crate) mod queue_length;
pub(crate) mod shares;
