//! Stand-in for fleets in a build without the feature `fleet`: every entry is an error that names the
//! feature.

use std::convert::Infallible;

use weir_flow::StopFlag;
use weir_graph::Graph;
use weir_partition::{NodeCarrier, NodeName};
use weir_runtime::Control;
use weir_terminal::LogLayer;

use crate::args::{FleetKeys, FleetPlace};
use crate::error::UserError;
use crate::service::Service;

fn missing(what: &str) -> anyhow::Error {
    let message = format!(
        "{what}: this build does not support fleets: use a release, or build weir with `--features fleet`"
    );
    UserError::new(message).into()
}

fn missing_at(place: &FleetPlace) -> anyhow::Error {
    missing(&format!("--fleet {} --node {}", place.file.display(), place.node))
}

/// There is none in this build.
pub(crate) struct FleetNode(Infallible);

impl FleetNode {
    pub(crate) fn open_engine(place: &FleetPlace) -> anyhow::Result<Self> {
        Err(missing_at(place))
    }

    pub(crate) fn open_worker(place: &FleetPlace) -> anyhow::Result<Self> {
        Err(missing_at(place))
    }

    pub(crate) fn carrier(&self) -> anyhow::Result<NodeCarrier> {
        match self.0 {}
    }

    pub(crate) fn name(&self) -> anyhow::Result<NodeName> {
        match self.0 {}
    }

    pub(crate) fn announce(&self) -> anyhow::Result<()> {
        match self.0 {}
    }
}

/// There is none in this build.
pub(crate) struct Membership(Infallible);

impl Membership {
    pub(crate) fn prepare(place: &FleetPlace, _graph: &Graph) -> anyhow::Result<Self> {
        Err(missing_at(place))
    }

    pub(crate) fn carrier(&self) -> anyhow::Result<NodeCarrier> {
        match self.0 {}
    }

    pub(crate) fn begin(
        &mut self,
        _control: Control,
        _stop: &StopFlag,
        _service: &Service,
    ) -> anyhow::Result<()> {
        match self.0 {}
    }

    pub(crate) fn end(self) {
        match self.0 {}
    }
}

pub(crate) fn log_layers() -> Vec<LogLayer> {
    Vec::new()
}

pub(crate) fn make_keys(args: &FleetKeys) -> anyhow::Result<()> {
    let nodes: Vec<String> = args
        .node
        .iter()
        .map(|node| format!("{} {}", node.name, node.hosts.join(",")))
        .collect();
    Err(missing(&format!(
        "{} ({})",
        args.folder.display(),
        nodes.join("; ")
    )))
}
