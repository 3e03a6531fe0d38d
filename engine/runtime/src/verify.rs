//! A recording replayed through the machines of its graphs and the other policies, which must decide the same again and
//! break no invariant.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use weir_control::{Act, Controller, Effect, Message, View};
use weir_policy::{DecodeLevels, StreamGate};
use weir_types::invariant::counted;
use weir_types::{StreamId, Timestamp};

use crate::record::{Acted, Header, Line, VERSION};

/// Counts of a recording that replayed without a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Steps that were replayed.
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
        /// Path of the recording.
        path: PathBuf,
        /// Of the operating system or the parser.
        reason: String,
    },
    /// A line that is not a step.
    #[error("{path}:{line}: not a step of a recording: {reason}")]
    Line {
        /// Path of the recording.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Of the operating system or the parser.
        reason: String,
    },
    /// The policy decides differently now.
    #[error("{path}:{line}: the policy decided differently: recorded {recorded}, now {now}")]
    Differs {
        /// Path of the recording.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Effects of the recording.
        recorded: String,
        /// Effects of the step when it was replayed.
        now: String,
    },
    /// A step breaks an invariant of the policy.
    #[error(
        "{path}:{line}: the step breaks the invariant {kinds}: the program that ran has a defect, which is to be reported with \
         this recording, or the recording was changed"
    )]
    Violates {
        /// Path of the recording.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Names of the kinds, as in reports.
        kinds: String,
    },
}

/// The version of a recording, which any version begins with.
#[derive(Deserialize)]
struct Version {
    weir_recording: u32,
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
    let no_header = |error: serde_json::Error| read(format!("no header: {error}"));
    let Version { weir_recording } = serde_json::from_str(&first).map_err(no_header)?;
    if weir_recording != VERSION {
        return Err(read(format!(
            "it has version {weir_recording}, this program reads {VERSION}: verify it with the program that wrote it"
        )));
    }
    let header: Header = serde_json::from_str(&first).map_err(no_header)?;
    let first = Controller::new(header.control);
    let mut policy = Replay {
        graphs: BTreeMap::from([(0, first)]),
        decode_levels: DecodeLevels::default(),
        gates: BTreeMap::new(),
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
            .ok_or_else(|| bad("no such graph".to_owned()))?
            .map_err(differs)?;
        verified.steps += 1;
        verified.events += events;
        verified.effects += effects;
    }
    Ok(verified)
}

/// The machines of a recording.
struct Replay {
    /// Controllers by the number of their graph.
    graphs: BTreeMap<u32, Controller>,
    decode_levels: DecodeLevels,
    gates: BTreeMap<StreamId, StreamGate>,
}

impl Replay {
    /// Replays one step: counts of events and effects, or both sides where they differ; `None` for an unknown graph.
    fn step(&mut self, line: Line) -> Option<Result<(u64, u64), (String, String)>> {
        match line {
            Line::Control {
                graph,
                at,
                message,
                effects,
            } => {
                let controller = self.graphs.get_mut(&graph)?;
                Some(replay_control(controller, at, message, effects))
            }
            Line::Graph { number, control } => {
                self.graphs.insert(number, Controller::new(*control));
                Some(Ok((0, 0)))
            }
            Line::MotionGate {
                stream,
                hold_ms,
                steps,
            } => {
                let new = || StreamGate::new(hold_ms);
                let gate = self.gates.entry(stream).or_insert_with(new);
                let mut effects = 0;
                for (event, decision) in &steps {
                    let now = gate.on(*event);
                    if now != *decision {
                        return Some(Err((format!("{decision:?}"), format!("{now:?}"))));
                    }
                    effects += u64::from(now.is_some());
                }
                Some(Ok((steps.len() as u64, effects)))
            }
            Line::DecodeLevels { at, events, effects } => {
                let count = events.len() as u64;
                let mut now = Vec::new();
                self.decode_levels.step(events, at, &mut now);
                Some(if effects == now {
                    Ok((count, now.len() as u64))
                } else {
                    Err((format!("{effects:?}"), format!("{now:?}")))
                })
            }
        }
    }
}

/// The recorded effects of a step, which the machines must want again in the same order.
struct RecordedSite {
    effects: std::vec::IntoIter<Acted>,
    count: u64,
    /// The first effect that differs, as recorded and as it is now.
    differs: Option<(String, String)>,
}

impl Act for RecordedSite {
    fn act(&mut self, effect: Effect, _view: View<'_>, answers: &mut Vec<Message>) {
        if self.differs.is_some() {
            return;
        }
        match self.effects.next() {
            Some(recorded) if recorded.effect == effect => {
                self.count += 1;
                answers.extend(recorded.answers);
            }
            recorded => {
                let recorded = recorded.map_or_else(
                    || "nothing".to_owned(),
                    |recorded| format!("{:?}", recorded.effect),
                );
                self.differs = Some((recorded, format!("{effect:?}")));
            }
        }
    }
}

/// Gives the machines of a graph a recorded message again, or lets them decide.
fn replay_control(
    controller: &mut Controller,
    at: Timestamp,
    message: Option<Message>,
    effects: Vec<Acted>,
) -> Result<(u64, u64), (String, String)> {
    let mut site = RecordedSite {
        effects: effects.into_iter(),
        count: 0,
        differs: None,
    };
    let messages = u64::from(message.is_some());
    match message {
        Some(message) => controller.on(message, at, &mut site),
        None => controller.decide(at, &mut site),
    }
    match (site.differs, site.effects.next()) {
        (Some(differs), _) => Err(differs),
        (None, Some(left)) => Err((format!("{:?}", left.effect), "nothing".to_owned())),
        (None, None) => Ok((messages, site.count)),
    }
}

#[cfg(test)]
mod tests {
    use weir_control::{BatchEnd, ControlSpec, EgressMessage, Entry, ModuleMessage, RequestInfo, Route};
    use weir_policy::{
        Arbitration, BreakerSpec, DecodeEvent, DecodeObservation, ModuleInfo, ModuleSpec, Placement, Pool,
        SlotEvent, SlotPlanning, SlotsSpec,
    };
    use weir_types::invariant::Violations;
    use weir_types::{BatchId, ModuleId, Profile, RequestId, SlotId, Span, StreamId, Topology};

    use super::*;
    use crate::record::Recorder;

    /// A module alone on a slot, whose requests are shed by what they are expected to bring.
    fn spec() -> ControlSpec {
        let (module, slots) = (ModuleId(0), vec![SlotId(0)]);
        let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
        let topology = Topology::new(vec![vec![]]);
        let of_module = ModuleSpec {
            ends: Vec::new(),
            generate: None,
            id: module,
            slo: Span::from_secs(1),
            policy: serde_json::from_value(serde_json::json!({ "drop": "weir" })).unwrap(),
            slots: slots.clone(),
            pool: Pool::Shared,
            batch: vec![1],
            profile: profile.clone(),
            topology: topology.clone(),
            peers: vec![ModuleInfo {
                profile,
                batch: vec![1],
                workers: 1,
                fallback: weir_policy::gears::Fallback::Never,
            }],
            share: 1.0,
            shares: Vec::new(),
            seed: 1,
            overlap: None,
        };
        let slots = SlotsSpec {
            slots: 1,
            placements: vec![Placement {
                routed: false,
                module,
                slots,
                weight: 1.0,
                optional: false,
                model: None,
                live: false,
            }],
            arbitration: Arbitration::default(),
            topology: topology.clone(),
            forecasts: false,
            overlapped: Vec::new(),
            memory: Vec::new(),
            queues: None,
            planning: SlotPlanning::default(),
        };
        ControlSpec {
            slo: Span::from_secs(1),
            modules: vec![(of_module, Vec::new())],
            routes: vec![Route::through(&topology)],
            topology,
            slots: Some(slots),
            breaker: BreakerSpec::default(),
            scaling: Vec::new(),
            max_workers: None,
            queues: Vec::new(),
            cascades: None,
            plan: None,
            has_books: true,
            is_distributed: false,
        }
    }

    /// Answers that each request brings an item, and notes the effects.
    #[derive(Default)]
    struct OneItem(Vec<Acted>);

    impl Act for OneItem {
        fn act(&mut self, effect: Effect, _view: View<'_>, answers: &mut Vec<Message>) {
            if let Effect::Enter(module, request) = &effect {
                let entered = ModuleMessage::Entered(*request, Entry::Items(1));
                answers.push(Message::Module(*module, entered));
            }
            let answers = answers.clone();
            self.0.push(Acted { effect, answers });
        }
    }

    /// Records what a graph does on messages, each with a decision; gives the violations.
    fn record(path: &Path, messages: &[Message]) -> Violations {
        let recorder = Recorder::create(path, &spec()).unwrap();
        let mut controller = Controller::new(spec());
        let mut site = OneItem::default();
        let ((), violations) = counted(|| {
            for (at, message) in (0..).map(Timestamp::from_micros).zip(messages) {
                controller.on(message.clone(), at, &mut site);
                recorder.record_control(at, Some(message.clone()), std::mem::take(&mut site.0));
                controller.decide(at, &mut site);
                recorder.record_control(at, None, std::mem::take(&mut site.0));
            }
        });
        assert_eq!(recorder.finish(), None);
        violations
    }

    /// A frame arrives, and its batch comes back.
    fn one_request() -> Vec<Message> {
        let request = RequestInfo {
            id: RequestId(0),
            stream: StreamId(0),
            sent_at: Timestamp::ZERO,
            slo: None,
            droppable: true,
            route: 0,
        };
        let (batch, took) = (BatchId(0), Span::from_millis(10));
        let end = BatchEnd::Done(SlotId(0));
        vec![
            Message::Egress(EgressMessage::Arrived(request)),
            Message::Module(ModuleId(0), ModuleMessage::BatchEnded { batch, took, end }),
        ]
    }

    #[test]
    fn a_request_is_followed_from_its_arrival_to_its_delivery() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        assert!(record(&path, &one_request()).is_empty());
        let report = verify(&path).unwrap();
        assert_eq!((report.steps, report.events), (4, 2));
        let log = std::fs::read_to_string(&path).unwrap();
        for (recorded, changed) in [
            ("\"delivered\"", "\"late\""),
            ("\"items\":1", "\"items\":2"),
            ("\"slot\":0,\"batch\":0", "\"slot\":1,\"batch\":0"),
        ] {
            assert!(log.contains(recorded), "{recorded} in {log}");
            std::fs::write(&path, log.replacen(recorded, changed, 1)).unwrap();
            let error = verify(&path).unwrap_err();
            assert!(
                matches!(error, VerifyError::Differs { .. }),
                "{recorded}: {error}"
            );
        }
    }

    #[test]
    fn a_log_of_an_earlier_version_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        std::fs::write(&path, "{\"weir_recording\":1,\"modules\":[]}\n").unwrap();
        let error = verify(&path).unwrap_err().to_string();
        assert!(error.contains("version 1, this program reads 2"), "{error}");
    }

    #[test]
    fn levels_of_decoding_are_decided_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        let recorder = Recorder::create(&path, &spec()).unwrap();
        let mut levels = DecodeLevels::default();
        let mut changes = 0;
        for tick in 1..=20 {
            // A quarter of what is decoded can be used.
            let observed = DecodeEvent::Observed(DecodeObservation {
                stream: StreamId(0),
                interval: Span::from_millis(33),
                pictures: 8,
                processor: Span::from_millis(100),
                used: 2,
                unused: 6,
                full: 8,
                bidirectional: 4,
                offered: 0,
                left_out: 0,
                group: 30,
                longest_group: 30,
                groups: 0,
                in_group: 0,
            });
            let now = Timestamp::ZERO + Span::from_millis(250) * tick;
            let mut effects = Vec::new();
            levels.step([observed.clone()], now, &mut effects);
            recorder.record_levels(now, &[observed], &effects);
            changes += effects.len();
        }
        assert_eq!(recorder.finish(), None);
        assert!(changes > 0);
        assert_eq!(verify(&path).unwrap().steps, 20);
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, log.replacen("non-reference", "nothing", 1)).unwrap();
        assert!(matches!(verify(&path), Err(VerifyError::Differs { .. })));
    }

    #[test]
    fn a_step_that_breaks_an_invariant_is_an_error_with_its_line_and_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        let (module, slot, took) = (ModuleId(0), SlotId(0), Span::ZERO);
        let down = Message::Slots(SlotEvent::Down { slot });
        assert!(record(&path, &[down.clone(), Message::Tick]).is_empty());
        assert_eq!(verify(&path).unwrap().steps, 4);

        let finished = Message::Slots(SlotEvent::Finished { module, slot, took });
        assert!(!record(&path, &[down.clone(), finished, down]).is_empty());
        let error = verify(&path).unwrap_err().to_string();
        let place = format!("{}:5: the step breaks the invariant slots:", path.display());
        assert!(error.starts_with(&place), "{error}");
    }
}
