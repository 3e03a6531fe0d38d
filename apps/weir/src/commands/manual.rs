//! `weir completions` and `weir man`: what shells complete and manual pages say, made from the command line itself.

use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::{Args, Completions, Man};
use crate::error::write_error;
use crate::output;

/// Prints what a shell reads to complete command lines.
///
/// # Errors
/// Where standard output cannot be written.
pub(crate) fn completions(args: &Completions) -> anyhow::Result<()> {
    let mut command = Args::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "weir", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// Prints the manual page of the program, or writes it and one for each command into a folder.
///
/// # Errors
/// Where standard output or a file cannot be written.
pub(crate) fn man(args: &Man) -> anyhow::Result<()> {
    let mut command = Args::command();
    command.build();
    let Some(folder) = &args.out else {
        return Ok(std::io::stdout().write_all(&page(&command)?)?);
    };
    let mut written = 0;
    std::fs::create_dir_all(folder).map_err(|error| write_error(folder.display(), &error))?;
    all_pages(&command, folder, &mut written)?;
    output::say(&format!("{}: {written} pages", folder.display()))?;
    Ok(())
}

/// Pages of a command and of those below it: `weir.1`, `weir-run.1`, `weir-models-pull.1`.
fn all_pages(command: &Command, folder: &Path, written: &mut u32) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?).map_err(|error| write_error(path.display(), &error))?;
    *written += 1;
    command
        .get_subcommands()
        .filter(|below| below.get_name() != "help")
        .try_for_each(|below| all_pages(below, folder, written))
}

fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .render(&mut page)?;
    Ok(page)
}
