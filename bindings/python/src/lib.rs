//! The part of Weir for Python that is Rust: an engine, its deliveries, and their pictures. The package in `python/weir` gives
//! them their shape for Python; nothing here is imported by users.
//!
//! No thread of the engine takes the interpreter lock: deliveries go through [`queue`], from which Python takes them.

mod attributes;
mod command;
mod delivery;
mod engine;
mod errors;
mod events;
mod image;
mod queue;

use pyo3::prelude::*;

#[pymodule]
mod _weir {
    #[pymodule_export]
    use super::command::main;
    #[pymodule_export]
    use super::delivery::{Delivery, Object, Track};
    #[pymodule_export]
    use super::engine::{Consumer, Engine, check};
    #[pymodule_export]
    use super::events::{Incident, Notice, TrackEnd};
    #[pymodule_export]
    use super::image::{Image, Pixels, Plane};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
