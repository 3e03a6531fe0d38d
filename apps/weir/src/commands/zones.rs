//! `weir zones`: a frame of a clip with a grid, to take points of zones and lines from.

use std::path::{Path, PathBuf};

use weir_flow::{Frame, StopFlag};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks::grid_png;
use weir_types::Span;

use crate::args::Zones;
use crate::error::UserError;
use crate::output;
use crate::outputs::Files;
use crate::whole_file::write_whole;

/// Writes the picture, and says where.
///
/// # Errors
/// A [`UserError`] where the clip cannot be read or the picture cannot be written.
pub(crate) fn zones(args: &Zones) -> anyhow::Result<()> {
    let at = args.at.unwrap_or(Span::ZERO);
    let out = args.out.clone().unwrap_or_else(|| beside(&args.clip));
    let mut files = Files::default();
    files.read_source("the clip", &args.clip);
    files.write("--out", &out);
    files.check()?;
    let frame = frame(&args.clip, at)?;
    let failed = |reason: String| UserError::new(format!("{}: {reason}", out.display()));
    let png = grid_png(&frame.image).map_err(failed)?;
    write_whole(&out, &png).map_err(|error| failed(error.to_string()))?;
    let (width, height) = (frame.image.width, frame.image.height);
    output::say(&format!(
        "{}: frame {} at {:.1} s, {width} x {height}",
        out.display(),
        frame.index,
        frame.pts_ms / 1e3
    ))?;
    Ok(())
}

/// The picture's place where none is given: `crossing.zones.png` in the current folder.
fn beside(clip: &str) -> PathBuf {
    let stem = Path::new(clip).file_stem();
    let stem = stem.map_or_else(|| "clip".to_owned(), |stem| stem.to_string_lossy().into_owned());
    PathBuf::from(format!("{stem}.zones.png"))
}

/// The first frame of the clip that is not before `at`.
fn frame(clip: &str, at: Span) -> Result<Frame, UserError> {
    let failed = |reason: String| UserError::new(format!("{clip}: {reason}"));
    let factory = source(clip, SourceOptions::default());
    let mut source = factory
        .open(&StopFlag::default())
        .map_err(|error| failed(error.to_string()))?;
    let mut last = None;
    while let Some(frame) = source.next().map_err(|error| failed(error.to_string()))? {
        if frame.pts_ms >= at.as_millis_f64() {
            return Ok(frame);
        }
        last = Some(frame.pts_ms);
    }
    Err(failed(match last {
        Some(pts_ms) => format!("it ends at {:.1} s, before {at}", pts_ms / 1e3),
        None => "it has no frame".to_owned(),
    }))
}
