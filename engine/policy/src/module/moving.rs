//! A sequence between two instances: it left one, and is put on the other once its tokens or its cache are there.
//!
//! Without a link (`transfer` of the router) that is at once, with the numbers of its tokens. A live engine has none: the module
//! has all tokens.

use weir_types::{InstanceId, SequenceId, Timestamp};

use super::Module;
use super::api::ModuleEffect;
use super::instances::{Generative, InTransit};
use crate::route::RouteEvent;

impl Module {
    /// A sequence has left its instance, where the cache of so many of its tokens was.
    pub(super) fn hand_on(
        &mut self,
        generative: &mut Generative,
        (id, to): (SequenceId, InstanceId),
        cached: u32,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let sequence = generative.sequences.get_mut(&id);
        let link = sequence.zip(generative.router.spec().transfer);
        if let Some((sequence, cost)) = link
            && let Some(instance) = generative.instances.get(to.index())
        {
            let tokens = sequence.prompt.saturating_add(sequence.generated);
            let (took, cached) = cost.carry([tokens, cached], instance.spec());
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
