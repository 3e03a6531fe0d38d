//! A sink of the program's own: keeps what every delivery says, as its event line says it.

use std::sync::{Arc, Mutex, PoisonError};

use weir_flow::{Delivery, Sink, SinkError, SinkFactory};
use weir_operators::sinks::event_line;

use crate::score::{Event, Events};

/// A sink that collects the events of a run. It grows with the run, by some hundred bytes for each detected
/// object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<Events>>);

impl Tap {
    /// Takes the events so far out of the tap.
    pub(crate) fn drain(&self) -> Events {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SinkFactory for Tap {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Tap {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        // Through the line, so that a run and the file that it wrote have the same score.
        let event: Event = serde_json::from_str(&event_line(delivery)).map_err(|error| SinkError {
            target: "what is to be scored".to_owned(),
            reason: format!("frame {} says what no event says: {error}", delivery.frame.index),
        })?;
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = events.entry(event.stream).or_default();
        frames.insert(event.frame, event.objects);
        Ok(())
    }

    fn wants_candidates(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
