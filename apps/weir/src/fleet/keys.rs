//! `weir fleet keys`.

use weir_fabric::NodeNames;

use super::member::mendable;
use crate::args::FleetKeys;
use crate::output;

/// Name of the authority's certificate.
const AUTHORITY: &str = "weir fleet";

/// Writes an authority and a certificate for each node.
///
/// # Errors
/// Files that are in the way, names that cannot be used.
pub(crate) fn make_keys(args: &FleetKeys) -> anyhow::Result<()> {
    let nodes: Vec<NodeNames> = args
        .node
        .iter()
        .map(|node| NodeNames {
            node: node.name.clone(),
            hosts: node.hosts.clone(),
        })
        .collect();
    let written = weir_fabric::make_keys(&args.folder, AUTHORITY, &nodes).map_err(mendable)?;
    for path in &written {
        output::say(&path.display().to_string())?;
    }
    if written.iter().any(|path| path.ends_with("authority.key")) {
        output::remark("authority.key makes nodes: keep it off the machines of the fleet");
    }
    Ok(())
}
