//! One file: row groups, then what says where they are. It has `.part` after its name until that is written: no program takes
//! half of a file for a whole one.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use weir_flow::SinkError;

use super::super::target::{failed, io_failed};
use super::columns::{Columns, Field, schema};
use crate::media::{Naming, VideoPlace};

/// Row groups of a file: each costs some memory until the file is complete, and readers take no more than 32,767.
const MAX_ROW_GROUPS: u64 = 4_096;

pub(super) struct TableFile {
    place: VideoPlace,
    writer: SerializedFileWriter<File>,
    row_groups: u64,
    rows: u64,
}

impl TableFile {
    /// Begins a file of that name, or the next free one.
    ///
    /// # Errors
    /// It cannot be written there.
    pub(super) fn create(path: &Path, fields: &[Field]) -> std::result::Result<Self, SinkError> {
        let place = VideoPlace::claim(path, Naming::Free)?;
        let file = OpenOptions::new().write(true).open(place.part_path());
        let file = file.map_err(|error| io_failed(path, &error))?;
        let begin = || {
            let schema = Arc::new(parse_message_type(&schema(fields))?);
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_created_by(concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned())
                .build();
            SerializedFileWriter::new(file, schema, Arc::new(properties))
        };
        let writer = begin().map_err(|error| failed(path, error))?;
        Ok(Self {
            place,
            writer,
            row_groups: 0,
            rows: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Rows in it.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether it is as large as it may be.
    pub(super) fn is_full(&self, max_bytes: u64) -> bool {
        self.writer.bytes_written() as u64 >= max_bytes || self.row_groups >= MAX_ROW_GROUPS
    }

    /// Writes a row group.
    ///
    /// # Errors
    /// The file is unusable after that.
    pub(super) fn write(&mut self, columns: &Columns) -> Result<()> {
        self.place.begin();
        let mut group = self.writer.next_row_group()?;
        let mut number = 0;
        while let Some(mut column) = group.next_column()? {
            columns.write(number, column.untyped())?;
            column.close()?;
            number += 1;
        }
        group.close()?;
        self.writer.flush()?;
        self.row_groups += 1;
        self.rows += columns.rows() as u64;
        Ok(())
    }

    /// Completes it and puts it in its place.
    ///
    /// # Errors
    /// It is removed then.
    pub(super) fn finish(mut self) -> std::result::Result<(), SinkError> {
        let path = self.place.path().to_owned();
        let completed = self.writer.finish().map_err(|error| failed(&path, error));
        let completed = completed.and_then(|_| {
            let synced = self.writer.inner().sync_all();
            synced.map_err(|error| io_failed(&path, &error))
        });
        match completed {
            Ok(()) => {
                let placed = self.place.finish();
                placed.map(drop).map_err(|error| io_failed(&path, &error))
            }
            Err(error) => {
                self.place.discard();
                Err(error)
            }
        }
    }

    /// Removes the unfinished file.
    pub(super) fn discard(self) {
        self.place.discard();
    }
}
