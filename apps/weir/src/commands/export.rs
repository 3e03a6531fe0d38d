//! `weir export`: a range of an archive as one MP4, from the disk, whether an engine records into it or not.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use weir_operators::sinks::{ArchiveReader, Export as Video};

use crate::archives;
use crate::args::Export;
use crate::catalog;
use crate::error::UserError;
use crate::output;
use crate::times;
use crate::zoo::Zoo;

/// Writes the video, and prints its times.
///
/// # Errors
/// A [`UserError`] where nothing was recorded, one file cannot hold the range, or the file cannot be written.
pub(crate) fn export(args: &Export, zoo: &Zoo) -> anyhow::Result<()> {
    if args.from >= args.to {
        return Err(UserError::new("--to is not after --from").into());
    }
    if !args.overwrite && std::fs::symlink_metadata(&args.out).is_ok() {
        let message = format!(
            "{} exists: choose another name, or give --overwrite",
            args.out.display()
        );
        return Err(UserError::new(message).into());
    }
    let reader = if args.archive.is_dir() {
        of_folder(args)?
    } else {
        of_graph(args, zoo)?
    };
    let video = reader.export((args.from, args.to)).map_err(|error| {
        let (what, hint) = archives::refusal(&error);
        UserError::new(format!("{}: {what}; {hint}", args.archive.display()))
    })?;
    let (bytes, (from, to)) = (video.length(), video.extent());
    write(video, &args.out, args.overwrite).map_err(|error| {
        UserError::new(format!(
            "{}: {}",
            args.out.display(),
            weir_files::io_reason(&error)
        ))
    })?;
    output::say(&format!(
        "{}: {} to {}, {bytes} bytes",
        args.out.display(),
        times::shown(from),
        times::shown(to)
    ))?;
    Ok(())
}

/// The archive in a folder of a sink, or of a stream.
fn of_folder(args: &Export) -> Result<ArchiveReader, UserError> {
    let unreadable = |error: io::Error| {
        UserError::new(format!(
            "{}: {}",
            args.archive.display(),
            weir_files::io_reason(&error)
        ))
    };
    let own = ArchiveReader::of_folder(&args.archive);
    let Some(stream) = &args.stream else {
        if own.names().map_err(unreadable)?.is_empty() {
            let message = format!(
                "{} has no recordings: name a stream by --stream, or the folder of a stream",
                args.archive.display()
            );
            return Err(UserError::new(message));
        }
        return Ok(own);
    };
    Ok(ArchiveReader::of_stream(&args.archive, stream))
}

/// The archive of a stream of a graph.
fn of_graph(args: &Export, zoo: &Zoo) -> anyhow::Result<ArchiveReader> {
    let graph = catalog::load(&args.archive, zoo)?;
    let mut streams: Vec<String> = graph.sources().iter().map(|source| source.name.clone()).collect();
    // One that was added while the graph ran is in none of its sources.
    if let Some(stream) = args.stream.as_ref().filter(|stream| !streams.contains(stream)) {
        streams.push(stream.clone());
    }
    let found = archives::of_graph(&graph, &streams, args.stream.as_deref());
    if found.is_empty() {
        return Err(UserError::new("no sink of type archive of the graph shows that stream").into());
    }
    let path = args.archive.display();
    let mut recorded = archives::recorded(found)
        .map_err(|error| UserError::new(format!("{path}: {}", weir_files::io_reason(&error))))?;
    let names: Vec<String> = recorded.iter().map(|archive| archive.stream.clone()).collect();
    match (recorded.pop(), names.as_slice()) {
        (Some(archive), [_]) if archive.is_private => {
            Err(UserError::new(format!("{}: the camera is private", archive.stream)).into())
        }
        (Some(archive), [_]) => Ok(archive.reader),
        (None, _) => Err(UserError::new(format!("{path}: nothing was recorded")).into()),
        (Some(_), names) => {
            let message = format!(
                "several streams were recorded: name one of {} by --stream",
                names.join(", ")
            );
            Err(UserError::new(message).into())
        }
    }
}

/// Writes a video beside its place, and gives it its name when it is complete.
fn write(mut video: Video, out: &Path, overwrite: bool) -> io::Result<()> {
    let mut part = out.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let written = write_new(&mut video, &part).and_then(|()| give_name(&part, out, overwrite));
    if written.is_err() {
        // Nothing of it is left behind; that it cannot be removed is less than why it failed.
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Writes a video to a file that was not there.
fn write_new(video: &mut Video, path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    io::copy(video, &mut file)?;
    file.sync_all()
}

/// Renames the complete file `part`; unless it may overwrite, a file is not replaced that another program has written
/// meanwhile.
fn give_name(part: &Path, out: &Path, overwrite: bool) -> io::Result<()> {
    if !overwrite {
        // An empty file reserves the name. A hard link would need no reservation, but FAT and exFAT have none.
        drop(OpenOptions::new().write(true).create_new(true).open(out)?);
    }
    let renamed = std::fs::rename(part, out);
    if renamed.is_err() && !overwrite {
        // The reservation, an empty file; that it cannot be removed is less than why the file has no name.
        let _ = std::fs::remove_file(out);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_video_gets_a_name_that_is_free_or_may_be_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (part, out) = (folder.path().join("a.part"), folder.path().join("a.mp4"));
        let names = || std::fs::read_dir(folder.path()).unwrap().count();

        let missing = give_name(&part, &out, false).unwrap_err();
        assert_eq!((missing.kind(), names()), (io::ErrorKind::NotFound, 0));

        std::fs::write(&part, "first").unwrap();
        give_name(&part, &out, false).unwrap();
        assert_eq!((std::fs::read(&out).unwrap(), names()), (b"first".to_vec(), 1));

        std::fs::write(&part, "second").unwrap();
        let taken = give_name(&part, &out, false).unwrap_err();
        assert_eq!((taken.kind(), names()), (io::ErrorKind::AlreadyExists, 2));
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "first");

        give_name(&part, &out, true).unwrap();
        assert_eq!((std::fs::read(&out).unwrap(), names()), (b"second".to_vec(), 1));
    }
}
