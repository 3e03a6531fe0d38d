//! Runs of a graph on named tensors, as partitions exchange them: any number of inputs, any element type that can be
//! sent.

use half::f16;
use half::slice::HalfFloatSliceExt;
use ort::session::SessionInputValue;
use ort::value::{DynValue, Outlet, PrimitiveTensorElementType, TensorElementType, TensorRef, ValueType};
use weir_flow::{Element, Tensor};

use super::{OrtSession, text};

/// An input or output with its element type and shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorPort {
    pub(crate) name: String,
    /// `None` for types that cannot be sent, such as text.
    pub(crate) element: Option<Element>,
    /// By dimension: its size if fixed, and its symbol, which may be empty. Empty if the runtime does not know the
    /// number of dimensions.
    pub(crate) dims: Vec<(Option<usize>, String)>,
}

impl TensorPort {
    fn of(outlet: &Outlet) -> Self {
        let (element, dims) = match outlet.dtype() {
            ValueType::Tensor {
                ty,
                shape,
                dimension_symbols,
            } => {
                let sizes = shape
                    .iter()
                    .map(|size| usize::try_from(*size).ok().filter(|size| *size > 0));
                let symbols = dimension_symbols.iter().cloned();
                (element(*ty), sizes.zip(symbols).collect())
            }
            _ => (None, Vec::new()),
        };
        Self {
            name: outlet.name().to_owned(),
            element,
            dims,
        }
    }
}

fn element(kind: TensorElementType) -> Option<Element> {
    Some(match kind {
        TensorElementType::Float32 => Element::F32,
        TensorElementType::Float16 => Element::F16,
        TensorElementType::Float64 => Element::F64,
        TensorElementType::Uint8 => Element::U8,
        TensorElementType::Int8 => Element::I8,
        TensorElementType::Int32 => Element::I32,
        TensorElementType::Int64 => Element::I64,
        TensorElementType::Bool => Element::Bool,
        _ => return None,
    })
}

impl OrtSession {
    pub(crate) fn input_ports(&self) -> Vec<TensorPort> {
        self.session.inputs().iter().map(TensorPort::of).collect()
    }

    pub(crate) fn output_ports(&self) -> Vec<TensorPort> {
        self.session.outputs().iter().map(TensorPort::of).collect()
    }

    /// Runs the graph on named tensors and returns its outputs; with `half`, those of type `F32` are converted to half
    /// precision. An input in half precision is converted if `F32` is expected.
    ///
    /// # Errors
    /// The runtime's error, or the problem of a tensor.
    pub(crate) fn run_tensors(
        &mut self,
        inputs: &[(&Tensor, Element)],
        half: bool,
    ) -> Result<Vec<Tensor>, String> {
        let input_data: Vec<InputData> = inputs
            .iter()
            .map(|(tensor, wanted)| input_data(tensor, *wanted))
            .collect::<Result<_, _>>()?;
        let mut fed: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(input_data.len());
        for ((tensor, _), input_data) in inputs.iter().zip(&input_data) {
            fed.push((&tensor.name, input_data.value(&tensor.shape)?));
        }
        let names: Vec<String> = self
            .session
            .outputs()
            .iter()
            .map(|outlet| outlet.name().to_owned())
            .collect();
        let outputs = self.session.run(fed).map_err(text)?;
        names
            .into_iter()
            .enumerate()
            .map(|(index, name)| output_tensor(name, &outputs[index], half))
            .collect()
    }
}

/// Elements of an input, aligned for the runtime.
enum InputData {
    F32(Vec<f32>),
    F16(Vec<f16>),
    F64(Vec<f64>),
    U8(Vec<u8>),
    I8(Vec<i8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
}

impl InputData {
    fn value(&self, shape: &[usize]) -> Result<SessionInputValue<'_>, String> {
        Ok(match self {
            Self::F32(data) => view(shape, data)?,
            Self::F16(data) => view(shape, data)?,
            Self::F64(data) => view(shape, data)?,
            Self::U8(data) => view(shape, data)?,
            Self::I8(data) => view(shape, data)?,
            Self::I32(data) => view(shape, data)?,
            Self::I64(data) => view(shape, data)?,
            Self::Bool(data) => view(shape, data)?,
        })
    }
}

fn view<'a, T: PrimitiveTensorElementType + Clone + std::fmt::Debug + 'static>(
    shape: &[usize],
    data: &'a [T],
) -> Result<SessionInputValue<'a>, String> {
    let view = TensorRef::from_array_view((shape.to_vec(), data)).map_err(text)?;
    Ok(view.into())
}

fn input_data(tensor: &Tensor, wanted: Element) -> Result<InputData, String> {
    let Tensor {
        name,
        element,
        shape,
        data,
    } = tensor;
    let count = shape.iter().try_fold(1_usize, |all, size| all.checked_mul(*size));
    if count.and_then(|count| count.checked_mul(element.bytes())) != Some(data.len()) {
        return Err(format!(
            "tensor {name} of {element:?} and shape {shape:?} has {} bytes",
            data.len()
        ));
    }
    if *element != wanted && (*element, wanted) != (Element::F16, Element::F32) {
        return Err(format!(
            "tensor {name} holds {element:?}, the partition expects {wanted:?}"
        ));
    }
    Ok(match wanted {
        Element::F32 => InputData::F32(floats(tensor)),
        Element::F16 => InputData::F16(numbers(data, |bytes| f16::from_le_bytes(*bytes))),
        Element::F64 => InputData::F64(numbers(data, |bytes| f64::from_le_bytes(*bytes))),
        Element::U8 => InputData::U8(data.clone()),
        Element::I8 => InputData::I8(data.iter().map(|byte| byte.cast_signed()).collect()),
        Element::I32 => InputData::I32(numbers(data, |bytes| i32::from_le_bytes(*bytes))),
        Element::I64 => InputData::I64(numbers(data, |bytes| i64::from_le_bytes(*bytes))),
        Element::Bool => InputData::Bool(data.iter().map(|byte| *byte != 0).collect()),
        _ => {
            return Err(format!(
                "tensor {name} holds {element:?}, which no partition takes"
            ));
        }
    })
}

fn numbers<const N: usize, T>(data: &[u8], read: impl Fn(&[u8; N]) -> T) -> Vec<T> {
    data.as_chunks::<N>().0.iter().map(read).collect()
}

/// Elements of a tensor of floats in single or half precision; empty for other types.
pub(crate) fn floats(tensor: &Tensor) -> Vec<f32> {
    match tensor.element {
        Element::F32 => numbers(&tensor.data, |bytes| f32::from_le_bytes(*bytes)),
        Element::F16 => {
            let halves = numbers(&tensor.data, |bytes| f16::from_le_bytes(*bytes));
            let mut floats = vec![0.0; halves.len()];
            halves.convert_to_f32_slice(&mut floats);
            floats
        }
        _ => Vec::new(),
    }
}

/// The tensor in half precision if it is `F32`, else unchanged.
pub(crate) fn halved(tensor: Tensor) -> Tensor {
    if tensor.element != Element::F32 {
        return tensor;
    }
    let data = half_bytes(&floats(&tensor));
    Tensor {
        element: Element::F16,
        data,
        ..tensor
    }
}

/// Bytes of floats, little-endian.
pub(crate) fn float_bytes(floats: &[f32]) -> Vec<u8> {
    bytes(floats, |float| float.to_le_bytes())
}

fn half_bytes(floats: &[f32]) -> Vec<u8> {
    let mut halves = vec![f16::ZERO; floats.len()];
    halves.convert_from_f32_slice(floats);
    bytes(&halves, |half| half.to_le_bytes())
}

fn bytes<const N: usize, T>(numbers: &[T], write: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    let mut out = vec![0; numbers.len() * N];
    for (bytes, number) in out.as_chunks_mut::<N>().0.iter_mut().zip(numbers) {
        *bytes = write(number);
    }
    out
}

fn output_tensor(name: String, value: &DynValue, half: bool) -> Result<Tensor, String> {
    let ValueType::Tensor { ty, .. } = value.dtype() else {
        return Err(format!("output {name} is no tensor"));
    };
    let kind = element(*ty).ok_or_else(|| format!("output {name} holds {ty}, which cannot cross"))?;
    let (shape, element, data) = match kind {
        Element::F32 => {
            let (shape, data) = value.try_extract_tensor::<f32>().map_err(text)?;
            if half {
                (&**shape, Element::F16, half_bytes(data))
            } else {
                (&**shape, kind, float_bytes(data))
            }
        }
        Element::F16 => read::<f16, 2>(value, kind, |number| number.to_le_bytes())?,
        Element::F64 => read::<f64, 8>(value, kind, |number| number.to_le_bytes())?,
        Element::U8 => read::<u8, 1>(value, kind, |number| [*number])?,
        Element::I8 => read::<i8, 1>(value, kind, |number| number.to_le_bytes())?,
        Element::I32 => read::<i32, 4>(value, kind, |number| number.to_le_bytes())?,
        Element::I64 => read::<i64, 8>(value, kind, |number| number.to_le_bytes())?,
        Element::Bool => read::<bool, 1>(value, kind, |number| [u8::from(*number)])?,
        _ => return Err(format!("output {name} holds {ty}, which cannot cross")),
    };
    Ok(Tensor {
        name: name.into(),
        element,
        shape: shape.iter().map(|size| size.unsigned_abs() as usize).collect(),
        data,
    })
}

fn read<'a, T: PrimitiveTensorElementType + 'a, const N: usize>(
    value: &'a DynValue,
    element: Element,
    write: impl Fn(&T) -> [u8; N],
) -> Result<(&'a [i64], Element, Vec<u8>), String> {
    let (shape, data) = value.try_extract_tensor::<T>().map_err(text)?;
    Ok((shape, element, bytes(data, write)))
}
