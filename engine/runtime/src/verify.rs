//! A recording replayed through the policy, which must decide the same again and break no invariant.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use weir_policy::gears::{GearShift, ShiftSpec};
use weir_policy::reservations::{PlanSpec, PlannedReservations};
use weir_policy::{
    BreakerSpec, DecodeLevels, Module, ModuleEffect, ModuleSpec, ModuleState, SlotBreaker, Slots, SlotsSpec,
};
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
    let first = GraphReplay::new(header.modules, header.slots, header.breaker);
    let mut policy = Replay {
        graphs: BTreeMap::from([(0, first)]),
        decode_levels: DecodeLevels::default(),
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
            .ok_or_else(|| bad("no such module or graph, or no plan".to_owned()))?
            .map_err(differs)?;
        verified.steps += 1;
        verified.events += events;
        verified.effects += effects;
    }
    Ok(verified)
}

/// The state machines of a graph.
struct GraphReplay {
    modules: Vec<Module>,
    /// By module: the state that it published last, as recorded.
    published: Vec<Arc<ModuleState>>,
    slots: Slots,
    breaker: SlotBreaker,
    gears: GearShift,
}

impl GraphReplay {
    fn new(modules: Vec<ModuleSpec>, slots: SlotsSpec, breaker: BreakerSpec) -> Self {
        Self {
            published: modules.iter().map(initial_state).collect(),
            modules: modules.into_iter().map(Module::new).collect(),
            slots: Slots::new(slots),
            breaker: SlotBreaker::new(breaker),
            gears: GearShift::of(ShiftSpec::default()),
        }
    }
}

/// The state machines of a recording.
struct Replay {
    /// By number.
    graphs: BTreeMap<u32, GraphReplay>,
    decode_levels: DecodeLevels,
    reservations: Option<PlannedReservations>,
}

impl Replay {
    /// Replays one step: counts of events and effects, or both sides where they differ; `None` for an unknown module.
    fn step(&mut self, line: Line) -> Option<Result<(u64, u64), (String, String)>> {
        match line {
            Line::Module {
                graph,
                id,
                at,
                events,
                effects,
            } => {
                let graph = self.graphs.get_mut(&graph)?;
                let module = graph.modules.get_mut(id.index())?;
                let published = graph.published.get_mut(id.index())?;
                Some(replay(module, at, events, &effects, |now| {
                    publish_whole_states(now, &effects, published);
                }))
            }
            Line::Slots {
                graph,
                at,
                events,
                effects,
            } => {
                let slots = &mut self.graphs.get_mut(&graph)?.slots;
                Some(replay(slots, at, events, &effects, |_| {}))
            }
            Line::Breaker {
                graph,
                at,
                events,
                effects,
            } => {
                let breaker = &mut self.graphs.get_mut(&graph)?.breaker;
                Some(replay(breaker, at, events, &effects, |_| {}))
            }
            Line::Graph {
                number,
                modules,
                slots,
                breaker,
            } => {
                let graph = GraphReplay::new(modules, slots, breaker);
                self.graphs.insert(number, graph);
                Some(Ok((0, 0)))
            }
            Line::Gears {
                graph,
                at,
                events,
                effects,
            } => {
                let gears = &mut self.graphs.get_mut(&graph)?.gears;
                Some(replay(gears, at, events, &effects, |_| {}))
            }
            Line::GearPlan { graph, spec } => {
                self.graphs.get_mut(&graph)?.gears = GearShift::of(spec);
                Some(Ok((0, 0)))
            }
            Line::DecodeLevels { at, events, effects } => {
                Some(replay(&mut self.decode_levels, at, events, &effects, |_| {}))
            }
            Line::Reservations { at, events, effects } => {
                Some(replay(self.reservations.as_mut()?, at, events, &effects, |_| {}))
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

/// What the others know of a module before it publishes.
fn initial_state(spec: &ModuleSpec) -> Arc<ModuleState> {
    let profile = spec.peers.get(spec.id.index()).map(|own| &own.profile);
    let duration = profile.unwrap_or(&spec.profile).duration(1);
    Arc::new(ModuleState::initial(spec.id, duration))
}

/// In earlier logs a module whose fan-out alone had changed published its whole state, the rest as it was `published` last:
/// brings effects into the form of those that are recorded.
fn publish_whole_states(
    effects: &mut [ModuleEffect],
    recorded: &[ModuleEffect],
    published: &mut Arc<ModuleState>,
) {
    for (effect, recorded) in effects.iter_mut().zip(recorded) {
        let ModuleEffect::Publish(state) = recorded else {
            continue;
        };
        if let ModuleEffect::PublishFanOut { fan_out } = effect {
            let fan_out = Arc::clone(fan_out);
            *effect = ModuleEffect::Publish(Arc::new(ModuleState {
                fan_out,
                ..(**published).clone()
            }));
        }
        *published = Arc::clone(state);
    }
}

/// Decides a recorded step again. `as_recorded` brings its effects into the form that the log has them in.
fn replay<M: StateMachine>(
    machine: &mut M,
    at: Timestamp,
    events: Vec<M::Event>,
    recorded: &[M::Effect],
    as_recorded: impl FnOnce(&mut [M::Effect]),
) -> Result<(u64, u64), (String, String)> {
    let count = events.len() as u64;
    let mut now = Vec::new();
    machine.step(events, at, &mut now);
    as_recorded(&mut now);
    if recorded == now {
        Ok((count, now.len() as u64))
    } else {
        Err((format!("{recorded:?}"), format!("{now:?}")))
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::reservations::{BookingTable, PathRequest, Reservations, ReserveEvent, ReserveSpec};
    use weir_policy::{
        Arbitration, BreakerSpec, DecodeEvent, DecodeObservation, ModuleEvent, ModuleInfo, Placement, Pool,
        SlotEvent, SlotPlanning, SlotsSpec,
    };
    use weir_types::invariant::Violations;
    use weir_types::{
        ClusterSpec, ModuleId, PipelineSpec, Profile, RequestId, ServerId, ServerSpec, ShareId, ShareSpec,
        SlotId, Span, StageSpec, StreamId, Topology,
    };

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
                optional: false,
                model: None,
                live: false,
            }],
            arbitration: Arbitration::default(),
            topology: Topology::new(vec![vec![]]),
            forecasts: false,
            overlapped: Vec::new(),
            memory: Vec::new(),
            queues: None,
            planning: SlotPlanning::default(),
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

    /// A module alone, whose requests are shed by what they are expected to bring.
    fn module_spec() -> ModuleSpec {
        let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
        ModuleSpec {
            ends: Vec::new(),
            generate: None,
            id: ModuleId(0),
            slo: Span::from_secs(1),
            policy: serde_json::from_value(serde_json::json!({ "drop": "weir" })).unwrap(),
            slots: vec![SlotId(0)],
            pool: Pool::Own,
            batch: vec![1],
            profile: profile.clone(),
            topology: Topology::new(vec![vec![]]),
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
        }
    }

    /// Records a module that publishes its fan-out and its state in turn, in the form of earlier logs; `items` are those of
    /// the fan-out that is recorded last.
    fn record_whole_states(path: &Path, items: u32) {
        let spec = module_spec();
        let recorder = Recorder::create(
            path,
            std::slice::from_ref(&spec),
            &self::spec(),
            BreakerSpec::default(),
        )
        .unwrap();
        let mut published = initial_state(&spec);
        let mut module = Module::new(spec);
        let mut fan_outs = 0;
        for number in 0..4_u64 {
            let now = Timestamp::ZERO + Span::from_millis(60 * number);
            let arrived = ModuleEvent::Arrived {
                request: RequestId(number),
                stream: StreamId(0),
                sent_at: now,
                items: 3,
                droppable: true,
                slo: None,
            };
            let event = if number == 2 { ModuleEvent::Tick } else { arrived };
            let mut effects = Vec::new();
            module.step([event.clone()], now, &mut effects);
            for effect in &mut effects {
                if let ModuleEffect::PublishFanOut { fan_out } = effect {
                    fan_outs += 1;
                    let mut fan_out = (**fan_out).clone();
                    if number == 3 && items != 3 {
                        fan_out = serde_json::from_value(serde_json::json!([items])).unwrap();
                    }
                    *effect = ModuleEffect::Publish(Arc::new(ModuleState {
                        fan_out: Arc::new(fan_out),
                        ..(*published).clone()
                    }));
                }
                if let ModuleEffect::Publish(state) = effect {
                    published = Arc::clone(state);
                }
            }
            recorder.record_step(&module, now, &[event], &effects);
        }
        assert_eq!(fan_outs, 3, "at each arrival");
        assert_eq!(recorder.finish(), None);
    }

    #[test]
    fn levels_of_decoding_are_decided_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        let recorder = Recorder::create(&path, &[], &spec(), BreakerSpec::default()).unwrap();
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
            });
            let now = Timestamp::ZERO + Span::from_millis(250) * tick;
            let mut effects = Vec::new();
            levels.step([observed.clone()], now, &mut effects);
            recorder.record_step(&levels, now, &[observed], &effects);
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
    fn logs_with_whole_states_where_only_the_fan_out_changed_are_decided_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        record_whole_states(&path, 3);
        assert_eq!(verify(&path).unwrap().steps, 4);
        record_whole_states(&path, 2);
        let error = verify(&path).unwrap_err().to_string();
        let place = format!("{}:5: the policy decided differently", path.display());
        assert!(error.starts_with(&place), "{error}");
    }

    /// Lines as they were before the policy decided on plans: events are of shares, and another plan just comes.
    #[test]
    fn logs_without_events_of_plans_are_decided_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        let (module, share) = (ModuleId(0), ShareId(0));
        let spec = ReserveSpec {
            cluster: ClusterSpec {
                servers: vec![ServerSpec { bandwidth_bps: 1 }],
                shares: vec![ShareSpec {
                    server: ServerId(0),
                    device: 0,
                    class: "any".to_owned(),
                }],
                pipelines: vec![PipelineSpec {
                    module,
                    batch: 1,
                    stages: vec![StageSpec {
                        blocks: (0, 1),
                        shares: vec![share],
                        profile: Profile::new(vec![(1, Span::from_millis(10))]).unwrap(),
                        received_bytes: 0,
                    }],
                }],
            },
            tables: BookingTable::Intervals,
            feedback: true,
            corrected: true,
            head_min_fraction: 0.0,
        };
        let request = PathRequest {
            deadline: Timestamp::ZERO + Span::from_secs(1),
            since: Timestamp::ZERO,
            waiting: 1,
        };
        let events = [
            ReserveEvent::Down { share },
            ReserveEvent::PathRequested { module, request },
            ReserveEvent::Up { share },
            ReserveEvent::PathRequested { module, request },
            ReserveEvent::PathRequested { module, request },
        ];
        let recorder = Recorder::create(&path, &[], &self::spec(), BreakerSpec::default()).unwrap();
        assert_eq!(recorder.finish(), None);
        let mut log = std::fs::read_to_string(&path).unwrap();
        let mut line = |line: serde_json::Value| {
            log += &line.to_string();
            log.push('\n');
        };
        for _plan in 0..2 {
            line(serde_json::json!({ "actor": "plan", "spec": &spec }));
            let mut reservations = Reservations::new(&spec);
            for (at, event) in (0..).map(Timestamp::from_micros).zip(events) {
                let mut effects = Vec::new();
                reservations.step([event], at, &mut effects);
                line(serde_json::json!({
                    "actor": "reservations", "at": at, "events": [event], "effects": effects
                }));
            }
        }
        std::fs::write(&path, log).unwrap();
        assert_eq!(verify(&path).unwrap().steps, 12);
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
