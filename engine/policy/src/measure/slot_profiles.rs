//! Durations of a model on slots that may differ in speed.

use weir_types::{Profile, Span};

/// Relative difference of durations up to which slots count as equal; smaller differences are measured at run
/// time.
const ALIKE: f64 = 0.1;

/// Durations of one model on its slots.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotProfiles {
    /// Durations by batch size of equal slots that together have the same throughput as these.
    pub profile: Profile,
    /// Durations for each slot if slots differ, else empty.
    pub ends: Vec<Profile>,
}

impl SlotProfiles {
    /// Combines the durations on each slot, for a model that runs these batch sizes; `None` without slots.
    #[must_use]
    pub fn new(slots: Vec<Profile>, sizes: &[u32]) -> Option<Self> {
        let first = slots.first()?;
        if slots.iter().all(|slot| slot == first) {
            return Some(Self {
                profile: first.clone(),
                ends: Vec::new(),
            });
        }
        let mean = |size: u32| {
            let rates = slots
                .iter()
                .map(|slot| 1.0 / slot.duration(size).as_secs_f64().max(1e-9));
            Span::from_secs_f64(slots.len() as f64 / rates.sum::<f64>())
        };
        let profile = Profile::new(sizes.iter().map(|size| (*size, mean(*size))).collect())?;
        let are_alike = sizes.iter().all(|size| {
            let durations = || slots.iter().map(|slot| slot.duration(*size));
            let (least, most) = (durations().min(), durations().max());
            most.unwrap_or_default() <= least.unwrap_or_default().scale(1.0 + ALIKE)
        });
        Some(Self {
            profile,
            ends: if are_alike { Vec::new() } else { slots },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(ms: u64) -> Profile {
        Profile::new(vec![(1, Span::from_millis(ms)), (4, Span::from_millis(2 * ms))]).unwrap()
    }

    #[test]
    fn slots_get_as_much_done_together_as_so_many_of_the_mean() {
        let slots: Vec<Profile> = [10, 20, 40].map(slot).into();
        let together = SlotProfiles::new(slots.clone(), &[1, 4]).unwrap();
        for size in [1, 4] {
            let alone: f64 = slots.iter().map(|slot| slot.throughput(size)).sum();
            let mean = 3.0 * together.profile.throughput(size);
            assert!((alone / mean - 1.0).abs() < 1e-3, "{alone} {mean}");
        }
        assert_eq!(together.ends, slots);
        assert_eq!(SlotProfiles::new(Vec::new(), &[1]), None);
    }

    #[test]
    fn slots_that_hardly_differ_are_alike() {
        let ends = |ms: [u64; 2]| SlotProfiles::new(ms.map(slot).into(), &[1, 4]).unwrap().ends;
        assert_eq!(ends([100, 100]), []);
        assert_eq!(ends([100, 109]), []);
        assert_eq!(ends([100, 111]), [100, 111].map(slot));
        let same = SlotProfiles::new(vec![slot(7); 3], &[1, 4]).unwrap();
        assert_eq!(same.profile, slot(7));
    }
}
