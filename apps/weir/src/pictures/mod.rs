//! Pictures that clients of the API send one at a time: each passes the modules of the graph as a frame of a camera does, with the
//! same objective and policy, and its client receives its objects. Pictures are frames of streams of their own, one for each
//! source that clients name, which begin with their first picture. No tracker, transform or sink of the graph sees them.

mod queue;
mod sink;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_flow::{SINGLE_PICTURES, Sink, SinkError, SinkFactory, StreamNames};
use weir_graph::{SourceMode, SourceNode, WhenSlow};
use weir_operators::media::picture_from;
use weir_runtime::{Assembly, Control, NewStream, StreamError};
use weir_serve::{ApiError, PictureRequest, PictureSender, Refusal};

use crate::lock::lock;
use queue::{PictureQueue, QueueFactory};

/// Name of the sink that answers; no sink of a graph can have it.
pub(crate) const NAME: &str = "(answers)";

/// The pictures that wait for their results.
#[derive(Default)]
pub(crate) struct Pictures {
    /// By the names of their streams.
    queues: Mutex<BTreeMap<String, Arc<PictureQueue>>>,
    /// Held while a picture is decoded: one at a time, so that clients take at most one core from the streams.
    decoding: Mutex<()>,
}

impl Pictures {
    /// The assembly with the sink that answers, which takes from all modules.
    pub(crate) fn add_to(self: Arc<Self>, mut assembly: Assembly) -> Assembly {
        let streams = StreamNames::new(vec![format!("{SINGLE_PICTURES}*")]);
        assembly.graph = assembly
            .graph
            .with_observer(NAME, "pictures", WhenSlow::Wait, streams);
        assembly.sinks.push(Box::new(Answers(self)));
        assembly
    }

    /// Passes a picture through the modules of the source that its client names, or of all sources.
    ///
    /// # Errors
    /// It is no picture, there is no such source, or too much waits.
    pub(crate) fn infer(
        &self,
        request: PictureRequest,
        answer: PictureSender,
        control: &Control,
        refused: impl Fn(&StreamError) -> ApiError,
    ) -> Result<(), ApiError> {
        let image = {
            let _turn = lock(&self.decoding);
            picture_from(request.bytes)
        };
        let image = image.map_err(|error| {
            let error = ApiError::new(Refusal::Invalid, format!("the picture cannot be read: {error}"));
            error.hint("send the bytes of a JPEG or PNG file, such as by curl --data-binary @car.jpg")
        })?;
        // A stream without a picture would be one that never had a frame.
        let queue = self
            .queue(request.like, control)
            .map_err(|error| refused(&error))?;
        queue.push(image, answer)
    }

    /// The queue of the stream that shares the inputs of that source; the stream is added where there is none.
    fn queue(&self, like: Option<String>, control: &Control) -> Result<Arc<PictureQueue>, StreamError> {
        let name = match &like {
            Some(like) => format!("{SINGLE_PICTURES}:{like})"),
            None => format!("{SINGLE_PICTURES})"),
        };
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.get(&name).filter(|queue| !queue.is_closed()) {
            return Ok(Arc::clone(queue));
        }
        let queue = Arc::<PictureQueue>::default();
        let node = SourceNode {
            mode: SourceMode::Live,
            mode_given: true,
            paced: false,
            ..SourceNode::new(name.as_str(), "pictures of clients")
        };
        control.add_stream(NewStream {
            node,
            factory: Some(Box::new(QueueFactory(Arc::clone(&queue)))),
            like,
        })?;
        queues.insert(name, Arc::clone(&queue));
        Ok(queue)
    }

    fn of(&self, stream: &str) -> Option<Arc<PictureQueue>> {
        lock(&self.queues).get(stream).cloned()
    }
}

struct Answers(Arc<Pictures>);

impl SinkFactory for Answers {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(sink::AnsweringSink(Arc::clone(&self.0))))
    }
}
