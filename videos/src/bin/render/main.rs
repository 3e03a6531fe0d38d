//! `render`: clips and single pictures of worlds with known ground truth.
//!
//! The program is separate from the library, because encoding needs FFmpeg and the library draws without it.
//! The library has the scenes; the program has files, threads and the command line. Parts shared with `weir`
//! are in `weir-terminal`.

mod args;
mod clip;
mod gallery;
mod ordered;
mod replaced;
mod scenes;
mod stills;
mod timing;
mod unfinished;

use std::process::ExitCode;

use clap::Parser;
use weir_flow::StopFlag;
use weir_terminal::interrupt;
use weir_videos::{Light, WorldKind};

use args::{Args, Command};

/// Log filter without `RUST_LOG`: errors, and messages about files that were saved under another name.
const DEFAULT_LOG: &str = "error,ffmpeg=off,weir_operators::media::video_place=warn";

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return weir_terminal::refuse(&error),
    };
    weir_terminal::log_to_stderr(DEFAULT_LOG);
    weir_terminal::finish(render(&args.command), weir_terminal::is_mendable)
}

/// Renders the requested output. Ctrl-C stops it without leaving files behind.
///
/// # Errors
/// Arguments that do not go together, and files that cannot be written.
fn render(command: &Command) -> anyhow::Result<()> {
    let stop = StopFlag::default();
    interrupt::watch(&stop, "stopping: what was rendered is taken away")?;
    match command {
        Command::Street(args) => clip::clip(WorldKind::Street, args.light, &args.clip, &stop),
        Command::Live(args) => clip::clip(WorldKind::Live, Light::Day, args, &stop),
        Command::Game(args) => clip::clip(WorldKind::Game, Light::Day, args, &stop),
        Command::Card(args) => clip::clip(WorldKind::Card, Light::Day, args, &stop),
        Command::Stills(args) => stills::stills(args, &stop),
        Command::Scenes(args) => scenes::scenes(args, &stop),
        Command::Gallery(args) => gallery::gallery(args, &stop),
    }
}

/// Threads to render on: one a core by default.
fn threads(asked: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    asked.map_or_else(cores, |threads| threads as usize)
}

fn interrupted() -> anyhow::Error {
    anyhow::anyhow!("interrupted: nothing was written")
}
