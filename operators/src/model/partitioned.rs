//! A model with its head, cut into blocks: partitions for workers, and pre- and postprocessing for the engine.

use std::ops::Range;
use std::sync::Arc;

use weir_flow::{Element, Inference, Item, PartitionedModel, PrePost, SessionError, Tensor};

use super::batch_probe::Rows;
use super::layer_chain::{HeadIo, LayerChain, failed};
use super::prepost::BatchPrePost;
use super::runtime::{float_bytes, floats};

/// A model cut into blocks.
pub struct PartitionedOnnx {
    chain: LayerChain,
    starts: Vec<usize>,
}

impl PartitionedOnnx {
    pub(super) fn new(chain: LayerChain, starts: Vec<usize>) -> Self {
        Self { chain, starts }
    }

    /// The model as layers.
    #[must_use]
    pub fn layer_chain(&self) -> &LayerChain {
        &self.chain
    }
}

impl LayerChain {
    /// Cuts the model into blocks that begin with the layers `starts`: 0 first, ascending.
    ///
    /// # Errors
    /// [`SessionError::Load`] if there are no such layers.
    pub fn partition(self, starts: &[usize]) -> Result<PartitionedOnnx, SessionError> {
        let ascending = starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b);
        if !ascending || starts.last().is_some_and(|last| *last >= self.layer_count()) {
            let reason = format!(
                "it has {} layers and cannot be cut into blocks that begin with layers {starts:?}; profile it anew",
                self.layer_count()
            );
            return Err(SessionError::Load {
                model: self.name,
                reason,
            });
        }
        Ok(PartitionedOnnx::new(self, starts.to_vec()))
    }
}

impl PartitionedModel for PartitionedOnnx {
    fn blocks(&self) -> usize {
        self.starts.len()
    }

    fn partition(&self, blocks: Range<usize>) -> Result<Vec<u8>, SessionError> {
        let layers = self.chain.layer_count();
        let start = |block: usize| {
            self.starts
                .get(block)
                .copied()
                .unwrap_or(layers + usize::from(block > self.starts.len()))
        };
        let layers = start(blocks.start)..start(blocks.end);
        self.chain
            .onnx
            .partition(layers)
            .map_err(|error| failed(&self.chain.name, &error))
    }

    fn pre_post(&self) -> Result<Box<dyn PrePost>, SessionError> {
        let head = self.chain.head.clone().ok_or_else(|| SessionError::Load {
            model: self.chain.name.clone(),
            reason: "it was opened without a head".to_owned(),
        })?;
        Ok(Box::new(OnnxPrePost {
            head,
            prepost: BatchPrePost::new(),
        }))
    }
}

/// Pre- and postprocessing with the head of a model.
struct OnnxPrePost {
    head: HeadIo,
    prepost: BatchPrePost,
}

impl OnnxPrePost {
    fn rows(&self, items: &[Item]) -> Result<usize, String> {
        match self.head.loaded.rows {
            Rows::Free => Ok(items.len()),
            Rows::Fixed(rows) if items.len() <= rows => Ok(rows),
            Rows::Fixed(rows) => Err(format!("it takes at most {rows} at once")),
        }
    }

    fn fill(&mut self, items: &[Item]) -> Result<Tensor, String> {
        let rows = self.rows(items)?;
        let shape = self.prepost.start_batch(&self.head.loaded.input, items, rows);
        let mut elements = vec![0.0; shape.iter().product()];
        self.prepost.preprocess(&self.head.loaded, items, &mut elements)?;
        Ok(Tensor {
            name: Arc::clone(&self.head.input),
            element: Element::F32,
            shape: shape.to_vec(),
            data: float_bytes(&elements),
        })
    }

    fn read(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, String> {
        let rows = self.rows(items)?;
        let mut data = Vec::with_capacity(self.head.outputs.len());
        for (name, wanted) in &self.head.outputs {
            let tensor = outputs
                .iter()
                .find(|tensor| *tensor.name == **name)
                .ok_or_else(|| format!("output {name} is missing"))?;
            let data_of = floats(tensor);
            // If the input chooses its width, sizes of outputs vary; else a wrong size is reported here, not by the
            // head.
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
        self.prepost.locate_items(&self.head.loaded, items);
        let data: Vec<&[f32]> = data.iter().map(Vec::as_slice).collect();
        let inferences = self.prepost.postprocess(&self.head.loaded, &data, rows)?;
        if inferences.len() == items.len() {
            Ok(inferences)
        } else {
            Err(format!("{} items were prepared", inferences.len()))
        }
    }
}

impl PrePost for OnnxPrePost {
    fn preprocess(&mut self, items: &[Item]) -> Result<Vec<Tensor>, SessionError> {
        let filled = self.fill(items);
        filled
            .map(|tensor| vec![tensor])
            .map_err(|reason| self.failed(items, reason))
    }

    fn postprocess(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, SessionError> {
        let read = self.read(items, outputs);
        read.map_err(|reason| self.failed(items, reason))
    }
}

impl OnnxPrePost {
    fn failed(&self, items: &[Item], reason: String) -> SessionError {
        SessionError::Run {
            model: self.head.loaded.name.clone(),
            batch: items.len(),
            reason,
        }
    }
}
