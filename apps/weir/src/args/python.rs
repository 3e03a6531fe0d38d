//! The argument that allows operators in Python.

use std::path::{Path, PathBuf};

use clap::Args as Group;

use super::Command;

/// Folder of the Python modules that graphs may name.
#[derive(Debug, Clone, Default, PartialEq, Group)]
pub(crate) struct PythonArgs {
    /// Let graphs name operators in the Python modules of this folder, whose code then runs
    #[arg(long, value_name = "FOLDER")]
    pub(crate) python: Option<PathBuf>,
}

impl Command {
    /// Folder of the Python modules that its graph may name.
    pub(crate) fn python(&self) -> Option<&Path> {
        let args = match self {
            Self::Run(args) => &args.run_args.python,
            Self::Serve(args) => &args.run_args.python,
            Self::Replay(args) => &args.playback.run_args.python,
            Self::Score(args) => &args.playback.run_args.python,
            Self::Detect(args) => &args.python,
            Self::Check(args) => &args.python,
            Self::Graph(args) => &args.python,
            Self::Zones(args) => &args.python,
            Self::Profile(args) => &args.python,
            Self::Simulate(args) => &args.python,
            _ => return None,
        };
        args.python.as_deref()
    }
}
