//! `reproduce-pard`: runs the experiments of `config/experiments` for PARD and `weir`, and writes `docs/reproduction/pard/`.
//! Run from the root of the repository, or name both folders.

use std::path::PathBuf;
use std::process::ExitCode;

use std::io::Write as _;

use weir_reproduction::pard::studies::Studies;
use weir_reproduction::pard::{ReproduceError, write};

fn main() -> ExitCode {
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let experiments = folders
        .next()
        .unwrap_or_else(|| PathBuf::from("config/experiments"));
    let document = folders
        .next()
        .unwrap_or_else(|| PathBuf::from("docs/reproduction/pard"));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let run = || -> Result<(), ReproduceError> { write(&Studies::run(&experiments, threads)?, &document) };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "reproduce-pard: {error}");
            ExitCode::FAILURE
        }
    }
}
