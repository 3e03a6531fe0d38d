//! Resources of this process, and the return of unused memory to the system.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Cores that this process may use; at least one.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Resources that the process uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessUse {
    pub(crate) resident_bytes: u64,
    pub(crate) threads: u64,
    pub(crate) open_files: u64,
    /// Processor time of all of its threads.
    pub(crate) processor_s: f64,
}

/// The resources in use now; `None` if the system does not report them.
pub(crate) fn process_use() -> Option<ProcessUse> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Some(ProcessUse {
        resident_bytes: field(&status, "VmRSS:")? << 10,
        threads: field(&status, "Threads:")?,
        open_files: std::fs::read_dir("/proc/self/fd").ok()?.count() as u64,
        processor_s: used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9,
    })
}

/// Memory of this process; `None` where the system does not say.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(field(&status, "VmRSS:")? << 10)
}

/// The number of a line of `/proc/self/status`, in kibibytes where it has a unit.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Memory may grow by this much, or by an eighth, before what is unused is returned.
const GROWTH_BYTES: u64 = 16 << 20;

const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Decides when unused memory is returned to the system: after the process has grown. Decoders and sessions
/// that come and go leave memory with the C library, which returns little by itself.
#[derive(Debug, Default)]
struct MemoryUpkeep {
    /// The least since memory was returned last; none before the first look.
    least: Option<u64>,
}

impl MemoryUpkeep {
    /// True if a return is due, with `resident` bytes in use now.
    fn is_due(&mut self, resident: u64) -> bool {
        let least = self.least.map_or(resident, |least| least.min(resident));
        self.least = Some(least);
        resident - least > GROWTH_BYTES.max(least / 8)
    }

    /// It was returned; so much is held since, and needed.
    const fn returned(&mut self, resident: u64) {
        self.least = Some(resident);
    }
}

/// Returns memory that nothing uses whenever the process has grown; does not end.
pub(crate) fn keep_memory_low() {
    let mut upkeep = MemoryUpkeep::default();
    while let Some(resident) = resident_bytes() {
        if upkeep.is_due(resident) {
            weir_operators::return_unused_memory();
            upkeep.returned(resident_bytes().unwrap_or(resident));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_when_it_has_grown_and_not_again_for_what_is_needed() {
        let mib = |count: u64| count << 20;
        let mut upkeep = MemoryUpkeep::default();
        assert!(!upkeep.is_due(mib(400)));
        assert!(!upkeep.is_due(mib(450)), "by an eighth");
        assert!(upkeep.is_due(mib(451)));
        upkeep.returned(mib(440));
        assert!(!upkeep.is_due(mib(480)), "it is needed");
        assert!(!upkeep.is_due(mib(100)));
        assert!(upkeep.is_due(mib(117)), "it had become less");
    }

    #[test]
    fn the_system_says_what_is_held() {
        let used = process_use().unwrap();
        assert!(used.resident_bytes > 1 << 20 && used.threads >= 1 && used.open_files >= 3);
        assert_eq!(field("VmRSS:\t    1234 kB\nThreads:\t7\n", "VmRSS:"), Some(1234));
    }
}
