//! Protects existing files: a clip replaces only an earlier clip of this program with its ground truth.
//!
//! Rendering reads no file, so no output can be an input. But a name may belong to a filmed video, or to a
//! ground truth that was written by hand, and neither can be rendered again.

use std::io::Read;
use std::path::Path;

use weir_files::FileError;
use weir_terminal::UserError;
use weir_terminal::outputs::Files;
use weir_truth::Clip;
use weir_videos::WorldKind;

/// Maximum length in bytes of a ground truth file's first line; this program writes some hundred bytes.
const MAX_HEADER_BYTES: u64 = 64 << 10;

/// Looks at what has the names of a clip and of its truth. Folders, devices and what is empty are left to those that
/// write.
///
/// # Errors
/// [`UserError`] where both are one file, or something is there that this program did not render.
pub(crate) fn check(clip: &Path, truth: &Path) -> anyhow::Result<()> {
    let mut files = Files::default();
    files.write("the clip", clip);
    files.write("its truth", truth);
    files.check()?;
    let has_truth = has_content(truth);
    if has_truth && !is_rendered(truth).map_err(|error| unread(truth, &error))? {
        return Err(taken(truth, "not the truth of a rendered clip"));
    }
    if has_content(clip) {
        if !is_mp4(clip).map_err(|error| unread(clip, &error))? {
            return Err(taken(clip, "no MP4 video"));
        }
        if !has_truth {
            return Err(taken(clip, "no rendered clip: its truth is not beside it"));
        }
    }
    Ok(())
}

fn has_content(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() > 0)
}

/// True if the file is the ground truth of a world of this program.
fn is_rendered(truth: &Path) -> Result<bool, FileError> {
    let header = Clip::read(weir_files::lines(truth, MAX_HEADER_BYTES, MAX_HEADER_BYTES)?);
    Ok(header.is_ok_and(|clip| WorldKind::named(&clip.world).is_some()))
}

/// True if the file begins as an MP4 file: the size of the first box, then its kind.
fn is_mp4(clip: &Path) -> Result<bool, FileError> {
    let mut head = Vec::new();
    let file = weir_files::open(clip)?;
    file.take(8).read_to_end(&mut head).map_err(FileError::Io)?;
    Ok(head.ends_with(b"ftyp") && head.len() == 8)
}

fn taken(path: &Path, what: &str) -> anyhow::Error {
    let path = path.display();
    UserError::new(format!(
        "cannot write {path}: it is there already, and {what}: choose another name"
    ))
    .into()
}

fn unread(path: &Path, error: &FileError) -> anyhow::Error {
    let path = path.display();
    UserError::new(format!(
        "cannot write {path}: what is there already cannot be looked at ({error}): choose another name"
    ))
    .into()
}
