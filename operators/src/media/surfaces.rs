//! Copies of a decoder's surfaces in the pool of its GPU, within what frames may take of its memory. Where the pool is full, and where
//! the GPU cannot be used for that, pictures come to the memory of the host, and the log says why, once.

use std::sync::Arc;

use weir_flow::Planes;

use crate::gpu::{CudaDevice, SurfacePlanes};

/// Maximum bytes of decoded frames on one GPU, over all streams: about 330 frames of 1080p.
const FRAME_BYTES: u64 = 1 << 30;

/// Copies surfaces of one source.
pub(super) struct Surfaces {
    device: Result<Arc<CudaDevice>, String>,
    warned: bool,
}

impl Surfaces {
    pub(super) fn new(gpu: u32) -> Self {
        Self {
            device: CudaDevice::open(gpu, FRAME_BYTES),
            warned: false,
        }
    }

    /// A copy of a surface, which is free again when this returns; `None` where it is to come to the host.
    pub(super) fn copied(&mut self, surface: &SurfacePlanes) -> Option<Arc<dyn Planes>> {
        let copied = self
            .device
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|device| device.picture(surface));
        match copied {
            Ok(planes) => Some(planes),
            Err(reason) => {
                if !std::mem::replace(&mut self.warned, true) {
                    tracing::warn!("frames that the GPU decodes are copied to the host: {reason}");
                }
                None
            }
        }
    }
}
