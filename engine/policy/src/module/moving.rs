//! Moves of sequences between instances: a sequence leaves one, and is placed on the other once its tokens or
//! its cache have arrived.
//!
//! Without a link (`transfer` of the router) a move is immediate and carries the tokens alone. A live engine
//! sets a link if all instances of a model are in its process and can take each other's caches. Without a
//! link the module's record of the tokens is enough.

use weir_types::{InstanceId, SequenceId, Span, Timestamp};

use super::Module;
use super::api::ModuleEffect;
use super::instances::{Generative, InTransit};
use crate::route::RouteEvent;

/// A move of one sequence over the link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trip {
    /// Duration of the transfer.
    took: Span,
    /// Number of tokens whose cache is transferred too.
    pub(super) cached: u32,
}

impl Generative {
    /// Plans the move of a sequence to instance `to`, with `cached` of its tokens cached at the origin.
    /// `None` without a link.
    pub(super) fn trip(&self, (id, to): (SequenceId, InstanceId), cached: u32) -> Option<Trip> {
        let cost = self.router.spec().transfer?;
        let (sequence, instance) = (self.sequences.get(&id)?, self.instances.get(to.index())?);
        let tokens = [sequence.prompt.saturating_add(sequence.generated), cached];
        let (took, cached) = cost.carry(cost.cheaper(tokens, instance.spec()), tokens);
        Some(Trip { took, cached })
    }
}

impl Module {
    /// A sequence has left its instance for `to`: starts the trip, or places it at once if there is none.
    pub(super) fn hand_on(
        &mut self,
        generative: &mut Generative,
        (id, to): (SequenceId, InstanceId),
        trip: Option<Trip>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if let Some((Trip { took, cached }, sequence)) = trip.zip(generative.sequences.get_mut(&id)) {
            let at = now + took;
            sequence.is_placed = false;
            generative.in_transit.insert(id, InTransit { at, to, cached });
            effects.push(ModuleEffect::SetTimer { at });
            return;
        }
        self.arrive(generative, (id, to), 0, now, effects);
    }

    fn arrive(
        &mut self,
        generative: &mut Generative,
        (id, to): (SequenceId, InstanceId),
        cached: u32,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        self.place(generative, id, (to, cached), effects);
        self.route(generative, RouteEvent::Moved { sequence: id }, now, effects);
    }

    /// Places all sequences whose transfer is over by `now`.
    pub(super) fn take_arrived(
        &mut self,
        generative: &mut Generative,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let in_transit = generative.in_transit.iter();
        let there = in_transit.filter(|(_, in_transit)| in_transit.at <= now);
        let mut there: Vec<(Timestamp, SequenceId)> =
            there.map(|(id, in_transit)| (in_transit.at, *id)).collect();
        there.sort_unstable();
        for (_, id) in there {
            if let Some(InTransit { to, cached, .. }) = generative.in_transit.remove(&id) {
                self.arrive(generative, (id, to), cached, now, effects);
            }
        }
    }
}
