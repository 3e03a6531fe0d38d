//! Writes scenes without pictures: the prompt for a model, and the expected report.

use std::io::{BufWriter, Write};

use weir_flow::StopFlag;
use weir_terminal::output;
use weir_videos::Seed;
use weir_videos::scenes::scene;

use crate::args::Scenes;
use crate::interrupted;
use crate::unfinished::Unfinished;

/// Writes a line for each scene into a file that takes its name when all are there.
pub(crate) fn scenes(args: &Scenes, stop: &StopFlag) -> anyhow::Result<()> {
    let (unfinished, file) = Unfinished::file(&args.out)?;
    let mut file = BufWriter::new(file);
    for number in args.first..args.first + args.count {
        if stop.is_raised() {
            return Err(interrupted());
        }
        let written = scene(Seed::new(args.part, number)).write(&mut file);
        written.map_err(|error| unfinished.failed(&error))?;
    }
    file.flush().map_err(|error| unfinished.failed(&error))?;
    unfinished.finish()?;
    output::say(&format!("{} scenes in {}", args.count, args.out.display()))?;
    Ok(())
}
