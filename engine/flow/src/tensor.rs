//! Tensors that partitions of a model exchange.

use std::sync::Arc;

/// Element type of a tensor, a subset of ONNX's.
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
    /// One byte per element, 0 or 1.
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

/// A named tensor; elements are little-endian and row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name in the model.
    pub name: Arc<str>,
    /// Type of the elements.
    pub element: Element,
    /// Sizes of the dimensions, batch first.
    pub shape: Vec<usize>,
    /// `product(shape) * element.bytes()` bytes.
    pub data: Vec<u8>,
}

impl Tensor {
    /// A tensor of zeros.
    #[must_use]
    pub fn zeros(name: &str, element: Element, shape: Vec<usize>) -> Self {
        Self {
            name: name.into(),
            element,
            data: vec![0; shape.iter().product::<usize>() * element.bytes()],
            shape,
        }
    }
}
