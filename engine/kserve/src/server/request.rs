//! Requests: JSON and bytes that are read within bounds.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::data::{Elements, MAX_DIMENSIONS};
use crate::body::{Tail, element_count, shown, split};
use crate::{BYTES, UINT8};

/// Inputs or outputs of a request; models of pictures have one and four.
const MAX_TENSORS: usize = 16;

/// Elements of a tensor of [`BYTES`].
const MAX_STRINGS: u64 = 16;

/// Length of an id in bytes: it is sent back.
const MAX_ID_BYTES: usize = 1_024;

/// A request, as far as it is read; its bytes are those of the body.
#[derive(Debug, Clone, PartialEq)]
pub struct InferRequest<'a> {
    /// Sent back with the answer.
    pub id: Option<String>,
    /// Inputs in the order of the request.
    pub inputs: Vec<InputTensor<'a>>,
    /// Outputs that are asked for; empty: all of the model, as `binary_output` says.
    pub outputs: Vec<RequestedOutput>,
    /// True if outputs that do not say otherwise are answered as bytes (`binary_data_output`).
    pub binary_output: bool,
}

/// An input with its elements.
#[derive(Debug, Clone, PartialEq)]
pub struct InputTensor<'a> {
    /// Name of the input.
    pub name: String,
    /// Datatype of its elements.
    pub datatype: String,
    /// Sizes of its dimensions.
    pub shape: Vec<u64>,
    /// Elements of the tensor, as JSON or as bytes.
    pub data: InputData<'a>,
}

/// Elements of an input.
#[derive(Debug, Clone, PartialEq)]
pub enum InputData<'a> {
    /// Elements of [`UINT8`], as many as the shape has.
    Numbers(Cow<'a, [u8]>),
    /// Elements of [`BYTES`] that were sent as bytes, as many as the shape has.
    Strings(Vec<&'a [u8]>),
    /// Elements of [`BYTES`] in the JSON, which are texts.
    Texts,
    /// Elements of a datatype that is not read.
    Unread,
}

/// An output that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Name of the output.
    pub name: String,
    /// True if it is answered as bytes.
    pub binary: bool,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Option<String>,
    #[serde(deserialize_with = "tensors")]
    inputs: Vec<Input>,
    // Some clients write keys without a value as null.
    outputs: Option<Tensors<Output>>,
    parameters: Option<RequestParameters>,
}

/// At most [`MAX_TENSORS`] of a list.
struct Tensors<T>(Vec<T>);

/// Others are for schedulers of other servers: they change no output.
#[derive(Default, Deserialize)]
struct RequestParameters {
    #[serde(default)]
    binary_data_output: bool,
}

#[derive(Deserialize)]
struct Input {
    name: String,
    datatype: String,
    #[serde(deserialize_with = "sizes")]
    shape: Vec<u64>,
    parameters: Option<InputParameters>,
    #[serde(default)]
    data: Option<Elements>,
}

/// Others, such as shared memory, would be where the elements are.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputParameters {
    #[serde(default)]
    binary_data_size: Option<usize>,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    parameters: Option<OutputParameters>,
}

/// Others, such as `classification`, would change what is answered.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputParameters {
    #[serde(default)]
    binary_data: Option<bool>,
}

/// Reads a request, of which the first `header` bytes are JSON; without a length all of it is.
///
/// # Errors
/// It is none, exceeds a bound, or contradicts itself, in words for its client.
pub fn read_request(body: &[u8], header: Option<usize>) -> Result<InferRequest<'_>, String> {
    let (json, mut tail) = split(body, header).map_err(|reason| format!("the request {reason}"))?;
    let request: Request = serde_json::from_slice(json)
        .map_err(|error| shown(&format!("the request cannot be read: {error}")))?;
    if request.id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
        return Err(format!("the id is longer than {MAX_ID_BYTES} bytes"));
    }
    let binary_output = request.parameters.unwrap_or_default().binary_data_output;
    let inputs = request.inputs.into_iter();
    let inputs = inputs
        .map(|input| input.read(&mut tail))
        .collect::<Result<_, _>>()?;
    if tail.len() > 0 {
        return Err(format!("{} bytes follow the last input", tail.len()));
    }
    let outputs = request.outputs.map_or_else(Vec::new, |outputs| outputs.0);
    let outputs = outputs.into_iter().map(|output| RequestedOutput {
        name: output.name,
        binary: output
            .parameters
            .unwrap_or_default()
            .binary_data
            .unwrap_or(binary_output),
    });
    Ok(InferRequest {
        id: request.id,
        inputs,
        outputs: outputs.collect(),
        binary_output,
    })
}

impl Input {
    /// With its elements: those of the JSON, or the next bytes behind it.
    fn read<'a>(self, tail: &mut Tail<'a>) -> Result<InputTensor<'a>, String> {
        let about = format!("input {}", shown(&self.name));
        let count = element_count(&self.shape).ok_or_else(|| {
            format!(
                "{about} has the shape {:?}, which no memory has room for",
                self.shape
            )
        })?;
        let binary_data_size = self.parameters.unwrap_or_default().binary_data_size;
        let data = match (binary_data_size, self.data) {
            (Some(_), Some(_)) => return Err(format!("{about} has `data` and `binary_data_size`")),
            (None, None) => return Err(format!("{about} has neither `data` nor `binary_data_size`")),
            (Some(size), None) => {
                let bytes = tail.take(size).ok_or_else(|| {
                    format!("{about} has fewer bytes than its `binary_data_size` of {size}")
                })?;
                match &*self.datatype {
                    UINT8 => InputData::Numbers(Cow::Borrowed(bytes)),
                    BYTES => InputData::Strings(
                        strings(bytes, count).map_err(|reason| format!("{about} {reason}"))?,
                    ),
                    _ => InputData::Unread,
                }
            }
            (None, Some(elements)) => match &*self.datatype {
                UINT8 if elements.has_others => {
                    return Err(format!(
                        "{about} has an element that is no {UINT8}: a number from 0 to 255"
                    ));
                }
                UINT8 if !elements.fits(&self.shape) => {
                    return Err(format!(
                        "{about} has lists that are not those of its shape {:?}",
                        self.shape
                    ));
                }
                UINT8 => InputData::Numbers(Cow::Owned(elements.bytes)),
                BYTES => InputData::Texts,
                _ => InputData::Unread,
            },
        };
        if let InputData::Numbers(numbers) = &data
            && numbers.len() as u64 != count
        {
            return Err(format!(
                "{about} has {} elements, its shape {:?} has {count}",
                numbers.len(),
                self.shape
            ));
        }
        Ok(InputTensor {
            name: self.name,
            datatype: self.datatype,
            shape: self.shape,
            data,
        })
    }
}

/// Elements of [`BYTES`], of which there are `count`.
fn strings(mut bytes: &[u8], count: u64) -> Result<Vec<&[u8]>, String> {
    if count > MAX_STRINGS {
        return Err(format!("has {count} elements of {BYTES}; {MAX_STRINGS} are read"));
    }
    let mut read = Vec::new();
    for number in 1..=count {
        let ends = || format!("ends within element {number}");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(ends)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| ends())?;
        let (element, rest) = rest.split_at_checked(length).ok_or_else(ends)?;
        read.push(element);
        bytes = rest;
    }
    if bytes.is_empty() {
        Ok(read)
    } else {
        Err(format!("has {} bytes behind its last element", bytes.len()))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tensors<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tensors(deserializer).map(Self)
    }
}

/// Reads at most [`MAX_TENSORS`] of a list.
fn tensors<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Bounded::<T, MAX_TENSORS>(PhantomData))
}

/// At most [`MAX_DIMENSIONS`] sizes.
fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    deserializer.deserialize_seq(Bounded::<u64, MAX_DIMENSIONS>(PhantomData))
}

/// A list of at most `MAX` elements.
struct Bounded<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Bounded<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut read = Vec::new();
        while let Some(element) = list.next_element()? {
            if read.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            read.push(element);
        }
        Ok(read)
    }
}
