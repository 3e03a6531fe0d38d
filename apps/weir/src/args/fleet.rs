//! Arguments of `weir fleet`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as Group, Subcommand};

use super::DEFAULT_API;
use super::values::listen;

/// Which node of which fleet a process is, where it is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Group)]
pub(crate) struct FleetArgs {
    /// Be a node of this fleet: workers of the graph are reached there, and engines that serve share the streams of the graph
    #[arg(long, value_name = "FLEET.toml", requires = "node")]
    fleet: Option<PathBuf>,
    /// Which of its nodes this is
    #[arg(long, value_name = "NAME", requires = "fleet")]
    node: Option<String>,
}

impl FleetArgs {
    /// `None` where it is no node of any.
    pub(crate) fn place(&self) -> Option<FleetPlace> {
        let place = |(file, node)| FleetPlace { file, node };
        self.fleet.clone().zip(self.node.clone()).map(place)
    }
}

/// Which node of which fleet a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetPlace {
    /// The file of the fleet.
    pub(crate) file: PathBuf,
    /// Name of the node.
    pub(crate) node: String,
}

/// `weir fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum Fleet {
    /// Write an authority and a certificate for each node of a fleet; nothing is overwritten
    Keys(FleetKeys),
    /// Print the engines of a fleet and which has which stream, as one of them sees it
    Status(FleetStatus),
}

/// `weir fleet keys`.
#[derive(Debug, Group)]
pub(crate) struct FleetKeys {
    /// The folder; an authority that is in it makes more nodes
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// A node, and the host names and addresses that others connect to; its name by default
    #[arg(long, value_name = "NAME[=HOST,...]", required = true)]
    pub(crate) node: Vec<NodeHosts>,
}

/// `weir fleet status`.
#[derive(Debug, Group)]
pub(crate) struct FleetStatus {
    /// Where the engine serves
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) at: String,
    /// File with the token of the engine; or WEIR_API_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// A node and where it is reached.
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
