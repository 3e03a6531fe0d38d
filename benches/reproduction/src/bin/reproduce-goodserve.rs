//! `reproduce-goodserve [FOLDER [tasks]]`: runs GoodServe's evaluation with the published step times of the asset pack
//! (`WEIR_ASSETS`), and writes `docs/reproduction/goodserve/`; with `tasks` its page `mixed-tasks` alone. Run from the root of the
//! repository, or name the folder.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use weir_reproduction::goodserve::mixed::Mixed;
use weir_reproduction::goodserve::studies::Studies;
use weir_reproduction::goodserve::{ReproduceError, write};

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("docs/reproduction/goodserve"));
    let only_tasks = std::env::args_os().nth(2).is_some_and(|part| part == "tasks");
    let run = || -> Result<(), ReproduceError> {
        if !only_tasks {
            write(&Studies::run()?, &folder)?;
        }
        Mixed::run()?.write(&folder.join("mixed-tasks"))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "reproduce-goodserve: {error}");
            ExitCode::FAILURE
        }
    }
}
