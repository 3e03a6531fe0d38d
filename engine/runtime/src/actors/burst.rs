//! Events that are decided on together: an actor that drives a state machine of the policy collects what comes in, decides
//! once the burst is in, records the step, and applies the effects.
//!
//! What an actor spawns onto itself is polled after its mailbox is empty, so whatever had been sent by then is in. The test
//! pins that of actix.

use actix::fut::{self, ActorFutureExt};
use actix::{Actor, AsyncContext, Context, SpawnHandle};
use weir_types::{Span, Timestamp};

use crate::clock::Clock;
use crate::record::Recorder;
use crate::state_machine::StateMachine;

/// A state machine with the events that it has not decided on yet.
pub(crate) struct Burst<M: StateMachine> {
    machine: M,
    clock: Clock,
    recorder: Option<Recorder>,
    events: Vec<M::Event>,
    /// Empty but while a step is applied; kept for its memory.
    effects: Vec<M::Effect>,
    decide_pending: bool,
    timer: Option<SpawnHandle>,
    /// How long the last step took.
    last_step: Span,
}

impl<M: StateMachine> Burst<M> {
    pub(crate) fn new(machine: M, clock: Clock, recorder: Option<Recorder>) -> Self {
        Self {
            machine,
            clock,
            recorder,
            events: Vec::new(),
            effects: Vec::new(),
            decide_pending: false,
            timer: None,
            last_step: Span::ZERO,
        }
    }

    pub(crate) fn machine(&self) -> &M {
        &self.machine
    }

    /// How long the last step took.
    pub(crate) fn last_step(&self) -> Span {
        self.last_step
    }

    /// Adds an event to those that the next step takes.
    pub(crate) fn push(&mut self, event: M::Event) {
        self.events.push(event);
    }

    /// Decides on all events, and records the step.
    fn step(&mut self) -> Vec<M::Effect> {
        self.decide_pending = false;
        let now = self.clock.now();
        let events = std::mem::take(&mut self.events);
        let mut effects = std::mem::take(&mut self.effects);
        match &self.recorder {
            None => {
                self.machine.step(events, now, &mut effects);
                self.last_step = self.clock.now().since(now);
            }
            Some(recorder) => {
                self.machine.step(events.iter().cloned(), now, &mut effects);
                self.last_step = self.clock.now().since(now);
                recorder.record_step(&self.machine, now, &events, &effects);
            }
        }
        effects
    }
}

/// An actor that drives a state machine of the policy.
pub(crate) trait PolicyActor: Actor<Context = Context<Self>> {
    type Machine: StateMachine;

    fn burst(&mut self) -> &mut Burst<Self::Machine>;

    /// Carries out what was decided.
    fn apply(&mut self, effect: <Self::Machine as StateMachine>::Effect, context: &mut Context<Self>);

    /// Takes in an event; it is decided on with all others of its burst.
    fn on_event(&mut self, event: <Self::Machine as StateMachine>::Event, context: &mut Context<Self>) {
        self.burst().push(event);
        self.decide_soon(context);
    }

    /// Decides once the burst is in.
    fn decide_soon(&mut self, context: &mut Context<Self>) {
        if !std::mem::replace(&mut self.burst().decide_pending, true) {
            context.spawn(fut::ready(()).map(|(), actor: &mut Self, context| actor.decide(context)));
        }
    }

    /// Decides now on what is in, if only on the time.
    fn decide(&mut self, context: &mut Context<Self>) {
        let mut effects = self.burst().step();
        for effect in effects.drain(..) {
            self.apply(effect, context);
        }
        self.burst().effects = effects;
    }

    /// Calls `on_time` at `at`, instead of what was to be called before.
    fn set_timer(
        &mut self,
        at: Timestamp,
        context: &mut Context<Self>,
        on_time: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        let burst = self.burst();
        let wait = burst.clock.duration_until(at);
        if let Some(timer) = burst.timer.replace(context.run_later(wait, on_time)) {
            context.cancel_future(timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use actix::{Handler, Message, System};
    use tokio::sync::oneshot;

    use super::*;
    use crate::state_machine::Line;

    /// Gives the events of a step as one effect.
    struct Echo;

    impl StateMachine for Echo {
        type Event = u32;
        type Effect = Vec<u32>;

        fn step(
            &mut self,
            events: impl IntoIterator<Item = u32>,
            _now: Timestamp,
            effects: &mut Vec<Vec<u32>>,
        ) {
            effects.push(events.into_iter().collect());
        }

        fn line(&self, at: Timestamp, _events: Vec<u32>, _effects: Vec<Vec<u32>>) -> Line {
            let (events, effects) = (Vec::new(), Vec::new());
            Line::Slots {
                graph: 0,
                at,
                events,
                effects,
            }
        }
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Arrived(u32);

    struct Probe {
        burst: Burst<Echo>,
        decided: Option<oneshot::Sender<Vec<u32>>>,
    }

    impl Actor for Probe {
        type Context = Context<Self>;
    }

    impl PolicyActor for Probe {
        type Machine = Echo;

        fn burst(&mut self) -> &mut Burst<Echo> {
            &mut self.burst
        }

        fn apply(&mut self, effect: Vec<u32>, _context: &mut Context<Self>) {
            if let Some(decided) = self.decided.take() {
                decided.send(effect).unwrap();
            }
        }
    }

    impl Handler<Arrived> for Probe {
        type Result = ();

        fn handle(&mut self, Arrived(number): Arrived, context: &mut Self::Context) {
            self.on_event(number, context);
        }
    }

    #[test]
    fn a_burst_is_in_before_it_is_decided_on() {
        let seen = System::new().block_on(async {
            let (sender, receiver) = oneshot::channel();
            let probe = Probe {
                burst: Burst::new(Echo, Clock::start(), None),
                decided: Some(sender),
            }
            .start();
            for number in 0..10 {
                probe.do_send(Arrived(number));
            }
            receiver.await.unwrap()
        });
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }
}
