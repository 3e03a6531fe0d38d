//! `weir render`: worlds whose truth is known, as clips and as single pictures.

mod clip;
mod gallery;
mod ordered;
mod stills;
mod timing;
mod unfinished;

use weir_flow::StopFlag;
use weir_videos::{Light, WorldKind};

use crate::args::Render;
use crate::interrupt;

/// Renders what was asked for. Ctrl-C ends it with nothing left behind.
///
/// # Errors
/// Arguments that do not go together, and files that cannot be written.
pub(crate) fn render(args: &Render) -> anyhow::Result<()> {
    let stop = StopFlag::default();
    interrupt::watch(&stop, "stopping: what was rendered is taken away")?;
    match args {
        Render::Street(args) => clip::clip(WorldKind::Street, args.light, &args.clip, &stop),
        Render::Live(args) => clip::clip(WorldKind::Live, Light::Day, args, &stop),
        Render::Game(args) => clip::clip(WorldKind::Game, Light::Day, args, &stop),
        Render::Card(args) => clip::clip(WorldKind::Card, Light::Day, args, &stop),
        Render::Stills(args) => stills::stills(args, &stop),
        Render::Gallery(args) => gallery::gallery(args, &stop),
    }
}

/// Threads to render on: one a core where nobody says.
fn threads(said: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    said.map_or_else(cores, |threads| threads as usize)
}

fn interrupted() -> anyhow::Error {
    anyhow::anyhow!("interrupted: nothing was written")
}
