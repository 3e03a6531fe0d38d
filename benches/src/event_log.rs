//! Noise of durations, time of hand-overs and delay of timers in the event log of a live run: a simulation of the same graph
//! takes them from here.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use weir_control::{Address, ControlSpec, Effect, Message, ModuleMessage};
use weir_policy::generate::Step;
use weir_policy::{BatchSlice, ModuleSpec, SlotEffect, SlotEvent};
use weir_types::{BatchId, ModuleId, Profile, SlotId, Span, StepProfile, Timestamp};

/// Ratio of the standard deviation of a normal distribution to its mean absolute deviation.
const DEVIATION: f64 = 1.253_314;

/// Measurements of one run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measured {
    /// Standard deviation of the logarithm of durations around their profile, from the mean absolute deviation: a stall of
    /// the machine counts little.
    pub noise: f64,
    /// Mean time that work of a slot was on its way to the thread of the slot and back: a batch, a step, a session.
    pub handover: Span,
    /// Mean time by which timers of machines fire late.
    pub timer_delay: Span,
}

/// The first line.
#[derive(Deserialize)]
struct Header {
    control: ControlSpec,
}

/// A later line. Steps of other policies than the machines of graphs have other keys.
#[derive(Deserialize)]
struct Line {
    control: Option<ControlStep>,
}

#[derive(Deserialize)]
struct ControlStep {
    at: Timestamp,
    message: Option<Message>,
    #[serde(default)]
    effects: Vec<Acted>,
}

#[derive(Deserialize)]
struct Acted {
    effect: Effect,
}

/// Work on a slot that has not ended: the time at which it was sent, and its profiled duration if it has one.
type Sent = (Timestamp, Option<Span>);

/// Durations of a module, from the specification in the log.
struct Times {
    profile: Profile,
    /// By slot, if slots differ in speed.
    ends: BTreeMap<SlotId, Profile>,
    /// By slot, of a model that generates.
    steps: BTreeMap<SlotId, StepProfile>,
}

impl Times {
    fn new(module: ModuleSpec) -> Self {
        let slots = module.slots.iter().copied();
        let instances = module.generate.into_iter();
        let instances = instances.flat_map(|generate| generate.instances);
        Self {
            profile: module.profile,
            ends: slots.clone().zip(module.ends).collect(),
            steps: slots.zip(instances.map(|instance| instance.steps)).collect(),
        }
    }

    fn batch(&self, slot: SlotId, slices: &[BatchSlice]) -> Span {
        let size: u32 = slices.iter().map(|slice| slice.count).sum();
        self.ends.get(&slot).unwrap_or(&self.profile).duration(size)
    }

    fn step(&self, slot: SlotId, step: &Step) -> Option<Span> {
        let steps = self.steps.get(&slot)?;
        Some(steps.duration(step.tokens, step.prompt_tokens > 0))
    }
}

#[derive(Default)]
struct Reader {
    modules: Vec<Times>,
    batches: BTreeMap<(ModuleId, BatchId), Sent>,
    /// Steps of models that generate; a slot has one at a time.
    steps: BTreeMap<(ModuleId, SlotId), Sent>,
    /// Sessions that open or close.
    sessions: BTreeMap<SlotId, Sent>,
    /// Time at which the timer of each machine is due.
    timers: BTreeMap<Address, Timestamp>,
    durations: f64,
    mean: f64,
    deviations: f64,
    handovers: Delays,
    timer_delays: Delays,
}

/// A mean of delays.
#[derive(Debug, Default)]
struct Delays {
    count: u64,
    sum: Span,
}

impl Delays {
    fn add(&mut self, delay: Span) {
        self.count += 1;
        self.sum += delay;
    }

    fn mean(&self) -> Span {
        self.sum / self.count.max(1)
    }
}

impl Reader {
    fn on_effect(&mut self, effect: &Effect, at: Timestamp) {
        match *effect {
            Effect::Run {
                module,
                slot,
                batch,
                ref slices,
                ..
            } => {
                let times = self.modules.get(module.index());
                let profiled = times.map(|times| times.batch(slot, slices));
                self.batches.insert((module, batch), (at, profiled));
            }
            Effect::RunStep {
                module,
                slot,
                ref step,
            } => {
                let times = self.modules.get(module.index());
                let profiled = times.and_then(|times| times.step(slot, step));
                self.steps.insert((module, slot), (at, profiled));
            }
            Effect::Session(SlotEffect::Open { slot, .. } | SlotEffect::Close { slot, .. }) => {
                self.sessions.insert(slot, (at, None));
            }
            Effect::SetTimer { of, at: due } => {
                self.timers.insert(of, due.max(at));
            }
            _ => {}
        }
    }

    fn on_message(&mut self, message: &Message, at: Timestamp) {
        match *message {
            Message::Module(module, ModuleMessage::BatchEnded { batch, took, .. }) => {
                let sent = self.batches.remove(&(module, batch));
                self.on_ended(sent, took, at);
            }
            Message::Module(module, ModuleMessage::Stepped { slot, took, .. }) => {
                let sent = self.steps.remove(&(module, slot));
                self.on_ended(sent, took, at);
            }
            Message::Slots(
                SlotEvent::Opened { slot, took, .. }
                | SlotEvent::OpenFailed { slot, took, .. }
                | SlotEvent::Closed { slot, took, .. },
            ) => {
                let sent = self.sessions.remove(&slot);
                self.on_ended(sent, took, at);
            }
            Message::TimerFired(of) => {
                if let Some(due) = self.timers.remove(&of) {
                    self.timer_delays.add(at.since(due));
                }
            }
            _ => {}
        }
    }

    fn on_ended(&mut self, sent: Option<Sent>, took: Span, at: Timestamp) {
        let Some((sent_at, profiled)) = sent else {
            return;
        };
        self.handovers.add(at.since(sent_at + took));
        let profiled = profiled.filter(|profiled| *profiled > Span::ZERO && took > Span::ZERO);
        if let Some(profiled) = profiled {
            let ratio = (took.micros() as f64 / profiled.micros() as f64).ln();
            self.durations += 1.0;
            self.deviations += (ratio - self.mean).abs();
            self.mean += (ratio - self.mean) / self.durations;
        }
    }

    fn measured(&self) -> Measured {
        Measured {
            noise: DEVIATION * self.deviations / self.durations.max(1.0),
            handover: self.handovers.mean(),
            timer_delay: self.timer_delays.mean(),
        }
    }
}

/// Measures the run of the log at `path`.
///
/// # Errors
/// Where it cannot be read, or is no event log.
pub fn measure(path: &Path) -> anyhow::Result<Measured> {
    let shown = path.display();
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let mut lines = BufReader::new(file).lines();
    let header = lines.next().with_context(|| format!("{shown} is empty"))??;
    let header: Header = serde_json::from_str(&header).with_context(|| format!("in line 1 of {shown}"))?;
    let modules = header.control.modules.into_iter();
    let mut reader = Reader {
        modules: modules.map(|(module, _)| Times::new(module)).collect(),
        ..Reader::default()
    };
    for (number, line) in (2..).zip(lines) {
        let line: Line =
            serde_json::from_str(&line?).with_context(|| format!("in line {number} of {shown}"))?;
        let Some(step) = line.control else {
            continue;
        };
        if let Some(message) = &step.message {
            reader.on_message(message, step.at);
        }
        for acted in &step.effects {
            reader.on_effect(&acted.effect, step.at);
        }
    }
    Ok(reader.measured())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(text: &str, name: &str) -> anyhow::Result<Measured> {
        let file = std::env::temp_dir().join(format!("weir-event-log-{name}-{}", std::process::id()));
        std::fs::write(&file, text)?;
        let measured = measure(&file);
        std::fs::remove_file(&file)?;
        measured
    }

    #[test]
    fn noise_and_delays_follow_from_batches_and_timers() -> anyhow::Result<()> {
        let module = json!({
            "id": 0, "slo": 1_000_000, "policy": { "drop": "weir" }, "slots": [0], "pool": "shared", "batch": [1, 2],
            "profile": { "points": [[1, 1_000], [2, 2_000]] }, "topology": { "successors": [[]] }, "peers": [], "seed": 1,
        });
        let header = json!({ "weir_recording": 2, "control": {
            "slo": 1_000_000, "modules": [[module, []]], "topology": { "successors": [[]] }, "routes": [], "breaker": {},
            "has_books": true, "is_distributed": false,
        } });
        let mut text = header.to_string();
        let slice = json!({ "request": 0, "first": 0, "count": 1, "queued": 0, "waited": 0 });
        // Batches of two take 1.8 and 2.2 ms by turns, and are 100 us on their way. Timers fire 50 us late.
        for batch in 0..100_u64 {
            let (at, took) = (batch * 10_000, if batch % 2 == 0 { 1_800 } else { 2_200 });
            let run = json!({
                "module": 0, "slot": 0, "batch": batch, "slices": [slice, slice], "expected": 2_000,
            });
            let timer = json!({ "of": "slots", "at": at + 4_000 });
            let effects = [
                json!({ "effect": { "run": run } }),
                json!({ "effect": { "set-timer": timer } }),
            ];
            let ended = json!({ "batch": batch, "took": took, "end": { "done": 0 } });
            for step in [
                json!({ "at": at, "effects": effects }),
                json!({ "at": at + took + 100, "message": { "module": [0, { "batch-ended": ended }] } }),
                json!({ "at": at + 4_050, "message": { "timer-fired": "slots" } }),
            ] {
                text += &format!("\n{}", json!({ "control": step }));
            }
        }
        let found = measured(&text, "whole")?;
        assert_eq!(found.handover, Span::from_micros(100));
        assert_eq!(found.timer_delay, Span::from_micros(50));
        // Half the durations are a tenth below the profile, half above.
        assert!((found.noise / DEVIATION - 0.1).abs() < 0.01, "{found:?}");

        // A key of another name is no log of this program, and not a run without noise.
        let renamed = measured(&text.replace("\"took\"", "\"lasted\""), "renamed");
        assert!(renamed.is_err_and(|error| format!("{error:#}").contains("line 3")));
        Ok(())
    }
}
