//! Passes the events of the client to the actors of graphs: what is about a batch to its graph, the rest to all. Events before the
//! first graph are buffered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use actix::{Message, Recipient};
use weir_partition::{Event, WorkerId, WorkerInfo};

use crate::lock::lock;

/// A partition worker reported something.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct WorkerEvent(pub(crate) Event);

/// From the threads of the client to the actors.
#[derive(Clone)]
pub(crate) struct EventRelay(Arc<Mutex<State>>);

struct State {
    /// Events before the first graph; `None` since that one began.
    buffered: Option<Vec<Event>>,
    /// By number of the graph: the one in force, and those before it that are not down yet.
    graphs: BTreeMap<u32, Recipient<WorkerEvent>>,
    /// Workers that are up.
    up: BTreeMap<WorkerId, WorkerInfo>,
    /// Losses of each worker since the first graph began.
    losses: BTreeMap<WorkerId, u64>,
}

/// The graph that an event is about; `None`: it is about a worker.
fn graph_of(event: &Event) -> Option<u32> {
    match event {
        Event::Used { key, .. } | Event::Done { key, .. } | Event::Failed { key, .. } => Some(key.graph),
        Event::Up { .. }
        | Event::Down { .. }
        | Event::Loaded { .. }
        | Event::NotLoaded { .. }
        | Event::Activated { .. } => None,
    }
}

impl State {
    fn publish(&mut self, event: Event) {
        match &event {
            Event::Up { worker, info } => {
                self.up.insert(*worker, info.clone());
            }
            Event::Down { worker, .. } => {
                self.up.remove(worker);
                *self.losses.entry(*worker).or_default() += u64::from(self.buffered.is_none());
            }
            _ => {}
        }
        if let Some(buffered) = &mut self.buffered {
            return buffered.push(event);
        }
        match graph_of(&event) {
            Some(graph) => {
                if let Some(graph) = self.graphs.get(&graph) {
                    graph.do_send(WorkerEvent(event));
                }
            }
            None => {
                self.graphs.retain(|_, graph| graph.connected());
                for graph in self.graphs.values() {
                    graph.do_send(WorkerEvent(event.clone()));
                }
            }
        }
    }
}

impl EventRelay {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            buffered: Some(Vec::new()),
            graphs: BTreeMap::new(),
            up: BTreeMap::new(),
            losses: BTreeMap::new(),
        })))
    }

    /// Passes an event on; called on threads of the client.
    pub(crate) fn publish(&self, event: Event) {
        lock(&self.0).publish(event);
    }

    /// Takes the events that arrived while there is no graph.
    pub(crate) fn take_buffered(&self) -> Vec<Event> {
        let mut state = lock(&self.0);
        state.buffered.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Passes what is buffered, and all later events that concern it, to the graph of that number. Gives the workers that are up
    /// before these events.
    pub(crate) fn connect(
        &self,
        graph: u32,
        receiver: Recipient<WorkerEvent>,
    ) -> BTreeMap<WorkerId, WorkerInfo> {
        let mut state = lock(&self.0);
        state.graphs.insert(graph, receiver);
        let up = state.up.clone();
        for event in state.buffered.take().into_iter().flatten() {
            // Whether workers are up is in the answer already.
            if !matches!(event, Event::Up { .. } | Event::Down { .. }) {
                state.publish(event);
            }
        }
        up
    }

    /// Gives how often each worker was lost since the first graph began.
    pub(crate) fn losses(&self) -> BTreeMap<WorkerId, u64> {
        lock(&self.0).losses.clone()
    }
}
