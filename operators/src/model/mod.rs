//! Models: ONNX files loaded, made to take batches, checked against their head, and opened as sessions.
//!
//! A model is loaded once and tried out on the CPU: a blank item shows whether its outputs fit the head, and noise
//! shows whether it can take batches. What is wrong is one line that names the file, what was found and what is wanted.

mod batch;
mod cut;
mod divided;
mod dump;
mod faithful;
mod fill;
mod layered;
mod noise;
mod parts;
mod patch;
mod runtime;
mod session;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Batching, DeviceKind, Model, Session, SessionError, Settings};

use crate::heads::{Given, Head, Input, KINDS, Kind};
use batch::{Rows, Trial, Tried, blank, try_out};
pub use cut::CutError;
pub use divided::Blocked;
use dump::Dump;
pub use dump::dump_index;
pub use faithful::{PassedOver, Settled};
pub use layered::Layered;
pub use parts::OnnxParts;
use runtime::{Engine, View};
pub use runtime::{find_runtime, load_runtime};
use session::OnnxSession;

/// Where a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFile {
    /// A file.
    Path(PathBuf),
    /// In memory, shipped with the program.
    Bytes(Arc<[u8]>),
}

/// What to load.
#[derive(Debug, Clone)]
pub struct LoadRequest<'a> {
    /// Name in messages.
    pub name: &'a str,
    /// Where it is.
    pub file: ModelFile,
    /// Which head decodes it.
    pub head: &'a str,
    /// Keys of the head, paths absolute and `zoo:` names resolved to paths.
    pub settings: &'a Settings,
    /// Largest batch that is going to be asked for: batching is tried up to it.
    pub max_batch: u32,
    /// Folder that takes a copy of each item's input, as `.npy`.
    pub dump: Option<PathBuf>,
}

/// What sessions of a model share.
struct Loaded {
    name: String,
    head: Box<dyn Head>,
    input: Input,
    /// One graph, or two whose outputs are decoded together.
    graphs: Vec<Arc<[u8]>>,
    rows: Rows,
    dump: Option<Dump>,
}

/// A loaded model with its head.
pub struct OnnxModel {
    loaded: Arc<Loaded>,
    batching: Batching,
}

/// Loads a model for the runtime.
///
/// # Errors
/// [`SessionError::Load`] where the file is no model, does not fit the head, or ONNX Runtime is missing.
pub fn load(request: &LoadRequest<'_>) -> Result<Arc<dyn Model>, SessionError> {
    Ok(Arc::new(OnnxModel::load(request)?))
}

impl OnnxModel {
    /// Loads a model.
    ///
    /// # Errors
    /// As [`load`].
    pub fn load(request: &LoadRequest<'_>) -> Result<Self, SessionError> {
        let model = match &request.file {
            ModelFile::Path(path) => format!("{} ({})", request.name, path.display()),
            ModelFile::Bytes(_) => request.name.to_owned(),
        };
        let failed = |reason: String| SessionError::Load { model, reason };
        let (loaded, batching) = read(request).map_err(failed)?;
        Ok(Self {
            loaded: Arc::new(loaded),
            batching,
        })
    }
}

impl Model for OnnxModel {
    fn batching(&self) -> Batching {
        self.batching.clone()
    }

    fn classes(&self) -> &[Arc<str>] {
        self.loaded.head.classes()
    }

    fn open(&self, device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        let session = OnnxSession::open(Arc::clone(&self.loaded), device);
        let session = session.map_err(|reason| SessionError::Load {
            model: self.loaded.name.clone(),
            reason,
        })?;
        Ok(Box::new(session))
    }
}

fn read(request: &LoadRequest<'_>) -> Result<(Loaded, Batching), String> {
    let kind = Kind::named(request.head).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        format!(
            "there is no head {}; there are {}",
            request.head,
            names.join(", ")
        )
    })?;
    let first = match &request.file {
        ModelFile::Path(path) => file(path)?,
        ModelFile::Bytes(bytes) => Arc::clone(bytes),
    };
    let mut files = vec![first];
    if let Some(second) = request.settings.text("second") {
        files.push(file(Path::new(second)).map_err(|reason| format!("second model {second}: {reason}"))?);
    }
    let mut graphs = Vec::new();
    let mut given = Vec::new();
    for bytes in &files {
        let (engine, input) = open(bytes, kind, request.settings)?;
        if let Some((_, _, before)) = graphs.first()
            && *before != input
        {
            return Err("the second model's input is not that of the first".to_owned());
        }
        let mut engine = engine;
        given.extend(outputs(&mut engine, &input)?);
        graphs.push((bytes, engine, input));
    }
    let input = graphs[0].2.clone();
    let head = kind.build(request.settings, &input, &given)?;
    let trial = Trial {
        item: input.item_shape(),
        range: input.range(),
        max: request.max_batch.max(1) as usize,
    };
    let tried: Vec<Tried> = graphs
        .iter_mut()
        .map(|(bytes, engine, _)| try_out(bytes, engine, &trial))
        .collect();
    let (rows, batching) = together(&tried)?;
    if let Some(remark) = &batching.remark {
        tracing::info!(model = request.name, remark, "batching");
    }
    let dump = request
        .dump
        .as_deref()
        .map(|folder| Dump::into(folder, request.name))
        .transpose()?;
    let graphs = tried.into_iter().map(|tried| tried.bytes).collect();
    Ok((
        Loaded {
            name: request.name.to_owned(),
            head,
            input,
            graphs,
            rows,
            dump,
        },
        batching,
    ))
}

/// How graphs that run on one input can be batched: as the narrower of them.
fn together(tried: &[Tried]) -> Result<(Rows, Batching), String> {
    let fixed: Vec<&Tried> = tried.iter().filter(|tried| tried.rows != Rows::Free).collect();
    let narrow = fixed
        .first()
        .copied()
        .or(tried.first())
        .ok_or("there is no graph")?;
    if fixed.iter().any(|tried| tried.rows != narrow.rows) {
        return Err("the batch dimensions of the two models are fixed at different sizes".to_owned());
    }
    // A graph whose batch is free runs in whatever the other needs.
    Ok((narrow.rows, narrow.batching.clone()))
}

/// No ONNX file is larger: protobuf, which it is written in, counts bytes in 31 bits.
pub const MAX_MODEL_BYTES: u64 = 2 << 30;

fn file(path: &Path) -> Result<Arc<[u8]>, String> {
    let bytes =
        weir_files::read(path, MAX_MODEL_BYTES).map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.is_empty() {
        Err("the file is empty".to_owned())
    } else {
        Ok(bytes.into())
    }
}

fn open(bytes: &[u8], kind: &Kind, settings: &Settings) -> Result<(Engine, Input), String> {
    let engine = Engine::open(bytes, DeviceKind::Cpu)?;
    let [port] = engine.inputs() else {
        let names: Vec<&str> = engine.inputs().iter().map(|port| port.name.as_str()).collect();
        return Err(format!(
            "it has the inputs {}; the head {} wants one image",
            names.join(", "),
            kind.name
        ));
    };
    if port.element != "f32" {
        let found = format!("input {} {} holds {}", port.name, port.shape_text(), port.element);
        return Err(format!("{found}; the head {} wants f32", kind.name));
    }
    let input = kind
        .input(settings, &port.shape)
        .map_err(|reason| format!("{reason} (head {}, input {})", kind.name, port.name))?;
    Ok((engine, input))
}

/// What the graph really gives for one item.
fn outputs(engine: &mut Engine, input: &Input) -> Result<Vec<Given>, String> {
    let rows = engine
        .inputs()
        .first()
        .and_then(|port| port.shape.first().copied())
        .flatten()
        .unwrap_or(1);
    let readable: Vec<bool> = engine
        .outputs()
        .iter()
        .map(|port| port.element == "f32")
        .collect();
    let mut feed = engine.feed()?;
    blank(&mut feed, rows, &input.item_shape())?;
    let given = |views: &[View<'_>]| {
        let one = |(view, readable): (&View<'_>, &bool)| Given {
            name: view.name.to_owned(),
            shape: session::row_shape(view, rows)
                .iter()
                .map(|size| size.unsigned_abs() as usize)
                .collect(),
            readable: *readable,
        };
        views.iter().zip(&readable).map(one).collect()
    };
    engine
        .run(&feed, given)
        .map_err(|reason| format!("it fails on a blank item: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{Frame, Image, Item, Region, Step};

    #[test]
    fn three_items_run_through_a_model_that_takes_two() {
        let Some(assets) = std::env::var_os("WEIR_ASSETS").map(PathBuf::from) else {
            println!("skipped: WEIR_ASSETS is not set");
            return;
        };
        let free = std::fs::read(assets.join("models/yunet_n_dynamic.onnx")).expect("readable");
        let fixed = patch::fix_batch(&free, 2).expect("edited");
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
