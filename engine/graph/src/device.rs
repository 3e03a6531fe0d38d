//! Devices of a graph: what they are, and how many slots they have.

/// The kind of a device.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceClass {
    /// The CPU of this machine, by default with one slot per core.
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
    /// Class of the device, which decides where its models run.
    pub class: DeviceClass,
    /// Slots on the device; `None`: one slot per core for a CPU, one slot for other devices.
    pub slots: Option<u32>,
    /// Time at which the inputs of a batch are prepared: right before it runs, or while the batch before it
    /// runs.
    pub prepare: PrepareMode,
    /// Threads that prepare the inputs of a batch for one slot of a GPU; `None`: half of the machine's cores,
    /// at most 8.
    pub prepare_threads: Option<u32>,
    /// Memory for its models, if it cannot hold all of them at once; `None`: all models are loaded.
    pub memory: Option<MemoryLimit>,
    /// Factor by which the device is slowed down to emulate a slower device; at least 1.
    pub slowdown: f64,
}

/// Memory for the models of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes that sessions on all its slots may take together.
    pub bytes: u64,
    /// Bytes of host memory that caches models, so that they load faster than from their files.
    pub host_bytes: u64,
}

impl MemoryLimit {
    /// Host memory limit of a device whose graph sets none: 512 MiB.
    pub const HOST_BYTES: u64 = 512 << 20;
}

/// Time at which the inputs of a batch are prepared on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareMode {
    /// Inputs are prepared right before their batch runs, by the thread that runs it. This suits devices on
    /// which that thread computes.
    Inline,
    /// Inputs are prepared by another thread while the batch before runs. This suits devices that compute on
    /// their own, such as GPUs.
    Overlap,
}

impl PrepareMode {
    /// Returns the mode of a device whose graph sets none: `Overlap` for GPUs, else `Inline`.
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
