//! This engine as a member of its fleet, from the start of the program to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use weir_fabric::{FabricError, Kind, RefusalLayer};
use weir_flow::StopFlag;
use weir_graph::{Graph, SourceNode};
use weir_partition::NodeCarrier;
use weir_runtime::Control;
use weir_terminal::LogLayer;

use super::driver::{Driver, Shared};
use super::names::Names;
use super::node::FleetNode;
use super::report::{MAX_DEVICE_BYTES, MAX_DEVICES};
use crate::args::FleetPlace;
use crate::error::UserError;
use crate::process::cores;
use crate::service::Service;

/// Log layers that count the connections and messages that the transport refuses.
pub(crate) fn log_layers() -> Vec<LogLayer> {
    vec![RefusalLayer::boxed()]
}

/// All that keeps a node from its fleet is for its user to mend.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(super) fn mendable(error: FabricError) -> anyhow::Error {
    UserError::new(error.to_string()).into()
}

/// See the module.
pub(crate) struct Membership {
    node: FleetNode,
    names: Names,
    streams: Vec<(SourceNode, Vec<String>)>,
    /// Slots of this machine by device.
    devices: BTreeMap<String, u32>,
    /// True if the engine has joined and runs.
    has_begun: bool,
    thread: Option<JoinHandle<()>>,
}

impl Membership {
    /// Reads the file of the fleet and opens this node, which is not announced yet.
    ///
    /// # Errors
    /// A file that is wrong, certificates that cannot be used, an address that is taken; a graph that cannot be shared.
    pub(crate) fn prepare(place: &FleetPlace, graph: &Graph) -> anyhow::Result<Self> {
        let node = FleetNode::open_engine(place)?;
        if !graph.queues().is_empty() {
            let message = "a graph with queued sources is not shared by a fleet: serve it without --fleet";
            return Err(UserError::new(message).into());
        }
        let streams = graph.entered_streams();
        let cores = u32::try_from(cores()).unwrap_or(u32::MAX);
        let devices = graph.devices().iter();
        let devices = devices.map(|device| (device.name.clone(), device.slot_count(cores)));
        let nodes = node.file.nodes.iter();
        let engines = nodes.filter(|(_, node)| node.kind == Kind::Engine);
        let names = Names::new(
            engines.map(|(name, _)| name.as_str()),
            streams.iter().map(|(stream, _)| stream.name.as_str()),
        );
        let names =
            names.ok_or_else(|| UserError::new("two names are alike by their numbers: rename one"))?;
        Ok(Self {
            node,
            names,
            streams,
            devices: devices
                .filter(|(name, slots)| *slots > 0 && name.len() <= MAX_DEVICE_BYTES)
                .take(MAX_DEVICES)
                .collect(),
            has_begun: false,
            thread: None,
        })
    }

    /// The transport of partitions between this engine and workers of the fleet.
    ///
    /// # Errors
    /// The transport refuses a subscription.
    pub(crate) fn carrier(&self) -> anyhow::Result<NodeCarrier> {
        self.node.carrier()
    }

    /// The engine runs: it is a member until `stop` is raised.
    ///
    /// # Errors
    /// A transport that refuses, a machine that gives no thread.
    pub(crate) fn begin(
        &mut self,
        control: Control,
        stop: &StopFlag,
        service: &Service,
    ) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let FleetNode { file, name, fabric } = &self.node;
        let declared = file.nodes.get(name).and_then(|node| node.capacity);
        let shared = Shared {
            fleet: file.name.clone(),
            node: name.clone(),
            names: self.names.clone(),
            streams: std::mem::take(&mut self.streams),
            spec: file.spread,
            devices: std::mem::take(&mut self.devices),
            declared,
        };
        let driver =
            Driver::join(shared, Arc::clone(fabric), control, service.share_fleet()).map_err(mendable)?;
        let stop = stop.clone();
        let thread = std::thread::Builder::new().name("weir-fleet".to_owned());
        self.thread = Some(thread.spawn(move || driver.run(&stop))?);
        Ok(())
    }

    /// The engine has ended.
    pub(crate) fn end(self) {
        if let Some(thread) = self.thread
            && thread.join().is_err()
        {
            tracing::error!("the thread of the fleet panicked");
        }
    }
}
