//! The KServe v2 protocol for single pictures: a module of the graph that takes frames is a model, of which the input is a picture and
//! the outputs are the objects in it. A picture passes the modules as one of `POST /api/infer` does, by the policy in force; there are no
//! raw tensors of ONNX models.

use std::sync::Arc;

use axum::Json;
use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::SemaphorePermit;
use weir_kserve::server::{
    InferResponse, InputData, InputTensor, ModelMetadata, OutputData, OutputTensor, ServerMetadata,
    read_request, write_response,
};
use weir_kserve::{BYTES, FP32, HEADER_LENGTH, TensorMetadata, UINT8};

use crate::error::{ApiError, Refusal};
use crate::infer::{
    MAX_FORM_BYTES, Picture, PictureAnswer, PictureInput, PictureRequest, check_encoding, discard, pass,
};
use crate::requests::{Api, engine_failed};
use crate::routes::KServeOperation;

/// Name of the input of every model.
const INPUT: &str = "image";

/// The only version of a model.
const VERSION: &str = "1";

/// Longest side of a picture in pixels, that of a JPEG.
const MAX_SIDE: u64 = 65_535;

/// Models that an error names.
const MAX_NAMED: usize = 20;

const SERVER: ServerMetadata = ServerMetadata {
    name: "weir",
    version: env!("CARGO_PKG_VERSION"),
    extensions: &["binary_tensor_data"],
};

/// An output of every model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Left, top, right and bottom edges in pixels, a row for each object.
    Boxes,
    Scores,
    /// Names of classes.
    Labels,
    /// The event line.
    Objects,
}

const OUTPUTS: [Output; 4] = [Output::Boxes, Output::Scores, Output::Labels, Output::Objects];

/// A request for the objects of a picture, as it was read.
struct Asked {
    id: Option<String>,
    picture: Picture,
    /// Outputs that are answered, each as bytes or in JSON.
    outputs: Vec<(Output, bool)>,
}

impl Output {
    fn name(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::Scores => "scores",
            Self::Labels => "labels",
            Self::Objects => "objects",
        }
    }

    fn metadata(self) -> TensorMetadata {
        let (datatype, shape) = match self {
            Self::Boxes => (FP32, vec![-1, 4]),
            Self::Scores => (FP32, vec![-1]),
            Self::Labels => (BYTES, vec![-1]),
            Self::Objects => (BYTES, vec![1]),
        };
        TensorMetadata {
            name: self.name().to_owned(),
            datatype: datatype.to_owned(),
            shape,
        }
    }

    fn tensor(self, answer: &PictureAnswer, binary: bool) -> OutputTensor<'_> {
        let objects = answer.objects.iter();
        let count = answer.objects.len() as u64;
        let (shape, data) = match self {
            Self::Boxes => {
                let edges = objects.flat_map(|object| object.corners);
                (vec![count, 4], OutputData::Floats(edges.collect()))
            }
            Self::Scores => {
                let scores = objects.map(|object| object.score);
                (vec![count], OutputData::Floats(scores.collect()))
            }
            Self::Labels => {
                let labels = objects.map(|object| &*object.class);
                (vec![count], OutputData::Texts(labels.collect()))
            }
            Self::Objects => (vec![1], OutputData::Texts(vec![answer.line.as_str()])),
        };
        OutputTensor {
            name: self.name(),
            shape,
            data,
            binary,
        }
    }
}

/// Answers a request of a client that may ask. Errors have no hint beside their text: clients of the protocol read `error` alone.
pub(crate) async fn answer(
    api: Arc<Api>,
    operation: KServeOperation,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    match operation {
        KServeOperation::Server => Ok(Json(SERVER).into_response()),
        KServeOperation::ServerLive => Ok(StatusCode::OK.into_response()),
        KServeOperation::ServerReady => ready(api, None).await,
        KServeOperation::Model => {
            let name = model(&api, &mut parts).await?;
            Ok(Json(metadata(name)).into_response())
        }
        KServeOperation::ModelReady => {
            let name = model(&api, &mut parts).await?;
            ready(api, Some(name)).await
        }
        KServeOperation::Infer => {
            let (name, header, _place) = match admit(&api, &mut parts).await {
                Ok(admitted) => admitted,
                Err(error) => {
                    discard(body).await;
                    return Err(error);
                }
            };
            let body = to_bytes(body, MAX_FORM_BYTES).await.map_err(|_| {
                let what = format!("the request is cut off, or longer than {MAX_FORM_BYTES} bytes");
                ApiError::with_status(StatusCode::PAYLOAD_TOO_LARGE, what)
                    .hint("send larger pictures as JPEG files, by BYTES")
            })?;
            infer(&api, &name, header, body).await
        }
    }
}

/// Takes a place for a picture; returns the name of its model and the length of the JSON.
///
/// # Errors
/// The headers are wrong, there is no such model, or all places are taken.
async fn admit<'a>(
    api: &'a Arc<Api>,
    parts: &mut Parts,
) -> Result<(String, Option<usize>, SemaphorePermit<'a>), ApiError> {
    check_encoding(&parts.headers)?;
    let header = header_length(&parts.headers)?;
    let name = model(api, parts).await?;
    Ok((name, header, api.pictures.take()?))
}

/// The model that a path names.
///
/// # Errors
/// There is none of that name and version.
async fn model(api: &Arc<Api>, parts: &mut Parts) -> Result<String, ApiError> {
    let named = Path::<Vec<(String, String)>>::from_request_parts(parts, &()).await;
    let Path(named) = named
        .map_err(|error| ApiError::new(Refusal::NotFound, format!("there is no such model: {error}")))?;
    let value = |key: &str| {
        named
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value)
    };
    let name = value("name").cloned().unwrap_or_default();
    let models = models(api).await?;
    if !models.contains(&name) {
        let error = ApiError::new(Refusal::NotFound, format!("there is no model {name}"));
        return Err(error.hint(known(&models)));
    }
    match value("version") {
        Some(version) if version != VERSION => {
            let what = format!("the model {name} has no version {version}");
            Err(ApiError::new(Refusal::NotFound, what).hint(format!("its version is {VERSION}")))
        }
        _ => Ok(name),
    }
}

/// The models that there are, in words.
fn known(models: &[String]) -> String {
    if models.is_empty() {
        return "no module of the graph takes frames".to_owned();
    }
    let named: Vec<&str> = models.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = models.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "models are the modules of the graph that take frames: {}{more}",
        named.join(", ")
    )
}

async fn models(api: &Arc<Api>) -> Result<Vec<String>, ApiError> {
    let backend = Arc::clone(&api.backend);
    let models = tokio::task::spawn_blocking(move || backend.models());
    models.await.map_err(engine_failed)?
}

fn metadata(name: String) -> ModelMetadata {
    let input = TensorMetadata {
        name: INPUT.to_owned(),
        datatype: UINT8.to_owned(),
        shape: vec![1, -1, -1, 3],
    };
    ModelMetadata {
        name,
        versions: vec![VERSION.to_owned()],
        platform: "weir",
        inputs: vec![input],
        outputs: OUTPUTS.map(Output::metadata).to_vec(),
    }
}

/// Answers with an empty body if pictures can pass the model, or all models.
///
/// # Errors
/// They cannot, with the reasons.
async fn ready(api: Arc<Api>, name: Option<String>) -> Result<Response, ApiError> {
    let trouble = tokio::task::spawn_blocking(move || {
        let names = match name {
            Some(name) => vec![name],
            None => api.backend.models()?,
        };
        let trouble = names.iter().filter_map(|name| api.backend.model_trouble(name));
        Ok::<_, ApiError>(trouble.collect::<Vec<String>>())
    });
    let trouble = trouble.await.map_err(engine_failed)??;
    if trouble.is_empty() {
        Ok(StatusCode::OK.into_response())
    } else {
        Err(ApiError::new(Refusal::Unavailable, trouble.join("; ")))
    }
}

/// Length of the JSON of a request whose tensors follow it.
///
/// # Errors
/// The header is no number.
fn header_length(headers: &HeaderMap) -> Result<Option<usize>, ApiError> {
    let Some(value) = headers.get(HEADER_LENGTH) else {
        return Ok(None);
    };
    let length = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let wrong = || {
        ApiError::new(
            Refusal::Invalid,
            format!("the header {HEADER_LENGTH} is no number of bytes"),
        )
    };
    length.map(Some).ok_or_else(wrong)
}

async fn infer(api: &Api, name: &str, header: Option<usize>, body: Bytes) -> Result<Response, ApiError> {
    // A body of 16 MiB of JSON takes a tenth of a second.
    let asked = tokio::task::spawn_blocking(move || read(&body, header));
    let asked = asked.await.map_err(engine_failed)?;
    let asked = asked.map_err(|what| ApiError::new(Refusal::Invalid, what))?;
    let picture = PictureRequest {
        picture: asked.picture,
        input: PictureInput::Module(name.to_owned()),
    };
    let answer = pass(api, picture).await?;
    let outputs = asked.outputs.into_iter();
    let response = InferResponse {
        model_name: name,
        model_version: VERSION,
        id: asked.id.as_deref(),
        outputs: outputs
            .map(|(output, binary)| output.tensor(&answer, binary))
            .collect(),
    };
    let (body, header) = write_response(&response).map_err(|what| ApiError::new(Refusal::Failed, what))?;
    let kind = match header {
        Some(_) => "application/octet-stream",
        None => "application/json",
    };
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    if let Some(length) = header {
        response
            .headers_mut()
            .insert(HEADER_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

/// Reads a request for a picture.
///
/// # Errors
/// What is wrong with it.
fn read(body: &[u8], header: Option<usize>) -> Result<Asked, String> {
    let request = read_request(body, header)?;
    let [input] = <[InputTensor<'_>; 1]>::try_from(request.inputs).map_err(|inputs| {
        format!(
            "the request has {} inputs; models have one, {INPUT}",
            inputs.len()
        )
    })?;
    let picture = picture(input)?;
    let mut outputs: Vec<(Output, bool)> = Vec::new();
    for requested in request.outputs {
        let output = OUTPUTS.into_iter().find(|output| output.name() == requested.name);
        let Some(output) = output else {
            return Err(format!(
                "there is no output {:?}: models have {}",
                shortened(&requested.name),
                OUTPUTS.map(Output::name).join(", ")
            ));
        };
        if outputs.iter().any(|(known, _)| *known == output) {
            return Err(format!("the output {} is asked for twice", output.name()));
        }
        outputs.push((output, requested.binary));
    }
    if outputs.is_empty() {
        outputs = OUTPUTS.map(|output| (output, request.binary_output)).to_vec();
    }
    Ok(Asked {
        id: request.id,
        picture,
        outputs,
    })
}

/// The picture of an input.
///
/// # Errors
/// The input is none.
fn picture(input: InputTensor<'_>) -> Result<Picture, String> {
    if input.name != INPUT {
        return Err(format!(
            "there is no input {:?}: models have {INPUT}",
            shortened(&input.name)
        ));
    }
    match (&*input.datatype, &input.shape[..], input.data) {
        (UINT8, [1, height, width, 3], InputData::Numbers(samples)) => {
            let side = |side: u64| {
                u32::try_from(side)
                    .ok()
                    .filter(|_| (1..=MAX_SIDE).contains(&side))
            };
            match (side(*width), side(*height)) {
                (Some(width), Some(height)) => Ok(Picture::Rgb {
                    width,
                    height,
                    samples: samples.into_owned(),
                }),
                _ => Err(format!(
                    "{INPUT} is {width} x {height} pixels: sides have 1 to {MAX_SIDE}"
                )),
            }
        }
        (BYTES, [1], InputData::Strings(files)) => {
            let file = files.first().map(|file| file.to_vec()).unwrap_or_default();
            Ok(Picture::File(file))
        }
        (BYTES, [1], _) => Err(format!(
            "{INPUT} is a text in the JSON: send the bytes of a JPEG or PNG file behind it, with binary_data_size"
        )),
        (UINT8 | BYTES, shape, _) => Err(format!(
            "{INPUT} has the shape {shape:?}: a picture has [1, height, width, 3] of {UINT8} (RGB), or [1] of {BYTES} (a JPEG or PNG \
             file)"
        )),
        (datatype, ..) => Err(format!(
            "{INPUT} holds {:?}: a picture is {UINT8} (RGB), or {BYTES} (a JPEG or PNG file)",
            shortened(datatype)
        )),
    }
}

/// A name of a client as messages show it.
fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}
