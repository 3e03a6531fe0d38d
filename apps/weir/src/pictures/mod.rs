//! Pictures that clients of the API send one at a time: each passes the modules of the graph as a frame of a camera does, with the
//! same objective and policy, and its client receives its objects. Pictures are frames of streams of their own, one for each
//! source or module that clients name, which begin with their first picture. No tracker, transform or sink of the graph sees them.

mod queue;
mod sink;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_flow::{Image, SINGLE_PICTURES, Sink, SinkError, SinkFactory, StreamNames};
use weir_graph::{Graph, SourceMode, SourceNode, Vertex, WhenSlow};
use weir_operators::media::picture_from;
use weir_policy::StreamShare;
use weir_runtime::{Assembly, Control, NewStream, StreamError};
use weir_serve::{ApiError, Picture, PictureInput, PictureRequest, PictureSender, Refusal};

use crate::lock::lock;
use queue::{PictureQueue, QueueFactory};

/// Name of the sink that answers; no sink of a graph can have it.
pub(crate) const NAME: &str = "(answers)";

/// Pictures of all clients together count as two cameras under overload. A share of their own makes modules run requests of
/// streams by shares: clients that ask again at once would take nearly all from cameras, whose frames come at their own times.
const SHARE: StreamShare = StreamShare {
    weight: 2.0,
    reserve: None,
};

/// The pictures that wait for their results.
#[derive(Default)]
pub(crate) struct Pictures {
    /// By the names of their streams.
    queues: Mutex<BTreeMap<String, Arc<PictureQueue>>>,
    /// Held while a picture is decoded: one at a time, so that clients take at most one core from the streams.
    decoding: Mutex<()>,
    /// Modules of the graph in force that take frames, by the names that events know.
    models: Mutex<Vec<String>>,
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

    /// Takes over the modules of the graph in force.
    pub(crate) fn set_graph(&self, graph: &Graph) {
        let takes_frames = |inputs: &[Vertex]| inputs.iter().any(|input| matches!(input, Vertex::Source(_)));
        let modules = graph.modules().iter();
        // The stages of a cascade are one module, whose first takes the frames.
        let modules = modules.filter(|module| module.stage.as_ref().is_none_or(|stage| stage.index == 0));
        let modules = modules.filter(|module| takes_frames(&module.inputs));
        *lock(&self.models) = modules.map(|module| module.label().to_owned()).collect();
    }

    /// Names of the modules that take frames.
    pub(crate) fn models(&self) -> Vec<String> {
        lock(&self.models).clone()
    }

    /// Passes a picture through the module or the modules of the source that its client names, or of all sources.
    ///
    /// # Errors
    /// It is no picture, there is no such source or module, or too much waits.
    pub(crate) fn infer(
        &self,
        request: PictureRequest,
        answer: PictureSender,
        control: &Control,
        refused: impl Fn(&StreamError) -> ApiError,
    ) -> Result<(), ApiError> {
        let image = self.decode(request.picture)?;
        // A stream without a picture would be one that never had a frame.
        let queue = self
            .queue(request.input, control)
            .map_err(|error| refused(&error))?;
        queue.push(image, answer)
    }

    fn decode(&self, picture: Picture) -> Result<Image, ApiError> {
        let bytes = match picture {
            Picture::File(bytes) => bytes,
            Picture::Rgb {
                width,
                height,
                samples,
            } => return Ok(Image::from_rgb(width, height, samples)),
        };
        let image = {
            let _turn = lock(&self.decoding);
            picture_from(bytes)
        };
        image.map_err(|error| {
            let error = ApiError::new(Refusal::Invalid, format!("the picture cannot be read: {error}"));
            error.hint("send the bytes of a JPEG or PNG file, such as by curl --data-binary @car.jpg")
        })
    }

    /// The queue of the stream with that input; the stream is added where there is none.
    fn queue(&self, input: PictureInput, control: &Control) -> Result<Arc<PictureQueue>, StreamError> {
        let name = match &input {
            PictureInput::AnySource => format!("{SINGLE_PICTURES})"),
            PictureInput::Source(source) => format!("{SINGLE_PICTURES}:{source})"),
            PictureInput::Module(module) => format!("{SINGLE_PICTURES} into {module})"),
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
            share: SHARE,
            ..SourceNode::new(name.as_str(), "pictures of clients")
        };
        let stream = |like| NewStream {
            node,
            factory: Some(Box::new(QueueFactory(Arc::clone(&queue)))),
            like,
        };
        match input {
            PictureInput::AnySource => control.add_stream(stream(None))?,
            PictureInput::Source(source) => control.add_stream(stream(Some(source)))?,
            PictureInput::Module(module) => control.add_stream_into(stream(None), vec![module])?,
        }
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
