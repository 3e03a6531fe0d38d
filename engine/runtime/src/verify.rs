//! A recording replayed through the policy, which must decide the same again and break no invariant.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weir_policy::reservations::{PlanSpec, PlannedReservations};
use weir_policy::{Module, SlotBreaker, Slots};
use weir_types::Timestamp;
use weir_types::invariant::counted;

use crate::record::{Header, VERSION};
use crate::state_machine::{Line, StateMachine};

/// What was replayed of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Steps replayed.
    pub steps: u64,
    /// Events in them.
    pub events: u64,
    /// Effects, all as recorded.
    pub effects: u64,
}

/// Why a recording cannot be verified.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// It cannot be read.
    #[error("cannot read the recording {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Of the operating system or the parser.
        reason: String,
    },
    /// A line that is not a step.
    #[error("{path}:{line}: not a step of a recording: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Of the operating system or the parser.
        reason: String,
    },
    /// The policy decides differently now.
    #[error("{path}:{line}: the policy decided differently: recorded {recorded}, now {now}")]
    Differs {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Effects of the recording.
        recorded: String,
        /// Effects now.
        now: String,
    },
    /// A step breaks an invariant of the policy.
    #[error(
        "{path}:{line}: the step breaks the invariant {kinds}: the program that ran has a defect, which is to be reported with \
         this recording, or the recording was changed"
    )]
    Violates {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Names of the kinds, as in reports.
        kinds: String,
    },
}

/// The events and effects of a step take some kilobytes; a longer line is not from a recording.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Replays a recording through the policy; every step must have exactly the recorded effects, and keep every invariant.
///
/// # Errors
/// [`VerifyError`], with the first line that differs or breaks an invariant.
pub fn verify(path: &Path) -> Result<VerifyReport, VerifyError> {
    let read = |reason: String| VerifyError::Read {
        path: path.to_owned(),
        reason,
    };
    let lines = weir_files::lines(path, MAX_LINE_BYTES, u64::MAX);
    let mut lines = lines.map_err(|error| read(error.to_string()))?.lines();
    let first = lines.next().ok_or_else(|| read("it is empty".to_owned()))?;
    let first = first.map_err(|error| read(error.to_string()))?;
    let header: Header = serde_json::from_str(&first).map_err(|error| read(format!("no header: {error}")))?;
    if header.weir_recording != VERSION {
        return Err(read(format!(
            "it has version {}, this program reads {VERSION}",
            header.weir_recording
        )));
    }
    let mut policy = Replay {
        modules: header.modules.into_iter().map(Module::new).collect(),
        slots: Slots::new(header.slots),
        breaker: SlotBreaker::new(header.breaker),
        reservations: None,
    };
    let mut verified = VerifyReport::default();
    for (number, line) in (2..).zip(lines) {
        let line = line.map_err(|error| read(error.to_string()))?;
        let bad = |reason: String| VerifyError::Line {
            path: path.to_owned(),
            line: number,
            reason,
        };
        let line: Line = serde_json::from_str(&line).map_err(|error| bad(error.to_string()))?;
        let differs = |(recorded, now)| VerifyError::Differs {
            path: path.to_owned(),
            line: number,
            recorded,
            now,
        };
        let (step, violations) = counted(|| policy.step(line));
        if !violations.is_empty() {
            let kinds: Vec<&str> = violations.iter().map(|(kind, _)| kind.name()).collect();
            return Err(VerifyError::Violates {
                path: path.to_owned(),
                line: number,
                kinds: kinds.join(", "),
            });
        }
        let (events, effects) = step
            .ok_or_else(|| bad("no such module, or no plan".to_owned()))?
            .map_err(differs)?;
        verified.steps += 1;
        verified.events += events;
        verified.effects += effects;
    }
    Ok(verified)
}

/// The state machines of a recording.
struct Replay {
    modules: Vec<Module>,
    slots: Slots,
    breaker: SlotBreaker,
    reservations: Option<PlannedReservations>,
}

impl Replay {
    /// Replays one step: counts of events and effects, or both sides where they differ; `None` for an unknown module.
    fn step(&mut self, line: Line) -> Option<Result<(u64, u64), (String, String)>> {
        match line {
            Line::Module {
                id,
                at,
                events,
                effects,
            } => Some(replay(self.modules.get_mut(id.index())?, at, events, &effects)),
            Line::Slots { at, events, effects } => Some(replay(&mut self.slots, at, events, &effects)),
            Line::Breaker { at, events, effects } => Some(replay(&mut self.breaker, at, events, &effects)),
            Line::Reservations { at, events, effects } => {
                Some(replay(self.reservations.as_mut()?, at, events, &effects))
            }
            Line::Plan { spec, number, owners } => {
                self.reservations = Some(PlannedReservations::new(&PlanSpec {
                    number,
                    reserve: spec,
                    owners,
                }));
                Some(Ok((0, 0)))
            }
        }
    }
}

/// Decides a recorded step again.
fn replay<M: StateMachine>(
    machine: &mut M,
    at: Timestamp,
    events: Vec<M::Event>,
    recorded: &[M::Effect],
) -> Result<(u64, u64), (String, String)> {
    let count = events.len() as u64;
    let mut now = Vec::new();
    machine.step(events, at, &mut now);
    if recorded == now {
        Ok((count, now.len() as u64))
    } else {
        Err((format!("{recorded:?}"), format!("{now:?}")))
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::{Arbitration, BreakerSpec, Placement, SlotEvent, SlotsSpec};
    use weir_types::invariant::Violations;
    use weir_types::{ModuleId, SlotId, Span, Topology};

    use super::*;
    use crate::record::Recorder;

    /// One module on one slot.
    fn spec() -> SlotsSpec {
        let (module, slots) = (ModuleId(0), vec![SlotId(0)]);
        SlotsSpec {
            slots: 1,
            placements: vec![Placement {
                module,
                slots,
                weight: 1.0,
            }],
            arbitration: Arbitration::default(),
            topology: Topology::new(vec![vec![]]),
            forecasts: false,
        }
    }

    /// Records a step of the arbiter for each event; gives what they violated.
    fn record(path: &Path, events: &[SlotEvent]) -> Violations {
        let recorder = Recorder::create(path, &[], &spec(), BreakerSpec::default()).unwrap();
        let mut slots = Slots::new(spec());
        let ((), violations) = counted(|| {
            for &event in events {
                let mut effects = Vec::new();
                slots.step([event], Timestamp::ZERO, &mut effects);
                recorder.record_step(&slots, Timestamp::ZERO, &[event], &effects);
            }
        });
        assert_eq!(recorder.finish(), None);
        violations
    }

    #[test]
    fn a_step_that_breaks_an_invariant_is_an_error_with_its_line_and_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        let (module, slot, took) = (ModuleId(0), SlotId(0), Span::ZERO);
        let down = SlotEvent::Down { slot };
        assert!(record(&path, &[down, SlotEvent::Tick]).is_empty());
        assert_eq!(verify(&path).unwrap().steps, 2);

        let finished = SlotEvent::Finished { module, slot, took };
        assert!(!record(&path, &[down, finished, down]).is_empty());
        let error = verify(&path).unwrap_err().to_string();
        let place = format!("{}:3: the step breaks the invariant slots:", path.display());
        assert!(error.starts_with(&place), "{error}");
    }
}
