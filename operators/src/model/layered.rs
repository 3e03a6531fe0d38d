//! A model as layers: how long they take, what crosses between them, and where it may be cut.

use std::sync::Arc;

use weir_flow::{DeviceKind, Element, SessionError, Tensor};

use super::batch::{Rows, Trial, try_out};
use super::cut::{Chain, CutError, Samples};
use super::divided::Blocked;
use super::runtime::Engine;
use super::{Loaded, OnnxModel};

/// Range of the inputs of models without a head.
const UNKNOWN: (f32, f32) = (-1.0, 1.0);
/// Bytes of an input, with as many items as the model always takes: no frame is so large, but what a file declares may
/// be anything.
const INPUT_MOST: usize = 1 << 30;

/// A model as a chain of layers that can be asked how long they take and where it may be cut.
pub struct Layered {
    pub(super) name: String,
    pub(super) chain: Chain,
    rows: Rows,
    /// What feeds it: shapes are those of one item, or of as many as the model always takes.
    blank: Vec<Tensor>,
    /// Least and largest value of an element of its inputs, as far as that is known.
    pub(super) range: (f32, f32),
    pub(super) head: Option<Headed>,
}

/// What feeds and reads a model.
#[derive(Clone)]
pub(super) struct Headed {
    pub(super) loaded: Arc<Loaded>,
    pub(super) input: Arc<str>,
    /// Names of the outputs in the head's order, with how many numbers an item has where that is always the same.
    pub(super) outputs: Vec<(String, Option<usize>)>,
}

impl OnnxModel {
    /// The model as layers, to be profiled and cut.
    ///
    /// # Errors
    /// [`SessionError::Load`] where it cannot be cut: control flow, weights in another file, two models in one.
    pub fn layered(&self) -> Result<Layered, SessionError> {
        let loaded = &self.loaded;
        let read = || -> Result<Layered, CutError> {
            let [graph] = loaded.graphs.as_slice() else {
                return Err(CutError::Second);
            };
            let engine = Engine::open(graph, DeviceKind::Cpu).map_err(CutError::Runtime)?;
            let input = engine.inputs().first().ok_or(CutError::NoLayers)?.name.clone();
            let mut layered = Layered::read(
                &loaded.name,
                graph,
                loaded.rows,
                &[(input.clone(), Element::F32, loaded.input.item_shape())],
            )?;
            let numbers = |name: &str| {
                let always = loaded.input.widest.is_none();
                always.then(|| layered.chain.floats(name)).flatten()
            };
            let outputs = engine.outputs().iter();
            let outputs = outputs
                .map(|port| (port.name.clone(), numbers(&port.name)))
                .collect();
            layered.range = loaded.input.range();
            layered.head = Some(Headed {
                loaded: Arc::clone(loaded),
                input: input.into(),
                outputs,
            });
            Ok(layered)
        };
        read().map_err(|error| failed(&loaded.name, &error))
    }
}

pub(super) fn failed(name: &str, error: &CutError) -> SessionError {
    SessionError::Load {
        model: name.to_owned(),
        reason: error.to_string(),
    }
}

fn zeros(name: &str, element: Element, shape: Vec<usize>) -> Tensor {
    Tensor {
        name: name.into(),
        element,
        data: vec![0; shape.iter().product::<usize>() * element.bytes()],
        shape,
    }
}

impl Layered {
    /// A file as layers, without a head: it can be profiled and cut, but has no ends. Dimensions that it leaves free,
    /// besides the batch, are taken to be `side`.
    ///
    /// # Errors
    /// [`SessionError::Load`] as for [`OnnxModel::layered`], and where dimensions are free and there is no `side`.
    pub fn open(name: &str, bytes: &[u8], side: Option<usize>, max_batch: u32) -> Result<Self, SessionError> {
        let read = || {
            // Before the runtime looks at it, whose words are about other things.
            Chain::check(bytes)?;
            let mut engine = Engine::open(bytes, DeviceKind::Cpu).map_err(CutError::Runtime)?;
            let plugs = engine.plugs_in();
            let mut inputs = Vec::new();
            for plug in &plugs {
                let element = plug.element.ok_or_else(|| CutError::Unknown(plug.name.clone()))?;
                let sizes: Option<Vec<usize>> = plug
                    .dims
                    .iter()
                    .skip(1)
                    .map(|(size, _)| size.or(side))
                    .collect::<Option<_>>();
                let sizes = sizes.ok_or_else(|| CutError::Free(plug.name.clone()))?;
                let rows = plug.dims.first().and_then(|(size, _)| *size).unwrap_or(1);
                let mut all = std::iter::once(&rows).chain(&sizes);
                let bytes = all.try_fold(element.bytes(), |bytes, size| bytes.checked_mul(*size));
                if bytes.is_none_or(|bytes| bytes > INPUT_MOST) {
                    return Err(CutError::Large(plug.name.clone()));
                }
                inputs.push((plug.name.clone(), element, sizes));
            }
            let first = plugs.first().and_then(|plug| plug.dims.first()?.0);
            // Whether batches are right is only tried where there is one image; other models run as they are.
            let (bytes, rows) = match inputs.as_slice() {
                [(_, Element::F32, item)] => {
                    let trial = Trial {
                        item: item.clone(),
                        range: UNKNOWN,
                        max: max_batch.max(1) as usize,
                    };
                    let tried = try_out(bytes, &mut engine, &trial);
                    (tried.bytes, tried.rows)
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
        let items = match rows {
            Rows::Free => 1,
            Rows::Fixed(rows) => rows,
        };
        let blank = |rows: usize| -> Vec<Tensor> {
            let one = |(name, element, item): &(String, Element, Vec<usize>)| {
                zeros(
                    name,
                    *element,
                    std::iter::once(rows).chain(item.iter().copied()).collect(),
                )
            };
            inputs.iter().map(one).collect()
        };
        let samples = Samples {
            one: blank(items),
            two: (rows == Rows::Free).then(|| blank(2)),
            items,
        };
        Ok(Self {
            name: name.to_owned(),
            chain: Chain::read(Arc::clone(bytes), &samples)?,
            rows,
            blank: samples.one,
            range: UNKNOWN,
            head: None,
        })
    }

    /// The most items at once; `None` where there is no such limit.
    #[must_use]
    pub fn most(&self) -> Option<usize> {
        match self.rows {
            Rows::Free => None,
            Rows::Fixed(rows) => Some(rows),
        }
    }

    /// How many layers there are.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.chain.layers()
    }

    /// Names and operators of the layers, in the order in which they run.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn names(&self) -> Result<Vec<(String, String)>, SessionError> {
        self.chain.names().map_err(|error| failed(&self.name, &error))
    }

    /// Bytes of one item that cross from each layer to the next, with floats in half precision or as they are.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn boundary_bytes(&self, half: bool) -> Result<Vec<u64>, SessionError> {
        self.chain.bytes(half).map_err(|error| failed(&self.name, &error))
    }

    /// Between which layers it may be cut without parting what the runtime runs as one: `[i]` after layer `i`.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn boundaries(&self) -> Result<Vec<bool>, SessionError> {
        self.chain.unfused().map_err(|error| failed(&self.name, &error))
    }

    /// Microseconds of each layer for a batch of one on the CPU: the median of `runs`, by the runtime's own profile.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn times(&self, threads: usize, runs: usize) -> Result<Vec<u64>, SessionError> {
        let inputs = self.sample(1);
        self.chain
            .times(&inputs, threads, runs)
            .map_err(|error| failed(&self.name, &error))
    }

    /// Blank inputs for `batch` items, or for as many as the model always takes.
    #[must_use]
    pub fn sample(&self, batch: usize) -> Vec<Tensor> {
        let blank = |tensor: &Tensor| {
            let mut shape = tensor.shape.clone();
            if let (Rows::Free, Some(rows)) = (self.rows, shape.first_mut()) {
                *rows = batch.max(1);
            }
            zeros(&tensor.name, tensor.element, shape)
        };
        self.blank.iter().map(blank).collect()
    }

    /// Cuts it into blocks that begin with the layers `starts`: 0 first, ascending.
    ///
    /// # Errors
    /// [`SessionError::Load`] where there are no such layers.
    pub fn divide(self, starts: &[usize]) -> Result<Blocked, SessionError> {
        let ascending = starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b);
        if !ascending || starts.last().is_some_and(|last| *last >= self.layers()) {
            let reason = format!(
                "it has {} layers and cannot be cut into blocks that begin with layers {starts:?}; profile it anew",
                self.layers()
            );
            return Err(SessionError::Load {
                model: self.name,
                reason,
            });
        }
        Ok(Blocked::new(self, starts.to_vec()))
    }
}
