//! A file for each stream, written beside its place and put there when it is complete.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use weir_flow::SinkError;

use super::super::target::{StreamFiles, Target, io_failed};
use crate::media::{Naming, VideoPlace, part_path};

/// Open files: each stream has one.
const MAX_FILES: usize = 256;

/// See the module.
pub(super) struct WholeFiles {
    files: StreamFiles,
    open: BTreeMap<String, WholeFile>,
}

struct WholeFile {
    place: VideoPlace,
    writer: BufWriter<File>,
    has_rows: bool,
}

/// Texts before, between and after the rows of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) before: &'static str,
    pub(super) between: &'static str,
    pub(super) after: &'static str,
}

impl WholeFiles {
    /// Of the streams that are known, and of those that come.
    pub(super) fn new(path: &str, streams: &[String]) -> Self {
        Self {
            files: StreamFiles::new(Target::new(path), false, streams),
            open: BTreeMap::new(),
        }
    }

    /// All that may be written, complete or not.
    pub(super) fn targets(&self) -> Vec<PathBuf> {
        let each = |(_, path): (&str, &std::path::Path)| [path.to_owned(), part_path(path)];
        self.files.assigned().flat_map(each).collect()
    }

    /// Another set of the same files.
    pub(super) fn fresh(&self) -> Self {
        Self {
            files: self.files.clone(),
            open: BTreeMap::new(),
        }
    }

    /// Claims the files of the streams that are known.
    pub(super) fn claim(&mut self) -> Result<(), SinkError> {
        let streams: Vec<String> = self
            .files
            .assigned()
            .map(|(stream, _)| stream.to_owned())
            .collect();
        streams
            .iter()
            .take(MAX_FILES)
            .try_for_each(|stream| self.file(stream).map(drop))
    }

    /// Appends rows to the file of a stream.
    pub(super) fn write(
        &mut self,
        stream: &str,
        frame: Frame,
        rows: impl Iterator<Item = String>,
    ) -> Result<(), SinkError> {
        let file = self.file(stream)?;
        if !file.has_rows {
            file.place.begin();
        }
        let put = || {
            for row in rows {
                let before = if file.has_rows {
                    frame.between
                } else {
                    frame.before
                };
                file.has_rows = true;
                write!(file.writer, "{before}{row}")?;
            }
            Ok(())
        };
        let written: std::io::Result<()> = put();
        written.map_err(|error| io_failed(file.place.path(), &error))
    }

    fn file(&mut self, stream: &str) -> Result<&mut WholeFile, SinkError> {
        if !self.open.contains_key(stream) {
            let path = self.files.path_of(stream);
            if self.open.len() >= MAX_FILES {
                return Err(super::super::target::failed(
                    &path,
                    format!("{MAX_FILES} files are open: take fewer streams"),
                ));
            }
            let place = VideoPlace::claim(&path, Naming::Free)?;
            let file = OpenOptions::new().write(true).open(place.part_path());
            let file = file.map_err(|error| io_failed(&path, &error))?;
            let whole = WholeFile {
                place,
                writer: BufWriter::new(file),
                has_rows: false,
            };
            self.open.insert(stream.to_owned(), whole);
        }
        let missing = || SinkError {
            target: stream.to_owned(),
            reason: "its file is closed".to_owned(),
        };
        self.open.get_mut(stream).ok_or_else(missing)
    }

    /// Completes the file of a stream.
    pub(super) fn finish_stream(&mut self, stream: &str, frame: Frame) -> Result<(), SinkError> {
        match self.open.remove(stream) {
            Some(file) => file.finish(frame),
            None => Ok(()),
        }
    }

    /// Completes all; the first error is returned.
    pub(super) fn finish(&mut self, frame: Frame) -> Result<(), SinkError> {
        let finished = std::mem::take(&mut self.open)
            .into_values()
            .map(|file| file.finish(frame));
        finished.fold(Ok(()), Result::and)
    }
}

impl WholeFile {
    fn finish(mut self, frame: Frame) -> Result<(), SinkError> {
        let before = if self.has_rows { "" } else { frame.before };
        let written = write!(self.writer, "{before}{}", frame.after).and_then(|()| self.writer.flush());
        let path = self.place.path().to_owned();
        written.map_err(|error| io_failed(&path, &error))?;
        self.place
            .finish()
            .map(drop)
            .map_err(|error| io_failed(&path, &error))
    }
}
