//! The thread of the egress: books, trackers, transforms and what sinks are given are beside control, which waits for none
//! of it.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use actix::{Actor, Addr, System};
use tokio::sync::oneshot;

use crate::actors::{Egress, EgressSetup};
use crate::assembly::RunError;
use crate::processor_time::{ProcessorTimes, ThreadKind};

/// See the module. The thread ends when this is dropped.
pub(super) struct EgressThread {
    pub(super) address: Addr<Egress>,
    _until_dropped: oneshot::Sender<()>,
}

impl EgressThread {
    /// Starts the egress; its thread is among `threads` afterwards.
    ///
    /// # Errors
    /// [`RunError`] where the machine gives no thread.
    pub(super) fn start(
        setup: EgressSetup,
        processor: &Arc<ProcessorTimes>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Self, RunError> {
        let (until_dropped, dropped) = oneshot::channel::<()>();
        let (sender, address) = crossbeam_channel::bounded(1);
        let processor = Arc::clone(processor);
        let thread = Builder::new().name("weir-egress".to_owned()).spawn(move || {
            System::new().block_on(async move {
                let timer = processor.timer(ThreadKind::Delivery);
                let _ = sender.send(Egress::new(setup, timer).start());
                // An error: the other end was dropped.
                let _ = dropped.await;
            });
        })?;
        threads.push(thread);
        let address = address.recv();
        Ok(Self {
            address: address.map_err(|_| RunError::EngineFailed("the egress did not start"))?,
            _until_dropped: until_dropped,
        })
    }
}
