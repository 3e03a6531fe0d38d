//! The client's side: requests with one input of floats, metadata of models, and outputs of floats.

use serde::{Deserialize, Serialize};

use crate::body::{element_count, shown, split};
use crate::{FP32, TensorMetadata};

/// Metadata of a model, from `GET /v2/models/NAME`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Metadata {
    /// Inputs of the model.
    #[serde(default)]
    pub inputs: Vec<TensorMetadata>,
    /// Outputs of the model.
    #[serde(default)]
    pub outputs: Vec<TensorMetadata>,
}

#[derive(Serialize)]
struct Request<'a> {
    inputs: [RequestInput<'a>; 1],
    outputs: Vec<RequestOutput<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Timeout>,
}

/// After which the server need not begin, in microseconds.
#[derive(Serialize)]
struct Timeout {
    timeout: u64,
}

#[derive(Serialize)]
struct RequestInput<'a> {
    name: &'a str,
    shape: &'a [i64],
    datatype: &'static str,
    parameters: BinarySize,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

#[derive(Serialize)]
struct RequestOutput<'a> {
    name: &'a str,
    parameters: BinaryData,
}

#[derive(Serialize)]
struct BinaryData {
    binary_data: bool,
}

/// A tensor to send.
pub struct SentTensor<'a> {
    /// Name of the input.
    pub name: &'a str,
    /// Sizes of its dimensions.
    pub shape: &'a [i64],
    /// Elements of the tensor, row by row.
    pub data: &'a [f32],
}

/// Writes a request for `outputs` into `body`, which is emptied first; returns the length of its header.
///
/// # Errors
/// A name that is no JSON text.
pub fn write_request(
    input: &SentTensor<'_>,
    outputs: &[String],
    timeout_us: Option<u64>,
    body: &mut Vec<u8>,
) -> Result<usize, String> {
    let request = Request {
        inputs: [RequestInput {
            name: input.name,
            shape: input.shape,
            datatype: FP32,
            parameters: BinarySize {
                binary_data_size: size_of_val(input.data),
            },
        }],
        outputs: outputs
            .iter()
            .map(|name| RequestOutput {
                name,
                parameters: BinaryData { binary_data: true },
            })
            .collect(),
        parameters: timeout_us.map(|timeout| Timeout { timeout }),
    };
    body.clear();
    serde_json::to_writer(&mut *body, &request).map_err(|error| error.to_string())?;
    let header = body.len();
    body.resize(header + size_of_val(input.data), 0);
    let (places, _) = body[header..].as_chunks_mut();
    for (place, number) in places.iter_mut().zip(input.data) {
        *place = number.to_le_bytes();
    }
    Ok(header)
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    outputs: Vec<AnswerOutput>,
}

#[derive(Deserialize)]
struct AnswerOutput {
    name: String,
    datatype: String,
    shape: Vec<u64>,
    #[serde(default)]
    parameters: AnswerParameters,
    #[serde(default)]
    data: Option<Vec<f32>>,
}

#[derive(Default, Deserialize)]
struct AnswerParameters {
    #[serde(default)]
    binary_data_size: Option<usize>,
}

/// An output that was received.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedTensor {
    /// Sizes of its dimensions.
    pub shape: Vec<i64>,
    /// Its elements, as many as the shape has.
    pub data: Vec<f32>,
}

/// The outputs of an answer, in the order of `names`. `header` is the length of its JSON; all of it where it has no bytes behind.
///
/// # Errors
/// What the answer lacks, or in what it contradicts itself.
pub fn read_answer(
    body: &[u8],
    header: Option<usize>,
    names: &[String],
) -> Result<Vec<ReceivedTensor>, String> {
    let (json, mut bytes) = split(body, header).map_err(|reason| format!("its answer {reason}"))?;
    let answer: Answer =
        serde_json::from_slice(json).map_err(|error| format!("its answer cannot be read: {error}"))?;
    let mut received: Vec<Option<ReceivedTensor>> = vec![None; names.len()];
    for output in answer.outputs {
        let data = match output.parameters.binary_data_size {
            Some(size) => {
                let own = bytes
                    .take(size)
                    .ok_or_else(|| format!("its answer ends within the bytes of output {}", output.name))?;
                Numbers::Bytes(own)
            }
            None => Numbers::Listed(output.data.unwrap_or_default()),
        };
        let Some(place) = names.iter().position(|name| *name == output.name) else {
            continue;
        };
        if output.datatype != FP32 {
            return Err(format!(
                "output {} holds {}, not {FP32}",
                output.name, output.datatype
            ));
        }
        let data = data.read();
        let count = element_count(&output.shape);
        let shape: Option<Vec<i64>> = output
            .shape
            .iter()
            .map(|size| i64::try_from(*size).ok())
            .collect();
        let (Some(data), Some(shape)) = (data, shape) else {
            return Err(format!("output {} is not a whole number of floats", output.name));
        };
        if count != Some(data.len() as u64) {
            return Err(format!(
                "output {} of shape {:?} has {} numbers",
                output.name,
                output.shape,
                data.len()
            ));
        }
        received[place] = Some(ReceivedTensor { shape, data });
    }
    let named = received.into_iter().zip(names);
    named
        .map(|(tensor, name)| tensor.ok_or_else(|| format!("its answer lacks the output {name}")))
        .collect()
}

enum Numbers<'a> {
    Bytes(&'a [u8]),
    Listed(Vec<f32>),
}

impl Numbers<'_> {
    fn read(self) -> Option<Vec<f32>> {
        match self {
            Self::Bytes(bytes) => {
                let (numbers, rest) = bytes.as_chunks::<4>();
                let read = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                rest.is_empty().then_some(read)
            }
            Self::Listed(numbers) => Some(numbers),
        }
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// Why a server refused, in its own words: the first line of them, shortened.
#[must_use]
pub fn refusal(body: &[u8]) -> Option<String> {
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    Some(shown(&refusal.error)).filter(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_request_has_its_bytes_behind_its_header() {
        let mut body = vec![1, 2, 3];
        let input = SentTensor {
            name: "images",
            shape: &[1, 2],
            data: &[1.0, -2.5],
        };
        let header = write_request(&input, &names(&["boxes"]), Some(1_500), &mut body).expect("written");
        let json: serde_json::Value = serde_json::from_slice(&body[..header]).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({
                "inputs": [{"name": "images", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}],
                "outputs": [{"name": "boxes", "parameters": {"binary_data": true}}],
                "parameters": {"timeout": 1500}
            })
        );
        assert_eq!(body[header..], [0, 0, 128, 63, 0, 0, 32, 192]);
    }

    #[test]
    fn outputs_come_in_the_order_that_is_asked_for() {
        let json = br#"{"outputs":[
            {"name":"b","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}},
            {"name":"unasked","datatype":"INT64","shape":[1],"parameters":{"binary_data_size":8}},
            {"name":"a","datatype":"FP32","shape":[1,2],"data":[3.0,4.0]},
            {"name":"c","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]}"#;
        let mut body = json.to_vec();
        body.extend(1.0_f32.to_le_bytes());
        body.extend([9; 8]);
        body.extend([5.0_f32.to_le_bytes(), 6.0_f32.to_le_bytes()].concat());
        let read = read_answer(&body, Some(json.len()), &names(&["a", "b", "c"])).expect("read");
        let data: Vec<&[f32]> = read.iter().map(|tensor| &*tensor.data).collect();
        assert_eq!(data, [&[3.0, 4.0][..], &[1.0], &[5.0, 6.0]]);
        assert_eq!(read[0].shape, [1, 2]);
    }

    #[test]
    fn an_answer_that_contradicts_itself_is_refused_in_a_word() {
        let output = |rest: &str| format!(r#"{{"outputs":[{{"name":"a",{rest}}}]}}"#).into_bytes();
        let cases = [
            (
                output(r#""datatype":"INT64","shape":[1],"data":[1]"#),
                "output a holds INT64",
            ),
            (
                output(r#""datatype":"FP32","shape":[3],"data":[1]"#),
                "has 1 numbers",
            ),
            (
                output(r#""datatype":"FP32","shape":[4611686018427387904,8],"data":[1]"#),
                "has 1 numbers",
            ),
            (
                output(r#""datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}"#),
                "ends within",
            ),
            (br#"{"outputs":[]}"#.to_vec(), "lacks the output a"),
            (b"<html>".to_vec(), "cannot be read"),
        ];
        for (body, expected) in cases {
            let error = read_answer(&body, None, &names(&["a"])).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        let error = read_answer(b"{}", Some(7), &names(&["a"])).expect_err("short");
        assert!(error.contains("its header alone 7"), "{error}");
    }

    #[test]
    fn a_refusal_is_one_printable_line() {
        let body = br#"{"error":"no such model: \u001b[31mx\nat line 7"}"#;
        assert_eq!(refusal(body).as_deref(), Some("no such model: [31mx"));
        assert_eq!(refusal(b"oops"), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200), header in proptest::option::of(0_usize..300)) {
            let _ = read_answer(&body, header, &["a".to_owned()]);
        }
    }
}
