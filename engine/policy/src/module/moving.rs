//! A sequence between two instances: it left one, and is put on the other once its tokens or its cache are there.
//!
//! Without a link (`transfer` of the router) that is at once, with the numbers of its tokens. A live engine has a link where all
//! instances of a model are in its process and take each other's caches, and else none: the module has all tokens.

use weir_types::{InstanceId, SequenceId, Span, Timestamp};

use super::Module;
use super::api::ModuleEffect;
use super::instances::{Generative, InTransit};
use crate::route::RouteEvent;

/// How a sequence goes over the link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trip {
    /// How long.
    took: Span,
    /// Tokens whose cache goes with it.
    pub(super) cached: u32,
}

impl Generative {
    /// How a sequence goes to an instance, with so many of its tokens cached where it is; `None` without a link.
    pub(super) fn trip(&self, (id, to): (SequenceId, InstanceId), cached: u32) -> Option<Trip> {
        let cost = self.router.spec().transfer?;
        let (sequence, instance) = (self.sequences.get(&id)?, self.instances.get(to.index())?);
        let tokens = [sequence.prompt.saturating_add(sequence.generated), cached];
        let (took, cached) = cost.carry(cost.cheaper(tokens, instance.spec()), tokens);
        Some(Trip { took, cached })
    }
}

impl Module {
    /// A sequence has left its instance.
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

    /// Puts those that are there by now where they go to.
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
