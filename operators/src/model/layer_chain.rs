//! A model as layers: their times, the bytes that cross between them, and the boundaries that may be cut.

use std::sync::Arc;

use weir_flow::{DeviceKind, Element, SessionError, Tensor};

use super::OnnxModel;
use super::batch_probe::{ProbeInput, Rows, probe_batch};
use super::cut::{CutError, OnnxLayers, SampleInputs};
use super::error::session_error;
use super::loaded::Loaded;
use super::runtime::OrtSession;

/// Assumed range of inputs of models without a head.
const UNKNOWN: (f32, f32) = (-1.0, 1.0);
/// Largest input in bytes, for one item or the fixed batch: no frame is so large, but a file may declare any size.
const MAX_INPUT_BYTES: usize = 1 << 30;

/// A model as a chain of layers to be profiled and cut.
pub struct LayerChain {
    pub(super) name: String,
    pub(super) onnx: OnnxLayers,
    rows: Rows,
    /// Blank inputs, for one item or the fixed batch.
    blank: Vec<Tensor>,
    /// Smallest and largest value of an element of its inputs, as far as known.
    pub(super) range: (f32, f32),
    pub(super) head: Option<HeadIo>,
}

/// The head of a model with the names of its input and outputs.
#[derive(Clone)]
pub(super) struct HeadIo {
    pub(super) loaded: Arc<Loaded>,
    pub(super) input: Arc<str>,
    /// Names of the outputs in the head's order, with their elements per item if that number is fixed.
    pub(super) outputs: Vec<(String, Option<usize>)>,
}

impl OnnxModel {
    /// The model as layers.
    ///
    /// # Errors
    /// [`SessionError::Load`] if it cannot be cut: control flow, weights in another file, two models in one.
    pub fn layer_chain(&self) -> Result<LayerChain, SessionError> {
        let loaded = &self.loaded;
        let read = || -> Result<LayerChain, CutError> {
            let [graph] = loaded.graphs.as_slice() else {
                return Err(CutError::Second);
            };
            let session = OrtSession::open(graph, DeviceKind::Cpu)?;
            let input = session.inputs().first().ok_or(CutError::NoLayers)?.name.clone();
            let mut chain = LayerChain::read(
                &loaded.name,
                graph,
                loaded.rows,
                &[(input.clone(), Element::F32, loaded.input.item_shape())],
            )?;
            let numbers = |name: &str| {
                let always = loaded.input.widest.is_none();
                always.then(|| chain.onnx.floats(name)).flatten()
            };
            let outputs = session.outputs().iter();
            let outputs = outputs
                .map(|port| (port.name.clone(), numbers(&port.name)))
                .collect();
            chain.range = loaded.input.range();
            chain.head = Some(HeadIo {
                loaded: Arc::clone(loaded),
                input: input.into(),
                outputs,
            });
            Ok(chain)
        };
        read().map_err(|error| failed(&loaded.name, &error))
    }
}

pub(super) fn failed(name: &str, error: &CutError) -> SessionError {
    match error {
        CutError::Open(cause) => session_error(name, cause),
        error => SessionError::Load {
            model: name.to_owned(),
            reason: error.to_string(),
        },
    }
}

impl LayerChain {
    /// A file as layers, without a head: it can be profiled and cut, but has no pre- and postprocessing. Its free
    /// dimensions, besides the batch, are set to `side`.
    ///
    /// # Errors
    /// [`SessionError::Load`] as for [`OnnxModel::layer_chain`], and if dimensions are free without `side`.
    pub fn open(name: &str, bytes: &[u8], side: Option<usize>, max_batch: u32) -> Result<Self, SessionError> {
        let read = || {
            // Checked before the runtime reads it, whose errors would not name the cause.
            OnnxLayers::check(bytes)?;
            let mut session = OrtSession::open(bytes, DeviceKind::Cpu)?;
            let ports = session.input_ports();
            let mut inputs = Vec::new();
            for port in &ports {
                let element = port.element.ok_or_else(|| CutError::Unknown(port.name.clone()))?;
                let sizes: Option<Vec<usize>> = port
                    .dims
                    .iter()
                    .skip(1)
                    .map(|(size, _)| size.or(side))
                    .collect::<Option<_>>();
                let sizes = sizes.ok_or_else(|| CutError::Free(port.name.clone()))?;
                let rows = port.dims.first().and_then(|(size, _)| *size).unwrap_or(1);
                let mut all = std::iter::once(&rows).chain(&sizes);
                let bytes = all.try_fold(element.bytes(), |bytes, size| bytes.checked_mul(*size));
                if bytes.is_none_or(|bytes| bytes > MAX_INPUT_BYTES) {
                    return Err(CutError::Large(port.name.clone()));
                }
                inputs.push((port.name.clone(), element, sizes));
            }
            let first = ports.first().and_then(|port| port.dims.first()?.0);
            // Batches are only probed for models with one image; others run as they are declared.
            let (bytes, rows) = match inputs.as_slice() {
                [(_, Element::F32, item)] => {
                    let input = ProbeInput {
                        item: item.clone(),
                        range: UNKNOWN,
                        max: max_batch.max(1) as usize,
                    };
                    let probe = probe_batch(bytes, &mut session, &input);
                    (probe.bytes, probe.rows)
                }
                _ => (bytes.into(), Rows::Fixed(first.unwrap_or(1))),
            };
            Self::read(name, &bytes, rows, &inputs)
        };
        read().map_err(|error| failed(name, &error))
    }

    fn read(
        name: &str,
        bytes: &Arc<[u8]>,
        rows: Rows,
        inputs: &[(String, Element, Vec<usize>)],
    ) -> Result<Self, CutError> {
        let items = rows.of(1);
        let blank = |rows: usize| -> Vec<Tensor> {
            let one = |(name, element, item): &(String, Element, Vec<usize>)| {
                Tensor::zeros(
                    name,
                    *element,
                    std::iter::once(rows).chain(item.iter().copied()).collect(),
                )
            };
            inputs.iter().map(one).collect()
        };
        let samples = SampleInputs {
            one: blank(items),
            two: (rows == Rows::Free).then(|| blank(2)),
            items,
        };
        Ok(Self {
            name: name.to_owned(),
            onnx: OnnxLayers::read(Arc::clone(bytes), &samples)?,
            rows,
            blank: samples.one,
            range: UNKNOWN,
            head: None,
        })
    }

    /// Largest batch in items; `None` if unlimited.
    #[must_use]
    pub fn max_batch(&self) -> Option<usize> {
        match self.rows {
            Rows::Free => None,
            Rows::Fixed(rows) => Some(rows),
        }
    }

    /// Number of layers.
    #[must_use]
    pub fn layer_count(&self) -> usize {
        self.onnx.layer_count()
    }

    /// Names and operators of the layers in topological order.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn layer_names(&self) -> Result<Vec<(String, String)>, SessionError> {
        self.onnx
            .layer_names()
            .map_err(|error| failed(&self.name, &error))
    }

    /// Bytes per item that cross from each layer to the next; with `half`, floats are counted in half precision.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn boundary_bytes(&self, half: bool) -> Result<Vec<u64>, SessionError> {
        self.onnx.bytes(half).map_err(|error| failed(&self.name, &error))
    }

    /// Whether each boundary may be cut without undoing a fusion of the runtime: `[i]` is after layer `i`.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn boundaries(&self) -> Result<Vec<bool>, SessionError> {
        self.onnx
            .unfused_boundaries()
            .map_err(|error| failed(&self.name, &error))
    }

    /// Microseconds of each layer for a batch of one on the CPU: the median of `runs`, from the runtime's own profile.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn layer_times_us(&self, threads: usize, runs: usize) -> Result<Vec<u64>, SessionError> {
        let inputs = self.blank_inputs(1);
        self.onnx
            .layer_times_us(&inputs, threads, runs)
            .map_err(|error| failed(&self.name, &error))
    }

    /// Blank inputs for `batch` items, or for the fixed batch.
    #[must_use]
    pub fn blank_inputs(&self, batch: usize) -> Vec<Tensor> {
        let blank = |tensor: &Tensor| {
            let mut shape = tensor.shape.clone();
            if let (Rows::Free, Some(rows)) = (self.rows, shape.first_mut()) {
                *rows = batch.max(1);
            }
            Tensor::zeros(&tensor.name, tensor.element, shape)
        };
        self.blank.iter().map(blank).collect()
    }
}
