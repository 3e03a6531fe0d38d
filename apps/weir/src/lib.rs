//! The command line, as a library: the program is [`main`]; to run a graph from Rust, take the steps between it and the
//! engine: [`load`] checks a graph, [`assemble`] makes its parts, [`runtime::run`](weir_runtime::run()) runs them to their end,
//! and [`runtime::Engine`] until it is stopped. [`Extensions`] bring operators and sinks of one's own, and [`Setup`] is what
//! this machine is set to. `examples/embed.rs`
//! and `examples/custom.rs` show it.
//!
//! It composes the graph, the operators and the engine, and speaks to its user. Results go to standard
//! output, everything else to standard error. Exit code 0: done; 2: something the user can mend; 1: the rest.

mod api_client;
mod archives;
mod args;
mod assemble;
mod cached;
mod catalog;
mod commands;
mod curve_plot;
mod discover;
#[cfg(test)]
#[path = "../../../tests/shared/edited.rs"]
mod edited;
mod error;
mod exposition;
mod extensions;
mod fleet;
mod frigate;
mod gears_problem;
mod gears_watch;
mod gpu;
mod graph_text;
mod handles;
mod health;
mod hexadecimal;
mod jobs;
mod kept_streams;
mod launch;
mod live;
mod lock;
mod pictures;
mod plans;
mod probe;
mod process;
mod progress;
mod reload;
mod report;
mod samples;
mod score;
mod search;
mod service;
mod settings;
mod setup;
mod systemd;
mod tap;
mod threshold_plot;
mod times;
mod traces;
mod version;
mod whole_file;
mod zoo;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use weir_types::invariant;
// Here, so that all modules find what programs share where they find the rest.
use weir_terminal::{interrupt, output, outputs, printable};

pub use assemble::{DumpInputs, assemble};
pub use catalog::{catalog, load};
pub use extensions::Extensions;
pub use launch::failures;
pub use setup::Setup;
pub use zoo::Zoo;
pub use {weir_flow as flow, weir_graph as graph, weir_runtime as runtime};

/// Log filter without `RUST_LOG`: errors, changes by clients of the API, suspicious outputs of models, damaged stores of incidents, and files that were put under
/// another name than in the graph. FFmpeg is off because damaged data is counted, and clients of brokers are off
/// because sinks report their errors.
const DEFAULT_LOG: &str = "error,audit=info,ffmpeg=off,async_nats=off,rskafka=off,weir::outputs=warn,weir::traces=warn,weir::incidents=warn,\
                           weir_operators::media::video_place=warn,weir_operators::sinks=warn,weir_operators::sinks::ptz=info,\
                           weir_runtime::source::camera=info,\
                           weir_operators::operator::python=info";

/// Commands and options of the program, such as documents may show them.
#[must_use]
pub fn command_line() -> clap::Command {
    <args::Args as clap::CommandFactory>::command()
}

/// Carries out the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    carry_out(&std::env::args_os().collect::<Vec<_>>(), &probe::own_program())
}

/// Carries out a command line in a process of another program, such as an interpreter. The first of `arguments` is the name of the
/// program. `program` is a command that carries out the arguments after it: models are opened first by a process of it. The
/// process handles signals and logs as the program does from then on, so it is called once and ends the process.
#[must_use]
pub fn carry_out(arguments: &[OsString], program: &[OsString]) -> ExitCode {
    weir_operators::limit_heap_arenas();
    if arguments.get(1).is_some_and(|first| first == probe::COMMAND) {
        return probe::child::run();
    }
    probe::enable(program);
    let args = match args::Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    // A debug build of the program goes on as a release build does; only tests and simulations panic.
    invariant::set_mode(invariant::Mode::Count);
    weir_terminal::log_to_stderr_beside(DEFAULT_LOG, args.log_format.into(), fleet::log_layers());
    handles::raise_limit();
    weir_terminal::finish(commands::run(args), error::is_mendable)
}
