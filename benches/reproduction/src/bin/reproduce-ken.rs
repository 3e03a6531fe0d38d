//! `reproduce-ken`: runs KEN's evaluation with the published profiles of the asset pack (`WEIR_ASSETS`), and writes
//! `docs/reproduction/ken/`. Run from the root of the repository, or name the folder.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use weir_reproduction::ken::studies::Studies;
use weir_reproduction::ken::{ReproduceError, write};

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("docs/reproduction/ken"));
    let run = || -> Result<(), ReproduceError> { write(&Studies::run()?, &folder) };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "reproduce-ken: {error}");
            ExitCode::FAILURE
        }
    }
}
