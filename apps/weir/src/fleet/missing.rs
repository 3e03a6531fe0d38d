//! What a build without the feature `fleet` says.

use std::convert::Infallible;

use weir_flow::StopFlag;
use weir_graph::Graph;
use weir_runtime::Control;
use weir_terminal::LogLayer;

use crate::args::{FleetKeys, FleetPlace};
use crate::error::UserError;
use crate::service::Service;

fn missing(what: &str) -> anyhow::Error {
    let message = format!(
        "{what}: this build knows no fleets: build weir with `--features fleet`, or take a release, which does"
    );
    UserError::new(message).into()
}

/// There is none in this build.
pub(crate) struct Membership(Infallible);

impl Membership {
    pub(crate) fn prepare(place: &FleetPlace, _graph: &Graph) -> anyhow::Result<Self> {
        Err(missing(&format!(
            "--fleet {} --node {}",
            place.file.display(),
            place.node
        )))
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
