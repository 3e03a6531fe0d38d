//! `reproduce-qlm`: runs QLM's evaluation with the recorded lengths and step times of the asset pack (`WEIR_ASSETS`), and
//! writes `docs/reproduction/qlm/`. Run from the root of the repository, or name the folder.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use weir_reproduction::qlm::studies::Studies;
use weir_reproduction::qlm::{ReproduceError, write};

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("docs/reproduction/qlm"));
    let run = || -> Result<(), ReproduceError> { write(&Studies::run()?, &folder) };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "reproduce-qlm: {error}");
            ExitCode::FAILURE
        }
    }
}
