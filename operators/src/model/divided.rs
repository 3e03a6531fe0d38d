//! A model with its head, cut into blocks: parts for workers, and the two ends that stay with the frames.

use std::ops::Range;
use std::sync::Arc;

use weir_flow::{DeviceKind, Divided, Element, Ends, Inference, Item, SessionError, Tensor};

use super::batch::{Rows, Trial, try_out};
use super::cut::{Chain, CutError, Samples};
use super::fill::Fill;
use super::runtime::{Engine, float_bytes, floats};
use super::{Loaded, OnnxModel};

/// A model as a chain of layers that can be asked how long they take and where it may be cut.
pub struct Layered {
    name: String,
    chain: Chain,
    rows: Rows,
    /// What feeds it: shapes are those of one item, or of as many as the model always takes.
    blank: Vec<Tensor>,
    head: Option<Headed>,
}

/// What feeds and reads a model.
#[derive(Clone)]
struct Headed {
    loaded: Arc<Loaded>,
    input: Arc<str>,
    /// Names of the outputs in the head's order, with how many numbers an item has where that is always the same.
    outputs: Vec<(String, Option<usize>)>,
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
            layered.head = Some(Headed {
                loaded: Arc::clone(loaded),
                input: input.into(),
                outputs,
            });
            Ok(layered)
        };
        read().map_err(|error| failed(&loaded.name, error))
    }
}

fn failed(name: &str, error: CutError) -> SessionError {
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
                inputs.push((
                    plug.name.clone(),
                    element,
                    sizes.ok_or_else(|| CutError::Free(plug.name.clone()))?,
                ));
            }
            let first = plugs.first().and_then(|plug| plug.dims.first()?.0);
            // Whether batches are right is only tried where there is one image; other models run as they are.
            let (bytes, rows) = match inputs.as_slice() {
                [(_, Element::F32, item)] => {
                    let trial = Trial {
                        item: item.clone(),
                        range: (-1.0, 1.0),
                        max: max_batch.max(1) as usize,
                    };
                    let tried = try_out(bytes, &mut engine, &trial);
                    (tried.bytes, tried.rows)
                }
                _ => (bytes.into(), Rows::Fixed(first.unwrap_or(1))),
            };
            Self::read(name, &bytes, rows, &inputs)
        };
        read().map_err(|error| failed(name, error))
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
        self.chain.names().map_err(|error| failed(&self.name, error))
    }

    /// Bytes of one item that cross from each layer to the next, with floats in half precision or as they are.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn boundary_bytes(&self, half: bool) -> Result<Vec<u64>, SessionError> {
        self.chain.bytes(half).map_err(|error| failed(&self.name, error))
    }

    /// Between which layers it may be cut without parting what the runtime runs as one: `[i]` after layer `i`.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn boundaries(&self) -> Result<Vec<bool>, SessionError> {
        self.chain.unfused().map_err(|error| failed(&self.name, error))
    }

    /// Microseconds of each layer for a batch of one on the CPU: the median of `runs`, by the runtime's own profile.
    ///
    /// # Errors
    /// [`SessionError::Load`].
    pub fn times(&self, threads: usize, runs: usize) -> Result<Vec<u64>, SessionError> {
        let inputs = self.sample(1);
        self.chain
            .times(&inputs, threads, runs)
            .map_err(|error| failed(&self.name, error))
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
        Ok(Blocked {
            starts: starts.to_vec(),
            layered: self,
        })
    }
}

/// A model that is cut into blocks.
pub struct Blocked {
    layered: Layered,
    starts: Vec<usize>,
}

impl Blocked {
    /// The model that was cut.
    #[must_use]
    pub fn layered(&self) -> &Layered {
        &self.layered
    }
}

impl Divided for Blocked {
    fn blocks(&self) -> usize {
        self.starts.len()
    }

    fn part(&self, blocks: Range<usize>) -> Result<Vec<u8>, SessionError> {
        let layers = self.layered.layers();
        let start = |block: usize| {
            self.starts
                .get(block)
                .copied()
                .unwrap_or(layers + usize::from(block > self.starts.len()))
        };
        let layers = start(blocks.start)..start(blocks.end);
        self.layered
            .chain
            .part(layers)
            .map_err(|error| failed(&self.layered.name, error))
    }

    fn ends(&self) -> Result<Box<dyn Ends>, SessionError> {
        let head = self.layered.head.clone().ok_or_else(|| SessionError::Load {
            model: self.layered.name.clone(),
            reason: "it was opened without a head".to_owned(),
        })?;
        Ok(Box::new(OnnxEnds {
            head,
            fill: Fill::new(),
        }))
    }
}

/// Prepares and decodes with the head of a model.
struct OnnxEnds {
    head: Headed,
    fill: Fill,
}

impl OnnxEnds {
    fn rows(&self, items: &[Item]) -> Result<usize, String> {
        match self.head.loaded.rows {
            Rows::Free => Ok(items.len()),
            Rows::Fixed(rows) if items.len() <= rows => Ok(rows),
            Rows::Fixed(rows) => Err(format!("it takes at most {rows} at once")),
        }
    }

    fn fill(&mut self, items: &[Item]) -> Result<Tensor, String> {
        let rows = self.rows(items)?;
        let shape = self.fill.begin(&self.head.loaded.input, items, rows);
        let mut elements = vec![0.0; shape.iter().product()];
        self.fill.items(&self.head.loaded, items, &mut elements)?;
        Ok(Tensor {
            name: Arc::clone(&self.head.input),
            element: Element::F32,
            shape: shape.to_vec(),
            data: float_bytes(&elements),
        })
    }

    fn read(&self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, String> {
        let rows = self.rows(items)?;
        let mut data = Vec::with_capacity(self.head.outputs.len());
        for (name, wanted) in &self.head.outputs {
            let tensor = outputs
                .iter()
                .find(|tensor| *tensor.name == **name)
                .ok_or_else(|| format!("output {name} is missing"))?;
            let data_of = floats(tensor);
            // Of an input that chooses its width, outputs choose theirs; else a wrong size is found here, not in the head.
            let fits = match wanted {
                Some(each) => data_of.len() == rows * each,
                None => data_of.len().is_multiple_of(rows.max(1)),
            };
            if !fits {
                let (shape, bytes) = (&tensor.shape, tensor.data.len());
                return Err(format!(
                    "output {name} of shape {shape:?} and {bytes} bytes is not what the model gives"
                ));
            }
            data.push(data_of);
        }
        let data: Vec<&[f32]> = data.iter().map(Vec::as_slice).collect();
        let mut inferences = Vec::with_capacity(items.len());
        self.fill.decode(&self.head.loaded, &data, rows, &mut inferences);
        if inferences.len() == items.len() {
            Ok(inferences)
        } else {
            Err(format!("{} items were prepared", inferences.len()))
        }
    }
}

impl Ends for OnnxEnds {
    fn prepare(&mut self, items: &[Item]) -> Result<Vec<Tensor>, SessionError> {
        let filled = self.fill(items);
        filled
            .map(|tensor| vec![tensor])
            .map_err(|reason| self.failed(items, reason))
    }

    fn decode(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, SessionError> {
        self.read(items, outputs)
            .map_err(|reason| self.failed(items, reason))
    }
}

impl OnnxEnds {
    fn failed(&self, items: &[Item], reason: String) -> SessionError {
        SessionError::Run {
            model: self.head.loaded.name.clone(),
            batch: items.len(),
            reason,
        }
    }
}
