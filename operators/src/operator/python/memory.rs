//! Memory in which pictures and tensors of a batch are passed to a worker process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Bytes of the pictures or tensors of one call: a frame of 8K, or 20 of Full HD. Memory is taken by what was written.
pub(super) const SHARED_BYTES: u64 = 128 << 20;

/// Memory as a file without a name. This process writes to the file and maps nothing, so that nothing that the worker
/// process does with it can end this one.
pub(super) struct SharedMemory(File);

impl SharedMemory {
    pub(super) fn new() -> io::Result<Self> {
        let file = memfd_create("weir-python", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = File::from(file);
        file.set_len(SHARED_BYTES)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self(file))
    }

    /// The file as a standard stream of the worker process.
    pub(super) fn stream(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }
}
