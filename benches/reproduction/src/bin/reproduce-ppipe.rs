//! `reproduce-ppipe`: runs PPipe's evaluation, from published block latencies where `WEIR_ASSETS` names the asset pack and
//! from `config/profiles/ppipe-*.toml` elsewhere, and writes `docs/reproduction/ppipe/`. Run from the root of the
//! repository, or name both folders.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use weir_reproduction::ppipe::source::Source;
use weir_reproduction::ppipe::studies::Studies;
use weir_reproduction::ppipe::{ReproduceError, write};

fn main() -> ExitCode {
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let profiles = folders.next().unwrap_or_else(|| PathBuf::from("config/profiles"));
    let document = folders
        .next()
        .unwrap_or_else(|| PathBuf::from("docs/reproduction/ppipe"));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let run = || -> Result<(), ReproduceError> {
        write(&Studies::run(&Source::from_env(&profiles), threads)?, &document)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "reproduce-ppipe: {error}");
            ExitCode::FAILURE
        }
    }
}
