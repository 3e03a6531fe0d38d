//! The ends of a model: it is opened on each of its devices, and takes longer there where the device stands for a slower one.

use std::sync::Arc;
use std::time::Duration;

use weir_flow::{
    Batching, CacheKind, DeviceKind, GeneratedToken, GenerativeLimits, GenerativeModel, GenerativeSession,
    Inference, Item, Model, PreparedModel, SequenceState, SequenceStep, Session, SessionError, Step,
};
use weir_graph::{DeviceClass, Graph, ModelNode};
use weir_partition::{Now, RemoteGenerator};
use weir_types::{Profile, SequenceId, SleepCompensator, Span};

use crate::assembly::RunError;
use crate::clock::{Clock, duration};
use crate::emulated::EmulatedModel;
use crate::emulated_generator::EmulatedGenerator;

/// Openers of sessions: by model, then by the devices on which that model is placed.
pub(crate) type EndModels = Vec<Vec<Arc<dyn Model>>>;

/// The models of a graph, emulated ones included, on each of their devices.
///
/// # Errors
/// [`RunError`] where a model is to run on a worker and cannot be sent there.
pub(crate) fn end_models(
    graph: &Graph,
    given: &[Option<Arc<dyn Model>>],
    clock: Clock,
) -> Result<EndModels, RunError> {
    let of_model = |(node, given): (&ModelNode, &Option<Arc<dyn Model>>)| {
        let end = |(device, declared): (usize, &[(u32, Span)])| {
            let device = &graph.devices()[device];
            let profile = Profile::new(declared.to_vec());
            if let DeviceClass::Worker(name) = &device.class {
                return remote(graph, (node, given.as_ref()), name, clock);
            }
            Ok(match given {
                Some(model) => {
                    let is_emulated = matches!(device.class, DeviceClass::Emulated(_));
                    let pace = Pace {
                        slowdown: device.slowdown,
                        least: profile.filter(|_| is_emulated),
                    };
                    pace.of(model)
                }
                None if node.generates() => {
                    Arc::new(EmulatedGenerator::new(node, declared)) as Arc<dyn Model>
                }
                None => {
                    Arc::new(EmulatedModel::new(node, profile.unwrap_or_else(fallback))) as Arc<dyn Model>
                }
            })
        };
        node.ends().map(end).collect()
    };
    graph.models().iter().zip(given).map(of_model).collect()
}

/// A model on the worker of that name.
fn remote(
    graph: &Graph,
    (node, model): (&ModelNode, Option<&Arc<dyn Model>>),
    worker: &str,
    clock: Clock,
) -> Result<Arc<dyn Model>, RunError> {
    let bad = |reason: String| RunError::Generate {
        model: node.name.clone(),
        reason,
    };
    let known = graph.workers().iter().find(|known| known.name == worker);
    let address = known.and_then(|worker| worker.address.as_deref());
    let address = address.ok_or_else(|| bad(format!("worker {worker} has no address")))?;
    let local = model.and_then(|model| model.generative());
    let local = local.ok_or_else(|| {
        bad(format!(
            "it does not generate, and worker {worker} runs models that do"
        ))
    })?;
    let now: Now = Arc::new(move || clock.now());
    let generator = RemoteGenerator::new(&node.name, address, local, now)?;
    Ok(Arc::new(RemoteModel(Arc::new(generator))))
}

/// A model that generates on a worker.
struct RemoteModel(Arc<RemoteGenerator>);

impl Model for RemoteModel {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn generative(&self) -> Option<Arc<dyn GenerativeModel>> {
        Some(Arc::clone(&self.0) as Arc<dyn GenerativeModel>)
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Err(SessionError::Load {
            model: "on a worker".to_owned(),
            reason: "it generates: run it by the operator describe".to_owned(),
        })
    }
}

/// Pace of a session that runs slower than its model could.
#[derive(Debug, Clone, PartialEq)]
struct Pace {
    /// Factor by which each run is stretched, at least 1.
    slowdown: f64,
    /// Shortest duration of a run as declared, by batch size or by tokens of a step.
    least: Option<Profile>,
}

impl Pace {
    /// The same model at this pace.
    fn of(self, model: &Arc<dyn Model>) -> Arc<dyn Model> {
        if self.slowdown <= 1.0 && self.least.is_none() {
            return Arc::clone(model);
        }
        Arc::new(SlowModel {
            model: Arc::clone(model),
            pace: self,
        })
    }

    fn timer(&self) -> PaceTimer {
        PaceTimer {
            pace: self.clone(),
            clock: Clock::start(),
            compensator: SleepCompensator::default(),
        }
    }
}

/// Keeps a session of one thread at its pace.
struct PaceTimer {
    pace: Pace,
    clock: Clock,
    compensator: SleepCompensator,
}

impl PaceTimer {
    /// Runs `work`, and rests until it has taken as long as it is to.
    fn run<T>(&mut self, size: u32, work: impl FnOnce() -> T) -> T {
        let began = self.clock.now();
        let done = work();
        let took = self.clock.now().since(began);
        let declared = self.pace.least.as_ref();
        let declared = declared.map_or(Span::ZERO, |least| least.duration(size));
        let rest = took.scale(self.pace.slowdown).max(declared).saturating_sub(took);
        if rest > Span::ZERO {
            let from = self.clock.now();
            std::thread::sleep(duration(self.compensator.sleep_duration(rest)));
            self.compensator.on_slept(rest, self.clock.now().since(from));
        }
        done
    }
}

struct SlowModel {
    model: Arc<dyn Model>,
    pace: Pace,
}

impl Model for SlowModel {
    fn batching(&self) -> Batching {
        self.model.batching()
    }

    fn classes(&self) -> &[Arc<str>] {
        self.model.classes()
    }

    fn alphabet(&self) -> &[String] {
        self.model.alphabet()
    }

    fn generative(&self) -> Option<Arc<dyn GenerativeModel>> {
        let model = self.model.generative()?;
        Some(Arc::new(SlowGenerator {
            model,
            pace: self.pace.clone(),
        }))
    }

    fn open(&self, device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(self.slow(self.model.open(device)?))
    }

    fn open_cold(
        &self,
        device: DeviceKind,
    ) -> Result<(Box<dyn Session>, Option<PreparedModel>), SessionError> {
        let (session, prepared) = self.model.open_cold(device)?;
        Ok((self.slow(session), prepared))
    }

    fn open_warm(
        &self,
        device: DeviceKind,
        prepared: &PreparedModel,
    ) -> Result<Box<dyn Session>, SessionError> {
        Ok(self.slow(self.model.open_warm(device, prepared)?))
    }

    fn file_bytes(&self) -> Option<u64> {
        self.model.file_bytes()
    }
}

impl SlowModel {
    fn slow(&self, session: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(SlowSession {
            session,
            timer: self.pace.timer(),
        })
    }
}

struct SlowSession {
    session: Box<dyn Session>,
    timer: PaceTimer,
}

impl Session for SlowSession {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        let session = &mut self.session;
        self.timer.run(items.len() as u32, || session.run(items, on_step))
    }

    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError> {
        let session = &mut self.session;
        self.timer.run(batch as u32, || session.warm_up(batch))
    }

    fn begin(&mut self) -> Result<(), SessionError> {
        self.session.begin()
    }

    fn within(&mut self, limit: Option<Duration>) {
        self.session.within(limit);
    }
}

struct SlowGenerator {
    model: Arc<dyn GenerativeModel>,
    pace: Pace,
}

impl GenerativeModel for SlowGenerator {
    fn limits(&self) -> GenerativeLimits {
        self.model.limits()
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.model.encode(text)
    }

    fn decode(&self, tokens: &[u32]) -> String {
        self.model.decode(tokens)
    }

    fn caches(&self) -> Option<CacheKind> {
        self.model.caches()
    }

    fn prefix_tokens(&self) -> u32 {
        self.model.prefix_tokens()
    }

    fn open(&self, device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
        Ok(Box::new(SlowSequences {
            session: self.model.open(device)?,
            timer: self.pace.timer(),
        }))
    }
}

struct SlowSequences {
    session: Box<dyn GenerativeSession>,
    timer: PaceTimer,
}

impl GenerativeSession for SlowSequences {
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError> {
        let session = &mut self.session;
        let tokens = steps.iter().map(|step| step.tokens).sum();
        self.timer.run(tokens, || session.step(steps))
    }

    fn evict(&mut self, sequence: SequenceId) {
        self.session.evict(sequence);
    }

    fn take(&mut self, sequence: SequenceId, with_cache: bool) -> Option<SequenceState> {
        self.session.take(sequence, with_cache)
    }

    fn put(&mut self, sequence: SequenceId, state: SequenceState) -> Result<u32, SessionError> {
        self.session.put(sequence, state)
    }

    fn keep_prefix(&mut self, sequence: SequenceId, tokens: u32) {
        self.session.keep_prefix(sequence, tokens);
    }

    fn reuse_prefix(&mut self, sequence: SequenceId, tokens: u32) -> u32 {
        self.session.reuse_prefix(sequence, tokens)
    }

    fn sequences(&self) -> usize {
        self.session.sequences()
    }
}

/// A profile for a model that was neither declared nor measured: one millisecond a batch. The graph's check asks for a
/// declared one where a device is emulated, so no batch is ever judged by this one.
pub(crate) fn fallback() -> Profile {
    #[expect(clippy::unwrap_used, reason = "one point of size one is a profile")]
    Profile::new(vec![(1, Span::from_millis(1))]).unwrap()
}
