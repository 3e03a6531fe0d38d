//! Event lines into files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use weir_flow::{Delivery, Sink, SinkError, SinkFactory};

use super::event::write_event;
use super::target::{Target, failed, io_failed, make_folder};

/// Lines after which the buffer goes to the file, so that whoever follows it sees about a second of one camera late.
const LINES_A_BATCH: u32 = 32;

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

struct Output {
    path: PathBuf,
    writer: BufWriter<Box<dyn Write + Send>>,
    waiting: u32,
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
            writer: BufWriter::with_capacity(1 << 16, writer),
            waiting: 0,
        })
    }
}

impl Sink for Jsonl {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let output = self.output(&delivery.stream)?;
        let written = write_event(delivery, &mut output.writer).and_then(|()| {
            output.waiting += 1;
            if output.waiting >= LINES_A_BATCH {
                output.waiting = 0;
                output.writer.flush()?;
            }
            Ok(())
        });
        written.map_err(|error| io_failed(&output.path, &error))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let mut first = Ok(());
        for (_, mut output) in std::mem::take(&mut self.outputs) {
            let flushed = output
                .writer
                .flush()
                .map_err(|error| io_failed(&output.path, &error));
            // What a full disk did not take is lost; the writer must not try once more when it is dropped.
            drop(output.writer.into_parts());
            first = first.and(flushed);
        }
        first
    }
}
