//! Carrying out what machines want done.

use weir_control::{Act, Address, Effect, Entry, Message, ModuleMessage, RequestInfo, View};
use weir_policy::Outcome;
use weir_types::{DropReason, ModuleId, RequestId, Timestamp};

use super::{Event, Shift, Site};

impl Act for Site<'_> {
    fn act(&mut self, effect: Effect, view: View<'_>, answers: &mut Vec<Message>) {
        match effect {
            Effect::Enter(module, request) => {
                let entry = self.entry(module, &request);
                // What comes to a later stage is known only now.
                if let Entry::Items(items) = entry
                    && self.spec.cascades.is_later_stage(module.index())
                {
                    answers.extend(self.foretold(module, items));
                }
                answers.push(Message::Module(module, ModuleMessage::Entered(request, entry)));
            }
            Effect::Leave {
                module,
                request,
                fallback,
            } => self.leave(module, request, fallback, answers),
            Effect::Run {
                module,
                slot,
                batch,
                slices,
                ..
            } => self.run_batch(module, slot, batch, &slices),
            Effect::Dispatch {
                module,
                batch,
                slices,
                ..
            } => self.note_run(module, batch, &slices),
            Effect::SetOut {
                booking,
                module,
                batch,
                items,
                path,
            } => self.set_out(booking, (module, batch, items), &path, view.reservations),
            Effect::PathLost(booking) => self.lose_path(booking, answers),
            Effect::BatchOver {
                module,
                batch,
                failed,
            } => {
                if let Some(stages) = &mut self.stages {
                    stages.on_batch_end(module, batch, failed);
                }
            }
            Effect::Place {
                module,
                sequence,
                request,
                item,
                ..
            } => self.on_placed(module, sequence, request, item),
            Effect::RunStep { module, slot, step } => self.run_step(module, slot, step),
            // The location of a sequence's cache has no effect on its output.
            Effect::Remove { .. } | Effect::Evict { .. } | Effect::GiveUpPlan(..) | Effect::TakenOut(_) => {}
            // Gears are set once, at the beginning.
            Effect::StagesUnset(_) => {}
            Effect::Session(effect) => self.change_session(effect),
            Effect::OpenWorker { module, slot } => self.start_worker(module, slot),
            Effect::CloseWorker { module, slot } => answers.push(self.stop_worker(module, slot)),
            Effect::LoadPlan(plan) => self.load_plan(plan),
            Effect::SwitchPlan { plan, .. } => self.switch_plan(plan, answers),
            Effect::Replan(conditions) => self.replan(&conditions),
            Effect::StageSet {
                module,
                stream,
                setting,
            } => {
                self.tiles.set(module, stream, setting);
                if let Some(stages) = &mut self.stages {
                    stages.set(module, stream, setting);
                }
            }
            Effect::Shifted { gear, rate, stream } => {
                let at = self.now;
                self.shifts.push(Shift {
                    at,
                    gear,
                    rate,
                    stream,
                });
            }
            Effect::Published(_, published) => self.timeline.on_state_published(published.bytes()),
            Effect::Ended {
                request,
                outcome,
                unused,
                ..
            } => self.on_ended(&request, outcome, unused),
            Effect::SetTimer { of, at } => self.set_timer(of, at),
            Effect::Carry { message, link, .. } => self.carry(message, link, answers),
        }
    }
}

impl Site<'_> {
    fn set_timer(&mut self, of: Address, at: Timestamp) {
        let at = if of == Address::Slots {
            at.max(self.now)
        } else {
            at
        };
        let fires = at + self.spec.timer_delay;
        self.event_queue.push(fires, Event::TimerFired(of));
    }

    /// Items or prompts that a request brings to a module.
    fn entry(&mut self, module: ModuleId, request: &RequestInfo) -> Entry {
        let items = self.items_at(module, request);
        self.prompts(module, request, items)
            .unwrap_or(Entry::Items(u32::from(items)))
    }

    fn leave(
        &mut self,
        module: ModuleId,
        request: RequestId,
        fallback: Option<DropReason>,
        answers: &mut Vec<Message>,
    ) {
        let settled = self.stages.as_mut();
        let stage = settled.and_then(|stages| stages.settle(module, request, fallback));
        let is_degraded = fallback.is_some() && self.spec.cascades.optional.contains(&module.index());
        if stage.is_some() || is_degraded {
            answers.push(Message::Module(
                module,
                ModuleMessage::Left { stage, is_degraded },
            ));
        }
    }

    fn on_ended(&mut self, request: &RequestInfo, outcome: Outcome, unused: bool) {
        let &RequestInfo {
            id, stream, sent_at, ..
        } = request;
        if let Some(stages) = &mut self.stages {
            stages.on_ended(id, outcome == Outcome::Delivered, self.requests.row(id));
        }
        if let Some(decoders) = &mut self.decoders {
            decoders.on_request_ended((stream, sent_at), outcome == Outcome::Delivered, unused);
        }
        if outcome != Outcome::Delivered {
            self.timeline.on_lost(sent_at);
        }
        if let Outcome::Dropped(Some(module), _) = outcome {
            self.timeline.on_dropped(module, self.now);
        }
        // A request that was dropped by no module was not admitted.
        if !matches!(outcome, Outcome::Dropped(None, _)) {
            self.free_place(stream, sent_at);
        }
    }
}
