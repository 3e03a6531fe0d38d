//! Dumps of model inputs for inspection: one `.npy` file for each item, and one index for each model that describes the
//! files.
//!
//! The stream of a frame is unknown here, so a dump should be made of one stream.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_flow::{Item, Rect, Region};

use crate::heads::input::PixelMap;

/// Writes the inputs of one model.
pub(super) struct Dump {
    folder: PathBuf,
    model: String,
    /// Number of items written, and the index file.
    index: Mutex<(u64, File)>,
}

/// One line of the index. A warped input (an aligned face, a rectified plate) has neither scale nor offset.
#[derive(Serialize)]
struct Entry<'a> {
    file: &'a str,
    model: &'a str,
    frame: u64,
    /// Left, top, right and bottom of the item, in source pixels.
    region: [f32; 4],
    /// Input pixels per source pixel, horizontally and vertically.
    scale: Option<[f32; 2]>,
    /// Position of the region's top left corner in the input.
    offset: Option<[f32; 2]>,
}

/// Path of the index of the inputs of `model` in `folder`.
#[must_use]
pub fn dump_index(folder: &Path, model: &str) -> PathBuf {
    folder.join(format!("{}.index.jsonl", plain(model)))
}

/// A model's name as used in file names.
fn plain(model: &str) -> String {
    model.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-")
}

impl Dump {
    /// Creates `folder` if it is missing, and replaces an index of an earlier run.
    pub(super) fn into(folder: &Path, model: &str) -> Result<Self, String> {
        let made = |error| format!("folder {} for inputs cannot be made: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(made)?;
        let index = File::create(dump_index(folder, model)).map_err(made)?;
        let model = plain(model);
        Ok(Self {
            folder: folder.to_owned(),
            model,
            index: Mutex::new((0, index)),
        })
    }

    /// Writes `MODEL-NUMBER-fFRAME[-X0-Y0-X1-Y1].npy` and its line of `MODEL.index.jsonl`: the number counts all items
    /// of the model, the crop is in source pixels.
    pub(super) fn write(
        &self,
        item: &Item,
        map: &PixelMap,
        shape: &[usize],
        elements: &[f32],
    ) -> Result<(), String> {
        let failed = |error| format!("input cannot be written to {}: {error}", self.folder.display());
        // Sessions of several slots share it. A panic under the lock leaves at worst an incomplete line.
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, lines) = &mut *index;
        let mut name = format!("{}-{number:07}-f{}", self.model, item.frame.index);
        let rect = item.bounds();
        if let Region::Crop { .. } = item.region {
            let Rect { x0, y0, x1, y1 } = rect;
            let _ = write!(name, "-{x0:.0}-{y0:.0}-{x1:.0}-{y1:.0}");
        }
        name.push_str(".npy");
        let straight = match map {
            PixelMap::Scaled(placement) => Some(placement),
            PixelMap::Warped(_) => None,
        };
        let entry = Entry {
            file: &name,
            model: &self.model,
            frame: item.frame.index,
            // If the region was cropped further (centre crop), the input begins at the placement's origin.
            region: straight.map_or([rect.x0, rect.y0, rect.x1, rect.y1], |placement| {
                [placement.origin.x, placement.origin.y, rect.x1, rect.y1]
            }),
            scale: straight.map(|placement| [placement.scale.x, placement.scale.y]),
            offset: straight.map(|placement| [placement.offset.x, placement.offset.y]),
        };
        let mut line = serde_json::to_vec(&entry).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        lines.write_all(&line).map_err(failed)?;
        *number += 1;
        drop(index);
        write_npy(&self.folder.join(&name), shape, elements).map_err(failed)
    }
}

/// Version 1.0 of NumPy's format: magic, header length, a Python dictionary padded to 64 bytes, the elements.
fn write_npy(path: &Path, shape: &[usize], elements: &[f32]) -> std::io::Result<()> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({sizes}), }}");
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes())?;
    writeln!(out, "{header:<width$}", width = length - 1)?;
    for element in elements {
        out.write_all(&element.to_le_bytes())?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_header_of_whole_lines_and_the_elements() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("a.npy");
        write_npy(&path, &[1, 2], &[1.0, -2.0]).expect("written");
        let bytes = std::fs::read(path).expect("read");
        assert_eq!(
            (&bytes[..8], (bytes.len() - 8) % 64),
            (&b"\x93NUMPY\x01\x00"[..], 0)
        );
        assert!(String::from_utf8_lossy(&bytes).contains("'shape': (1, 2, )"));
        assert_eq!(bytes[bytes.len() - 4..], (-2.0_f32).to_le_bytes());
    }
}
