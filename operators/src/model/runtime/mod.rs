//! ONNX Runtime: the only module that names `ort`.
//!
//! An [`OrtSession`] is one inference session on one device; a [`Feed`] is the input tensor that it reads, reused from
//! batch to batch; outputs are read in place through [`OutputView`]s. Heads interpret the tensors.

#[cfg(feature = "cuda")]
mod cuda;
mod decoder;
mod error;
mod heap;
mod library;
mod observe;
mod provider;
mod tensors;

use std::path::{Path, PathBuf};

use ort::environment::Environment;
use ort::session::Session;
use ort::session::SessionOutputs;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::{DynValue, Outlet, TensorElementType, TensorRef, ValueType};
use weir_flow::DeviceKind;

use super::external::has_external_data;
pub(crate) use decoder::{HeldTensor, NamedInput};
pub use error::{OpenError, RuntimeLibraryError};
use heap::ReturnsUnusedMemory;
pub use heap::{limit_heap_arenas, return_unused_memory};
pub use library::{find as find_runtime, load as load_runtime};
pub use observe::{SessionOperation, observe_sessions};
pub use provider::{GpuOptions, Precision, Provider};
pub(crate) use tensors::{TensorPort, float_bytes, floats, halved};

/// An input or output as the graph declares it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port {
    pub(crate) name: String,
    /// `None` for a free size.
    pub(crate) shape: Vec<Option<usize>>,
    /// Name of the element type; `f32` can be filled and read.
    pub(crate) element: String,
}

impl Port {
    /// Its name, and its last size where that is fixed.
    pub(crate) fn name_and_last_size(&self) -> (&str, Option<usize>) {
        (&self.name, self.shape.last().copied().flatten())
    }

    fn of(outlet: &Outlet) -> Self {
        let (shape, element) = match outlet.dtype() {
            ValueType::Tensor { ty, shape, .. } => {
                let shape = shape
                    .iter()
                    .map(|size| usize::try_from(*size).ok().filter(|size| *size > 0))
                    .collect();
                (
                    shape,
                    if *ty == TensorElementType::Float32 {
                        "f32".to_owned()
                    } else {
                        ty.to_string()
                    },
                )
            }
            other => (Vec::new(), other.to_string()),
        };
        Self {
            name: outlet.name().to_owned(),
            shape,
            element,
        }
    }

    /// The shape as text: `[1, 3, ?, ?]`.
    pub(crate) fn shape_text(&self) -> String {
        let sizes: Vec<String> = self
            .shape
            .iter()
            .map(|size| size.map_or_else(|| "?".to_owned(), |size| size.to_string()))
            .collect();
        format!("[{}]", sizes.join(", "))
    }
}

/// An output of one run, read in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputView<'a> {
    pub(crate) name: &'a str,
    pub(crate) shape: &'a [i64],
    /// Empty if elements are not `f32`.
    pub(crate) data: &'a [f32],
}

/// Outputs of one run, which stay as they are when the session runs again.
pub(crate) struct KeptOutputs(Vec<(String, DynValue)>);

impl KeptOutputs {
    /// All of them, in the order of the graph.
    pub(crate) fn views(&self) -> impl Iterator<Item = OutputView<'_>> {
        self.0.iter().map(|(name, value)| view(name, value))
    }
}

fn view<'a>(name: &'a str, value: &'a DynValue) -> OutputView<'a> {
    match value.try_extract_tensor::<f32>() {
        Ok((shape, data)) => OutputView { name, shape, data },
        Err(_) => OutputView {
            name,
            shape: &[],
            data: &[],
        },
    }
}

/// The input tensor of a session, in the memory that its device copies from fastest.
pub(crate) enum Feed {
    Host {
        shape: Vec<i64>,
        data: Vec<f32>,
    },
    #[cfg(feature = "cuda")]
    Pinned(cuda::Pinned),
}

impl Feed {
    /// An empty one in the memory of this process.
    pub(crate) fn host() -> Self {
        Self::Host {
            shape: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Its shape and elements, where they are in the memory of this process.
    pub(crate) fn host_parts(&self) -> Option<(&[i64], &[f32])> {
        match self {
            Self::Host { shape, data } => Some((shape, data)),
            #[cfg(feature = "cuda")]
            Self::Pinned(_) => None,
        }
    }

    /// Elements, row after row.
    pub(crate) fn elements(&mut self) -> &mut [f32] {
        match self {
            Self::Host { data, .. } => data,
            #[cfg(feature = "cuda")]
            Self::Pinned(pinned) => pinned.elements(),
        }
    }

    /// Changes the shape of the tensor; its elements are then unspecified.
    ///
    /// # Errors
    /// The device is out of memory.
    pub(crate) fn reshape(&mut self, wanted: &[usize]) -> Result<(), String> {
        let wanted: Vec<i64> = wanted.iter().map(|size| size.cast_signed() as i64).collect();
        match self {
            Self::Host { shape, data } => {
                data.resize(wanted.iter().product::<i64>().unsigned_abs() as usize, 0.0);
                *shape = wanted;
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Self::Pinned(pinned) => pinned.reshape(wanted),
        }
    }

    /// Changes the shape of the tensor, to be filled in the memory of its device; `None` where it has none.
    ///
    /// # Errors
    /// As [`Self::reshape`].
    #[cfg(feature = "cuda")]
    pub(crate) fn device_room(
        &mut self,
        wanted: &[usize],
    ) -> Result<Option<crate::gpu::DeviceRoom<'_>>, String> {
        let wanted = wanted.iter().map(|size| size.cast_signed() as i64).collect();
        match self {
            Self::Host { .. } => Ok(None),
            Self::Pinned(pinned) => pinned.device_room(wanted).map(Some),
        }
    }
}

/// Options of a session besides its device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionOptions<'a> {
    /// Threads for one layer.
    pub(crate) threads: usize,
    /// Level to which the runtime optimises the graph.
    pub(crate) optimization: Optimization,
    /// Path prefix of the profile with the times of all layers, written by [`OrtSession::end_profile`].
    pub(crate) profile: Option<&'a Path>,
    /// File for the optimised graph.
    pub(crate) optimized_path: Option<&'a Path>,
    /// On a GPU; with the defaults where there are none.
    pub(crate) gpu: Option<GpuInput<'a>>,
}

/// A model that is run on a GPU: how, and what its input is.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "cuda"),
    expect(dead_code, reason = "a build without CUDA opens none on a GPU")
)]
pub(crate) struct GpuInput<'a> {
    pub(crate) options: &'a GpuOptions,
    /// Name of its input.
    pub(crate) name: &'a str,
    /// Shape of one item.
    pub(crate) item: &'a [usize],
}

/// Level of optimisation of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Optimization {
    /// Not at all.
    No,
    /// Layers are fused, layouts stay.
    Fused,
    /// All optimisations for this machine.
    All,
}

impl Default for SessionOptions<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            optimization: Optimization::All,
            profile: None,
            optimized_path: None,
            gpu: None,
        }
    }
}

/// One session on one device, with one thread by default.
pub(crate) struct OrtSession {
    session: Session,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    #[cfg(feature = "cuda")]
    bound: Option<cuda::DeviceIo>,
    // Fields are dropped in this order: this one after the session.
    _memory: ReturnsUnusedMemory,
}

impl OrtSession {
    /// Opens the graph in `bytes` on `device`.
    ///
    /// # Errors
    /// [`OpenError`]: the problem of the library, the graph or the device.
    pub(crate) fn open(bytes: &[u8], device: DeviceKind) -> Result<Self, OpenError> {
        Self::open_with(bytes, device, &SessionOptions::default())
    }

    /// Opens the graph in `bytes` on `device` with other options than those of slots.
    ///
    /// # Errors
    /// As [`OrtSession::open`].
    pub(crate) fn open_with(
        bytes: &[u8],
        device: DeviceKind,
        options: &SessionOptions<'_>,
    ) -> Result<Self, OpenError> {
        // ONNX Runtime would take external data from the current folder, whatever lies there.
        match has_external_data(bytes) {
            Some(true) => return Err(OpenError::External),
            None if !is_ort_format(bytes) => return Err(OpenError::NotOnnx),
            _ => {}
        }
        observe::announce(SessionOperation::Open);
        let environment = library::environment()?;
        let builder = builder(&environment, options).map_err(OpenError::Refused)?;
        let builder = match device {
            DeviceKind::Cpu => builder,
            DeviceKind::Cuda(ordinal) => on_cuda(builder, ordinal, options.gpu).map_err(OpenError::Device)?,
            DeviceKind::Server(_) => {
                let reason = "a model of a file does not run on a model server";
                return Err(OpenError::Device(reason.to_owned()));
            }
        };
        let mut builder = builder;
        let session = builder
            .commit_from_memory(bytes)
            .map_err(|error| match text(error) {
                reason if reason.contains("protobuf parsing failed") => OpenError::NotOnnx,
                reason => OpenError::Refused(reason),
            })?;
        #[cfg(feature = "cuda")]
        let bound = match device {
            DeviceKind::Cpu | DeviceKind::Server(_) => None,
            DeviceKind::Cuda(ordinal) => {
                let graphs = options.gpu.is_some_and(|gpu| gpu.options.has_graphs());
                Some(cuda::DeviceIo::new(&session, ordinal, graphs).map_err(OpenError::Device)?)
            }
        };
        Ok(Self {
            inputs: session.inputs().iter().map(Port::of).collect(),
            outputs: session.outputs().iter().map(Port::of).collect(),
            session,
            #[cfg(feature = "cuda")]
            bound,
            _memory: ReturnsUnusedMemory,
        })
    }

    /// Writes the times of all layers in all runs so far and returns the file's path.
    ///
    /// # Errors
    /// The runtime's error.
    pub(crate) fn end_profile(&mut self) -> Result<PathBuf, String> {
        self.session.end_profiling().map(PathBuf::from).map_err(text)
    }

    pub(crate) fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    pub(crate) fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// An empty input tensor.
    ///
    /// # Errors
    /// The device is out of memory.
    pub(crate) fn feed(&self) -> Result<Feed, String> {
        #[cfg(feature = "cuda")]
        if let Some(bound) = &self.bound {
            return Ok(Feed::Pinned(bound.pinned(&self.session)?));
        }
        Ok(Feed::host())
    }

    /// Runs the graph on `feed` and hands its outputs to `read`.
    ///
    /// # Errors
    /// The runtime's error.
    pub(crate) fn run<R>(
        &mut self,
        feed: &Feed,
        read: impl FnOnce(&[OutputView<'_>]) -> R,
    ) -> Result<R, String> {
        #[cfg(feature = "cuda")]
        if self.bound.as_ref().is_some_and(cuda::DeviceIo::has_graphs) {
            let kept = self.run_kept(feed)?;
            let views: Vec<OutputView<'_>> = kept.views().collect();
            return Ok(read(&views));
        }
        let (outputs, ports) = self.produce(feed)?;
        let ports = ports.iter().take(outputs.len()).enumerate();
        let views: Vec<OutputView<'_>> = ports
            .map(|(index, port)| view(&port.name, &outputs[index]))
            .collect();
        Ok(read(&views))
    }

    /// Runs the graph on `feed`; its outputs are the caller's.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn run_kept(&mut self, feed: &Feed) -> Result<KeptOutputs, String> {
        #[cfg(feature = "cuda")]
        if let (Feed::Pinned(pinned), Some(bound)) = (feed, &mut self.bound)
            && bound.has_graphs()
        {
            return bound
                .replay(&mut self.session, (&self.inputs, &self.outputs), pinned)
                .map(KeptOutputs);
        }
        let (outputs, ports) = self.produce(feed)?;
        // By place: a binding has its names in another order.
        let names = ports.iter().map(|port| port.name.clone());
        let values = outputs.into_iter().map(|(_, value)| value);
        Ok(KeptOutputs(names.zip(values).collect()))
    }

    fn produce(&mut self, feed: &Feed) -> Result<(SessionOutputs<'_>, &[Port]), String> {
        let outputs = match feed {
            Feed::Host { shape, data } => {
                observe::announce(SessionOperation::Run {
                    items: shape.first().map_or(1, |rows| rows.unsigned_abs() as usize),
                    input_bytes: size_of_val(data.as_slice()),
                });
                let input = TensorRef::from_array_view((shape.clone(), data.as_slice())).map_err(text)?;
                self.session.run(ort::inputs![input]).map_err(text)?
            }
            #[cfg(feature = "cuda")]
            Feed::Pinned(pinned) => {
                let bound = self
                    .bound
                    .as_mut()
                    .ok_or("a pinned input was given to a CPU session")?;
                bound.run(&mut self.session, &self.inputs, &self.outputs, pinned)?
            }
        };
        Ok((outputs, &self.outputs))
    }
}

/// Whether the bytes are a model in ONNX Runtime's own format, a flatbuffer.
fn is_ort_format(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(b"ORTM")
}

/// Key of optimisers that a session leaves out.
const WITHOUT_OPTIMIZERS: &str = "optimization.disable_specified_optimizers";
/// The optimiser that moves a padding into the operator behind it. Up to ONNX Runtime 1.31 a padding with zeros becomes one that a maximum
/// ignores, so that YOLOv3-tiny has other boxes at the right and lower border.
const PAD_FUSION: &str = "Pad_Fusion";

/// Options of every session: a slot runs one batch at a time on one thread, so there is no work to share and nothing to
/// spin for. The memory arena stays at its default, on: detectors take the same time with and without it, and with it
/// outputs of each run need no new memory.
fn builder(environment: &Environment, options: &SessionOptions<'_>) -> Result<SessionBuilder, String> {
    let builder = Session::builder(environment).map_err(text)?;
    let level = match options.optimization {
        Optimization::No => GraphOptimizationLevel::Disable,
        Optimization::Fused => GraphOptimizationLevel::Level2,
        Optimization::All => GraphOptimizationLevel::All,
    };
    let builder = builder.with_optimization_level(level).map_err(text)?;
    let mut builder = builder
        .with_config_entry(WITHOUT_OPTIMIZERS, PAD_FUSION)
        .map_err(text)?;
    if let Some(path) = options.profile {
        builder = builder.with_profiling(path).map_err(text)?;
    }
    if let Some(path) = options.optimized_path {
        builder = builder.with_optimized_model_path(path).map_err(text)?;
    }
    let builder = builder.with_intra_threads(options.threads).map_err(text)?;
    let builder = builder.with_inter_threads(1).map_err(text)?;
    let builder = builder.with_parallel_execution(false).map_err(text)?;
    let builder = builder.with_intra_op_spinning(false).map_err(text)?;
    builder.with_inter_op_spinning(false).map_err(text)
}

#[cfg(feature = "cuda")]
fn on_cuda(
    builder: SessionBuilder,
    ordinal: u32,
    gpu: Option<GpuInput<'_>>,
) -> Result<SessionBuilder, String> {
    cuda::register(builder, ordinal, gpu)
}

#[cfg(not(feature = "cuda"))]
fn on_cuda(_: SessionBuilder, ordinal: u32, _: Option<GpuInput<'_>>) -> Result<SessionBuilder, String> {
    Err(format!(
        "device cuda:{ordinal} needs a build with the cargo feature `cuda`; this one has none"
    ))
}

/// First line of the runtime's error: the rest is its own source lines.
fn text(error: impl std::fmt::Display) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests;
