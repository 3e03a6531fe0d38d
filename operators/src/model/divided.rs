//! A model with its head, cut into blocks: parts for workers, and the two ends that stay with the frames.

use std::ops::Range;
use std::sync::Arc;

use weir_flow::{Element, Inference, Item, PartitionedModel, PrePost, SessionError, Tensor};

use super::batch::Rows;
use super::fill::Fill;
use super::layered::{Headed, Layered, failed};
use super::runtime::{float_bytes, floats};

/// A model that is cut into blocks.
pub struct Blocked {
    layered: Layered,
    starts: Vec<usize>,
}

impl Blocked {
    pub(super) fn new(layered: Layered, starts: Vec<usize>) -> Self {
        Self { layered, starts }
    }

    /// The model that was cut.
    #[must_use]
    pub fn layered(&self) -> &Layered {
        &self.layered
    }
}

impl PartitionedModel for Blocked {
    fn blocks(&self) -> usize {
        self.starts.len()
    }

    fn partition(&self, blocks: Range<usize>) -> Result<Vec<u8>, SessionError> {
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
            .map_err(|error| failed(&self.layered.name, &error))
    }

    fn pre_post(&self) -> Result<Box<dyn PrePost>, SessionError> {
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

    fn read(&mut self, items: &[Item], outputs: &[Tensor]) -> Result<Vec<Inference>, String> {
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
        self.fill.lie(&self.head.loaded, items);
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

impl PrePost for OnnxEnds {
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

impl OnnxEnds {
    fn failed(&self, items: &[Item], reason: String) -> SessionError {
        SessionError::Run {
            model: self.head.loaded.name.clone(),
            batch: items.len(),
            reason,
        }
    }
}
