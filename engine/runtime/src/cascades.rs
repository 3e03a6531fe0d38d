//! What the stages of cascades are set to, which may change while a graph runs. Set by one, read by the actors of the stages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_flow::Model;
use weir_graph::{Escalate, Gears, Graph, ModuleNode, StageSetting, Vertex};
use weir_policy::GearReport;
use weir_policy::gears::{InvocationSize, Settle, StageRule};
use weir_types::{ModuleId, Span, StreamId};

use crate::assembly::RunError;
use crate::sampling::{Sampler, StageSampling};

/// What one stage is set to.
#[derive(Debug)]
pub(crate) struct StageSwitch {
    /// Bits of the least certainty that is accepted.
    certainty: AtomicU32,
    /// Whether it is asked at all.
    used: AtomicBool,
    /// Requests that have come to it.
    arrived: AtomicU64,
    /// Items that wait or run there.
    waiting: AtomicU64,
    /// Whether streams have settings of their own.
    by_stream: AtomicBool,
    streams: Mutex<BTreeMap<StreamId, StreamStage>>,
}

/// What a stage is set to for one stream, and what of it came there.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct StreamStage {
    /// `None`: as for all.
    setting: Option<StageSetting>,
    /// Requests, since it was looked at last.
    pub(crate) arrived: u64,
    /// Items that wait or run there.
    pub(crate) waiting: u64,
}

impl StageSwitch {
    fn new(certainty: f32) -> Self {
        Self {
            certainty: AtomicU32::new(certainty.to_bits()),
            used: AtomicBool::new(true),
            arrived: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            by_stream: AtomicBool::new(false),
            streams: Mutex::default(),
        }
    }

    fn with_streams<T>(&self, work: impl FnOnce(&mut BTreeMap<StreamId, StreamStage>) -> T) -> T {
        work(&mut self.streams.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether streams have settings of their own from now on; none has one yet. Where they had none before, requests that are there
    /// already are counted for none.
    pub(crate) fn set_by_stream(&self, by_stream: bool) {
        let before = self.by_stream.swap(by_stream, Ordering::Relaxed);
        self.with_streams(|streams| {
            if before == by_stream {
                streams.values_mut().for_each(|stage| stage.setting = None);
            } else {
                streams.clear();
            }
        });
    }

    /// Sets it for a stream alone.
    pub(crate) fn set_for(&self, stream: StreamId, setting: StageSetting) {
        self.with_streams(|streams| streams.entry(stream).or_default().setting = Some(setting));
    }

    /// What of each stream came since this was asked last, and what waits.
    pub(crate) fn take_streams(&self) -> Vec<(StreamId, StreamStage)> {
        self.with_streams(|streams| {
            let taken = streams.iter().map(|(stream, stage)| (*stream, *stage)).collect();
            streams.values_mut().for_each(|stage| stage.arrived = 0);
            taken
        })
    }

    pub(crate) fn remove_stream(&self, stream: StreamId) {
        self.with_streams(|streams| streams.remove(&stream));
    }

    pub(crate) fn set(&self, setting: StageSetting) {
        self.certainty
            .store(setting.certainty.to_bits(), Ordering::Relaxed);
        self.used.store(setting.is_used, Ordering::Relaxed);
    }

    /// A request of a stream came with so many items.
    pub(crate) fn on_arrived(&self, stream: StreamId, items: usize) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(items as u64, Ordering::Relaxed);
        if self.by_stream.load(Ordering::Relaxed) {
            self.with_streams(|streams| {
                let stage = streams.entry(stream).or_default();
                stage.arrived += 1;
                stage.waiting += items as u64;
            });
        }
    }

    /// So many items of a stream left, answered or not.
    pub(crate) fn on_left(&self, stream: StreamId, items: usize) {
        self.waiting.fetch_sub(items as u64, Ordering::Relaxed);
        if self.by_stream.load(Ordering::Relaxed) {
            self.with_streams(|streams| {
                if let Some(stage) = streams.get_mut(&stream) {
                    stage.waiting = stage.waiting.saturating_sub(items as u64);
                }
            });
        }
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// What it is set to for all streams that have no setting of their own.
    fn common(&self) -> StageSetting {
        StageSetting {
            is_used: self.used.load(Ordering::Relaxed),
            certainty: f32::from_bits(self.certainty.load(Ordering::Relaxed)),
            invocation: InvocationSize::default(),
        }
    }

    /// What it is set to for a stream: the least certainty, 0 to 1, of an answer that is accepted, and whether items are given to
    /// it; else they pass to the next stage.
    pub(crate) fn setting(&self, stream: StreamId) -> StageSetting {
        if !self.by_stream.load(Ordering::Relaxed) {
            return self.common();
        }
        let own = self.with_streams(|streams| streams.get(&stream).and_then(|stage| stage.setting));
        own.unwrap_or_else(|| self.common())
    }
}

/// Which gears were in force, for the report; kept over graphs that take each other's place.
#[derive(Debug, Default)]
pub(crate) struct GearTally(Mutex<Tally>);

#[derive(Debug, Default)]
struct Tally {
    /// `None` before any plan.
    report: Option<GearReport>,
    /// What the plan expects of each gear.
    accuracies: Vec<Option<f64>>,
    /// Seconds with an expectation, and the sum of those expectations times the seconds.
    expected: (f64, f64),
}

impl GearTally {
    fn with<T>(&self, work: impl FnOnce(&mut Tally) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another plan is in force, or none.
    pub(crate) fn on_plan(&self, gears: Option<&Gears>) {
        self.with(|tally| {
            let Some(gears) = gears else {
                tally.accuracies.clear();
                return;
            };
            let report = tally.report.get_or_insert_default();
            report.plan = gears.number;
            report.seconds_by_gear = vec![0.0; gears.gears.len()];
            tally.accuracies = gears.gears.iter().map(|gear| gear.accuracy).collect();
        });
    }

    /// A gear was in force for so long.
    pub(crate) fn on_time(&self, gear: usize, time: Span) {
        self.with(|tally| {
            let seconds = time.as_secs_f64();
            let spent = tally
                .report
                .as_mut()
                .and_then(|report| report.seconds_by_gear.get_mut(gear));
            if let (Some(spent), Some(accuracy)) = (spent, tally.accuracies.get(gear)) {
                *spent += seconds;
                if let Some(accuracy) = accuracy {
                    tally.expected.0 += seconds;
                    tally.expected.1 += seconds * accuracy;
                }
            }
        });
    }

    pub(crate) fn on_shift(&self) {
        self.with(|tally| {
            if let Some(report) = &mut tally.report {
                report.shifts += 1;
            }
        });
    }

    /// What was counted; `None` where there was no plan.
    pub(crate) fn report(&self) -> Option<GearReport> {
        self.with(|tally| {
            let (seconds, sum) = tally.expected;
            tally.report.clone().map(|report| GearReport {
                accuracy_expected: (seconds > 0.0).then(|| sum / seconds),
                ..report
            })
        })
    }
}

/// What a module is in its cascade.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// The last stage, whose output the answers become.
    pub(crate) settles_in: ModuleId,
    pub(crate) settle: Settle,
    /// Whether frames are handed on in regions; not where samples are taken, of which every stage answers the same items.
    pub(crate) splits: bool,
    pub(crate) switch: Arc<StageSwitch>,
    /// Where samples are taken.
    pub(crate) sampling: Option<StageSampling>,
}

/// Whether the models of stages can answer for each other, as far as only loaded models say.
///
/// # Errors
/// [`RunError::Cascade`]: classes differ, or a stage cannot write what the one before it can.
pub(crate) fn check(graph: &Graph, models: &[Option<Arc<dyn Model>>]) -> Result<(), RunError> {
    for module in graph.modules() {
        let Some(stage) = module.stage.as_ref().filter(|stage| stage.index > 0) else {
            continue;
        };
        let [Vertex::Module(before)] = module.inputs[..] else {
            continue;
        };
        let model = |module: &ModuleNode| Some((models.get(module.model)?.as_deref()?, module.model));
        let (Some((own, at)), Some((first, before))) = (model(module), model(&graph.modules()[before]))
        else {
            continue;
        };
        let names = [before, at].map(|model| graph.models()[model].name.as_str());
        if let Some(reason) = difference([first, own], names) {
            return Err(RunError::Cascade {
                cascade: stage.cascade.clone(),
                reason,
            });
        }
    }
    Ok(())
}

/// What keeps the second of two models from answering for the first.
fn difference([first, second]: [&dyn Model; 2], [one, other]: [&str; 2]) -> Option<String> {
    let classes = |model: &dyn Model| -> BTreeSet<Arc<str>> { model.classes().iter().cloned().collect() };
    let (known, own) = (classes(first), classes(second));
    if !known.is_empty() && !own.is_empty() {
        let only = known.symmetric_difference(&own).next();
        return only.map(|class| {
            format!(
                "only one of its models {one} and {other} knows the class \"{class}\": their `labels` must name the same \
                 things alike"
            )
        });
    }
    if first.alphabet().is_empty() || second.alphabet().is_empty() {
        return None;
    }
    let own: BTreeSet<&String> = second.alphabet().iter().collect();
    let missing = first
        .alphabet()
        .iter()
        .find(|character| !own.contains(character))?;
    Some(format!(
        "its model {other} cannot write \"{missing}\", which {one} before it can: what is handed on would come back wrong; \
         take a larger model that knows all characters of the smaller one"
    ))
}

impl Stage {
    /// How it decides on items of a stream as it is set now. Where samples are taken it hands on everything.
    pub(crate) fn rule(&self, stream: StreamId) -> StageRule {
        StageRule {
            is_last: self.is_last,
            settle: self.settle,
            certainty: match self.sampling {
                Some(_) => f32::INFINITY,
                None => self.switch.setting(stream).certainty,
            },
        }
    }

    /// What sets it, what it is set to in the beginning, and whether requests enter the cascade there.
    pub(crate) fn controls(&self) -> (Arc<StageSwitch>, StageSetting, bool) {
        let own = self.switch.common();
        (Arc::clone(&self.switch), own, self.is_first)
    }
}

/// Whether a graph has any cascade.
pub(crate) fn has_cascades(graph: &Graph) -> bool {
    graph.modules().iter().any(|module| module.stage.is_some())
}

/// The stages of a graph by module; `None` where a module is in no cascade.
pub(crate) fn stages(graph: &Graph, sampler: Option<&Arc<dyn Sampler>>) -> Vec<Option<Stage>> {
    let streams: Arc<[Arc<str>]> = graph
        .sources()
        .iter()
        .map(|source| source.name.as_str().into())
        .collect();
    let stage = |(id, module): (u32, &ModuleNode)| {
        let stage = module.stage.as_ref()?;
        let rest = stage.count - 1 - stage.index;
        Some(Stage {
            is_first: stage.index == 0,
            is_last: stage.is_last(),
            settles_in: last(graph, id, rest),
            settle: stage.settle,
            splits: stage.escalate == Escalate::Regions && sampler.is_none(),
            switch: Arc::new(StageSwitch::new(stage.certainty)),
            sampling: sampler.map(|sampler| StageSampling {
                sampler: Arc::clone(sampler),
                cascade: stage.cascade.as_str().into(),
                stage: stage.index,
                streams: Arc::clone(&streams),
            }),
        })
    };
    (0..).zip(graph.modules()).map(stage).collect()
}

/// The last stage of the cascade of a module, which `rest` stages follow. Other modules may be between them in the graph's order.
fn last(graph: &Graph, module: u32, rest: u32) -> ModuleId {
    let mut at = module as usize;
    for _ in 0..rest {
        let next = |(_, node): &(usize, &ModuleNode)| {
            node.stage.as_ref().is_some_and(|stage| stage.index > 0) && node.inputs == [Vertex::Module(at)]
        };
        let Some((next, _)) = graph.modules().iter().enumerate().find(next) else {
            break;
        };
        at = next;
    }
    ModuleId(at as u32)
}
