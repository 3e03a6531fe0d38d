//! Workers of a module's own that open and close with its load: orders go to their threads, and reports to their pool.

use weir_control::{Message, ModuleMessage};
use weir_policy::{SlotEvent, WorkerEvent};
use weir_types::{ModelId, ModuleId, SlotId};

use super::module_site::ModuleSite;
use super::site::Site;
use crate::session_control::SessionOrder;

impl Site {
    /// Opens or closes a worker. Gives the answer where its thread is gone.
    pub(super) fn change_worker(&self, module: ModuleId, slot: SlotId, opens: bool) -> Option<Message> {
        let model = ModelId(self.modules.get(module.index())?.setup.model as u32);
        // What was open before is in host memory, from which it opens faster.
        let order = match opens {
            true => SessionOrder::Open { model, warm: true },
            false => SessionOrder::Close { model },
        };
        let failed = self.sessions.order(slot, order)?;
        self.on_worker_changed(&failed)
    }

    /// A session has changed on a slot. Gives the news for the pool of the module whose slot that is, where its workers open and
    /// close with the load.
    pub(super) fn on_worker_changed(&self, change: &SlotEvent) -> Option<Message> {
        let (slot, event) = match *change {
            SlotEvent::Opened { slot, took, .. } => (slot, WorkerEvent::Opened { slot, took }),
            SlotEvent::OpenFailed { slot, .. } => (slot, WorkerEvent::OpenFailed { slot }),
            SlotEvent::Closed { slot, .. } => (slot, WorkerEvent::Closed { slot }),
            _ => return None,
        };
        let has = |site: &&ModuleSite| site.setup.is_scaled && site.setup.jobs.contains_key(&slot);
        let site = self.modules.iter().find(has)?;
        let (module, slot) = (&site.setup.name, slot.0);
        match event {
            WorkerEvent::Opened { took, .. } => {
                let took = took.as_secs_f64();
                tracing::info!(
                    module,
                    slot,
                    "a worker of module {module} has opened in {took:.1} s"
                );
            }
            // The worker has said why.
            WorkerEvent::OpenFailed { .. } => {}
            WorkerEvent::Closed { .. } => {
                tracing::info!(
                    module,
                    slot,
                    "a worker of module {module} has closed: fewer are enough"
                );
            }
        }
        Some(Message::Module(site.setup.id, ModuleMessage::Worker(event)))
    }
}
