//! Baseline rules that PARD and Weir are compared with, with the parameters of their papers.

pub(crate) mod admit_all;
pub(crate) mod newest;
pub(crate) mod nexus;
pub(crate) mod overload_control;
pub(crate) mod queue_length;
pub(crate) mod shares;
