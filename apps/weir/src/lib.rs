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
mod handles;
mod health;
mod interrupt;
mod launch;
mod output;
mod outputs;
mod plans;
mod printable;
mod progress;
mod report;
mod score;
mod settings;
mod tap;
mod whole_file;
mod zoo;

use std::process::ExitCode;

use clap::Parser;

pub use assemble::{DumpInputs, assemble};
pub use catalog::{catalog, load};
pub use zoo::Zoo;

/// What is logged: as `RUST_LOG` says; else errors, and what looks wrong with what models give.
/// Without a word from the caller: errors, what looks wrong with what models give, and where files are that were not put
/// where the graph says.
const DEFAULT_LOG: &str =
    "error,weir::outputs=warn,weir_operators::media::video_place=warn,weir_operators::sinks=warn";

fn log_filter() -> tracing_subscriber::EnvFilter {
    match std::env::var_os("RUST_LOG") {
        Some(said) if !said.is_empty() => tracing_subscriber::EnvFilter::from_default_env(),
        _ => tracing_subscriber::EnvFilter::new(DEFAULT_LOG),
    }
}

/// Carries out the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    // Without colours: what stands in an event cannot be told from them.
    tracing_subscriber::fmt()
        .with_writer(printable::LogWriter::default)
        .with_ansi(false)
        .with_env_filter(log_filter())
        .init();
    handles::raise_limit();
    match commands::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error::line(&error));
            error::exit_code(&error)
        }
    }
}
