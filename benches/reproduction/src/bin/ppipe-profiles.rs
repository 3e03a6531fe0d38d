//! `ppipe-profiles`: writes the synthetic profiles of `config/profiles/ppipe-*.toml` by their formula. Run from the root of
//! the repository, or name the folder.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use weir_reproduction::ppipe::synthetic::MODELS;

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("config/profiles"));
    for model in MODELS {
        let path = folder.join(model.file_name());
        if let Err(error) = std::fs::write(&path, model.file()) {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "ppipe-profiles: {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
