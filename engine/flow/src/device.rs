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
