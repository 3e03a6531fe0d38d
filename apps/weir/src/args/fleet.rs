//! Arguments of `weir fleet`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as Group, Subcommand};

use super::DEFAULT_API;
use super::values::listen;

/// Options that make a process a node of a fleet; both are given or neither.
#[derive(Debug, Clone, Default, PartialEq, Eq, Group)]
pub(crate) struct FleetArgs {
    /// Join this fleet: workers of the graph are reached through it, and running engines share the streams of
    /// the graph
    #[arg(long, value_name = "FLEET.toml", requires = "node")]
    fleet: Option<PathBuf>,
    /// Name of this node in the fleet file
    #[arg(long, value_name = "NAME", requires = "fleet")]
    node: Option<String>,
}

impl FleetArgs {
    /// The fleet and the node that this process joins; `None` without `--fleet`.
    pub(crate) fn place(&self) -> Option<FleetPlace> {
        let place = |(file, node)| FleetPlace { file, node };
        self.fleet.clone().zip(self.node.clone()).map(place)
    }
}

/// A fleet file, and the node of it that this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetPlace {
    pub(crate) file: PathBuf,
    /// Name of the node in the fleet file.
    pub(crate) node: String,
}

/// `weir fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum Fleet {
    /// Create a certificate authority, and a certificate for each node of a fleet; nothing is overwritten
    Keys(FleetKeys),
    /// Print the engines of a fleet and their streams, as seen by one of the engines
    Status(FleetStatus),
}

/// `weir fleet keys`.
#[derive(Debug, Group)]
pub(crate) struct FleetKeys {
    /// Folder for the keys; an authority that is already there signs the new nodes
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// A node, and the host names and addresses that others use to connect to it [default: its name]
    #[arg(long, value_name = "NAME[=HOST,...]", required = true)]
    pub(crate) node: Vec<NodeHosts>,
}

/// `weir fleet status`.
#[derive(Debug, Group)]
pub(crate) struct FleetStatus {
    /// API address of an engine of the fleet
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) at: String,
    /// File with the API token of the engine; or set WEIR_API_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// A node with the host names and addresses for its certificate; no hosts stand for its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeHosts {
    pub(crate) name: String,
    pub(crate) hosts: Vec<String>,
}

impl FromStr for NodeHosts {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, hosts) = match text.split_once('=') {
            Some((name, hosts)) => (
                name,
                hosts.split(',').map(|host| host.trim().to_owned()).collect(),
            ),
            None => (text, Vec::new()),
        };
        if name.is_empty() || hosts.iter().any(String::is_empty) {
            return Err("write NAME, or NAME=HOST,HOST");
        }
        Ok(Self {
            name: name.to_owned(),
            hosts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_may_have_hosts() {
        let check = |text: &str, name: &str, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            let name = name.to_owned();
            assert_eq!(text.parse(), Ok(NodeHosts { name, hosts }), "{text}");
        };
        check("north", "north", &[]);
        check("north=10.0.0.1", "north", &["10.0.0.1"]);
        check(
            "north=10.0.0.1, north.example",
            "north",
            &["10.0.0.1", "north.example"],
        );
        for bad in ["", "=a", "north=", "north=a,,b"] {
            assert!(bad.parse::<NodeHosts>().is_err(), "{bad}");
        }
    }
}
