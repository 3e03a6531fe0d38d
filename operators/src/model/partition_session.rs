//! Partitions of a model, opened and run in ONNX Runtime.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_flow::{
    DeviceKind, Element, GenerativeModel, PartitionLoader, PartitionSession, SessionError, Tensor,
};

use super::cut::{LAST, SENDS, read_metadata};
use super::error::session_error;
use super::generate::GenerativeOnnx;
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
        let mut there = self.session.run_tensors(&fed, self.half)?;
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
        self.blank_inputs(batch.max(1))
            .map_or(Ok(()), |inputs| self.run(inputs).map(drop))
    }
}
