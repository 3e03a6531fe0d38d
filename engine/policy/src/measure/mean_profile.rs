//! What slots of unequal speed come to together.

use weir_types::{Profile, Span};

/// Durations by batch size of so many alike slots that get as much done as these together; `None` without any.
#[must_use]
pub fn mean_profile(ends: &[Profile], sizes: &[u32]) -> Option<Profile> {
    if ends.is_empty() {
        return None;
    }
    let mean = |size: u32| {
        let rates = ends
            .iter()
            .map(|end| 1.0 / end.duration(size).as_secs_f64().max(1e-9));
        Span::from_secs_f64(ends.len() as f64 / rates.sum::<f64>())
    };
    Profile::new(sizes.iter().map(|size| (*size, mean(*size))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_get_as_much_done_together_as_so_many_of_the_mean() {
        let end = |ms: u64| Profile::new(vec![(1, Span::from_millis(ms)), (4, Span::from_millis(2 * ms))]);
        let ends: Vec<Profile> = [10, 20, 40].into_iter().filter_map(end).collect();
        let mean = mean_profile(&ends, &[1, 4]).unwrap();
        for size in [1, 4] {
            let alone: f64 = ends.iter().map(|end| end.throughput(size)).sum();
            let together = 3.0 * mean.throughput(size);
            assert!((alone / together - 1.0).abs() < 1e-3, "{alone} {together}");
        }
        assert_eq!(mean_profile(&[], &[1]), None);
    }
}
