//! Archives that the sinks of a graph record: which folder is whose, whose video is withheld, and how exports are refused.

use std::io;

use weir_analytics::Privacy;
use weir_graph::{Graph, SourceNode};
use weir_operators::sinks::{ArchiveReader, ExportError, MAX_EXPORT_MS};

use crate::assemble::streams_of_sink;
use crate::times;

/// Type of the sinks that record everything.
const ARCHIVE: &str = "archive";

/// Reason to withhold the video of a camera whose pictures hide something.
const HIDES: &str = "pictures of the camera hide something, and what is recorded hides nothing";

/// Reason why nothing of an archive is shown that cannot be read.
pub(crate) const UNREADABLE: &str =
    "its archive cannot be read: check the disk and the permissions of its folder";

/// The archive of a stream.
pub(crate) struct Archive {
    pub(crate) stream: String,
    pub(crate) reader: ArchiveReader,
    /// Reason why its video is not shown.
    pub(crate) withheld: Option<&'static str>,
    /// Whether the camera is private: its video is not exported either.
    pub(crate) is_private: bool,
}

/// Archives of `streams`, or of the one of that name, in the sinks of a graph: where they are, if anything was recorded.
pub(crate) fn of_graph(graph: &Graph, streams: &[String], only: Option<&str>) -> Vec<Archive> {
    let mut found = Vec::new();
    for (index, sink) in graph.sinks().iter().enumerate() {
        if sink.kind != ARCHIVE {
            continue;
        }
        // In the order in which the sink chooses their folders.
        let mut order = streams_of_sink(graph, index);
        let later = streams.iter().filter(|name| sink.streams.contains(name));
        let later: Vec<String> = later.filter(|name| !order.contains(name)).cloned().collect();
        order.extend(later);
        for stream in streams
            .iter()
            .filter(|name| only.is_none_or(|only| only == **name))
        {
            let reader = ArchiveReader::of_sink(&sink.settings, &order, stream);
            let reader = reader.filter(|_| order.contains(stream));
            let privacies = privacies(graph, stream);
            let is_private = privacies.iter().any(|privacy| privacy.private);
            let hides = privacies.iter().any(Privacy::hides);
            found.extend(reader.map(|reader| Archive {
                stream: stream.clone(),
                reader,
                is_private,
                withheld: match (is_private, hides) {
                    (true, _) => Some("the camera is private"),
                    (_, true) => Some(HIDES),
                    _ => None,
                },
            }));
        }
    }
    found
}

/// Those of them that have recordings. A stream that several sinks record is read from the first that has any of it. Folders that
/// cannot be read come last, and their videos are withheld.
///
/// # Errors
/// No folder with recordings can be read.
pub(crate) fn recorded(archives: Vec<Archive>) -> io::Result<Vec<Archive>> {
    let (mut found, mut unreadable) = (Vec::<Archive>::new(), Vec::new());
    let is_new = |found: &[Archive], archive: &Archive| {
        let mut known = found.iter();
        known.all(|known| known.stream != archive.stream)
    };
    for archive in archives {
        if is_new(&found, &archive) {
            match archive.reader.names() {
                Ok(names) if names.is_empty() => {}
                Ok(_) => found.push(archive),
                Err(error) => unreadable.push((archive, error)),
            }
        }
    }
    let nothing_read = found.is_empty();
    for (archive, error) in unreadable {
        if nothing_read {
            return Err(error);
        }
        if is_new(&found, &archive) {
            tracing::warn!("the archive of {} cannot be read: {error}", archive.stream);
            found.push(Archive {
                withheld: Some(UNREADABLE),
                ..archive
            });
        }
    }
    Ok(found)
}

/// Privacies that a stream may have.
fn privacies(graph: &Graph, stream: &str) -> Vec<Privacy> {
    if let Some(source) = graph.sources().iter().find(|source| source.name == stream) {
        return vec![graph.privacy_of(source, None)];
    }
    // Which source a stream that was added is like is not known here: the strictest counts.
    let added = SourceNode::new(stream, "");
    let likes = graph.sources().iter().map(|source| Some(&*source.name));
    likes
        .chain([None])
        .map(|like| graph.privacy_of(&added, like))
        .collect()
}

/// True if no client may see the pictures of a stream.
pub(crate) fn is_private(graph: &Graph, stream: &str) -> bool {
    privacies(graph, stream).iter().any(|privacy| privacy.private)
}

/// Words for an export that is refused, and what to do.
pub(crate) fn refusal(error: &ExportError) -> (String, String) {
    match error {
        ExportError::Empty { nearest } => (
            "nothing was recorded in the range".to_owned(),
            nearest.map_or_else(|| "nothing is recorded at all".to_owned(), self::nearest),
        ),
        ExportError::TooLong => (
            format!("an export has at most {} hours", MAX_EXPORT_MS / 3_600_000),
            "export the range in several files".to_owned(),
        ),
        ExportError::Changed { at_ms } => {
            let at = times::shown(*at_ms);
            (
                format!("the camera sends another size or encoding from {at} on, which one file cannot hold"),
                format!("export the time before {at} and the time from then on in two files"),
            )
        }
        ExportError::Unreadable(error) => (
            format!("the archive cannot be read: {}", weir_files::io_reason(error)),
            "check the disk and the permissions of the folder".to_owned(),
        ),
    }
}

/// Words for the recording that is nearest to a range.
pub(crate) fn nearest((from_ms, to_ms): (u64, u64)) -> String {
    format!(
        "the nearest recording is from {} to {}",
        times::shown(from_ms),
        times::shown(to_ms)
    )
}

/// Name of the file of an export that begins at that time, such as `door-20261130T060000Z.mp4`.
pub(crate) fn file_name(stream: &str, from_ms: u64) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_".contains(c) {
            c
        } else {
            '_'
        }
    };
    let stream: String = stream.chars().map(plain).collect();
    let at = times::shown(from_ms / 1_000 * 1_000)
        .replace(['-', ':'], "")
        .replace(".000", "");
    format!("{stream}-{at}.mp4")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn an_archive_that_cannot_be_read_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("20261123T213005.123Z.mp4"), "").unwrap();
        let readable = folder.path();
        // No name is as long as the second.
        let others = ["missing".to_owned(), "a".repeat(300)].map(|name| readable.join(name));
        let [missing, unreadable] = others.each_ref().map(PathBuf::as_path);
        let archive = |stream: &str, folder: &Path| Archive {
            stream: stream.to_owned(),
            reader: ArchiveReader::of_folder(folder),
            withheld: None,
            is_private: false,
        };
        let check = |folders: &[(&str, &Path)], expected: Option<Vec<(&str, Option<&str>)>>| {
            let archives = folders.iter().map(|(stream, folder)| archive(stream, folder));
            let found = recorded(archives.collect()).ok();
            let found = found.as_ref().map(|found| {
                let names = found.iter().map(|archive| (&*archive.stream, archive.withheld));
                names.collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{folders:?}");
        };
        check(
            &[("north", unreadable), ("south", readable), ("west", missing)],
            Some(vec![("south", None), ("north", Some(UNREADABLE))]),
        );
        check(
            &[("north", unreadable), ("north", readable)],
            Some(vec![("north", None)]),
        );
        check(&[("north", unreadable), ("west", missing)], None);
        check(&[("west", missing)], Some(Vec::new()));
    }
}
