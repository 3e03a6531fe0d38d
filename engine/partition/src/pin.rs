//! Keeping to one core.

use std::io;

/// Pins the calling thread, and the threads that it starts later, to one core.
///
/// # Errors
/// The core does not exist, the process may not use it, or the system does not support pinning.
#[cfg(target_os = "linux")]
pub fn pin_to_core(core: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};

    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "there is no such core",
        ));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(Into::into)
}

/// Keeps the calling thread, and the threads that it starts from now on, to one core.
///
/// # Errors
/// Always: this system offers no such thing.
#[cfg(not(target_os = "linux"))]
pub fn pin_to_core(_core: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
