//! The model whose embeddings a sink stores, for the settings of the sink: vectors of different models are never compared.

use sha2::{Digest, Sha256};
use weir_flow::{Settings, Value};
use weir_graph::{Graph, ModelNode, ModelOrigin, ModuleNode};
use weir_operators::sinks::{EMBED, EMBED_ATTRIBUTE, EMBED_DIGEST, EMBED_MODEL};

use crate::error::UserError;
use crate::hexadecimal::hexadecimal;
use crate::zoo::Zoo;

/// Attribute of the operator `embed` where the module names no other.
const USUAL_ATTRIBUTE: &str = "embedding";

/// Bytes of a digest that are kept.
const DIGEST_BYTES: usize = 16;

/// Adds the attribute and the model of the module that `embed` names.
///
/// # Errors
/// The file of the model cannot be read.
pub(crate) fn add_model(settings: &mut Settings, graph: &Graph, zoo: &Zoo) -> anyhow::Result<()> {
    let Some(module) = module_of(settings, graph) else {
        return Ok(());
    };
    let model = &graph.models()[module.model];
    let attribute = module.settings.text("attribute").unwrap_or(USUAL_ATTRIBUTE);
    let added = [
        (EMBED_ATTRIBUTE, attribute.to_owned()),
        (EMBED_MODEL, model.name.clone()),
        (EMBED_DIGEST, digest(model, zoo)?),
    ];
    let added = added.map(|(key, text)| (key.to_owned(), Value::Text(text)));
    settings.0.extend(added);
    Ok(())
}

/// The module that `embed` names.
pub(super) fn module_of<'a>(settings: &Settings, graph: &'a Graph) -> Option<&'a ModuleNode> {
    let named = settings.text(EMBED)?;
    graph.modules().iter().find(|module| module.name == *named)
}

/// Digest of the file of a model and of the keys of its input, which change its vectors as well.
fn digest(model: &ModelNode, zoo: &Zoo) -> anyhow::Result<String> {
    let mut digest = Sha256::new();
    match &model.origin {
        ModelOrigin::File(path) => {
            let read = weir_operators::read_model(path);
            let unreadable = |error| UserError::new(format!("model {}: {error}", path.display()));
            digest.update(read.map_err(unreadable)?);
        }
        ModelOrigin::Zoo(name) => digest.update(&zoo.entry(name)?.sha256),
        ModelOrigin::Embedded(name) => digest.update(name),
        ModelOrigin::Server(servers) => {
            digest.update(&servers.name);
            digest.update(servers.version.as_deref().unwrap_or_default());
        }
        ModelOrigin::Emulated | ModelOrigin::Python(_) => digest.update(&model.name),
    }
    digest.update(serde_json::to_vec(&model.settings)?);
    Ok(hexadecimal(&digest.finalize()[..DIGEST_BYTES]))
}
