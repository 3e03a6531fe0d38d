//! The vector of a picture of the user, by the model whose embeddings a graph stores.

use std::path::Path;
use std::sync::Arc;

use weir_flow::{Attribute, DeviceKind, Frame, Item, Region};
use weir_graph::Graph;
use weir_operators::sinks::{EMBED_DIGEST, QueryVector};

use super::model::{add_model, module_of};
use super::sink_of;
use crate::assemble;
use crate::error::UserError;
use crate::zoo::Zoo;

/// Largest picture file.
const MAX_PICTURE_BYTES: u64 = 64 << 20;

/// Returns the vector of a picture as a whole, such as a photo of a car that was cut out.
///
/// # Errors
/// [`UserError`]: the graph stores no embeddings, or the picture or the model cannot be used.
pub(crate) fn embed_picture(graph: &Graph, path: &Path, zoo: &Zoo) -> anyhow::Result<QueryVector> {
    let failed = |why: &str| UserError::new(format!("{}: {why}", path.display()));
    let mut settings = sink_of(graph)
        .map(|sink| sink.settings.clone())
        .unwrap_or_default();
    add_model(&mut settings, graph, zoo)?;
    let (Some(module), Some(digest)) = (module_of(&settings, graph), settings.text(EMBED_DIGEST)) else {
        return Err(failed("the graph has no sink of the type search with the key embed").into());
    };
    let node = &graph.models()[module.model];
    let model = assemble::model(node, graph, zoo, None)?;
    let model = model.ok_or_else(|| failed("the model of embed is emulated"))?;
    let bytes = weir_files::read(path, MAX_PICTURE_BYTES).map_err(|error| failed(&error.to_string()))?;
    let picture = weir_operators::media::picture_from(bytes).map_err(|error| failed(&error.to_string()))?;
    let item = Item {
        frame: Arc::new(Frame::new(0, 0.0, picture)),
        region: Region::Whole,
        object: None,
        class: None,
    };
    let mut session = model.open(DeviceKind::Cpu)?;
    let inference = session.run(&[item], &mut |_| ())?.into_iter().next();
    match inference.and_then(|inference| inference.attribute) {
        Some(Attribute::Match {
            vector: Some(numbers),
            ..
        }) => Ok(QueryVector {
            numbers,
            model: digest.to_owned(),
        }),
        _ => Err(failed("the model returns no embedding of it").into()),
    }
}
