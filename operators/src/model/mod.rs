//! Models: ONNX files loaded, made to support batches, checked against their head, and opened as sessions.
//!
//! A model is loaded once and probed on the CPU: a blank item shows whether its outputs fit the head, and
//! noise shows which batches it supports. An error is one line with the file, the actual value and the
//! expected value.

mod adapt;
mod auto;
mod batch_probe;
pub(crate) mod chat;
mod companion;
mod compare;
#[cfg(test)]
mod constant;
#[cfg(test)]
mod crossed_layouts;
mod cut;
mod cut_validation;
#[cfg(feature = "cuda")]
mod device_input;
mod dump;
mod edit;
mod error;
mod external;
#[cfg(test)]
mod fuzz;
pub(crate) mod generate;
mod inspect;
mod kserve;
mod layer_chain;
mod loaded;
mod metadata;
mod noise;
mod onnx;
mod partition_session;
mod partitioned;
mod prepared;
mod prepost;
mod runtime;
mod session;
mod session_steps;
mod sized;
mod text_encoder;
mod tokenizer_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{
    Batching, DeviceKind, Model, PYTHON_FUNCTION, PreparedModel, Session, SessionError, SessionSteps,
    Settings,
};

use crate::heads::layouts::{Layout, family};
use crate::heads::{AUTO, Head, HeadKind, Input, KINDS, OutputSpec};
use adapt::Opened;
use batch_probe::{BatchProbe, ProbeInput, Rows, blank, probe_batch};
pub use compare::OutputDifference;
pub use cut::CutError;
pub use cut_validation::{RejectedBoundary, ValidatedCut};
use dump::Dump;
pub use dump::dump_index;
pub use error::{LoadError, ModelError};
pub use generate::BareDecoder;
use generate::GenerativeOnnx;
pub use inspect::{InspectedHead, InspectedPort, Inspection, inspect};
pub use kserve::ServerModel;
pub use layer_chain::LayerChain;
use loaded::Loaded;
pub use partition_session::OnnxPartitionLoader;
pub use partitioned::PartitionedOnnx;
pub(crate) use runtime::float_bytes;
pub use runtime::{
    GpuOptions, OpenError, Precision, Provider, RuntimeLibraryError, SessionOperation, find_runtime,
    limit_heap_arenas, load_runtime, observe_sessions, return_unused_memory,
};
use runtime::{OutputView, Port};
use session::OnnxSession;
pub use text_encoder::TextEncoder;

/// Location of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFile {
    /// Path of an ONNX file.
    Path(PathBuf),
    /// In memory, shipped with the program.
    Bytes(Arc<[u8]>),
    /// On model servers.
    Server(ServerModel),
}

/// The model to load.
#[derive(Debug, Clone)]
pub struct LoadRequest<'a> {
    /// Name in messages.
    pub name: &'a str,
    /// Location of the ONNX file.
    pub file: ModelFile,
    /// Name of the head that decodes it.
    pub head: &'a str,
    /// Keys of the head, with absolute paths and `zoo:` names resolved to paths.
    pub settings: &'a Settings,
    /// Largest batch that will be requested, in items; batches are probed up to it.
    pub max_batch: u32,
    /// Folder for dumps of each item's input, as `.npy`.
    pub dump: Option<PathBuf>,
}

/// A loaded model with its head.
pub struct OnnxModel {
    loaded: Arc<Loaded>,
    batching: Batching,
}

/// Loads a model for the runtime.
///
/// # Errors
/// [`LoadError`]: the file is no model, does not fit the head, or ONNX Runtime is missing.
pub fn load(request: &LoadRequest<'_>) -> Result<Arc<dyn Model>, LoadError> {
    if request.head == generate::HEAD {
        return Ok(Arc::new(load_generative(request)?));
    }
    if let ModelFile::Server(server) = &request.file {
        return Ok(Arc::new(load_from_server(request, server)?));
    }
    Ok(Arc::new(OnnxModel::load(request)?))
}

fn load_from_server(
    request: &LoadRequest<'_>,
    server: &ServerModel,
) -> Result<kserve::KServeModel, LoadError> {
    let loaded = head_kind(request.head).and_then(|kind| kserve::load(request, server, kind));
    loaded.map_err(|cause| LoadError {
        model: shown_name(request),
        cause,
    })
}

fn load_generative(request: &LoadRequest<'_>) -> Result<GenerativeOnnx, LoadError> {
    let loaded = bytes(request).and_then(|bytes| GenerativeOnnx::load(request.name, bytes, request.settings));
    loaded.map_err(|cause| LoadError {
        model: shown_name(request),
        cause,
    })
}

/// Its name, with its file.
fn shown_name(request: &LoadRequest<'_>) -> String {
    match &request.file {
        ModelFile::Path(path) => format!("{} ({})", request.name, path.display()),
        ModelFile::Bytes(_) | ModelFile::Server(_) => request.name.to_owned(),
    }
}

/// The ONNX file.
fn bytes(request: &LoadRequest<'_>) -> Result<Arc<[u8]>, ModelError> {
    match &request.file {
        ModelFile::Path(path) => read_model(path),
        ModelFile::Bytes(bytes) => Ok(Arc::clone(bytes)),
        ModelFile::Server(_) => {
            let reason = "it is on a model server, where it is neither generated with nor cut: name a file";
            Err(ModelError::Head(reason.to_owned()))
        }
    }
}

fn head_kind(name: &str) -> Result<&'static HeadKind, ModelError> {
    HeadKind::named(name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        ModelError::NoHead {
            name: name.to_owned(),
            known: names.join(", "),
        }
    })
}

impl OnnxModel {
    /// Loads a model.
    ///
    /// # Errors
    /// As [`load`].
    pub fn load(request: &LoadRequest<'_>) -> Result<Self, LoadError> {
        let (loaded, batching) = read(request).map_err(|cause| LoadError {
            model: shown_name(request),
            cause,
        })?;
        Ok(Self {
            loaded: Arc::new(loaded),
            batching,
        })
    }

    /// The model, run by `gpu` where it is opened on a GPU. Of no effect once a session of it is open.
    #[must_use]
    pub fn with_gpu_options(mut self, gpu: GpuOptions) -> Self {
        if let Some(loaded) = Arc::get_mut(&mut self.loaded) {
            loaded.gpu = gpu;
        }
        self
    }
}

impl Model for OnnxModel {
    fn batching(&self) -> Batching {
        self.batching.clone()
    }

    fn classes(&self) -> &[Arc<str>] {
        self.loaded.head.classes()
    }

    fn alphabet(&self) -> &[String] {
        self.loaded.head.alphabet()
    }

    fn open(&self, device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        let session = OnnxSession::open(Arc::clone(&self.loaded), device);
        let session = session.map_err(|error| error::session_error(&self.loaded.name, &error))?;
        Ok(Box::new(session))
    }

    fn open_cold(
        &self,
        device: DeviceKind,
    ) -> Result<(Box<dyn Session>, Option<PreparedModel>), SessionError> {
        let opened = prepared::open_cold(&self.loaded, device);
        let (session, prepared) = opened.map_err(|error| error::session_error(&self.loaded.name, &error))?;
        Ok((Box::new(session), prepared))
    }

    fn open_warm(
        &self,
        device: DeviceKind,
        prepared: &PreparedModel,
    ) -> Result<Box<dyn Session>, SessionError> {
        let session = prepared::open_warm(&self.loaded, device, prepared);
        let session = session.map_err(|error| error::session_error(&self.loaded.name, &error))?;
        Ok(Box::new(session))
    }

    fn file_bytes(&self) -> Option<u64> {
        Some(self.loaded.graphs.iter().map(|graph| graph.len() as u64).sum())
    }

    fn open_steps(&self, device: DeviceKind) -> Result<SessionSteps, SessionError> {
        session_steps::open(&self.loaded, device)
            .map_err(|error| error::session_error(&self.loaded.name, &error))
    }
}

/// The ONNX file, and behind it that of the second model if the graph names one.
fn files(request: &LoadRequest<'_>) -> Result<Vec<Arc<[u8]>>, ModelError> {
    let mut files = vec![bytes(request)?];
    if let Some(second) = request.settings.text("second") {
        let failed = |cause| ModelError::Second {
            path: second.to_owned(),
            cause: Box::new(cause),
        };
        files.push(read_model(Path::new(second)).map_err(failed)?);
    }
    Ok(files)
}

fn read(request: &LoadRequest<'_>) -> Result<(Loaded, Batching), ModelError> {
    let files = files(request)?;
    let mut first = Opened::new(&files[0])?;
    let path = match &request.file {
        ModelFile::Path(path) => Some(path.as_path()),
        ModelFile::Bytes(_) | ModelFile::Server(_) => None,
    };
    let settings = metadata::with_metadata(request.settings, &files[0], path, &first);
    let kind = if request.head == AUTO {
        let kind = auto::choose(&mut first, &settings)?;
        tracing::info!(
            model = request.name,
            head = kind.name,
            "the head that its file fits"
        );
        kind
    } else {
        head_kind(request.head)?
    };
    let mut opened = vec![first];
    for file in files.iter().skip(1) {
        opened.push(Opened::new(file)?);
    }
    let (mut graphs, specs) = graphs_and_outputs(opened, kind, &settings)?;
    let input = graphs[0].1.clone();
    let input_name = graphs[0]
        .0
        .session
        .inputs()
        .first()
        .map_or(String::new(), |port| port.name.clone());
    let head = kind.build(&settings, &input, &specs).map_err(ModelError::Head)?;
    let mut remarks: Vec<String> = head
        .labels()
        .map_or(Vec::new(), |labels| labels.remarks().to_vec());
    if let [(opened, input)] = &mut graphs[..] {
        let sign = metadata::inspect(opened, input, &*head).map_err(ModelError::Run)?;
        remarks.extend(sign.map_err(ModelError::Head)?);
    }
    metadata::warn(request.name, &remarks);
    let probes = probe_graphs(&mut graphs, &*head, request.max_batch)?;
    let (rows, batching) = joint_batching(&probes).map_err(ModelError::Head)?;
    if let Some(remark) = &batching.remark {
        tracing::info!(model = request.name, remark, "batching");
    }
    let dump = request
        .dump
        .as_deref()
        .map(|folder| Dump::into(folder, request.name))
        .transpose()
        .map_err(ModelError::Run)?;
    let graphs = probes.into_iter().map(|probes| probes.bytes).collect();
    Ok((
        Loaded {
            name: request.name.to_owned(),
            head,
            input,
            graphs,
            rows,
            dump,
            input_name,
            gpu: GpuOptions::default(),
        },
        batching,
    ))
}

/// A model that is open, with the input that its head reads.
type OpenedGraph = (Opened, Input);

/// The models that are decoded together, and the measured outputs of all of them for one item.
///
/// # Errors
/// A model does not take one image as the head does, takes another one than the first model, or fails on a blank item.
fn graphs_and_outputs(
    opened: Vec<Opened>,
    kind: &HeadKind,
    settings: &Settings,
) -> Result<(Vec<OpenedGraph>, Vec<OutputSpec>), ModelError> {
    let mut graphs: Vec<OpenedGraph> = Vec::new();
    let mut specs = Vec::new();
    for mut opened in opened {
        let input = input_of(&opened, kind, settings)?;
        if let Some((_, before)) = graphs.first()
            && *before != input
        {
            let differ = "the second model's input is not that of the first";
            return Err(ModelError::Head(differ.to_owned()));
        }
        specs.extend(outputs(&mut opened, &input).map_err(ModelError::Run)?);
        graphs.push((opened, input));
    }
    Ok((graphs, specs))
}

/// Measures the batches that each of the graphs supports, up to `max_batch` items.
///
/// # Errors
/// [`ModelError::Head`]: the batch is fixed at several items, which the outputs do not tell apart.
fn probe_graphs(
    graphs: &mut [OpenedGraph],
    head: &dyn Head,
    max_batch: u32,
) -> Result<Vec<BatchProbe>, ModelError> {
    let (first, input) = &graphs[0];
    let rows = first.rows();
    if head.runs_one_by_one() && rows > 1 {
        return Err(ModelError::Head(format!(
            "its batch is fixed at {rows}, and its outputs do not say which object is of which picture: export it with a batch of 1"
        )));
    }
    let trial = ProbeInput {
        item: input.item_shape(),
        range: input.range(),
        max: match head.runs_one_by_one() {
            true => 1,
            false => max_batch.max(1) as usize,
        },
    };
    Ok(graphs
        .iter_mut()
        .map(|(opened, _)| probe_batch(&opened.bytes, &mut opened.session, &trial))
        .collect())
}

/// The batches that graphs on one input support together: those of the narrower one.
fn joint_batching(probes: &[BatchProbe]) -> Result<(Rows, Batching), String> {
    let fixed: Vec<&BatchProbe> = probes.iter().filter(|probes| probes.rows != Rows::Free).collect();
    let narrow = fixed
        .first()
        .copied()
        .or(probes.first())
        .ok_or("there is no graph")?;
    if fixed.iter().any(|probes| probes.rows != narrow.rows) {
        return Err("the batch dimensions of the two models are fixed at different sizes".to_owned());
    }
    // A graph with a free batch runs in any batch that the other needs.
    Ok((narrow.rows, narrow.batching.clone()))
}

/// Largest ONNX file: protobuf counts bytes in 31 bits.
pub const MAX_MODEL_BYTES: u64 = 2 << 30;

/// Reads an ONNX file, with the weights that lie beside it.
///
/// # Errors
/// [`ModelError::File`], [`ModelError::Empty`] and [`ModelError::Weights`].
pub fn read_model(path: &Path) -> Result<Arc<[u8]>, ModelError> {
    let bytes = weir_files::read(path, MAX_MODEL_BYTES).map_err(ModelError::File)?;
    if bytes.is_empty() {
        return Err(ModelError::Empty);
    }
    let bytes = external::with_weights(bytes, path).map_err(ModelError::Weights)?;
    Ok(bytes.into())
}

/// The layout of the family that the names of inputs and outputs belong to.
fn family_of(opened: &Opened) -> Option<Layout> {
    let inputs = opened.inputs.iter().map(|port| port.name.as_str());
    family(inputs, opened.outputs.iter().map(Port::name_and_last_size))
}

/// The input of a model for a head.
///
/// # Errors
/// [`ModelError::Head`]: it does not take one image as that head does.
fn input_of(opened: &Opened, kind: &HeadKind, settings: &Settings) -> Result<Input, ModelError> {
    let names = |ports: &[Port]| ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
    let (inputs, outputs) = (names(&opened.inputs), names(&opened.outputs));
    let family = family_of(opened);
    let reads_any = kind.name == PYTHON_FUNCTION;
    if let Some(layout) = family.filter(|layout| !reads_any && !layout.is_read_by(kind.name)) {
        return Err(ModelError::Head(format!(
            "its outputs are {}; {}",
            outputs.join(", "),
            layout.found()
        )));
    }
    let [port] = opened.session.inputs() else {
        return Err(ModelError::Head(format!(
            "it has the inputs {}; the head {} expects one image, and of other inputs only {} are filled: export it without them",
            inputs.join(", "),
            kind.name,
            adapt::COMPUTED.join(", ")
        )));
    };
    if port.element != "f32" {
        let found = format!("input {} {} holds {}", port.name, port.shape_text(), port.element);
        let reason = format!(
            "{found}; the head {} wants an image of f32, f16 or u8: export the model with such an input",
            kind.name
        );
        return Err(ModelError::Head(reason));
    }
    kind.input(settings, &port.shape)
        .map_err(|reason| format!("{reason} (head {}, input {})", kind.name, port.name))
        .map_err(ModelError::Head)
}

/// The measured outputs for one item.
fn outputs(opened: &mut Opened, input: &Input) -> Result<Vec<OutputSpec>, String> {
    let (readable, rows) = (opened.readable(), opened.rows());
    let session = &mut opened.session;
    let mut feed = session.feed()?;
    blank(&mut feed, rows, &input.item_shape())?;
    let specs = |views: &[OutputView<'_>]| {
        let one = |(view, readable): (&OutputView<'_>, &bool)| OutputSpec {
            name: view.name.to_owned(),
            shape: session::row_shape(view.shape, rows),
            readable: *readable,
        };
        views.iter().zip(&readable).map(one).collect()
    };
    session
        .run(&feed, specs)
        .map_err(|reason| format!("it fails on a blank item: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{Frame, Image, Item, Region, Step};

    #[test]
    fn threads_that_share_a_batch_prepare_what_one_does() {
        let shipped = weir_models::find("street-detector").expect("ships");
        let picture = |seed: u32| {
            let pixel = |x: u32, y: u32| ((x * 7 + y * 13 + seed * 29) % 251) as u8;
            let rows = (0..90_u32).flat_map(|y| (0..160_u32).map(move |x| (x, y)));
            let pixels = rows.flat_map(|(x, y)| [pixel(x, y), pixel(y, x), pixel(x, x)]);
            Arc::new(Frame::new(0, 0.0, Image::from_rgb(160, 90, pixels.collect())))
        };
        let items: Vec<Item> = (0..7)
            .map(|seed| Item {
                frame: picture(seed),
                region: Region::Whole,
                object: None,
                class: None,
            })
            .collect();
        let prepared = |threads: usize| {
            let request = LoadRequest {
                name: "street-detector",
                file: ModelFile::Bytes(shipped.onnx.into()),
                head: &shipped.head,
                settings: &shipped.settings,
                max_batch: 1,
                dump: None,
            };
            let loaded = OnnxModel::load(&request).expect("loads").loaded;
            let mut prepost = prepost::BatchPrePost::with_threads(threads);
            let mut elements = vec![f32::NAN; 8 * loaded.input.spec.len()];
            prepost.start_batch(&loaded.input, &items, 8);
            prepost
                .preprocess(&loaded, &items, &mut elements)
                .expect("prepares");
            elements
        };
        let expected = prepared(1);
        assert!(expected.iter().any(|element| *element != expected[0]));
        for threads in [2, 3, 8] {
            assert_eq!(prepared(threads), expected, "{threads} threads");
        }
    }

    #[test]
    fn three_items_run_through_a_model_that_takes_two() {
        let Some(assets) = std::env::var_os("WEIR_ASSETS").map(PathBuf::from) else {
            println!("skipped: WEIR_ASSETS is not set");
            return;
        };
        let free = std::fs::read(assets.join("models/yunet_n_dynamic.onnx")).expect("readable");
        let fixed = edit::fix_batch(&free, 2).expect("edited");
        let settings = Settings::default();
        let picture = image::open(assets.join("images/face_two_people.jpg"))
            .expect("picture")
            .to_rgb8();
        let (width, height) = picture.dimensions();
        let frame = Arc::new(Frame::new(
            0,
            0.0,
            Image::from_rgb(width, height, picture.into_raw()),
        ));
        let item = Item {
            frame,
            region: Region::Whole,
            object: None,
            class: None,
        };
        for bytes in [free, fixed] {
            let request = LoadRequest {
                name: "faces",
                file: ModelFile::Bytes(bytes.into()),
                head: "yunet",
                settings: &settings,
                max_batch: 2,
                dump: None,
            };
            let mut session = load(&request)
                .expect("loads")
                .open(DeviceKind::Cpu)
                .expect("opens");
            session.warm_up(3).expect("warms");
            let mut steps = Vec::new();
            let items = vec![item.clone(); 3];
            let said = session.run(&items, &mut |step| steps.push(step)).expect("runs");
            assert_eq!(
                said.iter().map(|said| said.objects.len()).collect::<Vec<_>>(),
                [2, 2, 2]
            );
            assert_eq!(
                steps[..3],
                [Step::Preprocessed, Step::Inferred, Step::Postprocessed]
            );
        }
    }
}
