//! How a model is run on a GPU.

/// What runs a model on a GPU, and in which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuSettings {
    /// By what.
    pub provider: GpuProvider,
    /// In which numbers.
    pub precision: GpuPrecision,
    /// Whether the launches of a batch are recorded and replayed as one (CUDA graphs).
    pub graphs: bool,
}

/// The execution provider of a model on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuProvider {
    /// CUDA.
    #[default]
    Cuda,
    /// TensorRT, and CUDA for what it does not take.
    TensorRt,
}

/// In which numbers a model is computed on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuPrecision {
    /// Single precision, as on the CPU.
    #[default]
    Fp32,
    /// Products with a mantissa of ten bits.
    Tf32,
    /// Half precision; by TensorRT.
    Fp16,
}
