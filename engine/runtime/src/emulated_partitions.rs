//! Partitioned models that exist as a plan only: workers keep each batch as long as the plan says, and nothing is computed.

use std::ops::Range;
use std::sync::Arc;

use weir_flow::{
    DeviceKind, Element, GenerativeModel, Inference, Item, PartitionLoader, PartitionSession,
    PartitionedModel, PrePost, SessionError, Tensor,
};
use weir_graph::{Graph, ModelOrigin};

use crate::assembly::Partitioning;

/// A model that is nothing but its blocks. A partition of it has no bytes.
#[derive(Debug, Clone, Copy)]
struct EmulatedPartitions {
    blocks: usize,
}

impl PartitionedModel for EmulatedPartitions {
    fn blocks(&self) -> usize {
        self.blocks
    }

    fn partition(&self, _blocks: Range<usize>) -> Result<Vec<u8>, SessionError> {
        Ok(Vec::new())
    }

    fn pre_post(&self) -> Result<Box<dyn PrePost>, SessionError> {
        Ok(Box::new(NoPrePost))
    }
}

struct NoPrePost;

impl PrePost for NoPrePost {
    fn preprocess(&mut self, items: &[Item]) -> Result<Vec<Tensor>, SessionError> {
        Ok(vec![Tensor {
            name: "items".into(),
            element: Element::U8,
            shape: vec![items.len()],
            data: vec![0; items.len()],
        }])
    }

    fn postprocess(&mut self, items: &[Item], _outputs: &[Tensor]) -> Result<Vec<Inference>, SessionError> {
        Ok(vec![Inference::default(); items.len()])
    }
}

/// Passes its input on.
struct PassThrough;

impl PartitionSession for PassThrough {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError> {
        Ok(inputs)
    }
}

/// Opens partitions of emulated models, and has those of others opened.
struct EmulatedLoader {
    others: Option<Arc<dyn PartitionLoader>>,
}

impl PartitionLoader for EmulatedLoader {
    fn load(
        &self,
        partition: &[u8],
        device: DeviceKind,
        half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError> {
        match &self.others {
            Some(others) if !partition.is_empty() => others.load(partition, device, half),
            _ => Ok(Box::new(PassThrough)),
        }
    }

    fn load_generator(&self, model: &[u8]) -> Result<Arc<dyn GenerativeModel>, SessionError> {
        match &self.others {
            Some(others) => others.load_generator(model),
            None => Err(SessionError::Load {
                model: "that was sent".to_owned(),
                reason: "this worker opens no models but emulated ones".to_owned(),
            }),
        }
    }
}

/// Returns a loader that opens partitions of emulated models itself and passes all others to `others`.
#[must_use]
pub fn with_emulated_partitions(others: Option<Arc<dyn PartitionLoader>>) -> Arc<dyn PartitionLoader> {
    Arc::new(EmulatedLoader { others })
}

impl Partitioning {
    /// The plan of `graph` with those of its models that are emulated; `loader` opens partitions of the others. `None` for a
    /// graph without a plan.
    #[must_use]
    pub fn new(graph: &Graph, loader: Option<Arc<dyn PartitionLoader>>) -> Option<Self> {
        let plan = graph.plan()?.clone();
        let models = graph.models().iter().map(|node| {
            let emulated = node.plan.is_some() && node.origin == ModelOrigin::Emulated;
            let served = plan.problem.model(&node.name).filter(|_| emulated)?;
            let blocks = served.blocks.boundary_bytes.len() + 1;
            Some(Arc::new(EmulatedPartitions { blocks }) as Arc<dyn PartitionedModel>)
        });
        Some(Self {
            models: models.collect(),
            loader: Some(with_emulated_partitions(loader)),
            carrier: None,
            next_plan: None,
            plan,
        })
    }
}
