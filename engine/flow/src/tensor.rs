//! Tensors between the partitions of a model that is cut.

use std::sync::Arc;

/// What a tensor's elements are, as ONNX names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Element {
    /// 32 bit floating point.
    F32,
    /// 16 bit floating point (IEEE half).
    F16,
    /// 64 bit floating point.
    F64,
    /// Unsigned 8 bit integers.
    U8,
    /// Signed 8 bit integers.
    I8,
    /// Signed 32 bit integers.
    I32,
    /// Signed 64 bit integers.
    I64,
    /// One byte each, 0 or 1.
    Bool,
}

impl Element {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::F16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

/// A named block of numbers, little-endian, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the model.
    pub name: Arc<str>,
    /// What it holds.
    pub element: Element,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// `product(shape) * element.bytes()` bytes.
    pub data: Vec<u8>,
}
