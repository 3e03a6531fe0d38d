//! Noise of durations, time of hand-overs and delay of timers in the event log of a live run: a simulation of the same graph
//! takes them from here.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use weir_types::{Profile, Span, StepProfile};

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

/// Work on a slot that has not ended: the time at which it was sent, and its profiled duration if it has one.
type Sent = (u64, Option<Span>);

/// Durations of a module, from the specification in the log.
struct Times {
    profile: Option<Profile>,
    /// By slot, if slots differ in speed.
    ends: BTreeMap<u64, Profile>,
    /// By slot, of a model that generates.
    steps: BTreeMap<u64, StepProfile>,
}

impl Times {
    fn new(module: &Value) -> Self {
        let slots = module["slots"].as_array().into_iter().flatten();
        let slots: Vec<u64> = slots.filter_map(Value::as_u64).collect();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let ends = list(&module["ends"]).into_iter().map(serde_json::from_value);
        let steps = list(&module["generate"]["instances"]).into_iter();
        let steps = steps.map(|instance| serde_json::from_value(instance["steps"].clone()));
        Self {
            profile: serde_json::from_value(module["profile"].clone()).ok(),
            ends: slots.iter().copied().zip(ends.filter_map(Result::ok)).collect(),
            steps: slots.iter().copied().zip(steps.filter_map(Result::ok)).collect(),
        }
    }

    fn batch(&self, run: &Value) -> Option<Span> {
        let slices = run["slices"].as_array()?.iter();
        let size: u64 = slices.filter_map(|slice| slice["count"].as_u64()).sum();
        let own = self.ends.get(&run["slot"].as_u64()?);
        Some(own.or(self.profile.as_ref())?.duration(u32::try_from(size).ok()?))
    }

    fn step(&self, run: &Value) -> Option<Span> {
        let tokens = |key: &str| u32::try_from(run["step"][key].as_u64()?).ok();
        let steps = self.steps.get(&run["slot"].as_u64()?)?;
        Some(steps.duration(tokens("tokens")?, tokens("prompt_tokens")? > 0))
    }
}

#[derive(Default)]
struct Reader {
    modules: Vec<Times>,
    /// By module and batch; of a module that generates by slot.
    batches: BTreeMap<(u64, u64), Sent>,
    /// Sessions that open, by slot.
    sessions: BTreeMap<u64, Sent>,
    /// Time at which the timer of each machine is due.
    timers: BTreeMap<String, u64>,
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
    sum_us: u64,
}

impl Delays {
    fn add(&mut self, delay_us: u64) {
        self.count += 1;
        self.sum_us += delay_us;
    }

    fn mean(&self) -> Span {
        Span::from_micros(self.sum_us / self.count.max(1))
    }
}

impl Reader {
    fn on_effect(&mut self, effect: &Value, at: u64) {
        let run = &effect["run"];
        let step = &effect["run-step"];
        let session = &effect["session"];
        let times = |run: &Value| self.modules.get(run["module"].as_u64()? as usize);
        if let (Some(module), Some(batch)) = (run["module"].as_u64(), run["batch"].as_u64()) {
            let profiled = times(run).and_then(|times| times.batch(run));
            self.batches.insert((module, batch), (at, profiled));
        } else if let (Some(module), Some(slot)) = (step["module"].as_u64(), step["slot"].as_u64()) {
            let profiled = times(step).and_then(|times| times.step(step));
            self.batches.insert((module, slot), (at, profiled));
        } else if let Some(slot) = session["slot"].as_u64() {
            self.sessions.insert(slot, (at, None));
        } else if let Some(due) = effect["set-timer"]["at"].as_u64() {
            let of = effect["set-timer"]["of"].to_string();
            self.timers.insert(of, due.max(at));
        }
    }

    fn on_message(&mut self, message: &Value, at: u64) {
        let module = &message["module"];
        let (batch, step) = (&module[1]["batch-ended"], &module[1]["stepped"]);
        let session = &message["slots"];
        if let (Some(id), Some(number)) = (module[0].as_u64(), batch["batch"].as_u64()) {
            let sent = self.batches.remove(&(id, number));
            self.on_ended(sent, batch["took"].as_u64(), at);
        } else if let (Some(id), Some(slot)) = (module[0].as_u64(), step["slot"].as_u64()) {
            let sent = self.batches.remove(&(id, slot));
            self.on_ended(sent, step["took"].as_u64(), at);
        } else if let (Some(slot), Some(took)) = (session["slot"].as_u64(), session["took"].as_u64()) {
            let sent = self.sessions.remove(&slot);
            self.on_ended(sent, Some(took), at);
        } else if let Some(due) = self.timers.remove(&message["timer-fired"].to_string()) {
            self.timer_delays.add(at.saturating_sub(due));
        }
    }

    fn on_ended(&mut self, sent: Option<Sent>, took: Option<u64>, at: u64) {
        let (Some((sent_at, profiled)), Some(took)) = (sent, took) else {
            return;
        };
        self.handovers.add(at.saturating_sub(sent_at + took));
        if let Some(profiled) = profiled.filter(|profiled| profiled.micros() > 0 && took > 0) {
            let ratio = (took as f64 / profiled.micros() as f64).ln();
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
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut reader = Reader::default();
    for line in BufReader::new(file).lines() {
        let line: Value = serde_json::from_str(&line?).with_context(|| format!("in {}", path.display()))?;
        // Specification of the machines, or a step of theirs.
        let control = &line["control"];
        if let Some(modules) = control["modules"].as_array() {
            reader.modules = modules.iter().map(|module| Times::new(&module[0])).collect();
        }
        let Some(at) = control["at"].as_u64() else {
            continue;
        };
        reader.on_message(&control["message"], at);
        for acted in control["effects"].as_array().into_iter().flatten() {
            reader.on_effect(&acted["effect"], at);
        }
    }
    Ok(reader.measured())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_and_handover_follow_from_batches() -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("weir-event-log-{}", std::process::id()));
        let mut text = String::from(
            r#"{"weir_recording":2,"control":{"modules":[[{"slots":[0],"profile":{"points":[[1,1000],[2,2000]]}},[]]]}}"#,
        );
        // Batches of two take 1.8 and 2.2 ms by turns, and are 100 us on their way.
        for batch in 0..100_u64 {
            let (at, took) = (batch * 10_000, if batch % 2 == 0 { 1_800 } else { 2_200 });
            let ended = at + took + 100;
            text += &format!(
                "\n{{\"control\":{{\"at\":{at},\"effects\":[{{\"effect\":{{\"run\":{{\"module\":0,\"slot\":0,\"batch\":{batch},\
                 \"slices\":[{{\"count\":1}},{{\"count\":1}}]}}}}}}]}}}}\n{{\"control\":{{\"at\":{ended},\"message\":{{\"module\":[0,\
                 {{\"batch-ended\":{{\"batch\":{batch},\"took\":{took}}}}}]}}}}}}"
            );
        }
        std::fs::write(&folder, text)?;
        let measured = measure(&folder);
        std::fs::remove_file(&folder)?;
        let measured = measured?;
        assert_eq!(measured.handover, Span::from_micros(100));
        // Half the durations are a tenth below the profile, half above.
        assert!((measured.noise / DEVIATION - 0.1).abs() < 0.01, "{measured:?}");
        Ok(())
    }
}
