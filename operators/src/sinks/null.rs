//! A sink that only counts.

use weir_flow::{Delivery, Sink, SinkError, SinkFactory};

use super::SinkKind;

pub(super) const KIND: SinkKind = SinkKind {
    name: "null",
    about: "only counts deliveries",
    keys: &[],
    file_per_stream: false,
    create: |_, _| Ok(Box::new(NullFactory)),
};

/// Opens a [`CountingSink`].
struct NullFactory;

impl SinkFactory for NullFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(CountingSink::default()))
    }
}

/// Counts deliveries and their objects; logs the counts when finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountingSink {
    /// Number of deliveries received so far.
    pub deliveries: u64,
    /// Number of objects in these deliveries.
    pub objects: u64,
}

impl Sink for CountingSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.deliveries += 1;
        self.objects += delivery.objects.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        tracing::info!(
            deliveries = self.deliveries,
            objects = self.objects,
            "null sink finished"
        );
        Ok(())
    }
}
