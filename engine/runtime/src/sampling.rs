//! Samples of cascades: what every stage says of every item, so that all certainties can be judged without running again.

use std::fmt::Debug;
use std::sync::Arc;

use weir_flow::{Attribute, Object, Rect};
use weir_types::Span;

/// Answer of one stage of a cascade for one item.
#[derive(Debug, Clone, PartialEq)]
pub struct StageAnswer {
    /// Name of the cascade.
    pub cascade: Arc<str>,
    /// Index of the stage in its cascade, from 0.
    pub stage: u32,
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Index of the frame in its stream.
    pub frame: u64,
    /// Name of the frame's file, where it comes out of a folder.
    pub file: Option<Arc<str>>,
    /// Index of the item among the items of its frame.
    pub item: u32,
    /// Class and box, in source pixels, of the object that it was made for; `None` where the item is the whole frame.
    pub object: Option<(Arc<str>, Rect)>,
    /// Objects that were found in it.
    pub found: Vec<Object>,
    /// Name and value of the attribute that the stage assigned to the object.
    pub attribute: Option<(Arc<str>, Attribute)>,
    /// Certainty of the answer, from 0 to 1.
    pub certainty: f32,
}

/// Takes samples. With one in [`RunOptions`](crate::RunOptions), each stage hands on every item.
pub trait Sampler: Debug + Send + Sync {
    /// Receives the durations of a model by batch size; called for each model, before the run.
    fn on_model(&self, model: &str, durations: &[(u32, Span)]);
    /// A stage has answered. Called on the thread that carries control: it must not block.
    fn on_answer(&self, answer: StageAnswer);
}

/// Sampling of one stage: the sampler and the names for its answers.
#[derive(Debug, Clone)]
pub(crate) struct StageSampling {
    pub(crate) sampler: Arc<dyn Sampler>,
    pub(crate) cascade: Arc<str>,
    pub(crate) stage: u32,
    /// Names of the streams by id.
    pub(crate) streams: Arc<[Arc<str>]>,
}
