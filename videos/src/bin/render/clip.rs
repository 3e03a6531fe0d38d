//! Renders a clip with its ground truth.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use weir_flow::{SinkError, StopFlag};
use weir_operators::media::{Encoding, Rgb, VideoCodec, VideoFile};
use weir_terminal::{UserError, output, progress};
use weir_truth::TruthWriter;
use weir_videos::{Light, Seed, World, WorldKind, world};

use crate::args::{Clip, Codec};
use crate::ordered::in_order;
use crate::timing::{Moment, steady, uneven};
use crate::unfinished::Unfinished;
use crate::{interrupted, replaced, threads};

/// Factor by which frames shrink if the clip changes its size: two thirds, from 960 x 540 to 640 x 360.
const SHRUNK: f32 = 2.0 / 3.0;

/// Renders a clip and its ground truth; both files get their names when they are complete.
pub(crate) fn clip(kind: WorldKind, light: Light, args: &Clip, stop: &StopFlag) -> anyhow::Result<()> {
    let seed = Seed::new(args.part, args.seed);
    let world = world(kind, seed, light);
    let truth_path = checked(args)?;
    replaced::check(&args.out, &truth_path)?;
    let moments = if args.variable_rate {
        uneven(args.seconds, args.fps, seed)
    } else {
        steady(args.seconds, args.fps)
    };
    let (unfinished, truth) = Unfinished::file(&truth_path)?;
    let mut video =
        VideoFile::create(&args.out, world.size(), encoding(args)).map_err(|error| unwritten(&error))?;
    let bar = progress::steps("rendering", moments.len() as u64);
    let header = header(kind, args, world.as_ref(), moments.len());
    let mut making = Making {
        args,
        world: world.as_ref(),
        moments: &moments,
        stop,
        failed: &|error| unfinished.failed(&error),
    };
    let made = making.fill(&mut video, truth, &header, &|done| bar.set_position(done));
    bar.finish_and_clear();
    if let Err(error) = made {
        video.discard();
        return Err(error);
    }
    video.finish().map_err(|error| unwritten(&error))?;
    unfinished.finish()?;
    let (out, truth) = (args.out.display(), truth_path.display());
    output::say(&format!("{} frames in {out}, truth in {truth}", moments.len()))?;
    Ok(())
}

/// Holds arguments against each other; gives the place of the truth.
fn checked(args: &Clip) -> anyhow::Result<PathBuf> {
    let out = &args.out;
    let refused = |reason: String| Err(UserError::new(reason).into());
    if out.extension().is_none_or(|end| !end.eq_ignore_ascii_case("mp4")) {
        return refused(format!(
            "cannot write {}: clips are MP4: give it a name that ends with .mp4",
            out.display()
        ));
    }
    match args.resize_at {
        Some(at) if at >= args.seconds => refused(format!(
            "--resize-at {at} is not before the end of the clip, which is {} s long",
            args.seconds
        )),
        _ => Ok(out.with_extension("truth.jsonl")),
    }
}

fn encoding(args: &Clip) -> Encoding {
    Encoding {
        codec: match args.codec {
            Codec::H264 => VideoCodec::H264,
            Codec::Hevc => VideoCodec::Hevc,
        },
        crf: args.crf,
        gop: args.gop,
        b_frames: args.b_frames,
        fps: args.fps,
        live: false,
        drop_every: args.lose,
    }
}

fn header(kind: WorldKind, args: &Clip, world: &dyn World, frames: usize) -> weir_truth::Clip {
    let (width, height) = world.size();
    weir_truth::Clip {
        truth: 1,
        world: kind.name().to_owned(),
        seed: args.seed,
        width,
        height,
        fps: if args.variable_rate {
            (frames as f64 / args.seconds) as f32
        } else {
            args.fps as f32
        },
        frames: frames as u64,
    }
}

fn unwritten(error: &SinkError) -> anyhow::Error {
    UserError::new(error.to_string()).into()
}

/// Context of a clip that is being rendered.
struct Making<'a> {
    args: &'a Clip,
    world: &'a dyn World,
    moments: &'a [Moment],
    stop: &'a StopFlag,
    /// Converts an error of the ground truth file.
    failed: &'a (dyn Fn(std::io::Error) -> anyhow::Error + Sync),
}

impl Making<'_> {
    fn fill(
        &mut self,
        video: &mut VideoFile,
        truth: File,
        header: &weir_truth::Clip,
        done: &dyn Fn(u64),
    ) -> anyhow::Result<()> {
        let mut truth = TruthWriter::begin(BufWriter::new(truth), header).map_err(self.failed)?;
        let mut shrunk = false;
        let (moments, world) = (self.moments, self.world);
        let make = |index: u64| world.at(moments[index as usize].seconds());
        in_order(
            moments.len() as u64,
            threads(self.args.threads),
            make,
            |index, (picture, mut seen)| {
                if self.stop.is_raised() {
                    return Err(interrupted());
                }
                let moment = moments[index as usize];
                let is_late = |at: f64| moment.pts_ms() >= at * 1000.0;
                if !shrunk && self.args.resize_at.is_some_and(is_late) {
                    shrunk = true;
                    let side = |side: u32| (side as f32 * SHRUNK).round() as u32;
                    let (width, height) = (side(picture.width), side(picture.height));
                    video.resize(width, height).map_err(|error| unwritten(&error))?;
                }
                (seen.frame, seen.pts_ms) = (index, moment.pts_ms());
                let seen = if shrunk { seen.scaled(SHRUNK) } else { seen };
                truth.frame(&seen).map_err(self.failed)?;
                let rows = Rgb {
                    width: picture.width,
                    height: picture.height,
                    samples: &picture.rgb,
                };
                video
                    .write(rows, moment.pts_ms())
                    .map_err(|error| unwritten(&error))?;
                done(index + 1);
                Ok(())
            },
        )?;
        truth.finish().map_err(self.failed)
    }
}
