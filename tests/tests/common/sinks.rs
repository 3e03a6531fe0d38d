//! Sinks that keep what they are given.

use std::sync::{Arc, Mutex};

use weir_flow::{Delivery, Notice, Sink, SinkError, SinkFactory};

/// Frames that a sink has heard of, delivered or not, in the order in which it did.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(pub(crate) Arc<Mutex<Vec<u64>>>);

impl SinkFactory for Outcomes {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Outcomes {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.0.lock().unwrap().push(delivery.frame.index);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Dropped { frame, .. } = notice {
            self.0.lock().unwrap().push(*frame);
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Keeps what it is given.
#[derive(Clone, Default)]
pub(crate) struct Kept(pub(crate) Arc<Mutex<Vec<Delivery>>>);

impl Sink for Kept {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.0.lock().unwrap().push(delivery.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl SinkFactory for Kept {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}
