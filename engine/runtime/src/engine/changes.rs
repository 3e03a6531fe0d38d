//! Changes of what runs: another policy, and another objective or share of a stream. Modules and the arbiter of slots get them
//! as events, in the order of what happens to their requests; deadlines of requests in flight stay.

use std::sync::Arc;

use weir_control::Message;
use weir_graph::SourceMode;
use weir_policy::{BatchBinding, ModuleEvent, ModuleSpec, Policy, SlotEvent, StreamShare};
use weir_types::{Span, StreamId};

use super::live_streams::LiveStreams;
use super::{RunContext, RunGraph, StreamContext};
use crate::actors::SetStreamSlo;
use crate::command::{StreamChange, StreamError};
use crate::routes::Route;

impl RunContext<'_> {
    /// Puts another policy into force.
    pub(super) fn apply_policy(&self, policy: &Policy, context: &StreamContext) -> Result<(), StreamError> {
        if self.stop.is_raised() {
            return Err(StreamError::Stopping);
        }
        let policy = &policy.clone().or_mailboxes(self.policy.borrow().mailboxes());
        let keys = self.policy.borrow().fixed_differences(policy);
        if !keys.is_empty() {
            return Err(StreamError::FixedPolicy { keys });
        }
        let applied = SlotEvent::PolicyApplied {
            arbitration: policy.arbitration,
            forecasts: policy.binding() == BatchBinding::Early,
        };
        context.actors.tell(applied);
        let policy_applied = ModuleEvent::PolicyApplied {
            policy: Box::new(policy.clone()),
        };
        context.actors.tell(Message::Modules(policy_applied));
        self.policy.replace(policy.clone());
        Ok(())
    }

    /// Changes the objective, the share or the groups of a stream.
    pub(super) fn change_stream(
        &self,
        name: &str,
        change: StreamChange,
        context: &StreamContext,
        live: &mut LiveStreams,
    ) -> Result<(), StreamError> {
        let stream = live.get_mut(name)?;
        let share = StreamShare {
            weight: change.weight.unwrap_or(stream.share.weight),
            reserve: change.reserve.unwrap_or(stream.share.reserve),
        };
        let slo = change.slo.unwrap_or(stream.slo);
        self.check_share(name, share)?;
        self.check_slo(name, stream.mode, slo, &stream.route)?;
        if slo != stream.slo {
            stream.slo = slo;
            stream.control.set_own_slo(slo);
            stream
                .admission
                .set_slo(slo.unwrap_or(self.in_force().graph.slo()));
            context.actors.egress.do_send(SetStreamSlo {
                stream: stream.id,
                own_slo: slo,
            });
        }
        if share != stream.share {
            stream.share = share;
            self.publish_share(stream.id, share, context);
        }
        if let Some(groups) = change.groups {
            stream.groups = groups;
        }
        Ok(())
    }

    /// Informs all modules of the share of a stream.
    pub(super) fn publish_share(&self, stream: StreamId, share: StreamShare, context: &StreamContext) {
        let changed = ModuleEvent::StreamShareChanged { stream, share };
        context.actors.tell(Message::Modules(changed));
    }

    pub(super) fn check_share(&self, name: &str, share: StreamShare) -> Result<(), StreamError> {
        if share.is_valid() {
            return Ok(());
        }
        Err(StreamError::Share {
            name: name.to_owned(),
        })
    }

    /// Checks that frames of a live stream with an objective of its own can be in time.
    pub(super) fn check_slo(
        &self,
        name: &str,
        mode: SourceMode,
        slo: Option<Span>,
        route: &Arc<Route>,
    ) -> Result<(), StreamError> {
        let Some(slo) = slo.filter(|_| mode == SourceMode::Live) else {
            return Ok(());
        };
        let duration = |spec: &ModuleSpec| {
            let own = spec.peers.get(spec.id.index());
            let is_optional = own.is_some_and(|own| own.fallback.is_optional());
            if route.passes(spec.id) && !is_optional {
                spec.profile.duration(1)
            } else {
                Span::ZERO
            }
        };
        let in_force = self.in_force();
        let durations: Vec<Span> = in_force.specs.modules.iter().map(duration).collect();
        let execution = weir_graph::bare_execution(&in_force.graph, &durations);
        if execution > slo {
            return Err(StreamError::SloTooShort {
                name: name.to_owned(),
                execution,
                slo,
            });
        }
        Ok(())
    }

    /// Returns a warning if the reserves of all streams exceed the capacity of the machine by the measured
    /// profiles. Modules whose items are crops do not count, since the number of crops per frame is unknown.
    pub(super) fn reserve_warning(&self, live: &LiveStreams) -> Option<String> {
        let RunGraph { graph, specs, .. } = &*self.in_force();
        let mut needed = vec![0.0; specs.slots.slots as usize];
        for (spec, node) in specs.modules.iter().zip(graph.modules()) {
            let reserves = live.iter().filter(|stream| stream.route.passes(spec.id));
            let reserved: f64 = reserves.filter_map(|stream| stream.share.reserve).sum();
            let seconds = |size: &u32| spec.profile.duration(*size).as_secs_f64() / f64::from((*size).max(1));
            let least = spec.batch.iter().map(seconds).reduce(f64::min).unwrap_or(0.0);
            if !node.regions.is_empty() {
                continue;
            }
            for slot in &spec.slots {
                if let Some(needed) = needed.get_mut(slot.index()) {
                    *needed += reserved * least / spec.slots.len() as f64;
                }
            }
        }
        let most = needed.into_iter().reduce(f64::max).filter(|most| *most > 1.0)?;
        Some(format!(
            "the streams reserve {:.0} % of what the machine can do: reserves are kept as far as it can; lower them",
            100.0 * most
        ))
    }
}
