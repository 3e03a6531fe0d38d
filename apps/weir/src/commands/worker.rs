//! `weir worker`: holds partitions of models and runs the batches that an engine sends through them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{PartitionLoader, StopFlag};
use weir_operators::OnnxPartitionLoader;
use weir_partition::{AllowedHop, AllowedHops, ConnectionQuota, Emulation, Now, WorkerOptions, pin_to_core};
use weir_runtime::{Clock, with_emulated_partitions};

use crate::args::{HopNames, Worker};
use crate::error::UserError;
use crate::fleet::FleetNode;
use crate::{handles, interrupt, output};

/// Between two looks at the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Serves until Ctrl-C.
///
/// # Errors
/// An address that is not to be had, a core that is not there, and no ONNX Runtime.
pub(crate) fn worker(args: &Worker) -> anyhow::Result<()> {
    weir_operators::find_runtime().map_err(|error| UserError::new(error.to_string()))?;
    if let Some(core) = args.core {
        // Before any thread is started: all of them keep to it.
        let pinned = pin_to_core(core);
        pinned.map_err(|error| UserError::new(format!("cannot keep to core {core}: {error}")))?;
    }
    let quota = ConnectionQuota::default();
    handles::require_connections(quota.engines + quota.peers + quota.unidentified)?;
    let stop = StopFlag::default();
    interrupt::watch(&stop, "stopping: batches in flight are dropped")?;
    let options = WorkerOptions {
        class: args.class.clone(),
        shares: args.shares,
        device: args.device.0,
        emulation: Emulation {
            slowdown: args.slowdown,
            uplink_bps: args.bandwidth.map(|bandwidth| bandwidth.0),
        },
        ..WorkerOptions::default()
    };
    let clock = Clock::start();
    let now: Now = Arc::new(move || clock.now());
    // It leaves its fleet when the worker has ended.
    let (worker, _node) = match args.fleet.place() {
        Some(place) => {
            let node = FleetNode::open_worker(&place)?;
            let options = WorkerOptions {
                carrier: Some((node.carrier()?, node.name()?)),
                ..options
            };
            let worker = weir_partition::Worker::in_fleet(options, loader(), now).map_err(mendable)?;
            node.announce()?;
            (worker, Some(node))
        }
        None => (listening(args, options, &now)?, None),
    };
    output::say(&format!("listening on {}", worker.address()))?;
    while !stop.is_raised() {
        std::thread::sleep(POLL_INTERVAL);
    }
    let stats = worker.stats();
    worker.stop();
    output::remark(&format!(
        "{} batches run, {} failed, {} rejected, {} dropped with their engine; {} peers broke the protocol",
        stats.batches, stats.failed, stats.rejected, stats.stale, stats.protocol_errors
    ));
    Ok(())
}

/// Partitions of ONNX models, and of those that are emulated.
fn loader() -> Arc<dyn PartitionLoader> {
    with_emulated_partitions(Some(Arc::new(OnnxPartitionLoader::default())))
}

/// A worker that listens by itself.
fn listening(args: &Worker, options: WorkerOptions, now: &Now) -> anyhow::Result<weir_partition::Worker> {
    let addresses = resolve(args.listen.as_deref().unwrap_or_default(), "--listen")?;
    let options = WorkerOptions {
        hops: hops(args.hops.as_ref())?,
        ..options
    };
    listen(&addresses, &options, now).map_err(mendable)
}

/// On the first address of the name that is to be had.
fn listen(
    addresses: &[SocketAddr],
    options: &WorkerOptions,
    now: &Now,
) -> Result<weir_partition::Worker, weir_partition::WorkerError> {
    let listen =
        |at: &SocketAddr| weir_partition::Worker::listen(*at, options.clone(), loader(), Arc::clone(now));
    let mut last = weir_partition::WorkerError::Options("a worker needs an address to listen on");
    for address in addresses {
        match listen(address) {
            Ok(worker) => return Ok(worker),
            // A name of this machine alone has no such address.
            Err(error @ weir_partition::WorkerError::OpenToOthers(_)) => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// All addresses of `HOST:PORT`, the older kind first: an engine that is given the same name takes that, too.
fn resolve(address: &str, option: &str) -> Result<Vec<SocketAddr>, UserError> {
    let wrong = |reason: String| UserError::new(format!("{option} {address} cannot be found: {reason}"));
    let mut found: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?
        .collect();
    if found.is_empty() {
        return Err(wrong("the name has no address".to_owned()));
    }
    found.sort_by_key(SocketAddr::is_ipv6);
    Ok(found)
}

/// Machines that the worker may send features on to; this machine only without `--hops`.
fn hops(named: Option<&HopNames>) -> Result<AllowedHops, UserError> {
    let Some(named) = named else {
        return Ok(AllowedHops::Loopback);
    };
    let mut allowed = Vec::new();
    for (host, port) in named {
        // The port is no part of what is looked up.
        let found = (host.as_str(), 0).to_socket_addrs();
        let found =
            found.map_err(|error| UserError::new(format!("--hops {host} cannot be found: {error}")))?;
        allowed.extend(found.map(|address| AllowedHop {
            ip: address.ip(),
            port: *port,
        }));
    }
    Ok(AllowedHops::Listed(allowed))
}

fn mendable(error: weir_partition::WorkerError) -> anyhow::Error {
    match error {
        weir_partition::WorkerError::Thread(_) => error.into(),
        error => UserError::new(error.to_string()).into(),
    }
}
