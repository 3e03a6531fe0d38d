//! `render`: worlds whose truth is known, as clips and as single pictures.
//!
//! A program beside the library, because encoding needs FFmpeg and the library draws without it: the library is the
//! scenes, this is files, threads and the command line. What it shares with `weir` is in `weir-terminal`.

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

/// What is logged where `RUST_LOG` asks for nothing: errors, and under which other name a file was put.
const DEFAULT_LOG: &str = "error,ffmpeg=off,weir_operators::media::video_place=warn";

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return weir_terminal::refuse(&error),
    };
    weir_terminal::log_to_stderr(DEFAULT_LOG);
    weir_terminal::finish(render(&args.command), weir_terminal::is_mendable)
}

/// Renders what was asked for. Ctrl-C ends it with nothing left behind.
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
