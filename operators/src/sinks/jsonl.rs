//! Event lines into files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use weir_flow::{Delivery, Sink, SinkError, SinkFactory};

use super::event::write_event;
use super::target::{Target, failed, io_failed, make_folder};

/// Files open at once: more streams than that want one file for all.
const MAX_FILES: usize = 256;

/// Opens a [`Jsonl`].
pub(super) struct Lines {
    target: Target,
}

impl Lines {
    pub(super) fn new(path: &str) -> Self {
        Self {
            target: Target::new(path),
        }
    }
}

impl SinkFactory for Lines {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let mut sink = Jsonl {
            target: self.target.clone(),
            outputs: BTreeMap::new(),
        };
        if !self.target.is_template() {
            // Made now, so that a bad path is known before the run and an empty run leaves an empty file.
            sink.output("")?;
        }
        Ok(Box::new(sink))
    }
}

struct Jsonl {
    target: Target,
    /// By stream, or under the empty name where all share one.
    outputs: BTreeMap<String, Output>,
}

/// One file. Lines are not gathered: each that was taken is in the file, and each that a full disk did not take is told.
struct Output {
    path: PathBuf,
    writer: Box<dyn Write + Send>,
    line: Vec<u8>,
    /// Whether the last line got there in part only.
    torn: bool,
}

impl Output {
    fn write(&mut self, delivery: &Delivery) -> io::Result<()> {
        self.line.clear();
        if self.torn {
            // What comes now must not continue half a line.
            self.line.push(b'\n');
        }
        write_event(delivery, &mut self.line)?;
        let mut rest = self.line.as_slice();
        while !rest.is_empty() {
            match self.writer.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.writer.flush()
    }
}

impl Jsonl {
    fn output(&mut self, stream: &str) -> Result<&mut Output, SinkError> {
        let stream = if self.target.is_template() { stream } else { "" };
        if !self.outputs.contains_key(stream) {
            let output = self.make(stream)?;
            self.outputs.insert(stream.to_owned(), output);
        }
        let target = &self.target;
        self.outputs
            .get_mut(stream)
            .ok_or_else(|| failed(&target.of(stream), "it is closed"))
    }

    fn make(&self, stream: &str) -> Result<Output, SinkError> {
        let path = self.target.of(stream);
        if self.outputs.len() >= MAX_FILES {
            return Err(failed(
                &path,
                format!("{MAX_FILES} files are open: leave `{{stream}}` out of the path"),
            ));
        }
        let writer: Box<dyn Write + Send> = if self.target.is_standard_output() {
            Box::new(io::stdout())
        } else {
            make_folder(&path)?;
            Box::new(File::create(&path).map_err(|error| io_failed(&path, &error))?)
        };
        Ok(Output {
            path,
            writer,
            line: Vec::new(),
            torn: false,
        })
    }
}

impl Sink for Jsonl {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let output = self.output(&delivery.stream)?;
        output
            .write(delivery)
            .map_err(|error| io_failed(&output.path, &error))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.outputs.clear();
        Ok(())
    }
}
