//! Answers: outputs in JSON, or as bytes behind it.

use serde::Serialize;

use crate::{BYTES, FP32};

/// The outputs of a model for one request.
#[derive(Debug, Clone, PartialEq)]
pub struct InferResponse<'a> {
    /// Name of the model.
    pub model_name: &'a str,
    /// Version of the model.
    pub model_version: &'a str,
    /// The id of the request.
    pub id: Option<&'a str>,
    /// Outputs in the order in which they are sent.
    pub outputs: Vec<OutputTensor<'a>>,
}

/// An output with its elements.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputTensor<'a> {
    /// Name of the output.
    pub name: &'a str,
    /// Sizes of its dimensions.
    pub shape: Vec<u64>,
    /// Its elements, as many as the shape has.
    pub data: OutputData<'a>,
    /// True if its elements are sent as bytes rather than in JSON.
    pub binary: bool,
}

/// Elements of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputData<'a> {
    /// Elements of [`FP32`].
    Floats(Vec<f32>),
    /// Elements of [`BYTES`].
    Texts(Vec<&'a str>),
}

#[derive(Serialize)]
struct Response<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    outputs: Vec<Output<'a>>,
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a OutputData<'a>>,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

impl OutputData<'_> {
    fn datatype(&self) -> &'static str {
        match self {
            Self::Floats(_) => FP32,
            Self::Texts(_) => BYTES,
        }
    }

    fn binary_size(&self) -> usize {
        match self {
            Self::Floats(floats) => size_of_val(&**floats),
            Self::Texts(texts) => texts.iter().map(|text| 4 + text.len()).sum(),
        }
    }

    /// # Errors
    /// A text is longer than the protocol can say.
    fn write(&self, body: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Floats(floats) => body.extend(floats.iter().flat_map(|float| float.to_le_bytes())),
            Self::Texts(texts) => {
                for text in texts {
                    let length = u32::try_from(text.len()).map_err(|_| "a text is longer than 4 GiB")?;
                    body.extend(length.to_le_bytes());
                    body.extend(text.as_bytes());
                }
            }
        }
        Ok(())
    }
}

impl Serialize for OutputData<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Floats(floats) => floats.serialize(serializer),
            Self::Texts(texts) => texts.serialize(serializer),
        }
    }
}

/// Writes an answer; returns its body, and the length of its JSON where bytes may follow it.
///
/// # Errors
/// A text is longer than the protocol can say.
pub fn write_response(response: &InferResponse<'_>) -> Result<(Vec<u8>, Option<usize>), String> {
    let outputs = response.outputs.iter().map(|tensor| Output {
        name: tensor.name,
        datatype: tensor.data.datatype(),
        shape: &tensor.shape,
        parameters: tensor.binary.then(|| BinarySize {
            binary_data_size: tensor.data.binary_size(),
        }),
        data: (!tensor.binary).then_some(&tensor.data),
    });
    let json = Response {
        model_name: response.model_name,
        model_version: response.model_version,
        id: response.id,
        outputs: outputs.collect(),
    };
    let mut body = serde_json::to_vec(&json).map_err(|error| error.to_string())?;
    let header = body.len();
    let mut binary = response.outputs.iter().filter(|tensor| tensor.binary).peekable();
    let has_binary = binary.peek().is_some();
    binary.try_for_each(|tensor| tensor.data.write(&mut body))?;
    Ok((body, has_binary.then_some(header)))
}
