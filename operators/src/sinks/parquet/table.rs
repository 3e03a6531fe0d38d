//! The sink: rows into files, one after the other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_flow::{Delivery, Notice, Settings, Sink, SinkError, SinkFactory, TrackEnd};

use super::super::line_file::is_over;
use super::super::recording::time_name;
use super::super::target::{failed, io_failed};
use super::columns::{Columns, Field};
use super::rows::{OBJECTS, TRACKS, push_object, push_track};
use super::writer::TableFile;

/// Bytes of rows that are kept in memory: pictures of a busy day have many attributes.
const MAX_BYTES: usize = 32 << 20;

/// Time in milliseconds after a failure before the next file is tried.
const RETRY_MS: u64 = 5_000;

#[derive(Debug, Clone)]
pub(super) struct TableFactory {
    folder: PathBuf,
    of_tracks: bool,
    row_group: usize,
    rotate_ms: u64,
    rotate_bytes: u64,
}

impl TableFactory {
    pub(super) fn new(path: &str, settings: &Settings) -> Self {
        Self {
            folder: PathBuf::from(path),
            of_tracks: settings.text("rows") == Some("tracks"),
            row_group: settings.number("row_group", 65_536.0) as usize,
            rotate_ms: (settings.number("rotate_every", 3_600.0) * 1e3) as u64,
            rotate_bytes: settings.number("rotate_bytes", f64::from(256 << 20)) as u64,
        }
    }

    fn fields(&self) -> &'static [Field] {
        if self.of_tracks { TRACKS } else { OBJECTS }
    }
}

impl SinkFactory for TableFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let probe = std::fs::create_dir_all(&self.folder).and_then(|()| tempfile::tempfile_in(&self.folder));
        probe.map_err(|error| io_failed(&self.folder, &error))?;
        Ok(Box::new(Table {
            columns: Columns::new(self.fields()),
            options: self.clone(),
            open: None,
            retry_at_ms: None,
            rows: 0,
            lost: 0,
            files: 0,
        }))
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.folder.clone())
    }
}

/// `rows` = those in files + `rows_lost` + those in memory and in the file that is not complete.
struct Table {
    options: TableFactory,
    columns: Columns,
    open: Option<Open>,
    /// No file is tried before.
    retry_at_ms: Option<u64>,
    rows: u64,
    lost: u64,
    files: u64,
}

struct Open {
    file: TableFile,
    began_ms: u64,
}

impl Table {
    /// Completes the file that is open where its time is over.
    fn on_time(&mut self, now_ms: u64) -> Result<(), SinkError> {
        let is_due = |open: &Open| is_over(open.began_ms, now_ms, self.options.rotate_ms);
        if self.open.as_ref().is_some_and(is_due) {
            self.complete()?;
        }
        Ok(())
    }

    /// Whether a row can be added; begins a file where there is none. What cannot be written is lost.
    fn has_file(&mut self, now_ms: u64) -> Result<bool, SinkError> {
        self.rows += 1;
        if self.open.is_some() {
            return Ok(true);
        }
        // A wall clock that was set back does not make it wait longer.
        let is_early = |at: u64| now_ms < at && at - now_ms <= RETRY_MS;
        if self.retry_at_ms.is_some_and(is_early) {
            self.lost += 1;
            return Ok(false);
        }
        self.retry_at_ms = None;
        let path = self
            .options
            .folder
            .join(format!("{}.parquet", time_name(now_ms, &[])));
        match TableFile::create(&path, self.options.fields()) {
            Ok(file) => {
                self.open = Some(Open {
                    file,
                    began_ms: now_ms,
                });
                Ok(true)
            }
            Err(error) => {
                self.lost += 1;
                self.retry_at_ms = Some(now_ms + RETRY_MS);
                Err(error)
            }
        }
    }

    /// Writes a row group where there is enough for one.
    fn on_row(&mut self, now_ms: u64) -> Result<(), SinkError> {
        if self.columns.rows() < self.options.row_group && self.columns.bytes() < MAX_BYTES {
            return Ok(());
        }
        let written = self.write_group();
        if written.is_err() {
            self.retry_at_ms = Some(now_ms + RETRY_MS);
        }
        written?;
        let max_bytes = self.options.rotate_bytes;
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.file.is_full(max_bytes))
        {
            self.complete()?;
        }
        Ok(())
    }

    /// Writes what is in memory. Where that fails, the file is removed: nothing could read it.
    fn write_group(&mut self) -> Result<(), SinkError> {
        let columns = std::mem::replace(&mut self.columns, Columns::new(self.options.fields()));
        let Some(open) = self.open.as_mut().filter(|_| columns.rows() > 0) else {
            return Ok(());
        };
        let Err(error) = open.file.write(&columns) else {
            return Ok(());
        };
        let path = open.file.path().to_owned();
        self.lost += open.file.rows() + columns.rows() as u64;
        if let Some(open) = self.open.take() {
            open.file.discard();
        }
        Err(failed(&path, error))
    }

    /// Completes the file that is open.
    fn complete(&mut self) -> Result<(), SinkError> {
        self.write_group()?;
        let Some(Open { file, .. }) = self.open.take() else {
            return Ok(());
        };
        let rows = file.rows();
        let finished = file.finish();
        match &finished {
            Ok(()) => self.files += 1,
            Err(_) => self.lost += rows,
        }
        finished
    }

    fn on_tracks(&mut self, stream: &str, ended: &[TrackEnd]) -> Result<(), SinkError> {
        let rows = if self.options.of_tracks { ended } else { &[] };
        for track in rows {
            self.on_time(track.last_seen_ms)?;
            if self.has_file(track.last_seen_ms)? {
                push_track(&mut self.columns, stream, track);
                self.on_row(track.last_seen_ms)?;
            }
        }
        Ok(())
    }
}

impl Sink for Table {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.on_time(delivery.time_ms)?;
        let rows = if self.options.of_tracks {
            &[]
        } else {
            &delivery.objects[..]
        };
        for object in rows {
            if self.has_file(delivery.time_ms)? {
                push_object(&mut self.columns, delivery, object);
                self.on_row(delivery.time_ms)?;
            }
        }
        self.on_tracks(&delivery.stream, &delivery.ended_tracks)
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        match notice {
            Notice::Analytics {
                stream, ended_tracks, ..
            } => self.on_tracks(stream, ended_tracks),
            Notice::Dropped { .. }
            | Notice::Still { .. }
            | Notice::State { .. }
            | Notice::Sink { .. }
            | Notice::Described { .. } => Ok(()),
        }
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = [
            ("rows", self.rows),
            ("rows_lost", self.lost),
            ("files", self.files),
        ];
        counts.into()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.complete()
    }
}
