//! The start of a run on partition workers: those of this process are started, all are connected, and every partition is
//! loaded before the first frame arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{DeviceKind, PartitionLoader, StopFlag};
use weir_graph::{Graph, WorkerNode};
use weir_partition::wire::{Address, PartitionId};
use weir_partition::{
    AllowedHops, Client, ClientOptions, Emulation, Event, LocalWorkers, NodeCarrier, NodeName, Now, Worker,
    WorkerId, WorkerInfo, WorkerOptions,
};
use weir_types::Span;

use super::active_plan::ActivePlan;
use super::event_relay::EventRelay;
use crate::assembly::RunError;
use crate::clock::{Clock, duration};

/// Longest time for all workers to connect and to load their partitions.
const START_TIMEOUT: Span = Span::from_secs(30);

/// Longest wait for a worker that does not answer, if the other workers suffice for the plan.
const ABSENT_TIMEOUT: Span = Span::from_secs(3);

/// Time between two looks at what they reported.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The workers of a run.
pub(crate) struct Fleet {
    pub(crate) client: Arc<Client>,
    /// They stop when this is dropped.
    _local_workers: Vec<Worker>,
}

impl Fleet {
    /// Starts and connects all workers and has the partitions of `active` loaded. A worker that does not answer may come up
    /// later where every stage has another one.
    pub(crate) fn start(
        graph: &Graph,
        active: &ActivePlan,
        (loader, carrier): (Option<&Arc<dyn PartitionLoader>>, Option<NodeCarrier>),
        clock: Clock,
        relay: &EventRelay,
        stop: &StopFlag,
    ) -> Result<Self, RunError> {
        let now: Now = Arc::new(move || clock.now());
        let locals = LocalWorkers::default();
        let options = ClientOptions {
            locals: locals.clone(),
            carrier: carrier.clone(),
            ..ClientOptions::default()
        };
        let events = relay.clone();
        let client = Client::start(
            options,
            Arc::clone(&now),
            Box::new(move |event| events.publish(event)),
        )?;
        let mut local_workers = Vec::new();
        for (at, node) in graph.workers().iter().enumerate() {
            let id = WorkerId(at as u32);
            // A worker without a share in this plan may have one in the next.
            let shares = active.assignment.share_count(id).max(1);
            let address = match &node.address {
                Some(address) => reached_at(node, address, carrier.is_some())?,
                None => {
                    let worker = start_local(node, shares, loader, &locals, &now)?;
                    let address = worker.address();
                    local_workers.push(worker);
                    address
                }
            };
            for (_, load) in active.partitions.loads.iter().filter(|(worker, _)| *worker == id) {
                client.load(id, load.clone());
            }
            client.add(id, address)?;
        }
        wait_until_ready(graph, active, clock, relay, stop)?;
        Ok(Self {
            client: Arc::new(client),
            _local_workers: local_workers,
        })
    }
}

/// Address of a worker in another process: a TCP address, or the name of a node of the fleet.
fn reached_at(node: &WorkerNode, address: &str, is_in_fleet: bool) -> Result<Address, RunError> {
    let Some(name) = node.node() else {
        return Ok(Address::Tcp(resolve(node, address)?));
    };
    let wrong = |reason: &str| RunError::Workers(format!("worker \"{}\" at {address}: {reason}", node.name));
    if !is_in_fleet {
        return Err(wrong(
            "this engine is no node of a fleet: give --fleet FLEET.toml --node NAME",
        ));
    }
    let name = NodeName::new(name).ok_or_else(|| wrong("no node can have that name"))?;
    Ok(Address::Node(name))
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

fn start_local(
    node: &WorkerNode,
    shares: u32,
    loader: Option<&Arc<dyn PartitionLoader>>,
    locals: &LocalWorkers,
    now: &Now,
) -> Result<Worker, RunError> {
    let name = &node.name;
    let loader = loader.ok_or_else(|| {
        RunError::Workers(format!(
            "worker \"{name}\" is of this process, which cannot run partitions of models"
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

/// Waits until all workers are up with their partitions, or enough of them after [`ABSENT_TIMEOUT`].
fn wait_until_ready(
    graph: &Graph,
    active: &ActivePlan,
    clock: Clock,
    relay: &EventRelay,
    stop: &StopFlag,
) -> Result<(), RunError> {
    let began = clock.now();
    let mut missing: BTreeSet<(WorkerId, PartitionId)> = active
        .partitions
        .loads
        .iter()
        .map(|(worker, load)| (*worker, load.partition))
        .collect();
    let mut available = BTreeMap::new();
    let name = |worker: WorkerId| graph.workers()[worker.0 as usize].name.as_str();
    loop {
        for event in relay.take_buffered() {
            match event {
                Event::Up { worker, info } => {
                    check_worker(
                        &graph.workers()[worker.0 as usize],
                        active.assignment.share_count(worker),
                        &info,
                    )?;
                    available.insert(worker, info);
                }
                Event::Down { worker, reason } => {
                    tracing::warn!(worker = name(worker), "worker lost: {reason}");
                    available.remove(&worker);
                }
                Event::Loaded {
                    worker, partition, ..
                } => {
                    missing.remove(&(worker, partition));
                }
                Event::NotLoaded { worker, reason, .. } => {
                    let worker = name(worker);
                    return Err(RunError::Workers(format!(
                        "worker \"{worker}\" cannot load its partition: {reason}"
                    )));
                }
                _ => {}
            }
        }
        let absent: BTreeSet<WorkerId> = missing
            .iter()
            .map(|(worker, _)| *worker)
            .filter(|worker| !available.contains_key(worker))
            .collect();
        if missing.iter().all(|(worker, _)| absent.contains(worker)) {
            if absent.is_empty() {
                return Ok(());
            }
            let waited = clock.now().since(began);
            if waited >= ABSENT_TIMEOUT {
                return active.check_available(&available).map_err(|stage| {
                    let names: Vec<&str> = absent.iter().map(|worker| name(*worker)).collect();
                    RunError::Workers(format!(
                        "{stage} has no worker: {} did not answer; start weir worker there, or plan without",
                        names.join(", ")
                    ))
                });
            }
        }
        if clock.now().since(began) >= START_TIMEOUT || stop.is_raised() {
            let seconds = duration(START_TIMEOUT).as_secs();
            return Err(RunError::Workers(format!(
                "the workers were not ready within {seconds} s"
            )));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Checks a worker against what the graph declares.
fn check_worker(node: &WorkerNode, shares: u32, info: &WorkerInfo) -> Result<(), RunError> {
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
