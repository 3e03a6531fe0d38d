//! Limits on the unused memory that the heap of the C library retains.
//!
//! It has areas for up to eight threads a core, and each keeps what was freed in it. Sessions allocate much when they are opened,
//! on threads that change with the graph: after hours of changes a service held two to three times what it used.
#![expect(
    unsafe_code,
    reason = "the C library has no safe wrapper for the options of its heap, and for returning memory that nothing uses"
)]

/// Lets threads share areas of the heap: two, or one a core. Has to come before there are threads; a user who says otherwise by
/// `MALLOC_ARENA_MAX` has the last word.
pub fn limit_heap_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = i32::try_from(cores.max(2)).unwrap_or(i32::MAX);
        // SAFETY: it takes no pointer and sets a number that is read when a thread allocates first. It fails without effect.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, arenas);
        }
    }
}

/// Returns unused memory to the operating system when it is dropped: the last field of what was large.
#[derive(Debug)]
pub(super) struct ReturnsUnusedMemory;

impl Drop for ReturnsUnusedMemory {
    fn drop(&mut self) {
        return_unused_memory();
    }
}

/// Returns to the operating system what the heap holds and nothing uses.
pub fn return_unused_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, locks what it reads, and changes only memory that is free; any thread may call it.
    unsafe {
        libc::malloc_trim(0);
    }
}
