//! One node of a fleet: its place in the file, and its connections to the others.

use std::path::Path;
use std::sync::Arc;

use weir_fabric::{Certificates, Fabric, FabricSettings, Identity, Kind};
use weir_partition::wire::Limits;
use weir_partition::{NodeCarrier, NodeName};

use super::carrier::FabricCarrier;
use super::file::{FleetFile, Node};
use super::member::mendable;
use super::report::MAX_BYTES;
use crate::args::FleetPlace;
use crate::error::UserError;

/// A node, which leaves when it is dropped.
pub(crate) struct FleetNode {
    pub(super) file: FleetFile,
    pub(super) name: String,
    pub(super) fabric: Arc<Fabric>,
}

impl FleetNode {
    /// Reads the file of the fleet and opens an engine of it, which is not announced yet.
    ///
    /// # Errors
    /// A file that is wrong, a node that is not in it, certificates that cannot be used, an address that is taken.
    pub(crate) fn open_engine(place: &FleetPlace) -> anyhow::Result<Self> {
        Self::open(place, Kind::Engine)
    }

    /// The same for a worker.
    ///
    /// # Errors
    /// As [`FleetNode::open_engine`].
    pub(crate) fn open_worker(place: &FleetPlace) -> anyhow::Result<Self> {
        Self::open(place, Kind::Worker)
    }

    fn open(place: &FleetPlace, kind: Kind) -> anyhow::Result<Self> {
        let file = FleetFile::load(&place.file)?;
        let node = find(&file, &place.file, &place.node, kind)?;
        let identity = Identity::new(&file.name, kind, &place.node).map_err(mendable)?;
        let others = file.nodes.iter().filter(|(name, _)| **name < place.node);
        let settings = FabricSettings {
            listen: Some(node.address.clone()),
            // One connection for each two nodes.
            connect: others.map(|(_, node)| node.address.clone()).collect(),
            certificates: file
                .certificates
                .as_ref()
                .map(|folder| Certificates::in_folder(folder, &place.node)),
            max_message_bytes: max_message_bytes(&file),
            ..FabricSettings::new(file.nodes.keys().cloned().collect())
        };
        let fabric = Fabric::open(identity, &settings).map_err(mendable)?;
        Ok(Self {
            fabric: Arc::new(fabric),
            name: place.node.clone(),
            file,
        })
    }

    /// The transport of partitions between this node and others.
    ///
    /// # Errors
    /// The transport refuses a subscription.
    pub(crate) fn carrier(&self) -> anyhow::Result<NodeCarrier> {
        let carrier = FabricCarrier::new(&self.fabric).map_err(mendable)?;
        Ok(NodeCarrier::new(Arc::new(carrier)))
    }

    /// Its name, as partitions know it.
    ///
    /// # Errors
    /// None: the file was checked.
    pub(crate) fn name(&self) -> anyhow::Result<NodeName> {
        let wrong = || UserError::new(format!("\"{}\" is no name of a node", self.name));
        Ok(NodeName::new(&self.name).ok_or_else(wrong)?)
    }

    /// Others see it from now on.
    ///
    /// # Errors
    /// A transport that refuses.
    pub(crate) fn announce(&self) -> anyhow::Result<()> {
        self.fabric.announce().map_err(mendable)
    }
}

/// Features and models of partitions where there are workers; else reports alone.
fn max_message_bytes(file: &FleetFile) -> usize {
    let has_workers = file.nodes.values().any(|node| node.kind == Kind::Worker);
    if has_workers {
        Limits::default().max_message_bytes as usize + MAX_BYTES
    } else {
        MAX_BYTES
    }
}

/// The node of a name.
fn find<'a>(file: &'a FleetFile, path: &Path, name: &str, kind: Kind) -> Result<&'a Node, UserError> {
    let shown = path.display();
    let Some(node) = file.nodes.get(name) else {
        let of_kind = file.nodes.iter().filter(|(_, node)| node.kind == kind);
        let known: Vec<&str> = of_kind.map(|(name, _)| name.as_str()).collect();
        return Err(UserError::new(format!(
            "--node {name}: {shown} has no such node, it has {}",
            known.join(", ")
        )));
    };
    if node.kind != kind {
        return Err(UserError::new(format!(
            "--node {name}: {shown} has it as {}, and this is {}",
            with_article(node.kind),
            with_article(kind)
        )));
    }
    Ok(node)
}

fn with_article(kind: Kind) -> &'static str {
    match kind {
        Kind::Engine => "an engine",
        Kind::Worker => "a worker",
    }
}
