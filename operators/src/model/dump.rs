//! Copies of what models are fed with, for a look from outside: one `.npy` file an item.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow::{Item, Region};

/// Writes items of one model.
pub(super) struct Dump {
    folder: PathBuf,
    model: String,
    next: AtomicU64,
}

impl Dump {
    /// Into `folder`, which is made where it is missing.
    pub(super) fn into(folder: &Path, model: &str) -> Result<Self, String> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("folder {} for inputs cannot be made: {error}", folder.display()))?;
        let model = model.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
        Ok(Self {
            folder: folder.to_owned(),
            model,
            next: AtomicU64::new(0),
        })
    }

    /// Writes `MODEL-NUMBER-fFRAME[-X0-Y0-X1-Y1].npy`: the number runs over all items of the model, the crop is in
    /// source pixels.
    pub(super) fn write(&self, item: &Item, shape: &[usize], elements: &[f32]) -> Result<(), String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut name = format!("{}-{number:07}-f{}", self.model, item.frame.index);
        if let Region::Crop { rect, .. } = &item.region {
            let _ = write!(
                name,
                "-{:.0}-{:.0}-{:.0}-{:.0}",
                rect.x0, rect.y0, rect.x1, rect.y1
            );
        }
        let path = self.folder.join(name + ".npy");
        write_npy(&path, shape, elements)
            .map_err(|error| format!("input cannot be written to {}: {error}", path.display()))
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
