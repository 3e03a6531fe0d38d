//! Settings of a model on a GPU.

/// Execution provider and precision of a model on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuSettings {
    /// Execution provider that ONNX Runtime uses.
    pub provider: GpuProvider,
    /// Precision of the computation.
    pub precision: GpuPrecision,
    /// Whether the launches of a batch are recorded and replayed as one (CUDA graphs).
    pub graphs: bool,
}

/// The execution provider of a model on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuProvider {
    /// CUDA provider of ONNX Runtime.
    #[default]
    Cuda,
    /// TensorRT provider of ONNX Runtime; operators that it does not support run on CUDA.
    TensorRt,
}

/// Precision of the computation of a model on a GPU.
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
