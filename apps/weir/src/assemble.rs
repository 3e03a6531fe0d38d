//! From a checked graph to its parts: sources, models, operators and sinks, each made by what its name says.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_analytics::transforms::TransformKind;
use weir_flow::{Model, Operator, PartitionLoader, PartitionedModel, SinkFactory, SourceFactory, Value};
use weir_graph::{
    GpuPrecision, GpuProvider, Graph, ModelNode, ModelOrigin, ModelServers, ModuleNode, ServerProtocol,
    SinkNode, SourceNode,
};
use weir_operators::media::SourceOptions;
use weir_operators::sinks::with_ptz_camera;
use weir_operators::{
    FunctionKind, GpuOptions, LoadRequest, ModelFile, OnnxModel, OnnxPartitionLoader, OperatorRequest,
    Precision, Provider, PythonFunction, PythonModel, PythonTransforms, ServerModel,
};
use weir_planner::Plan;
use weir_runtime::{Assembly, Partitioning, Progress};

use crate::error::{ErrorList, UserError};
use crate::extensions::Extensions;
use crate::process::cores;
use crate::zoo::Zoo;
use crate::{plans, probe, search};

/// Bytes of a file that holds a token.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// Destination of copies of the models' input tensors (`--dump-inputs`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpInputs {
    /// Folder for the `.npy` files and an index of each model.
    pub folder: PathBuf,
    /// Name of the model whose inputs are written; `None` for all models.
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
    let programs = PythonTransforms::default();
    assemble_showing(graph, zoo, out, dump, &Progress::default(), &programs)
}

/// As [`assemble`], and says in `progress` what it is at: models take time. Processes by which transforms in Python are checked are
/// kept in `programs`, for the run that has the same.
///
/// # Errors
/// As [`assemble`].
pub(crate) fn assemble_showing(
    graph: Graph,
    zoo: &Zoo,
    out: Option<&Path>,
    dump: Option<&DumpInputs>,
    progress: &Progress,
    programs: &PythonTransforms,
) -> anyhow::Result<Assembly> {
    let extensions = Extensions::default();
    assemble_extended(graph, zoo, (out, dump), progress, programs, &extensions)
}

/// As [`assemble_showing`], with operators and sinks beside those that ship.
///
/// # Errors
/// As [`assemble`].
pub(crate) fn assemble_extended(
    graph: Graph,
    zoo: &Zoo,
    (out, dump): (Option<&Path>, Option<&DumpInputs>),
    progress: &Progress,
    programs: &PythonTransforms,
    extensions: &Extensions,
) -> anyhow::Result<Assembly> {
    if let Some(name) = dump.and_then(|dump| dump.model.as_ref())
        && !graph.models().iter().any(|model| model.name == *name)
    {
        let names: Vec<&str> = graph.models().iter().map(|model| &*model.name).collect();
        let message = format!("the graph has no model {name}; it has {}", names.join(", "));
        return Err(UserError::new(message).into());
    }
    let mut errors = ErrorList::default();
    let sinks = errors.take(sinks(&graph, (out, zoo), extensions));
    let needs_runtime =
        |node: &ModelNode| !graph.is_emulated(node) && python_function(node, &graph).is_none();
    let runs_models = graph.models().iter().any(needs_runtime);
    // Said once, and not of each model.
    let runtime = match weir_operators::find_runtime() {
        Err(error) if runs_models => errors.take(Err(UserError::new(error.to_string()).into())),
        _ => Some(()),
    };
    let models = graph.models();
    let open = |(number, node): (usize, &ModelNode)| {
        progress.set_preparing("opening models", number, models.len(), &node.name);
        errors.take(onnx(node, &graph, zoo, dump))
    };
    let loaded: Option<Vec<Option<Loaded>>> = runtime.and_then(|()| all_or_none((1..).zip(models).map(open)));
    let (Some(loaded), Some(sinks)) = (loaded, sinks) else {
        errors.finish()?;
        return Err(anyhow::anyhow!("a part of the graph is missing"));
    };
    let partitioning = partitioning(&graph, &loaded)?;
    let models: Vec<Option<Arc<dyn Model>>> = loaded
        .into_iter()
        .map(|model| model.map(Loaded::into_model))
        .collect();
    let operators = graph
        .modules()
        .iter()
        .filter_map(|node| {
            errors.take(match extensions.operator_of(node) {
                Some(operator) => Ok(Some(operator)),
                None => operator(node, models[node.model].as_deref(), zoo),
            })
        })
        .collect();
    for node in graph.transforms() {
        if let TransformKind::Python(settings) = &node.spec.kind {
            let checked = programs.check(settings);
            errors.take(
                checked.map_err(|reason| UserError::new(format!("transform {}: {reason}", node.name)).into()),
            );
        }
    }
    errors.finish()?;
    Ok(Assembly {
        sources: graph.sources().iter().map(source).collect(),
        models,
        operators,
        sinks,
        partitioning,
        next_gears: None,
        graph,
    })
}

/// A model that was loaded.
enum Loaded {
    /// It takes items, and may be cut into partitions.
    OfItems(Arc<OnnxModel>),
    /// It generates, or runs on model servers.
    Whole(Arc<dyn Model>),
}

impl Loaded {
    fn into_model(self) -> Arc<dyn Model> {
        match self {
            Self::OfItems(model) => model,
            Self::Whole(model) => model,
        }
    }
}

/// All of them, or none where one is missing; all are made in any case.
fn all_or_none<T>(made: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let made: Vec<Option<T>> = made.collect();
    made.into_iter().collect()
}

/// Models that have a plan, cut as it says.
fn partitioning(graph: &Graph, models: &[Option<Loaded>]) -> anyhow::Result<Option<Partitioning>> {
    let loader = Some(Arc::new(OnnxPartitionLoader::default()) as Arc<dyn PartitionLoader>);
    let Some(mut partitioning) = Partitioning::new(graph, loader) else {
        return Ok(None);
    };
    for ((node, model), cut) in graph.models().iter().zip(models).zip(&mut partitioning.models) {
        if let Some(Loaded::OfItems(model)) = model.as_ref().filter(|_| node.plan.is_some()) {
            *cut = Some(partition_model(model, &node.name, &partitioning.plan)?);
        }
    }
    let path = graph.models().iter().find_map(|model| model.plan.clone());
    partitioning.next_plan = path.map(plans::watch);
    Ok(Some(partitioning))
}

fn partition_model(model: &OnnxModel, name: &str, plan: &Plan) -> anyhow::Result<Arc<dyn PartitionedModel>> {
    let served = plan.problem.model(name);
    let layers = served.map(|served| served.blocks.layers.iter().map(|layer| *layer as usize).collect());
    let layers: Vec<usize> = layers.unwrap_or_default();
    let divided = model.layer_chain().and_then(|chain| chain.partition(&layers));
    let divided = divided.map_err(|error| UserError::new(error.to_string()))?;
    Ok(Arc::new(divided))
}

/// The factory that opens a source; `None` for an emulated source, which has nothing to open.
pub(crate) fn source(node: &SourceNode) -> Option<Box<dyn SourceFactory>> {
    let emulated = node.uri.starts_with(weir_graph::EmulatedStream::SCHEME);
    (!emulated).then(|| {
        let (uri, options) = (node.frames_uri(), source_options(node));
        match &node.detect_uri {
            Some(_) => weir_operators::media::source_with_main(uri, &node.uri, options),
            None => weir_operators::media::source(uri, options),
        }
    })
}

/// Options to open a source with: frame rate, decoder and keys of the connection.
pub(crate) fn source_options(node: &SourceNode) -> SourceOptions {
    SourceOptions {
        fps: node.fps,
        decoder: node.decoder,
        connection: node.connection.clone(),
        ..SourceOptions::default()
    }
}

/// Loads a model; none for one that is emulated.
pub(crate) fn model(
    node: &ModelNode,
    graph: &Graph,
    zoo: &Zoo,
    dump: Option<&DumpInputs>,
) -> anyhow::Result<Option<Arc<dyn Model>>> {
    Ok(onnx(node, graph, zoo, dump)?.map(Loaded::into_model))
}

fn onnx(
    node: &ModelNode,
    graph: &Graph,
    zoo: &Zoo,
    dump: Option<&DumpInputs>,
) -> anyhow::Result<Option<Loaded>> {
    if let Some(function) = python_function(node, graph) {
        return Ok(Some(Loaded::Whole(Arc::new(PythonModel::new(function)))));
    }
    with_request(node, graph, zoo, dump, |request| {
        if !is_trusted(node) {
            probe::probe(request)?;
        }
        let model = if node.generates() || matches!(request.file, ModelFile::Server(_)) {
            weir_operators::load(request).map(Loaded::Whole)
        } else {
            let gpu = gpu_options(node, graph, zoo);
            OnnxModel::load(request).map(|model| Loaded::OfItems(Arc::new(model.with_gpu_options(gpu))))
        };
        Ok(model.map_err(|error| UserError::new(error.to_string()))?)
    })
}

/// The function that stands for a model, if its operator is in Python.
fn python_function(node: &ModelNode, graph: &Graph) -> Option<PythonFunction> {
    let ModelOrigin::Python(python) = &node.origin else {
        return None;
    };
    Some(PythonFunction {
        kind: FunctionKind::Operator,
        name: node.name.clone(),
        place: python.place.clone(),
        timeout: Duration::from_micros(python.timeout.micros()),
        memory: python.memory,
        max_batch: max_batch(node, graph),
        crops: python.crops,
    })
}

/// Opens the models of the user in processes of their own, without a trace in this one.
///
/// # Errors
/// Every model that cannot be opened.
pub(crate) fn probe_models(graph: &Graph, zoo: &Zoo) -> anyhow::Result<()> {
    let mut errors = ErrorList::default();
    for node in graph.models().iter().filter(|node| !is_trusted(node)) {
        let probed = with_request(node, graph, zoo, None, |request| Ok(probe::probe(request)?));
        errors.take(probed);
    }
    errors.finish()
}

/// Calls `load` with what a model is loaded by; not for one that is emulated.
fn with_request<T>(
    node: &ModelNode,
    graph: &Graph,
    zoo: &Zoo,
    dump: Option<&DumpInputs>,
    load: impl FnOnce(&LoadRequest<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    if graph.is_emulated(node) {
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
        ModelOrigin::Emulated | ModelOrigin::Python(_) => return Ok(None),
        ModelOrigin::Server(servers) => ModelFile::Server(server_model(servers)?),
    };
    let Some(head) = &node.head else {
        return Err(UserError::new(format!("model {} has no head; add head = \"...\"", node.name)).into());
    };
    let settings = zoo.resolve_keys(&node.settings)?;
    let request = LoadRequest {
        name: &node.name,
        file,
        head,
        settings: &settings,
        max_batch: max_batch(node, graph),
        dump: dump
            .filter(|dump| dump.model.as_ref().is_none_or(|name| *name == node.name))
            .map(|dump| dump.folder.clone()),
    };
    load(&request).map(Some)
}

/// True if all files of a model are known to this program: it ships them, or has their checksums.
fn is_trusted(node: &ModelNode) -> bool {
    let is_known = matches!(node.origin, ModelOrigin::Zoo(_) | ModelOrigin::Embedded(_));
    let second = node.settings.text("second");
    is_known && second.is_none_or(|second| second.starts_with("zoo:"))
}

/// The largest batch that a model may be asked for. One with a plan runs the batches of that, or of a later plan by the same profile.
fn max_batch(node: &ModelNode, graph: &Graph) -> u32 {
    let plan = graph.plan().filter(|_| node.plan.is_some());
    let served = plan.and_then(|plan| plan.problem.model(&node.name));
    let times = served.into_iter().flat_map(|served| &served.blocks.times);
    let profiled = times.flat_map(|times| &times.batch);
    node.batch.iter().chain(profiled).copied().max().unwrap_or(1)
}

/// The model on its servers, with its token read.
fn server_model(servers: &ModelServers) -> anyhow::Result<ServerModel> {
    let token = servers.token_file.as_ref().map(|path| {
        let text = weir_files::read_text(path, MAX_TOKEN_BYTES);
        let text = text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
        text.map_err(|error| UserError::new(format!("token file {}: {error}", path.display())))
    });
    let ServerProtocol::KServe = servers.protocol;
    Ok(ServerModel {
        urls: servers.urls.clone(),
        name: servers.name.clone(),
        version: servers.version.clone(),
        token: token.transpose()?,
        timeout: Duration::from_micros(servers.timeout.micros()),
    })
}

/// The most threads that share the inputs of a batch: more do not pay for how often they are started.
const MAX_PREPARE_THREADS: usize = 8;

/// Half of the cores: the others decode.
fn default_prepare_threads() -> usize {
    (cores() / 2).clamp(1, MAX_PREPARE_THREADS)
}

/// Options of the model on a GPU. TensorRT caches its engines in the folder of models, below `tensorrt`.
fn gpu_options(node: &ModelNode, graph: &Graph, zoo: &Zoo) -> GpuOptions {
    let threads = graph.devices()[node.device].prepare_threads;
    GpuOptions {
        provider: match node.gpu.provider {
            GpuProvider::Cuda => Provider::Cuda,
            GpuProvider::TensorRt => Provider::TensorRt,
        },
        precision: match node.gpu.precision {
            GpuPrecision::Fp32 => Precision::Full,
            GpuPrecision::Tf32 => Precision::Tf32,
            GpuPrecision::Fp16 => Precision::Half,
        },
        graphs: node.gpu.graphs,
        batches: node.batch.clone(),
        cache: Some(zoo.cache().join("tensorrt")),
        prepare_threads: threads.map_or_else(default_prepare_threads, |threads| threads as usize),
    }
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

/// The graph's sinks, each for the streams that reach it. Nothing is opened.
///
/// # Errors
/// A sink with keys that do not make one.
pub(crate) fn sinks(
    graph: &Graph,
    (out, zoo): (Option<&Path>, &Zoo),
    extensions: &Extensions,
) -> anyhow::Result<Vec<Box<dyn SinkFactory>>> {
    let paths = out.map(|out| sink_paths(graph.sinks(), out));
    let make = |(index, node): (usize, &SinkNode)| {
        let mut settings = node.settings.clone();
        if let Some(path) = paths.as_ref().and_then(|paths| paths[index].clone()) {
            let path = path.to_string_lossy().into_owned();
            settings.0.insert("path".to_owned(), Value::Text(path));
        }
        if let Some(sink) = extensions.sink_of(node, &settings) {
            return sink;
        }
        if node.kind == search::SINK {
            search::add_model(&mut settings, graph, zoo)?;
        }
        let moved = settings.text("camera").filter(|_| node.kind == "ptz");
        let moved = moved.and_then(|name| graph.sources().iter().find(|source| source.name == name));
        if let Some((source, service)) = moved.and_then(|it| Some((it, it.connection.onvif.as_ref()?))) {
            let login = source.connection.login.as_ref();
            settings = with_ptz_camera(settings, &service.address, &source.uri, login);
        }
        let streams = streams_of_sink(graph, index);
        let sink = weir_operators::sinks::sink_for(&node.kind, &settings, &streams);
        sink.map_err(|error| UserError::new(format!("sink {}: {error}", node.name)).into())
    };
    graph.sinks().iter().enumerate().map(make).collect()
}

/// Names of the streams that reach the sink of that number.
pub(crate) fn streams_of_sink(graph: &Graph, sink: usize) -> Vec<String> {
    let streams = graph.streams_of_sink(sink).into_iter();
    streams
        .map(|stream| graph.sources()[stream].name.clone())
        .collect()
}

/// Paths of sink files below `out`, by sink; `None` for a sink without a file. A file keeps its name, and its
/// path from the first folder with `{stream}` on; sinks that would share a path get a folder with their name.
fn sink_paths(sinks: &[SinkNode], out: &Path) -> Vec<Option<PathBuf>> {
    let tails: Vec<Option<PathBuf>> = sinks
        .iter()
        .map(|sink| path_below(sink.settings.text("path").filter(|path| *path != "-")?))
        .collect();
    let place = |(sink, own): (&SinkNode, &Option<PathBuf>)| {
        let own = own.as_ref()?;
        let alike = tails.iter().flatten().filter(|other| *other == own).count();
        let folder = if alike > 1 {
            out.join(&sink.name)
        } else {
            out.to_owned()
        };
        Some(folder.join(own))
    };
    sinks.iter().zip(&tails).map(place).collect()
}

/// The part of a sink's path that is kept below another folder: from the first component with `{stream}` on,
/// or else the file name.
fn path_below(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let name = path.file_name()?;
    let by_stream = |component: &Component<'_>| component.as_os_str().to_string_lossy().contains("{stream}");
    let components: Vec<Component<'_>> = path.components().collect();
    match components.iter().position(by_stream) {
        Some(first) => Some(components[first..].iter().collect()),
        None => Some(PathBuf::from(name)),
    }
}

#[cfg(test)]
mod tests {
    use weir_graph::WhenSlow;

    use super::*;

    #[test]
    fn sinks_and_streams_keep_files_of_their_own_below_another_folder() {
        let sink = |(index, path): (usize, &&str)| SinkNode {
            streams: weir_flow::StreamNames::default(),
            name: format!("s{index}"),
            kind: "jsonl".to_owned(),
            inputs: Vec::new(),
            trackers: Vec::new(),
            transforms: Vec::new(),
            when_slow: WhenSlow::Wait,
            settings: weir_flow::Settings([("path".to_owned(), Value::Text((*path).to_owned()))].into()),
        };
        let check = |paths: &[&str], expected: &[&str]| {
            let sinks: Vec<SinkNode> = paths.iter().enumerate().map(sink).collect();
            let placed = sink_paths(&sinks, Path::new("out")).into_iter();
            let placed: Vec<String> = placed
                .map(|path| path.map_or("-".to_owned(), |path| path.display().to_string()))
                .collect();
            assert_eq!(placed, expected);
        };
        check(
            &["/a/events.jsonl", "/b/video.mp4", "-"],
            &["out/events.jsonl", "out/video.mp4", "-"],
        );
        check(
            &["/a/e.jsonl", "/b/e.jsonl"],
            &["out/s0/e.jsonl", "out/s1/e.jsonl"],
        );
        check(
            &["/a/{stream}/e.jsonl", "/a/x/e.jsonl"],
            &["out/{stream}/e.jsonl", "out/e.jsonl"],
        );
        check(&["/a/{stream}/x/{stream}.mp4"], &["out/{stream}/x/{stream}.mp4"]);
    }
}
