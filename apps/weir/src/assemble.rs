//! From a checked graph to its parts: sources, models, operators and sinks, each made by what its name says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Divided, Model, Operator, SinkFactory, SourceFactory, Value};
use weir_graph::{DeviceClass, Graph, ModelNode, ModelOrigin, ModuleNode, SinkNode, SourceNode};
use weir_operators::media::SourceOptions;
use weir_operators::{LoadRequest, ModelFile, OnnxModel, OnnxParts, OperatorRequest};
use weir_policy::plan::Plan;
use weir_runtime::{Assembly, Spread};

use crate::error::{Collected, UserError};
use crate::plans;
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
/// Every part that cannot be made, and what to do about it.
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
    let mut errors = Collected::default();
    let sinks = graph.sinks().iter().map(|node| errors.take(sink(node, out)));
    let sinks: Option<Vec<Box<dyn SinkFactory>>> = each(sinks);
    if graph.models().iter().any(|node| !is_emulated(node, &graph)) {
        // Said once, and not of each model.
        let found = weir_operators::find_runtime();
        errors.take(found.map_err(|reason| UserError::new(reason).into()));
    }
    let loaded: Option<Vec<Option<Arc<OnnxModel>>>> = if errors.is_empty() {
        let models = graph.models().iter();
        each(models.map(|node| errors.take(onnx(node, &graph, zoo, dump))))
    } else {
        None
    };
    let (Some(loaded), Some(sinks)) = (loaded, sinks) else {
        errors.finish()?;
        return Err(anyhow::anyhow!("a part of the graph is missing"));
    };
    let spread = spread(&graph, &loaded)?;
    let models: Vec<Option<Arc<dyn Model>>> = loaded
        .into_iter()
        .map(|model| model.map(|model| model as Arc<dyn Model>))
        .collect();
    let operators = graph
        .modules()
        .iter()
        .filter_map(|node| errors.take(operator(node, models[node.model].as_deref(), zoo)))
        .collect();
    errors.finish()?;
    Ok(Assembly {
        sources: graph.sources().iter().map(source).collect(),
        models,
        operators,
        sinks,
        spread,
        graph,
    })
}

/// All of them, or none where one is missing; all are made in any case.
fn each<T>(made: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let made: Vec<Option<T>> = made.collect();
    made.into_iter().collect()
}

fn is_emulated(node: &ModelNode, graph: &Graph) -> bool {
    matches!(graph.devices()[node.device].class, DeviceClass::Emulated(_))
}

/// Models that have a plan, cut as it says.
fn spread(graph: &Graph, models: &[Option<Arc<OnnxModel>>]) -> anyhow::Result<Option<Spread>> {
    let Some(plan) = graph.plan() else {
        return Ok(None);
    };
    let mut divided = Vec::new();
    for (node, model) in graph.models().iter().zip(models) {
        let model = model.as_ref().filter(|_| node.plan.is_some());
        let cut = model.map(|model| cut(model, &node.name, plan)).transpose()?;
        divided.push(cut);
    }
    let path = graph.models().iter().find_map(|model| model.plan.clone());
    Ok(Some(Spread {
        plan: plan.clone(),
        divided,
        loader: Some(Arc::new(OnnxParts::default())),
        next: path.map(plans::watch),
    }))
}

fn cut(model: &OnnxModel, name: &str, plan: &Plan) -> anyhow::Result<Arc<dyn Divided>> {
    let served = plan.problem.models.iter().find(|served| served.name == name);
    let layers = served.map(|served| served.blocks.layers.iter().map(|layer| *layer as usize).collect());
    let layers: Vec<usize> = layers.unwrap_or_default();
    let divided = model.layered().and_then(|layered| layered.divide(&layers));
    let divided = divided.map_err(|error| UserError::new(error.to_string()))?;
    Ok(Arc::new(divided))
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
    Ok(onnx(node, graph, zoo, dump)?.map(|model| model as Arc<dyn Model>))
}

fn onnx(
    node: &ModelNode,
    graph: &Graph,
    zoo: &Zoo,
    dump: Option<&DumpInputs>,
) -> anyhow::Result<Option<Arc<OnnxModel>>> {
    if is_emulated(node, graph) {
        return Ok(None);
    }
    let file = match &node.origin {
        ModelOrigin::File(path) => ModelFile::Path(path.clone()),
        ModelOrigin::Zoo(name) => ModelFile::Path(zoo.resolve(name)?),
        ModelOrigin::Embedded(name) => {
            let model = weir_models::find(name).ok_or_else(|| {
                let name = &node.name;
                UserError::new(format!("model {name}: no such model ships with this build"))
            })?;
            ModelFile::Bytes(model.onnx.into())
        }
        ModelOrigin::Emulated => return Ok(None),
    };
    let Some(head) = &node.head else {
        return Err(UserError::new(format!("model {} has no head; add head = \"...\"", node.name)).into());
    };
    let model = OnnxModel::load(&LoadRequest {
        name: &node.name,
        file,
        head,
        settings: &zoo.resolve_keys(&node.settings)?,
        max_batch: node.batch.last().copied().unwrap_or(1),
        dump: dump
            .filter(|dump| dump.model.as_ref().is_none_or(|name| *name == node.name))
            .map(|dump| dump.folder.clone()),
    });
    Ok(Some(Arc::new(
        model.map_err(|error| UserError::new(error.to_string()))?,
    )))
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
