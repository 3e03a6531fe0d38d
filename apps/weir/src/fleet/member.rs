//! This engine as a member of its fleet, from the start of the program to its end.

use std::thread::JoinHandle;

use weir_fabric::{Certificates, Fabric, FabricError, FabricSettings, Identity, Kind, RefusalLayer};
use weir_flow::StopFlag;
use weir_graph::{Graph, SourceNode};
use weir_runtime::Control;
use weir_terminal::LogLayer;

use super::driver::{Driver, Shared};
use super::file::FleetFile;
use super::names::Names;
use super::report::MAX_BYTES;
use crate::args::FleetPlace;
use crate::error::UserError;
use crate::service::Service;

/// What counts the connections and messages that the transport refuses.
pub(crate) fn log_layers() -> Vec<LogLayer> {
    vec![RefusalLayer::boxed()]
}

/// All that keeps a node from its fleet is for its user to mend.
pub(super) fn mendable(error: FabricError) -> anyhow::Error {
    UserError::new(error.to_string()).into()
}

/// See the module.
pub(crate) struct Membership {
    file: FleetFile,
    node: String,
    names: Names,
    streams: Vec<(SourceNode, Vec<String>)>,
    /// Until the engine runs.
    fabric: Option<Fabric>,
    thread: Option<JoinHandle<()>>,
}

impl Membership {
    /// Reads the file of the fleet and opens this node, which is not announced yet.
    ///
    /// # Errors
    /// A file that is wrong, certificates that cannot be used, an address that is taken; a graph that cannot be shared.
    pub(crate) fn prepare(place: &FleetPlace, graph: &Graph) -> anyhow::Result<Self> {
        let file = FleetFile::load(&place.file)?;
        let shown = place.file.display();
        let Some(node) = file.nodes.get(&place.node) else {
            let known: Vec<&str> = file.nodes.keys().map(String::as_str).collect();
            let message = format!(
                "--node {}: {shown} has no such node, it has {}",
                place.node,
                known.join(", ")
            );
            return Err(UserError::new(message).into());
        };
        if !graph.queues().is_empty() {
            let message = "a graph with queued sources is not shared by a fleet: serve it without --fleet";
            return Err(UserError::new(message).into());
        }
        let streams = graph.entered_streams();
        let names = Names::new(
            file.nodes.keys().map(String::as_str),
            streams.iter().map(|(stream, _)| stream.name.as_str()),
        );
        let names =
            names.ok_or_else(|| UserError::new("two names are alike by their numbers: rename one"))?;
        let identity = Identity::new(&file.name, Kind::Engine, &place.node).map_err(mendable)?;
        let settings = FabricSettings {
            listen: Some(node.address.clone()),
            // One connection for each two nodes.
            connect: file
                .nodes
                .iter()
                .filter(|(name, _)| **name < place.node)
                .map(|(_, node)| node.address.clone())
                .collect(),
            certificates: file
                .certificates
                .as_ref()
                .map(|folder| Certificates::in_folder(folder, &place.node)),
            max_message_bytes: MAX_BYTES,
            ..FabricSettings::new(file.nodes.keys().cloned().collect())
        };
        Ok(Self {
            fabric: Some(Fabric::open(identity, &settings).map_err(mendable)?),
            node: place.node.clone(),
            file,
            names,
            streams,
            thread: None,
        })
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
        let Some(fabric) = self.fabric.take() else {
            return Ok(());
        };
        let declared = self.file.nodes.get(&self.node).and_then(|node| node.capacity);
        let shared = Shared {
            fleet: self.file.name.clone(),
            node: self.node.clone(),
            names: self.names.clone(),
            streams: std::mem::take(&mut self.streams),
            spec: self.file.spread,
            declared,
        };
        let driver = Driver::join(shared, fabric, control, service.share_fleet()).map_err(mendable)?;
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
