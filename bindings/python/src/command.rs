//! The command of the engine, carried out by the process of an interpreter.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Carries out the command line; gives the exit code. `program` is a command that does so in another process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>, program: Vec<OsString>) -> u8 {
    let code = py.detach(move || weir::carry_out(&arguments, &program));
    // Of a program, Rust writes the rest at its end.
    let _ = std::io::stdout().flush();
    // A code can only be compared.
    (0..=u8::MAX)
        .find(|number| ExitCode::from(*number) == code)
        .unwrap_or(1)
}
