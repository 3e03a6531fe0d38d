//! The sink that shows deliveries to those who watch. It never holds the engine up: what it is too slow for is skipped.

use std::sync::Arc;

use weir_flow::{
    Delivery, Frame, Notice, Picture, PictureLimits, PictureTaker, Rect, Sink, SinkError, SinkFactory,
    StreamNames,
};
use weir_graph::WhenSlow;
use weir_operators::ObjectPictures;
use weir_runtime::Assembly;
use weir_serve::{LiveKind, LiveMessage};

use super::encoders::Job;
use super::{Live, notes};

/// Its name; no sink of a graph can have it.
pub(crate) const NAME: &str = "(page)";

/// Of pictures where browsers do not play the video.
pub(super) const PICTURES: PictureLimits = PictureLimits {
    max_side: 640,
    max_bytes: 96 << 10,
};

/// See the module.
#[derive(Clone)]
pub(crate) struct LiveSink(pub(crate) Arc<Live>);

impl LiveSink {
    /// The same with this sink, which takes from all sources and modules.
    pub(crate) fn add_to(self, mut assembly: Assembly) -> Assembly {
        assembly.graph = assembly
            .graph
            .with_observer(NAME, "page", WhenSlow::Skip, StreamNames::default());
        assembly.sinks.push(Box::new(self));
        assembly
    }
}

impl SinkFactory for LiveSink {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for LiveSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        for incident in &delivery.incidents {
            self.0.incidents.add(&delivery.stream, incident);
        }
        self.0.stills.offer(&delivery.stream, &delivery.frame);
        let (mut note, mut channels) = (None, Vec::new());
        for shown in self.0.shown(&delivery.stream) {
            let note = note.get_or_insert_with(|| LiveMessage::text(LiveKind::Note, notes::frame(delivery)));
            shown.channel.on_frame(note, delivery.time_ms);
            if shown.channel.wants_picture(delivery.time_ms) {
                channels.push(Arc::clone(&shown.channel));
            }
        }
        if !channels.is_empty()
            && self.0.encoders.takes(&delivery.stream)
            && let Some(picture) = take(&delivery.frame, PICTURES)
        {
            self.0.encoders.offer(Job {
                stream: Arc::clone(&delivery.stream),
                picture,
                time_ms: delivery.time_ms,
                channels,
            });
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        self.0.drops.add(notice);
        match notice {
            Notice::Analytics {
                stream, incidents, ..
            } => {
                for incident in incidents {
                    self.0.incidents.add(stream, incident);
                }
            }
            Notice::Described { sink, description } => self.0.incidents.describe(sink, description),
            _ => {}
        }
        Ok(())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.0.remove(stream);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.incidents.flush();
        Ok(())
    }
}

/// A frame as a JPEG; `None` where there is nothing to see.
pub(super) fn frame_picture(frame: &Frame, limits: PictureLimits) -> Option<Vec<u8>> {
    let picture = take(frame, limits)?;
    let jpeg = picture.jpeg();
    (!jpeg.is_empty()).then(|| jpeg.to_vec())
}

/// The pixels of a frame; `None` where there is nothing to see, as in frames of emulated streams.
fn take(frame: &Frame, limits: PictureLimits) -> Option<Arc<dyn Picture>> {
    let image = &frame.image;
    let (samples, _) = image.planes.plane(0);
    if samples.iter().all(|sample| Some(sample) == samples.first()) {
        return None;
    }
    let whole = Rect::new(0.0, 0.0, image.width as f32, image.height as f32);
    ObjectPictures::default().take(frame, &whole, limits)
}
