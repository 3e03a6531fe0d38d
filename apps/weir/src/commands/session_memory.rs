//! Memory of a model's session, measured as the growth of this process when the session opens. The least
//! value is the size of the model's file, because a session may reuse memory that was freed before.

use std::collections::BTreeMap;
use std::path::Path;

use weir_flow::DeviceKind;
use weir_graph::{DeviceClass, Graph, ModelNode, ModelOrigin};

use crate::assemble;
use crate::error::UserError;
use crate::process::resident_bytes;
use crate::zoo::Zoo;

/// Bytes by model, of those on CPUs: what is taken on another device does not show in this process.
///
/// # Errors
/// A model that cannot be loaded.
pub(super) fn measure(graph: &Graph, zoo: &Zoo) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut loaded = Vec::new();
    for node in graph.models() {
        if graph.devices()[node.device].class == DeviceClass::Cpu
            && let Some(model) = assemble::model(node, graph, zoo, None)?
        {
            loaded.push((node, model));
        }
    }
    let mut taken = BTreeMap::new();
    // Kept open: what one gives back would be taken by the next without growth.
    let mut sessions = Vec::new();
    for (node, model) in &loaded {
        let before = resident_bytes();
        let failed = |error: weir_flow::SessionError| UserError::new(error.to_string());
        let mut session = model.open(DeviceKind::Cpu).map_err(failed)?;
        let most = model.batching().max.unwrap_or(u32::MAX);
        let sizes = node.batch.iter().copied().filter(|size| *size <= most);
        session
            .warm_up(sizes.max().unwrap_or(1) as usize)
            .map_err(failed)?;
        sessions.push(session);
        if let (Some(before), Some(after)) = (before, resident_bytes()) {
            let grown = after.saturating_sub(before);
            taken.insert(node.name.clone(), grown.max(file_bytes(node, zoo)));
        }
    }
    Ok(taken)
}

/// Size of a model's file; 0 where it is not known.
fn file_bytes(node: &ModelNode, zoo: &Zoo) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map(|file| file.len()).ok();
    let bytes = match &node.origin {
        ModelOrigin::File(path) => size(path),
        ModelOrigin::Zoo(name) => zoo.resolve(name).ok().and_then(|path| size(&path)),
        ModelOrigin::Embedded(name) => weir_models::find(name).map(|model| model.onnx.len() as u64),
        ModelOrigin::Emulated | ModelOrigin::Server(_) | ModelOrigin::Python(_) => None,
    };
    bytes.unwrap_or(0)
}
