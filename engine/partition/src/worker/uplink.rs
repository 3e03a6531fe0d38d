//! The uplink: sends features to other workers, a thread a destination, so that one that stalls holds up no other.
//!
//! Where the link is emulated, it carries one feature at a time, as reservations have it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use weir_flow::Tensor;
use weir_types::{SleepCompensator, Span};

use super::core::Core;
use super::desk::Desk;
use super::emulation::{Emulation, keep};
use super::hops::Hops;
use super::permit::Permit;
use crate::line::{Inlet, Outlet, Patience, call};
use crate::local::Locals;
use crate::wire::{Address, Failure, Leg, Limits, Message, WireError};

/// Destinations at a time, at most.
const DESTINATIONS_MOST: usize = 256;

/// A destination that nothing was sent to for so long is let go of.
const IDLE_MOST: Duration = Duration::from_secs(30);

/// A feature, the connection that it belongs to, its place in memory.
type Waiting = (Leg, u64, Permit);

/// The uplink of a worker.
pub(super) struct Uplink {
    road: Arc<Road>,
    links: Mutex<BTreeMap<Address, Sender<Waiting>>>,
}

/// What sending takes.
pub(super) struct Road {
    pub(super) desk: Arc<Desk>,
    pub(super) locals: Locals,
    pub(super) limits: Limits,
    pub(super) patience: Patience,
    pub(super) emulation: Emulation,
    /// Features that wait for one destination, at most.
    pub(super) queue_most: usize,
    /// Whose turn it is where the link is emulated.
    pub(super) turn: Mutex<SleepCompensator>,
    /// Where features may go.
    pub(super) hops: Hops,
}

impl Uplink {
    pub(super) fn new(road: Road) -> Self {
        Self {
            road: Arc::new(road),
            links: Mutex::default(),
        }
    }

    /// Sends what came out of a stage on its way to the next; a batch that cannot go is told.
    pub(super) fn send(self: &Arc<Self>, mut leg: Leg, outputs: Vec<Tensor>, generation: u64) {
        let next = leg.rest.remove(0);
        leg.stage += 1;
        (leg.share, leg.part, leg.tensors) = (next.share, next.part, outputs);
        let (key, stage) = (leg.key, leg.stage);
        let failed = |failure| self.road.desk.fail(generation, key, stage, failure);
        if let Address::Tcp(to) = next.address
            && !self.road.hops.allow(to)
        {
            let reason = format!("{to} is not among the hops of this worker (weir worker --hops)");
            return failed(Failure::Unreachable(reason));
        }
        let Some(permit) = Permit::take(&self.road.desk, &leg.tensors) else {
            return failed(Failure::QueueFull);
        };
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if !links.contains_key(&next.address) {
            if links.len() >= DESTINATIONS_MOST {
                return failed(Failure::Unreachable("there are too many destinations".to_owned()));
            }
            match self.start(next.address) {
                Ok(link) => drop(links.insert(next.address, link)),
                Err(error) => return failed(Failure::Unreachable(error.to_string())),
            }
        }
        if let Err(refused) = links[&next.address].try_send((leg, generation, permit)) {
            drop(links);
            failed(match refused {
                TrySendError::Full(_) => Failure::QueueFull,
                TrySendError::Disconnected(_) => Failure::Unreachable("its thread has ended".to_owned()),
            });
        }
    }

    fn start(self: &Arc<Self>, to: Address) -> std::io::Result<Sender<Waiting>> {
        let (sender, waiting) = bounded(self.road.queue_most);
        let mut link = Link {
            to,
            road: Arc::clone(&self.road),
            of: Arc::downgrade(self),
            connection: None,
        };
        std::thread::Builder::new()
            .name("weir-uplink".to_owned())
            .spawn(move || link.work(&waiting))?;
        Ok(sender)
    }
}

/// One destination.
struct Link {
    to: Address,
    road: Arc<Road>,
    of: Weak<Uplink>,
    connection: Option<(Inlet, Outlet)>,
}

impl Link {
    fn work(&mut self, waiting: &Receiver<Waiting>) {
        loop {
            match waiting.recv_timeout(IDLE_MOST) {
                Ok((leg, generation, _permit)) => self.transmit(leg, generation),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let Some(uplink) = self.of.upgrade() else { return };
                    let mut links = uplink.links.lock().unwrap_or_else(PoisonError::into_inner);
                    // Senders send while they hold the lock, so nothing can come between.
                    if waiting.is_empty() {
                        links.remove(&self.to);
                        return;
                    }
                }
            }
        }
    }

    fn transmit(&mut self, mut leg: Leg, generation: u64) {
        let road = Arc::clone(&self.road);
        if !road.desk.serves(generation) {
            return super::desk::count(&road.desk.counts.stale);
        }
        let (key, stage) = (leg.key, leg.stage);
        let bytes: usize = leg.tensors.iter().map(|tensor| tensor.data.len()).sum();
        let kept = road.emulation.transfer(bytes as u64);
        let mut turn = (kept > Span::ZERO).then(|| road.turn.lock().unwrap_or_else(PoisonError::into_inner));
        leg.began = road.desk.engine_now();
        if let Some(owed) = &mut turn {
            keep(&road.desk, kept, owed);
        }
        let sent = match self.to {
            Address::Local(number) => match road.locals.find(number) {
                Some(worker) => {
                    drop(turn);
                    Core::feature(&worker, leg);
                    Ok(())
                }
                None => Err(WireError::Closed),
            },
            Address::Tcp(_) => self.write(leg),
        };
        if let Err(error) = sent {
            self.connection = None;
            tracing::warn!(to = %self.to, "feature not sent: {error}");
            let reason = format!("{}: {error}", self.to);
            road.desk
                .fail(generation, key, stage, Failure::Unreachable(reason));
        }
    }

    /// Writes to the connection that is open, or to a new one where its peer is another since.
    fn write(&mut self, leg: Leg) -> Result<(), WireError> {
        let Address::Tcp(to) = self.to else {
            return Err(WireError::Unexpected("feature"));
        };
        let open = self.connection.take_if(|(inlet, _)| inlet.alive());
        let (inlet, mut outlet) = match open {
            Some(open) => open,
            None => {
                let road = &self.road;
                let now = road.desk.clock();
                let called = call(
                    to,
                    &Message::Peer,
                    road.limits,
                    &road.patience,
                    now,
                    &road.desk.stop,
                )?;
                (called.1, called.2)
            }
        };
        outlet.send(&Message::Feature(leg))?;
        self.connection = Some((inlet, outlet));
        Ok(())
    }
}
