//! Devices of a graph: what they are, and how many slots they have.

/// The kind of a device.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceClass {
    /// CPU cores.
    Cpu,
    /// A CUDA GPU, by its ordinal.
    Cuda(u32),
    /// A device that exists as a profile only, by its class.
    Emulated(String),
    /// Partition workers: a plan assigns the partitions of a model to them.
    Workers,
    /// The model servers of one model; this many.
    Servers(u32),
    /// One worker in another process, by its name: it runs an instance of a model that generates.
    Worker(String),
}

/// A device with its slots.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceNode {
    /// Its name: `cpu`, `cuda:0`, `emulated:t4`.
    pub name: String,
    /// Its kind.
    pub class: DeviceClass,
    /// Slots on it; `None` means one a core for a CPU, one for others.
    pub slots: Option<u32>,
    /// When inputs of batches are prepared.
    pub prepare: PrepareMode,
    /// How many threads of a GPU's slot share the inputs of a batch; `None`: as the machine has cores.
    pub prepare_threads: Option<u32>,
    /// What its models may take together, where they cannot all be open; `None`: all are.
    pub memory: Option<MemoryLimit>,
    /// Factor by which what runs on it is slowed down, to stand for a slower device; at least 1.
    pub slowdown: f64,
}

/// Memory for the models of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes that sessions on all its slots may take together.
    pub bytes: u64,
    /// Bytes of host memory for what models are opened from faster than from their files.
    pub host_bytes: u64,
}

impl MemoryLimit {
    /// Host memory where the graph does not say.
    pub const HOST_BYTES: u64 = 512 << 20;
}

/// When the inputs of a batch are prepared on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareMode {
    /// Right before it runs, by the thread that runs it: right where that thread is what computes.
    Inline,
    /// While the batch before it runs, by a thread of its own: right where a device computes meanwhile.
    Overlap,
}

impl PrepareMode {
    /// Of a device for which nothing is said.
    #[must_use]
    pub fn default_for(class: &DeviceClass) -> Self {
        match class {
            DeviceClass::Cuda(_) => Self::Overlap,
            DeviceClass::Cpu
            | DeviceClass::Emulated(_)
            | DeviceClass::Workers
            | DeviceClass::Worker(_)
            | DeviceClass::Servers(_) => Self::Inline,
        }
    }
}

impl DeviceNode {
    /// Slots of this process on it, on a machine of `cores` cores: at least one, but none for partition workers.
    #[must_use]
    pub fn slot_count(&self, cores: u32) -> u32 {
        match self.class {
            DeviceClass::Workers | DeviceClass::Worker(_) => 0,
            DeviceClass::Cpu => self.slots.unwrap_or(cores).max(1),
            DeviceClass::Cuda(_) | DeviceClass::Emulated(_) => self.slots.unwrap_or(1).max(1),
            DeviceClass::Servers(servers) => self.slots.unwrap_or(servers).max(servers),
        }
    }
}
