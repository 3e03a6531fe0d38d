//! Pictures in the memory of a GPU: a pool of buffers that is within a budget, and, in builds with CUDA, what copies pictures into
//! them and launches the kernel of `pixels/preprocess.cu`.
//!
//! A picture that the GPU decodes is copied out of the decoder's surface at once, since a decoder has few; its samples come to the
//! memory of the host where they are asked for there first.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(any(test, feature = "cuda"))]
mod pool;

use serde::Serialize;

/// NV12 planes of a decoder's surface in the memory of a GPU.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "cuda"),
    expect(
        dead_code,
        reason = "a build without CUDA copies surfaces to the host by FFmpeg"
    )
)]
pub(crate) struct SurfacePlanes {
    /// Addresses of luma and of pairs of chroma.
    pub(crate) addresses: [u64; 2],
    /// Bytes from one row to the next.
    pub(crate) pitches: [usize; 2],
    /// Size in pixels.
    pub(crate) size: (u32, u32),
}

/// Name and memory of a GPU, as reported by its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceFacts {
    /// Name of the GPU model.
    pub name: String,
    /// Total memory in bytes.
    pub memory_bytes: u64,
    /// Free memory in bytes at the time of the query.
    pub free_bytes: u64,
}

/// Asks the driver for name and memory of the GPU `ordinal`.
///
/// # Errors
/// Why it cannot be used: by this build, or on this machine.
pub fn device_facts(ordinal: u32) -> Result<DeviceFacts, String> {
    #[cfg(feature = "cuda")]
    {
        CudaDevice::facts(ordinal)
    }
    #[cfg(not(feature = "cuda"))]
    {
        Err(format!(
            "device cuda:{ordinal} needs a build with the cargo feature `cuda`; this one has none"
        ))
    }
}

#[cfg(feature = "cuda")]
pub(crate) use cuda::{CudaDevice, DeviceRoom, PlacedItem, sleep_while_waiting};
