//! The device that a session is opened on.

/// Device of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// One CPU core, one intra-op thread.
    Cpu,
    /// CUDA GPU with this ordinal.
    Cuda(u32),
    /// A model server, by its place among those of the model.
    Server(u32),
}

/// Decoder of a video stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VideoDecoder {
    /// FFmpeg on the CPU.
    #[default]
    Cpu,
    /// The first device that this machine has, of CUDA, Quick Sync and VAAPI; the CPU where it has none.
    Auto,
    /// CUDA GPU with this ordinal.
    Cuda(u32),
    /// Quick Sync of an Intel GPU.
    Qsv,
    /// The GPU of a render node, by VAAPI.
    Vaapi,
}

impl VideoDecoder {
    /// The decoder that a graph calls `name`, such as `cuda:0`; `None` where there is no such name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cpu" => Some(Self::Cpu),
            "auto" => Some(Self::Auto),
            "qsv" => Some(Self::Qsv),
            "vaapi" => Some(Self::Vaapi),
            _ => name.strip_prefix("cuda:")?.parse().ok().map(Self::Cuda),
        }
    }
}
