//! Memory of closed sessions goes back to the operating system.
//!
//! The C library keeps what is freed, for each thread that allocated, and another graph's slots are other threads: after a few
//! changes of graph a service held twice the memory of its sessions.
#![expect(
    unsafe_code,
    reason = "the C library has no safe wrapper for returning memory that nothing uses"
)]

/// Returns unused memory to the operating system when it is dropped: the last field of what was large.
#[derive(Debug)]
pub(super) struct ReturnsUnusedMemory;

impl Drop for ReturnsUnusedMemory {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: it takes no pointer, locks what it reads, and changes only memory that is free; any thread may call it.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
