//! Files of a segment, which hold the tracks of some time: `.rows`, `.texts`, `.vectors` and `.pictures` with one stem.
//!
//! All are appended to, the row last. So a row that is whole names bytes that are there, and bytes that no row names are those of a
//! track whose writing was interrupted. The only change in place is the state of a row that a later one replaces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::recording::time_name;
use super::blocks::each_row_as_bytes;
use super::row::{REPLACED, ROW_BYTES, Row, is_whole};
use crate::files::lock;

/// Extensions of the files of a segment, in the order of [`Parts`].
const EXTENSIONS: [&str; 4] = ["rows", "texts", "vectors", "pictures"];

/// Extension of the rows of a damaged file, which are put aside.
const BROKEN: &str = "rows.broken";

/// Version of the format.
const VERSION: u32 = 1;

/// Longest first line of the texts, the header.
const MAX_HEADER_BYTES: u64 = 4 << 10;

/// Segments of one millisecond that get names of their own.
const MAX_SAME_TIME: u32 = 1_000;

/// Model that made the vectors of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VectorModel {
    /// Name of the model in the graph.
    pub(super) name: String,
    /// Digest of its file and of the settings of its input.
    pub(super) digest: String,
}

/// First line of the texts of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    version: u32,
    model: Option<VectorModel>,
}

/// Stems of the segments in a folder, in the order of time. A folder that is not there has none.
///
/// # Errors
/// Those of the disk.
pub(super) fn stems(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut stems = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".rows"));
        stems.extend(stem.filter(|stem| is_stem(stem)).map(str::to_owned));
    }
    stems.sort();
    Ok(stems)
}

/// True for a name that the writer gives: only such files are ever removed.
fn is_stem(stem: &str) -> bool {
    let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let (time, number) = stem.split_once('-').unwrap_or((stem, "0"));
    time.chars().map(shape).eq("00000000T000000.000Z".chars())
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn path(folder: &Path, stem: &str, extension: &str) -> PathBuf {
    folder.join(format!("{stem}.{extension}"))
}

/// Options of a file that is written, for its owner only.
fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Bytes of all files of a segment.
pub(super) fn bytes(folder: &Path, stem: &str) -> u64 {
    let sizes = EXTENSIONS.map(|extension| fs::metadata(path(folder, stem, extension)));
    sizes.into_iter().flatten().map(|metadata| metadata.len()).sum()
}

/// Removes the files of a segment, the rows last: a segment whose removal was interrupted is removed again.
///
/// # Errors
/// Those of the disk.
pub(super) fn remove(folder: &Path, stem: &str) -> io::Result<()> {
    for extension in [BROKEN].iter().chain(EXTENSIONS.iter().rev()) {
        match fs::remove_file(path(folder, stem, extension)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Open files of a segment.
pub(super) struct Parts {
    pub(super) rows: File,
    pub(super) texts: File,
    pub(super) vectors: File,
    pub(super) pictures: File,
    pub(super) model: Option<VectorModel>,
}

impl Parts {
    /// Opens a segment for reading; `None` if it is gone, or has no header that this version reads.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn open(folder: &Path, stem: &str) -> io::Result<Option<Self>> {
        Self::open_with(folder, stem, OpenOptions::new().read(true))
    }

    fn open_with(folder: &Path, stem: &str, options: &OpenOptions) -> io::Result<Option<Self>> {
        let mut files = Vec::with_capacity(EXTENSIONS.len());
        for extension in EXTENSIONS {
            match options.open(path(folder, stem, extension)) {
                Ok(file) => files.push(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let Ok([rows, texts, vectors, pictures]) = <[File; 4]>::try_from(files) else {
            return Ok(None);
        };
        let mut first = Vec::new();
        (&texts).take(MAX_HEADER_BYTES).read_to_end(&mut first)?;
        let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let header = serde_json::from_slice::<Header>(line).ok();
        Ok(header
            .filter(|header| header.version == VERSION)
            .map(|header| Self {
                rows,
                texts,
                vectors,
                pictures,
                model: header.model,
            }))
    }

    /// Locks new rows, and creates the other files of the segment; returns the bytes of the header of the texts as well.
    fn create(folder: &Path, stem: &str, rows: File, model: Option<&VectorModel>) -> io::Result<(Self, u64)> {
        lock(&rows)?;
        let open = |extension: &str| {
            let mut options = new_file();
            options.create(true).truncate(true);
            options.open(path(folder, stem, extension))
        };
        let parts = Self {
            rows,
            texts: open("texts")?,
            vectors: open("vectors")?,
            pictures: open("pictures")?,
            model: model.cloned(),
        };
        let mut header = serde_json::to_vec(&Header {
            version: VERSION,
            model: model.cloned(),
        })?;
        header.push(b'\n');
        parts.texts.write_all_at(&header, 0)?;
        Ok((parts, header.len() as u64))
    }

    /// Whole rows of the file now.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn row_count(&self) -> io::Result<u64> {
        Ok(self.rows.metadata()?.len() / ROW_BYTES as u64)
    }

    /// Reads the row of that number as bytes.
    fn read_row(&self, number: u64) -> io::Result<[u8; ROW_BYTES]> {
        let mut bytes = [0; ROW_BYTES];
        self.rows.read_exact_at(&mut bytes, number * ROW_BYTES as u64)?;
        Ok(bytes)
    }

    /// Latest time of the rows, as far as the last one says it; 0 if there is none.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn last_ms(&self) -> io::Result<u64> {
        let mut number = self.row_count()?;
        while number > 0 {
            number -= 1;
            if let Some(row) = Row::decode(&self.read_row(number)?) {
                return Ok(row.time_ms);
            }
        }
        Ok(0)
    }
}

/// Place of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowPlace {
    pub(super) stem: String,
    number: u64,
}

/// A segment that is written, locked for its writer.
pub(super) struct Writer {
    folder: PathBuf,
    pub(super) stem: String,
    parts: Parts,
    rows: u64,
    /// Bytes of the texts, the vectors and the pictures.
    ends: [u64; 3],
    pub(super) began_ms: u64,
    /// Time of the last row.
    pub(super) last_ms: u64,
}

impl Writer {
    /// Begins a segment.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn create(folder: &Path, now_ms: u64, model: Option<&VectorModel>) -> io::Result<Self> {
        let time = time_name(now_ms, &[]);
        for number in 1..=MAX_SAME_TIME {
            let stem = match number {
                1 => time.clone(),
                number => format!("{time}-{number}"),
            };
            let rows = match new_file().create_new(true).open(path(folder, &stem, "rows")) {
                Ok(rows) => rows,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            let created = Parts::create(folder, &stem, rows, model).inspect_err(|_| {
                // The next attempt has another name: a full disk would collect segments without tracks.
                let _ = remove(folder, &stem);
            });
            let (parts, header_bytes) = created?;
            return Ok(Self {
                folder: folder.to_owned(),
                stem,
                parts,
                rows: 0,
                ends: [header_bytes, 0, 0],
                began_ms: now_ms,
                last_ms: now_ms,
            });
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Continues a segment of the same model; `None` if another writer has it, or it is of another model or form. Rows behind one that is
    /// damaged are removed; the file as it was is put aside if these are more than one.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn resume(folder: &Path, stem: &str, model: Option<&VectorModel>) -> io::Result<Option<Self>> {
        let parts = Parts::open_with(folder, stem, OpenOptions::new().read(true).write(true))?;
        let Some(parts) = parts.filter(|parts| parts.model.as_ref() == model) else {
            return Ok(None);
        };
        if !lock(&parts.rows)? {
            return Ok(None);
        }
        let (count, length) = (parts.row_count()?, parts.rows.metadata()?.len());
        let mut whole = 0;
        let mut began_ms = None;
        each_row_as_bytes(&parts, |number, bytes| {
            let is_whole = number < count && is_whole(bytes);
            if is_whole {
                began_ms = began_ms.or_else(|| Row::decode(bytes).map(|row| row.time_ms));
                whole = number + 1;
            }
            Ok(is_whole)
        })?;
        let kept = whole * ROW_BYTES as u64;
        if count > whole + 1 {
            let aside = path(folder, stem, BROKEN);
            fs::copy(path(folder, stem, "rows"), &aside)?;
            tracing::warn!(
                "{} is damaged, and a copy of it was put aside: {whole} tracks of it are kept, {} are not",
                path(folder, stem, "rows").display(),
                count - whole,
            );
        }
        if kept < length {
            parts.rows.set_len(kept)?;
        }
        let end = |file: &File| Ok::<u64, io::Error>(file.metadata()?.len());
        Ok(Some(Self {
            folder: folder.to_owned(),
            stem: stem.to_owned(),
            rows: whole,
            ends: [end(&parts.texts)?, end(&parts.vectors)?, end(&parts.pictures)?],
            began_ms: began_ms.unwrap_or(0),
            last_ms: parts.last_ms()?,
            parts,
        }))
    }

    /// Appends a track. `row` has its times and names; the places of its parts are set here.
    ///
    /// # Errors
    /// Those of the disk: the segment is as it was then, and the next track overwrites what was written.
    pub(super) fn append(
        &mut self,
        row: Row,
        text: &[u8],
        vector: &[u8],
        picture: &[u8],
    ) -> io::Result<RowPlace> {
        let mut ends = self.ends;
        let files = [&self.parts.texts, &self.parts.vectors, &self.parts.pictures];
        for ((file, end), bytes) in files.into_iter().zip(&mut ends).zip([text, vector, picture]) {
            file.write_all_at(bytes, *end)?;
            *end += bytes.len() as u64;
        }
        let span = |at: u64, bytes: &[u8]| super::row::Span {
            at,
            length: u32::try_from(bytes.len()).unwrap_or(0),
        };
        let row = Row {
            text: span(self.ends[0], text),
            vector_at: self.ends[1],
            picture: span(self.ends[2], picture),
            ..row
        };
        let at = self.rows * ROW_BYTES as u64;
        self.parts.rows.write_all_at(&row.encode(), at)?;
        let place = RowPlace {
            stem: self.stem.clone(),
            number: self.rows,
        };
        (self.ends, self.rows, self.last_ms) = (ends, self.rows + 1, row.time_ms);
        Ok(place)
    }

    /// Bytes of all its files.
    pub(super) fn bytes(&self) -> u64 {
        self.rows * ROW_BYTES as u64 + self.ends.iter().sum::<u64>()
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Marks a row as replaced, in this segment or in one before it. A segment that is gone needs no mark.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn replace(&self, place: &RowPlace) -> io::Result<()> {
        let at = place.number * ROW_BYTES as u64;
        if place.stem == self.stem {
            return self.parts.rows.write_all_at(&[REPLACED], at);
        }
        let options = OpenOptions::new()
            .write(true)
            .open(path(&self.folder, &place.stem, "rows"));
        match options {
            Ok(rows) => rows.write_all_at(&[REPLACED], at),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts all of it onto the disk, the rows last.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let Parts {
            rows,
            texts,
            vectors,
            pictures,
            ..
        } = &self.parts;
        [texts, vectors, pictures, rows]
            .into_iter()
            .try_for_each(File::sync_data)
    }
}
