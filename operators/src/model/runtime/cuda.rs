//! Sessions on a CUDA device.
//!
//! The input is written into pinned host memory and bound, which copies it to device memory on the session's own
//! stream; outputs are bound to pinned host memory, so the same stream copies them back and heads read them in place. A
//! provider that does not register is an error, without a fallback to the CPU.

use ort::ep;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::SessionBuilder;
use ort::session::{IoBinding, Session, SessionOutputs};
use ort::value::Tensor;

use super::{Port, text};

pub(super) fn register(builder: SessionBuilder, ordinal: u32) -> Result<SessionBuilder, String> {
    let provider = ep::CUDA::default()
        .with_device_id(device_id(ordinal)?)
        .with_arena_extend_strategy(ep::ArenaExtendStrategy::SameAsRequested)
        .build()
        .error_on_failure();
    builder.with_execution_providers([provider]).map_err(|error| {
        format!(
            "device cuda:{ordinal} cannot be used: {}; it needs the GPU build of ONNX Runtime",
            text(error)
        )
    })
}

/// Bindings of one session.
pub(super) struct DeviceIo {
    device: i32,
    binding: IoBinding,
}

impl DeviceIo {
    pub(super) fn new(session: &Session, ordinal: u32) -> Result<Self, String> {
        Ok(Self {
            device: device_id(ordinal)?,
            binding: session.create_binding().map_err(text)?,
        })
    }

    pub(super) fn pinned(&self, session: &Session) -> Result<Pinned, String> {
        let allocator = Allocator::new(session, memory(self.device, MemoryType::CPUInput)?).map_err(text)?;
        let tensor = Tensor::<f32>::new(&allocator, vec![0_i64]).map_err(text)?;
        Ok(Pinned { allocator, tensor })
    }

    pub(super) fn run<'a>(
        &'a mut self,
        session: &'a mut Session,
        inputs: &[Port],
        outputs: &[Port],
        pinned: &Pinned,
    ) -> Result<SessionOutputs<'a>, String> {
        let input = inputs.first().ok_or("the graph has no input")?;
        // Binding copies, so it is repeated for each batch. Outputs are bound again too, since their sizes follow the
        // batch.
        self.binding
            .bind_input(input.name.as_str(), &pinned.tensor)
            .map_err(text)?;
        let host = memory(self.device, MemoryType::CPUOutput)?;
        for output in outputs {
            self.binding
                .bind_output_to_device(output.name.as_str(), &host)
                .map_err(text)?;
        }
        self.binding.synchronize_inputs().map_err(text)?;
        let produced = session.run_binding(&self.binding).map_err(text)?;
        self.binding.synchronize_outputs().map_err(text)?;
        Ok(produced)
    }
}

/// An input tensor in pinned host memory.
pub(crate) struct Pinned {
    allocator: Allocator,
    tensor: Tensor<f32>,
}

impl Pinned {
    pub(super) fn elements(&mut self) -> &mut [f32] {
        self.tensor.extract_tensor_mut().1
    }

    pub(super) fn reshape(&mut self, wanted: Vec<i64>) -> Result<(), String> {
        if **self.tensor.shape() != *wanted {
            self.tensor = Tensor::<f32>::new(&self.allocator, wanted).map_err(text)?;
        }
        Ok(())
    }
}

fn memory(device: i32, kind: MemoryType) -> Result<MemoryInfo<'static>, String> {
    MemoryInfo::new(AllocationDevice::CUDA_PINNED, device, AllocatorType::Device, kind).map_err(text)
}

fn device_id(ordinal: u32) -> Result<i32, String> {
    i32::try_from(ordinal).map_err(|_| format!("there is no device cuda:{ordinal}"))
}
