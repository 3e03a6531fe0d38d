//! Single pictures to learn from, each with its truth.

use std::fs;
use std::io::BufWriter;

use weir_flow::StopFlag;
use weir_terminal::{UserError, output, progress};
use weir_truth::{Clip, TruthWriter};
use weir_videos::{SIZE, Seed, WorldKind, still};

use crate::args::Stills;
use crate::ordered::in_order;
use crate::unfinished::Unfinished;
use crate::{interrupted, threads};

/// Quality of the pictures.
const QUALITY: u8 = 90;

/// Renders `count` stills into a folder that takes its name when all are there.
pub(crate) fn stills(args: &Stills, stop: &StopFlag) -> anyhow::Result<()> {
    if args.light.is_some() && args.world != WorldKind::Street {
        return Err(UserError::new("--light is of the world street alone".to_owned()).into());
    }
    let folder = Unfinished::folder(&args.out)?;
    let bar = progress::steps("rendering", args.count);
    let made = fill(args, &folder, stop, &|done| bar.set_position(done));
    bar.finish_and_clear();
    made?;
    folder.finish()?;
    output::say(&format!("{} stills in {}", args.count, args.out.display()))?;
    Ok(())
}

fn fill(args: &Stills, folder: &Unfinished, stop: &StopFlag, done: &dyn Fn(u64)) -> anyhow::Result<()> {
    let failed = |error| folder.failed(&error);
    let header = Clip {
        truth: 1,
        world: args.world.name().to_owned(),
        seed: args.first,
        width: SIZE.0,
        height: SIZE.1,
        fps: 1.0,
        frames: args.count,
    };
    let file = fs::File::create(folder.part().join("truth.jsonl")).map_err(failed)?;
    let mut truth = TruthWriter::begin(BufWriter::new(file), &header).map_err(failed)?;
    let make = |index| {
        let number = args.first + index;
        let (picture, mut seen) = still(args.world, Seed::new(args.part, number), args.light);
        seen.frame = number;
        (picture.jpeg(QUALITY), seen)
    };
    in_order(
        args.count,
        threads(args.threads),
        make,
        |index, (picture, seen)| {
            if stop.is_raised() {
                return Err(interrupted());
            }
            let name = format!("{:06}.jpg", seen.frame);
            fs::write(folder.part().join(name), picture?).map_err(failed)?;
            truth.frame(&seen).map_err(failed)?;
            done(index + 1);
            Ok(())
        },
    )?;
    truth.finish().map_err(failed)
}
