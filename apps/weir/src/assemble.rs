//! From a checked graph to its parts: sources, models, operators and sinks, each made by what its name says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Model, Operator, SinkFactory, SourceFactory, Value};
use weir_graph::{DeviceClass, Graph, ModelNode, ModelOrigin, ModuleNode, SinkNode, SourceNode};
use weir_operators::media::SourceOptions;
use weir_operators::{LoadRequest, ModelFile, OperatorRequest};
use weir_runtime::Assembly;

use crate::error::UserError;
use crate::zoo::Zoo;

/// Where copies of inputs go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpInputs {
    /// The folder.
    pub folder: PathBuf,
    /// Of which model; of all where none is named.
    pub model: Option<String>,
}

/// Makes every part of `graph`. Files of sinks go into `out` where it is given, inputs of models as `dump` says.
///
/// # Errors
/// The first part that cannot be made, and what to do about it.
pub fn assemble(
    graph: Graph,
    zoo: &Zoo,
    out: Option<&Path>,
    dump: Option<&DumpInputs>,
) -> anyhow::Result<Assembly> {
    if let Some(name) = dump.and_then(|dump| dump.model.as_ref())
        && !graph.models().iter().any(|model| model.name == *name)
    {
        let names: Vec<&str> = graph.models().iter().map(|model| &*model.name).collect();
        let message = format!("the graph has no model {name}; it has {}", names.join(", "));
        return Err(UserError::new(message).into());
    }
    let models = graph.models().iter().map(|node| model(node, &graph, zoo, dump));
    let models: Vec<Option<Arc<dyn Model>>> = models.collect::<anyhow::Result<_>>()?;
    let operators = graph
        .modules()
        .iter()
        .map(|node| operator(node, models[node.model].as_deref(), zoo));
    let operators = operators.collect::<anyhow::Result<_>>()?;
    let sinks = graph
        .sinks()
        .iter()
        .map(|node| sink(node, out))
        .collect::<anyhow::Result<_>>()?;
    Ok(Assembly {
        sources: graph.sources().iter().map(source).collect(),
        models,
        operators,
        sinks,
        graph,
    })
}

fn source(node: &SourceNode) -> Option<Box<dyn SourceFactory>> {
    let emulated = node.uri.starts_with(weir_graph::EmulatedStream::SCHEME);
    let options = SourceOptions {
        fps: node.fps,
        ..SourceOptions::default()
    };
    (!emulated).then(|| weir_operators::media::source(&node.uri, options))
}

/// Loads a model; none for one that is emulated.
pub(crate) fn model(
    node: &ModelNode,
    graph: &Graph,
    zoo: &Zoo,
    dump: Option<&DumpInputs>,
) -> anyhow::Result<Option<Arc<dyn Model>>> {
    if matches!(graph.devices()[node.device].class, DeviceClass::Emulated(_)) {
        return Ok(None);
    }
    let path = match &node.origin {
        ModelOrigin::File(path) => path.clone(),
        ModelOrigin::Zoo(name) => zoo.resolve(name)?,
        ModelOrigin::Embedded(name) => {
            return Err(UserError::new(format!(
                "model {}: nothing of the name embedded:{name} ships with this build",
                node.name
            ))
            .into());
        }
        ModelOrigin::Emulated => return Ok(None),
    };
    let Some(head) = &node.head else {
        return Err(UserError::new(format!("model {} has no head; add head = \"...\"", node.name)).into());
    };
    let model = weir_operators::load(&LoadRequest {
        name: &node.name,
        file: ModelFile::Path(path),
        head,
        settings: &zoo.resolve_keys(&node.settings)?,
        max_batch: node.batch.last().copied().unwrap_or(1),
        dump: dump
            .filter(|dump| dump.model.as_ref().is_none_or(|name| *name == node.name))
            .map(|dump| dump.folder.clone()),
    });
    Ok(Some(model.map_err(|error| UserError::new(error.to_string()))?))
}

fn operator(
    node: &ModuleNode,
    model: Option<&dyn Model>,
    zoo: &Zoo,
) -> anyhow::Result<Option<Arc<dyn Operator>>> {
    if model.is_none() {
        return Ok(None);
    }
    let operator = weir_operators::operator(&OperatorRequest {
        operator: &node.operator,
        regions: &node.regions,
        settings: &zoo.resolve_keys(&node.settings)?,
        model,
    });
    let operator = operator.map_err(|error| UserError::new(format!("module {}: {error}", node.name)))?;
    Ok(Some(operator))
}

fn sink(node: &SinkNode, out: Option<&Path>) -> anyhow::Result<Box<dyn SinkFactory>> {
    let mut settings = node.settings.clone();
    let name = settings
        .text("path")
        .filter(|path| *path != "-")
        .and_then(|path| Path::new(path).file_name());
    if let (Some(out), Some(name)) = (out, name) {
        let path: PathBuf = out.join(name);
        settings.0.insert(
            "path".to_owned(),
            Value::Text(path.to_string_lossy().into_owned()),
        );
    }
    let sink = weir_operators::sinks::sink(&node.kind, &settings);
    Ok(sink.map_err(|error| UserError::new(format!("sink {}: {error}", node.name)))?)
}
