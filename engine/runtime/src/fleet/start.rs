//! The beginning of a run on partition workers: those of this process are started, all are called, and every part is
//! loaded before the first frame comes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{DeviceKind, Divided, PartLoader, StopFlag};
use weir_graph::{Graph, WorkerNode};
use weir_partition::wire::{Address, PartitionId};
use weir_partition::{
    AllowedHops, Client, ClientOptions, Emulation, Event, LocalWorkers, Now, Worker, WorkerId, WorkerInfo,
    WorkerOptions,
};
use weir_planner::{ModelPlan, Plan};
use weir_types::ShareId;
use weir_types::{ModuleId, Span};

use super::Post;
use super::layout::{Lanes, Seats, lanes};
use super::parts::Parts;
use crate::assembly::RunError;
use crate::clock::{Clock, duration};

/// How long workers may take to be there with all their parts.
const PATIENCE: Span = Span::from_secs(30);

/// How long a worker that does not answer is waited for, where the others would do.
const ABSENCE: Span = Span::from_secs(3);

/// How often it is looked whether they are.
const LOOK_UP: Duration = Duration::from_millis(10);

/// A plan with what it needs of the models.
#[derive(Clone)]
pub(crate) struct Planned {
    /// Plans of a run are numbered from 1.
    pub(crate) number: u64,
    pub(crate) plan: Plan,
    /// The planned model of each module that has one.
    pub(crate) modules: Vec<(ModuleId, String)>,
    pub(crate) models: BTreeMap<ModuleId, Arc<dyn Divided>>,
    pub(crate) seats: Seats,
    pub(crate) parts: Parts,
}

impl Planned {
    /// Lays out `plan` on the workers of `graph` and cuts the models; parts are numbered from `first` on.
    pub(crate) fn new(
        graph: &Graph,
        plan: Plan,
        modules: Vec<(ModuleId, String)>,
        models: BTreeMap<ModuleId, Arc<dyn Divided>>,
        (number, first): (u64, u32),
    ) -> Result<Self, String> {
        let seats = Seats::of(graph, &plan, &modules)?;
        let emulated: Vec<bool> = graph.workers().iter().map(|worker| worker.emulated).collect();
        let parts =
            Parts::cut(&seats, &models, &emulated, (number, first)).map_err(|error| error.to_string())?;
        Ok(Self {
            number,
            plan,
            modules,
            models,
            seats,
            parts,
        })
    }

    /// The same models by another plan.
    pub(crate) fn replanned(&self, graph: &Graph, plan: Plan) -> Result<Self, String> {
        let next = (self.number + 1, self.parts.next());
        Self::new(graph, plan, self.modules.clone(), self.models.clone(), next)
    }

    /// Whether every stage has a worker that is there; the first that has none where not.
    pub(crate) fn covered(&self, up: &BTreeMap<WorkerId, WorkerInfo>) -> Result<(), String> {
        for stage in self
            .seats
            .cluster
            .pipelines
            .iter()
            .flat_map(|pipeline| &pipeline.stages)
        {
            let there = |share: &ShareId| up.contains_key(&self.seats.seats[share.index()].0);
            if !stage.shares.iter().any(there) {
                return Err(format!(
                    "the stage of blocks {}..{}",
                    stage.blocks.0, stage.blocks.1
                ));
            }
        }
        Ok(())
    }

    fn model(&self, module: ModuleId) -> Option<&ModelPlan> {
        let (_, name) = self.modules.iter().find(|(id, _)| *id == module)?;
        self.plan
            .solution
            .models
            .iter()
            .find(|model| model.model == *name)
    }

    /// What a module reckons with; `None` for a module whose model is whole.
    pub(crate) fn lanes(&self, module: ModuleId) -> Option<Lanes> {
        lanes(&self.seats, module, self.model(module)?)
    }
}

/// The workers of a run.
pub(crate) struct Fleet {
    pub(crate) client: Arc<Client>,
    /// Those that are there, as they introduced themselves.
    pub(crate) up: BTreeMap<WorkerId, WorkerInfo>,
    /// Held for as long as the run lasts.
    _locals: Vec<Worker>,
}

impl Fleet {
    /// Starts and calls all workers and has the parts of `planned` loaded. A worker that does not answer is left to come
    /// later, where every stage has another.
    pub(crate) fn start(
        graph: &Graph,
        planned: &Planned,
        loader: Option<&Arc<dyn PartLoader>>,
        clock: Clock,
        post: &Post,
        stop: &StopFlag,
    ) -> Result<Self, RunError> {
        let now: Now = Arc::new(move || clock.now());
        let locals = LocalWorkers::default();
        let options = ClientOptions {
            locals: locals.clone(),
            ..ClientOptions::default()
        };
        let told = post.clone();
        let client = Client::start(options, Arc::clone(&now), Box::new(move |event| told.tell(event)))?;
        let mut here = Vec::new();
        for (at, node) in graph.workers().iter().enumerate() {
            let id = WorkerId(at as u32);
            // One that has nothing to do yet may be wanted by another plan.
            let shares = planned.seats.shares_of(id).max(1);
            let address = match &node.address {
                Some(address) => Address::Tcp(resolve(node, address)?),
                None => {
                    let worker = local(node, shares, loader, &locals, &now)?;
                    let address = worker.address();
                    here.push(worker);
                    address
                }
            };
            for (_, load) in planned.parts.loads.iter().filter(|(worker, _)| *worker == id) {
                client.load(id, load.clone());
            }
            client.add(id, address)?;
        }
        let up = wait(graph, planned, clock, post, stop)?;
        Ok(Self {
            client: Arc::new(client),
            up,
            _locals: here,
        })
    }
}

fn resolve(node: &WorkerNode, address: &str) -> Result<std::net::SocketAddr, RunError> {
    // Of a name with addresses of both kinds a worker listens on the older (see `weir worker --listen`).
    let found = address
        .to_socket_addrs()
        .map(|found| found.min_by_key(std::net::SocketAddr::is_ipv6));
    let reason = match found {
        Ok(Some(address)) => return Ok(address),
        Ok(None) => "the name has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    let name = &node.name;
    Err(RunError::Workers(format!(
        "worker \"{name}\" at {address} cannot be found: {reason}"
    )))
}

fn local(
    node: &WorkerNode,
    shares: u32,
    loader: Option<&Arc<dyn PartLoader>>,
    locals: &LocalWorkers,
    now: &Now,
) -> Result<Worker, RunError> {
    let name = &node.name;
    let loader = loader.ok_or_else(|| {
        RunError::Workers(format!(
            "worker \"{name}\" is of this process, which cannot run parts of models"
        ))
    })?;
    let options = WorkerOptions {
        class: node.class.clone(),
        shares,
        device: DeviceKind::Cpu,
        emulation: Emulation {
            slowdown: node.slowdown,
            uplink_bps: None,
        },
        locals: locals.clone(),
        // It is this process that names the next worker.
        hops: AllowedHops::Any,
        ..WorkerOptions::default()
    };
    let worker = Worker::local(options, Arc::clone(loader), Arc::clone(now));
    worker.map_err(|error| RunError::Workers(format!("worker \"{name}\": {error}")))
}

/// Waits until all are there with their parts, or enough of them after a while.
fn wait(
    graph: &Graph,
    planned: &Planned,
    clock: Clock,
    post: &Post,
    stop: &StopFlag,
) -> Result<BTreeMap<WorkerId, WorkerInfo>, RunError> {
    let began = clock.now();
    let mut missing: BTreeSet<(WorkerId, PartitionId)> = planned
        .parts
        .loads
        .iter()
        .map(|(worker, load)| (*worker, load.partition))
        .collect();
    let mut up = BTreeMap::new();
    let name = |worker: WorkerId| graph.workers()[worker.0 as usize].name.as_str();
    loop {
        for event in post.early() {
            match event {
                Event::Up { worker, info } => {
                    check(
                        &graph.workers()[worker.0 as usize],
                        planned.seats.shares_of(worker),
                        &info,
                    )?;
                    up.insert(worker, info);
                }
                Event::Down { worker, reason } => {
                    tracing::warn!(worker = name(worker), "worker lost: {reason}");
                    up.remove(&worker);
                }
                Event::Loaded {
                    worker, partition, ..
                } => {
                    missing.remove(&(worker, partition));
                }
                Event::NotLoaded { worker, reason, .. } => {
                    let worker = name(worker);
                    return Err(RunError::Workers(format!(
                        "worker \"{worker}\" cannot load its part: {reason}"
                    )));
                }
                _ => {}
            }
        }
        let absent: BTreeSet<WorkerId> = missing
            .iter()
            .map(|(worker, _)| *worker)
            .filter(|worker| !up.contains_key(worker))
            .collect();
        if missing.iter().all(|(worker, _)| absent.contains(worker)) {
            if absent.is_empty() {
                return Ok(up);
            }
            let waited = clock.now().since(began);
            if waited >= ABSENCE {
                return planned.covered(&up).map(|()| up).map_err(|stage| {
                    let names: Vec<&str> = absent.iter().map(|worker| name(*worker)).collect();
                    RunError::Workers(format!(
                        "{stage} has no worker: {} did not answer; start weir worker there, or plan without",
                        names.join(", ")
                    ))
                });
            }
        }
        if clock.now().since(began) >= PATIENCE || stop.raised() {
            let seconds = duration(PATIENCE).as_secs();
            return Err(RunError::Workers(format!(
                "the workers were not ready within {seconds} s"
            )));
        }
        std::thread::sleep(LOOK_UP);
    }
}

/// Whether a worker is what the graph says that it is.
pub(crate) fn check(node: &WorkerNode, shares: u32, info: &WorkerInfo) -> Result<(), RunError> {
    let name = &node.name;
    if info.class != node.class {
        return Err(RunError::Workers(format!(
            "worker \"{name}\" is of class \"{}\", and the graph says \"{}\"; start it with --class {}",
            info.class, node.class, node.class
        )));
    }
    if info.shares < shares {
        return Err(RunError::Workers(format!(
            "worker \"{name}\" has {} shares, and the plan wants {shares}; start it with --shares {shares}",
            info.shares
        )));
    }
    Ok(())
}
