//! Sessions on a CUDA device.
//!
//! The input is prepared in device memory where its pictures are there; otherwise it is written into pinned host memory and bound, which copies it to device memory on the session's own
//! stream; outputs are bound to pinned host memory, so the same stream copies them back and heads read them in place. A
//! provider that does not register is an error, without a fallback to the CPU. Where batches are recorded as CUDA graphs, each
//! size has an input and outputs of its own in device memory, whose addresses the graph holds.

use std::collections::BTreeMap;

use ort::ep::{self, ArbitrarilyConfigurableExecutionProvider};
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::SessionBuilder;
use ort::session::{IoBinding, RunOptions, Session, SessionOutputs};
use ort::value::{DynValue, Tensor};

use super::provider::{GpuOptions, Provider, ProviderOptions};
use super::{GpuInput, Port, text};
use crate::gpu::{DeviceRoom, sleep_while_waiting};

pub(super) fn register(
    builder: SessionBuilder,
    ordinal: u32,
    gpu: Option<GpuInput<'_>>,
) -> Result<SessionBuilder, String> {
    device_id(ordinal)?;
    sleep_while_waiting(ordinal);
    let plain = GpuOptions::default();
    let (options, name, item) = gpu.map_or((&plain, "", &[][..]), |gpu| (gpu.options, gpu.name, gpu.item));
    let providers = options.providers(ordinal, name, item);
    let providers: Vec<ep::ExecutionProviderDispatch> = providers.iter().map(dispatch).collect();
    builder.with_execution_providers(providers).map_err(|error| {
        format!(
            "device cuda:{ordinal} cannot be used: {}; it needs the GPU build of ONNX Runtime",
            text(error)
        )
    })
}

fn dispatch(provider: &ProviderOptions) -> ep::ExecutionProviderDispatch {
    match provider.provider {
        Provider::Cuda => configured(ep::CUDA::default(), provider).build(),
        Provider::TensorRt => configured(ep::TensorRT::default(), provider).build(),
    }
    .error_on_failure()
}

fn configured<P: ArbitrarilyConfigurableExecutionProvider>(provider: P, options: &ProviderOptions) -> P {
    let set = |provider: P, (key, value): &(&str, String)| provider.with_arbitrary_config(key, value);
    options.options.iter().fold(provider, set)
}

/// Bindings of one session.
pub(super) struct DeviceIo {
    device: i32,
    binding: IoBinding,
    /// By rows of the input, where batches are recorded.
    graphs: Option<BTreeMap<i64, RecordedBatch>>,
}

/// A batch size whose launches are recorded: its input and outputs stay where they are in device memory.
struct RecordedBatch {
    binding: IoBinding,
    input: Tensor<f32>,
    outputs: Vec<(String, Tensor<f32>)>,
    options: RunOptions,
}

/// Key of run options with the number of the graph that is recorded or replayed; -1 for a run that is neither.
const GRAPH: &str = "gpu_graph_id";

impl DeviceIo {
    /// With `graphs`, batches are recorded once by size and then replayed.
    pub(super) fn new(session: &Session, ordinal: u32, graphs: bool) -> Result<Self, String> {
        Ok(Self {
            device: device_id(ordinal)?,
            binding: session.create_binding().map_err(text)?,
            graphs: graphs.then(BTreeMap::new),
        })
    }

    pub(super) fn has_graphs(&self) -> bool {
        self.graphs.is_some()
    }

    /// Runs a batch by the graph of its size, which is recorded where there is none yet; gives its outputs in host memory.
    pub(super) fn replay(
        &mut self,
        session: &mut Session,
        (inputs, outputs): (&[Port], &[Port]),
        pinned: &Pinned,
    ) -> Result<Vec<(String, DynValue)>, String> {
        let rows = pinned.filled().shape().first().copied().unwrap_or(0);
        let mut graphs = self.graphs.take().unwrap_or_default();
        let ran = match graphs.get_mut(&rows) {
            Some(recorded) => recorded.run(session, pinned),
            None => self
                .record(session, (inputs, outputs), pinned, rows)
                .and_then(|mut recorded| {
                    let ran = recorded.run(session, pinned)?;
                    graphs.insert(rows, recorded);
                    Ok(ran)
                }),
        };
        self.graphs = Some(graphs);
        ran
    }

    /// Makes what a batch of `rows` is recorded on: a run without a graph says how large its outputs are.
    fn record(
        &mut self,
        session: &mut Session,
        (inputs, outputs): (&[Port], &[Port]),
        pinned: &Pinned,
        rows: i64,
    ) -> Result<RecordedBatch, String> {
        let mut plain = RunOptions::new().map_err(text)?;
        plain.set(GRAPH, "-1").map_err(text)?;
        let produced = self.run_with(session, inputs, outputs, pinned, &plain)?;
        let mut shapes: Vec<Vec<i64>> = Vec::new();
        for (index, port) in outputs.iter().enumerate() {
            let (shape, _) = produced[index].try_extract_tensor::<f32>().map_err(|_| {
                format!(
                    "output {} holds {}: it cannot be run with cuda_graphs",
                    port.name, port.element
                )
            })?;
            shapes.push(shape.to_vec());
        }
        drop(produced);
        let allocator = Allocator::new(session, device_memory(self.device)?).map_err(text)?;
        let tensor = |shape: Vec<i64>| Tensor::<f32>::new(&allocator, shape).map_err(text);
        let input = tensor(pinned.filled().shape().to_vec())?;
        let mut binding = session.create_binding().map_err(text)?;
        let name = inputs.first().ok_or("the graph has no input")?.name.as_str();
        binding.bind_input(name, &input).map_err(text)?;
        let mut bound = Vec::new();
        for (port, shape) in outputs.iter().zip(shapes) {
            let mut output = tensor(shape)?;
            binding
                .bind_output(port.name.as_str(), &mut output)
                .map_err(text)?;
            bound.push((port.name.clone(), output));
        }
        let mut options = RunOptions::new().map_err(text)?;
        options.set(GRAPH, rows.to_string()).map_err(text)?;
        Ok(RecordedBatch {
            binding,
            input,
            outputs: bound,
            options,
        })
    }

    pub(super) fn pinned(&self, session: &Session) -> Result<Pinned, String> {
        let allocator = Allocator::new(session, memory(self.device, MemoryType::CPUInput)?).map_err(text)?;
        let tensor = Tensor::<f32>::new(&allocator, vec![0_i64]).map_err(text)?;
        let on_device = DeviceInput {
            ordinal: self.device.unsigned_abs(),
            allocator: Allocator::new(session, device_memory(self.device)?).map_err(text)?,
            tensor: None,
            is_filled: false,
        };
        Ok(Pinned {
            allocator,
            tensor,
            on_device,
        })
    }

    pub(super) fn run<'a>(
        &'a mut self,
        session: &'a mut Session,
        inputs: &[Port],
        outputs: &[Port],
        pinned: &Pinned,
    ) -> Result<SessionOutputs<'a>, String> {
        self.run_with(
            session,
            inputs,
            outputs,
            pinned,
            &RunOptions::new().map_err(text)?,
        )
    }

    fn run_with<'a>(
        &'a mut self,
        session: &'a mut Session,
        inputs: &[Port],
        outputs: &[Port],
        pinned: &Pinned,
        options: &RunOptions,
    ) -> Result<SessionOutputs<'a>, String> {
        let input = inputs.first().ok_or("the graph has no input")?;
        // Binding copies, so it is repeated for each batch. Outputs are bound again too, since their sizes follow the
        // batch.
        self.binding
            .bind_input(input.name.as_str(), pinned.filled())
            .map_err(text)?;
        let host = memory(self.device, MemoryType::CPUOutput)?;
        for output in outputs {
            self.binding
                .bind_output_to_device(output.name.as_str(), &host)
                .map_err(text)?;
        }
        self.binding.synchronize_inputs().map_err(text)?;
        let produced = session
            .run_binding_with_options(&self.binding, options)
            .map_err(text)?;
        self.binding.synchronize_outputs().map_err(text)?;
        Ok(produced)
    }
}

impl RecordedBatch {
    fn run(&mut self, session: &mut Session, pinned: &Pinned) -> Result<Vec<(String, DynValue)>, String> {
        pinned.filled().copy_into(&mut self.input).map_err(text)?;
        session
            .run_binding_with_options(&self.binding, &self.options)
            .map_err(text)?;
        self.binding.synchronize_outputs().map_err(text)?;
        let host = |(name, output): &(String, Tensor<f32>)| {
            let copied = output.to(AllocationDevice::CPU, 0).map_err(text)?;
            Ok((name.clone(), copied.into_dyn()))
        };
        self.outputs.iter().map(host).collect()
    }
}

/// An input tensor in pinned host memory, and one in device memory for batches that are prepared there.
pub(crate) struct Pinned {
    allocator: Allocator,
    tensor: Tensor<f32>,
    on_device: DeviceInput,
}

/// An input tensor in device memory.
struct DeviceInput {
    ordinal: u32,
    allocator: Allocator,
    tensor: Option<Tensor<f32>>,
    /// Whether it, and not the tensor on the host, has the batch.
    is_filled: bool,
}

impl Pinned {
    pub(super) fn elements(&mut self) -> &mut [f32] {
        self.tensor.extract_tensor_mut().1
    }

    /// The batch is written on the host.
    pub(super) fn reshape(&mut self, wanted: Vec<i64>) -> Result<(), String> {
        self.on_device.is_filled = false;
        if **self.tensor.shape() != *wanted {
            self.tensor = Tensor::<f32>::new(&self.allocator, wanted).map_err(text)?;
        }
        Ok(())
    }

    /// The batch is written on the device: room for it.
    pub(super) fn device_room(&mut self, wanted: Vec<i64>) -> Result<DeviceRoom<'_>, String> {
        let DeviceInput {
            ordinal,
            allocator,
            tensor,
            is_filled,
        } = &mut self.on_device;
        let fitting = tensor.take().filter(|tensor| **tensor.shape() == *wanted);
        let elements = wanted.iter().product::<i64>().unsigned_abs() as usize;
        let fitting = match fitting {
            Some(fitting) => fitting,
            None => Tensor::<f32>::new(allocator, wanted).map_err(text)?,
        };
        let address = tensor.insert(fitting).data_ptr_mut() as u64;
        *is_filled = true;
        Ok(DeviceRoom::new(*ordinal, address, elements))
    }

    /// The tensor that has the batch.
    fn filled(&self) -> &Tensor<f32> {
        let on_device = self.on_device.tensor.as_ref();
        on_device
            .filter(|_| self.on_device.is_filled)
            .unwrap_or(&self.tensor)
    }
}

fn device_memory(device: i32) -> Result<MemoryInfo<'static>, String> {
    MemoryInfo::new(
        AllocationDevice::CUDA,
        device,
        AllocatorType::Device,
        MemoryType::Default,
    )
    .map_err(text)
}

fn memory(device: i32, kind: MemoryType) -> Result<MemoryInfo<'static>, String> {
    MemoryInfo::new(AllocationDevice::CUDA_PINNED, device, AllocatorType::Device, kind).map_err(text)
}

fn device_id(ordinal: u32) -> Result<i32, String> {
    i32::try_from(ordinal).map_err(|_| format!("there is no device cuda:{ordinal}"))
}
