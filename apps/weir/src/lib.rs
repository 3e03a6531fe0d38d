//! The command line, as a library: the program is [`main`], and whoever wants to run a graph from Rust takes the steps
//! between it and the engine: [`catalog`] and [`load`] check a graph, [`assemble`] makes its parts, and
//! `weir_runtime::run` runs them.
//!
//! It composes the graph, the operators and the engine, and speaks to the person who called it. Results go to standard
//! output, everything else to standard error. Exit code 0: done; 2: something the user can mend; 1: the rest.

mod args;
mod assemble;
mod catalog;
mod commands;
mod error;
mod interrupt;
mod launch;
mod output;
mod outputs;
mod plans;
mod progress;
mod report;
mod score;
mod settings;
mod tap;
mod whole_file;
mod zoo;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

pub use assemble::{DumpInputs, assemble};
pub use catalog::{catalog, load};
pub use zoo::Zoo;

/// Carries out the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let args = args::Args::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    match commands::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error::line(&error));
            error::exit_code(&error)
        }
    }
}
