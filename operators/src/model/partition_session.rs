//! Partitions of a model, opened and run in ONNX Runtime.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_flow::{
    DeviceKind, Element, GenerativeModel, PartitionLoader, PartitionSession, SessionError, Tensor,
};

use super::cut::{LAST, SENDS};
use super::error::session_error;
use super::generate::GenerativeOnnx;
use super::onnx::read_metadata;
use super::runtime::{OrtSession, SessionOptions, TensorPort, halved};

/// Name of a partition in error messages.
const MODEL_NAME: &str = "partition";

/// Opens partitions in ONNX Runtime.
///
/// Conversion to half precision and back is done here on whole tensors, not by nodes in the graph: the same bytes serve
/// both precisions, and tensors that are only passed through need no graph.
#[derive(Debug, Clone, Copy)]
pub struct OnnxPartitionLoader {
    /// Threads for one layer; 1 for a slot that is a core.
    pub threads: usize,
}

impl Default for OnnxPartitionLoader {
    fn default() -> Self {
        Self { threads: 1 }
    }
}

impl PartitionLoader for OnnxPartitionLoader {
    fn load(
        &self,
        bytes: &[u8],
        device: DeviceKind,
        half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError> {
        let options = SessionOptions {
            threads: self.threads.max(1),
            ..SessionOptions::default()
        };
        let failed = |reason: String| SessionError::Load {
            model: MODEL_NAME.to_owned(),
            reason,
        };
        let session = OrtSession::open_with(bytes, device, &options)
            .map_err(|error| session_error(MODEL_NAME, &error))?;
        let mut partition = OnnxPartition::new(session, bytes, half).map_err(failed)?;
        partition.begins = matches!(device, DeviceKind::Cuda(_));
        Ok(Box::new(partition))
    }

    fn load_generator(&self, model: &[u8]) -> Result<Arc<dyn GenerativeModel>, SessionError> {
        GenerativeOnnx::unpack(model)
    }
}

/// A session of one partition.
struct OnnxPartition {
    session: OrtSession,
    inputs: Vec<(String, Element)>,
    /// Names of the tensors that it sends, in order.
    sends: Vec<String>,
    half: bool,
    /// Whether it runs blank items before the first batch: on a GPU a thread's first run of a session takes up to a hundred
    /// times as long as the next ones.
    begins: bool,
    /// Items that smaller batches are filled up to, once it began: a session on a GPU plans anew, for some 30 ms, whenever
    /// its input has another shape than the last.
    filled_to: Option<usize>,
}

impl OnnxPartition {
    fn new(session: OrtSession, bytes: &[u8], half: bool) -> Result<Self, String> {
        let mut inputs = Vec::new();
        for port in session.input_ports() {
            let element = port
                .element
                .ok_or_else(|| format!("input {} holds what cannot be sent", port.name))?;
            inputs.push((port.name, element));
        }
        // A model that was not cut is its only partition.
        let (sends, last) = match read_metadata(bytes, SENDS) {
            Some(sends) => (
                sends.lines().map(str::to_owned).collect(),
                read_metadata(bytes, LAST).is_some(),
            ),
            None => (
                session.output_ports().into_iter().map(|port| port.name).collect(),
                true,
            ),
        };
        Ok(Self {
            session,
            inputs,
            sends,
            half: half && !last,
            begins: false,
            filled_to: None,
        })
    }

    fn run_partition(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, String> {
        let mut fed = Vec::with_capacity(self.inputs.len());
        for (name, element) in &self.inputs {
            let tensor = inputs
                .iter()
                .find(|tensor| *tensor.name == **name)
                .ok_or_else(|| format!("tensor {name} is missing"))?;
            fed.push((tensor, *element));
        }
        let mut there = match self.filling(&fed) {
            None => self.session.run_tensors(&fed, self.half)?,
            Some((batch, full)) => {
                let filled: Vec<(Tensor, Element)> = (fed.iter())
                    .map(|(tensor, element)| (resized((*tensor).clone(), full), *element))
                    .collect();
                let fed: Vec<_> = filled
                    .iter()
                    .map(|(tensor, element)| (tensor, *element))
                    .collect();
                let made = self.session.run_tensors(&fed, self.half)?;
                made.into_iter().map(|tensor| resized(tensor, batch)).collect()
            }
        };
        let made: BTreeSet<_> = there.iter().map(|tensor| tensor.name.clone()).collect();
        let half = self.half;
        there.extend(
            inputs
                .into_iter()
                .filter(|tensor| !made.contains(&tensor.name))
                .map(|tensor| if half { halved(tensor) } else { tensor }),
        );
        let take = |name: &String| {
            let at = there.iter().position(|tensor| *tensor.name == **name);
            at.map(|at| there.swap_remove(at))
                .ok_or_else(|| format!("tensor {name}, which is to be passed on, is missing"))
        };
        self.sends.iter().map(take).collect()
    }

    /// Items of the batch, and those that it is to be filled up to; `None` where it runs as it came.
    fn filling(&self, fed: &[(&Tensor, Element)]) -> Option<(usize, usize)> {
        let full = self.filled_to?;
        let batch = *fed.first()?.0.shape.first()?;
        let same = fed.iter().all(|(tensor, _)| tensor.shape.first() == Some(&batch));
        (same && (1..full).contains(&batch)).then_some((batch, full))
    }

    /// Whether the first size of each input and output is the batch, as far as the model says: then it can be filled up.
    fn batch_is_first(&self) -> bool {
        let ports = self.session.input_ports().into_iter();
        let mut ports = ports.chain(self.session.output_ports());
        ports.all(|port| port.dims.first().is_some_and(|(size, _)| size.is_none()))
    }

    /// Blank inputs of `batch` items; `None` where more than the batch is free in their shapes.
    fn blank_inputs(&self, batch: usize) -> Option<Vec<Tensor>> {
        let ports = self.session.input_ports().into_iter();
        let blank = |port: TensorPort| {
            let element = port.element?;
            let sizes = port.dims.iter().enumerate().map(|(axis, (size, _))| match axis {
                0 => Some(size.unwrap_or(batch)),
                _ => *size,
            });
            let shape: Vec<usize> = sizes.collect::<Option<_>>()?;
            (!shape.is_empty()).then(|| Tensor::zeros(&port.name, element, shape))
        };
        ports.map(blank).collect()
    }
}

impl PartitionSession for OnnxPartition {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError> {
        let batch = inputs.first().and_then(|tensor| tensor.shape.first().copied());
        self.run_partition(inputs).map_err(|reason| SessionError::Run {
            model: MODEL_NAME.to_owned(),
            batch: batch.unwrap_or_default(),
            reason,
        })
    }

    fn begin(&mut self, batch: usize) -> Result<(), SessionError> {
        if !self.begins {
            return Ok(());
        }
        let Some(inputs) = self.blank_inputs(batch.max(1)) else {
            return Ok(());
        };
        let made = self.run(inputs)?;
        let is_whole = made.iter().all(|tensor| tensor.shape.first() == Some(&batch));
        self.filled_to = (is_whole && self.batch_is_first()).then_some(batch);
        Ok(())
    }
}

/// The tensor with `items` in its first dimension: the first ones of those that it has, and zeros for the rest. One whose bytes are
/// no whole items stays as it is, to be refused.
fn resized(mut tensor: Tensor, items: usize) -> Tensor {
    let bytes = tensor.data.len();
    let first = tensor.shape.first_mut();
    let Some(first) = first.filter(|first| bytes.checked_rem(**first) == Some(0)) else {
        return tensor;
    };
    let each = bytes / *first;
    *first = items;
    tensor.data.resize(each * items, 0);
    tensor
}

#[cfg(test)]
mod tests {
    use super::super::edit::fix_batch;
    use super::*;

    const MODEL: &[u8] = include_bytes!("../../../models/plate-reader-small.onnx");

    /// A partition that begins as on a GPU, for `batch` items.
    fn begun(bytes: &[u8], batch: usize) -> OnnxPartition {
        let session = OrtSession::open_with(bytes, DeviceKind::Cpu, &SessionOptions::default());
        let mut partition = OnnxPartition::new(session.expect("opens"), bytes, false).expect("is whole");
        partition.begins = true;
        partition.begin(batch).expect("begins");
        partition
    }

    /// Inputs whose items differ.
    fn inputs(partition: &OnnxPartition, batch: usize) -> Vec<Tensor> {
        let mut inputs = partition.blank_inputs(batch).expect("a free batch alone");
        for element in inputs
            .iter_mut()
            .flat_map(|tensor| tensor.data.chunks_exact_mut(4).enumerate())
        {
            let (index, bytes) = element;
            let value = f32::from(u8::try_from(index * 7 % 251).expect("below 251")) / 251.0;
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        inputs
    }

    #[test]
    fn smaller_batches_are_filled_up_and_give_what_they_give_alone() {
        let mut filled = begun(MODEL, 4);
        let mut plain = begun(MODEL, 1);
        assert_eq!((filled.filled_to, plain.filled_to), (Some(4), Some(1)));
        for batch in 1..=5 {
            let inputs = inputs(&plain, batch);
            let expected = plain.run(inputs.clone()).expect("runs");
            let made = filled.run(inputs).expect("runs");
            assert_eq!(made.len(), expected.len());
            for (made, expected) in made.iter().zip(&expected) {
                assert_eq!((&made.name, &made.shape), (&expected.name, &expected.shape));
                let off = floats(made).zip(floats(expected)).map(|(a, b)| (a - b).abs());
                assert!(off.fold(0.0, f32::max) < 1e-4, "batch {batch}");
            }
        }
    }

    #[test]
    fn a_batch_that_is_fixed_is_not_filled_up() {
        let fixed = begun(&fix_batch(MODEL, 2).expect("edited"), 4);
        assert_eq!(fixed.filled_to, None);
    }

    fn floats(tensor: &Tensor) -> impl Iterator<Item = f32> {
        let (bytes, _) = tensor.data.as_chunks();
        bytes.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }
}
