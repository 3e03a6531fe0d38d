//! A fleet of engines in virtual time: the decisions of [`weir_policy::fleet`], with what is lost while words travel, tokens expire
//! and streams are opened.

mod result;
#[cfg(test)]
mod tests;
mod world;

pub use result::FleetResult;
pub use world::{FleetWorld, simulate_fleet};
