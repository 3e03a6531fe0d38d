//! Emulation of a device of another class.

use weir_types::{Profile, SleepCompensator, Span};

use super::state::WorkerState;
use crate::timeouts::duration;

/// Emulates another device. The computation is real in any case; only its duration is emulated, and the
/// worker announces this when it introduces itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Emulation {
    /// Factor by which a share stays occupied longer than the run took; 1 if the duration is real.
    pub slowdown: f64,
    /// Capacity of the emulated uplink in bits per second, over which features are sent one after the other;
    /// `None` for the real network.
    pub uplink_bps: Option<u64>,
}

impl Default for Emulation {
    fn default() -> Self {
        Self {
            slowdown: 1.0,
            uplink_bps: None,
        }
    }
}

impl Emulation {
    /// Whether anything is emulated.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.slowdown > 1.0 || self.uplink_bps.is_some()
    }

    pub(super) fn is_valid(&self) -> bool {
        (1.0..=1e3).contains(&self.slowdown) && self.uplink_bps != Some(0)
    }

    /// Time for which the share stays occupied after a batch of `items` that ran for `took`.
    pub(super) fn extra_time(&self, declared: Option<&Profile>, items: u32, took: Span) -> Span {
        let whole = declared.map_or_else(|| took.scale(self.slowdown), |profile| profile.duration(items));
        whole.saturating_sub(took)
    }

    /// Time for which the emulated uplink is occupied by this many bytes.
    pub(super) fn transfer(&self, bytes: u64) -> Span {
        self.uplink_bps.map_or(Span::ZERO, |bps| {
            Span::from_secs_f64(bytes as f64 * 8.0 / bps as f64)
        })
    }
}

/// Keeps what is emulated for `declared`, in the mean: what it was kept too long before is taken off.
pub(super) fn emulate_duration(state: &WorkerState, declared: Span, compensator: &mut SleepCompensator) {
    if declared > Span::ZERO {
        let began = state.own_now();
        std::thread::sleep(duration(compensator.sleep_duration(declared)));
        compensator.on_slept(declared, state.own_now().since(began));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_as_long_as_the_device_it_stands_for_would() {
        let ms = Span::from_millis;
        let slow = Emulation {
            slowdown: 3.0,
            uplink_bps: Some(8_000_000),
        };
        assert_eq!(slow.extra_time(None, 1, ms(10)), ms(20));
        assert_eq!(slow.transfer(1_000), ms(1));
        assert_eq!(Emulation::default().extra_time(None, 1, ms(10)), Span::ZERO);
        assert_eq!(Emulation::default().transfer(1_000), Span::ZERO);
        let declared = Profile::new(vec![(1, ms(5)), (2, ms(8))]).unwrap();
        assert_eq!(slow.extra_time(Some(&declared), 2, ms(2)), ms(6));
        assert_eq!(
            slow.extra_time(Some(&declared), 2, ms(9)),
            Span::ZERO,
            "it cannot be faster than it is"
        );
    }
}
