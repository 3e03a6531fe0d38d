//! The sink that sends clients the objects of their pictures, or the reason why a picture was dropped.

use std::sync::Arc;

use weir_flow::{Delivery, Notice, Sink, SinkError};
use weir_operators::sinks::{annotated_png, event_line};
use weir_serve::{ApiError, PictureAnswer, PictureObject, Refusal};

use super::Pictures;

pub(super) struct AnsweringSink(pub(super) Arc<Pictures>);

impl Sink for AnsweringSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let queue = self.0.of(&delivery.stream);
        if let Some(answer) = queue.and_then(|queue| queue.take(delivery.frame.index)) {
            let drawn = delivery.clone();
            let objects = delivery.objects.iter().map(|delivered| {
                let object = &delivered.object;
                let rect = object.rect;
                PictureObject {
                    class: Arc::clone(&object.class),
                    score: object.score,
                    corners: [rect.x0, rect.y0, rect.x1, rect.y1],
                }
            });
            answer.send(Ok(PictureAnswer {
                line: event_line(delivery),
                objects: objects.collect(),
                drawing: Box::new(move || annotated_png(&drawn)),
            }));
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let Notice::Dropped {
            stream,
            frame,
            module,
            reason,
            ..
        } = notice
        else {
            return Ok(());
        };
        if let Some(answer) = self.0.of(stream).and_then(|queue| queue.take(*frame)) {
            let what = match module {
                Some(module) => format!("the picture was dropped by the module {module}: {reason}"),
                None if *reason == "late" => "the picture was ready after its deadline: late".to_owned(),
                None => format!("the picture was dropped before the first module: {reason}"),
            };
            let error = ApiError::new(Refusal::Unavailable, what).retry_after(1);
            answer.send(Err(error.hint(
                "the engine has more to do than it can do in time: try again later",
            )));
        }
        Ok(())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        if let Some(queue) = self.0.of(stream) {
            queue.end();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        // Each picture that its source has read was delivered or dropped.
        Ok(())
    }
}
