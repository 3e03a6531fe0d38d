//! A device against the CPU: the same noise through the same graphs, output by output.

use weir_flow::{DeviceKind, SessionError};

use super::OnnxModel;
use super::error::session_error;
use super::noise::noise;
use super::runtime::{KeptOutputs, OpenError};
use super::session::OnnxSession;

/// Differences between the outputs of two devices for the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct OutputDifference {
    /// The largest difference of any element.
    pub largest: f32,
    /// The same, over the largest magnitude of the element's output.
    pub relative: f32,
    /// Elements that one device has as a number and the other not, or outputs of different sizes.
    pub unlike: usize,
}

impl OnnxModel {
    /// Runs a batch of `rows` items of noise on the CPU and on `device`, and compares all outputs.
    ///
    /// # Errors
    /// The model cannot be opened or run on one of them.
    pub fn compare_outputs(&self, device: DeviceKind, rows: usize) -> Result<OutputDifference, SessionError> {
        let expected = self.outputs_of_noise(DeviceKind::Cpu, rows)?;
        let found = self.outputs_of_noise(device, rows)?;
        let mut difference = OutputDifference::default();
        let expected = expected.iter().flat_map(KeptOutputs::views);
        for (expected, found) in expected.zip(found.iter().flat_map(KeptOutputs::views)) {
            difference.add(expected.data, found.data);
        }
        Ok(difference)
    }

    fn outputs_of_noise(&self, device: DeviceKind, rows: usize) -> Result<Vec<KeptOutputs>, SessionError> {
        let loaded = &self.loaded;
        let open = |error: &OpenError| session_error(&loaded.name, error);
        let mut session =
            OnnxSession::open(std::sync::Arc::clone(loaded), device).map_err(|error| open(&error))?;
        let mut feed = session.another_feed().map_err(|error| open(&error))?;
        let rows = loaded.rows.of(rows);
        let item = loaded.input.item_shape();
        let mut run = || {
            let mut shape = vec![rows];
            shape.extend(&item);
            feed.reshape(&shape)?;
            let each = item.iter().product::<usize>().max(1);
            for (row, elements) in (0..).zip(feed.elements().chunks_exact_mut(each)) {
                noise(row, loaded.input.range(), elements);
            }
            session.run_kept(&feed, rows)
        };
        run().map_err(|reason| SessionError::Run {
            model: loaded.name.clone(),
            batch: rows,
            reason,
        })
    }
}

impl OutputDifference {
    fn add(&mut self, expected: &[f32], found: &[f32]) {
        if expected.len() != found.len() {
            self.unlike += expected.len().max(found.len());
            return;
        }
        let scale = expected.iter().filter(|value| value.is_finite());
        let scale = scale.fold(0.0_f32, |most, value| most.max(value.abs()));
        for (expected, found) in expected.iter().zip(found) {
            let apart = (expected - found).abs();
            if apart.is_finite() {
                self.largest = self.largest.max(apart);
                self.relative = self.relative.max(apart / scale.max(f32::MIN_POSITIVE));
            } else if expected.to_bits() != found.to_bits() && !(expected.is_nan() && found.is_nan()) {
                self.unlike += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_to_their_output_and_numbers_are_not_compared_with_what_is_none() {
        let mut difference = OutputDifference::default();
        difference.add(
            &[1.0, -4.0, f32::NAN, f32::INFINITY],
            &[1.0, -3.0, f32::NAN, f32::INFINITY],
        );
        assert_eq!(
            (difference.largest, difference.relative, difference.unlike),
            (1.0, 0.25, 0)
        );
        difference.add(&[f32::NAN], &[0.0]);
        difference.add(&[1.0, 2.0], &[1.0]);
        assert_eq!(difference.unlike, 3);
        let mut same = OutputDifference::default();
        same.add(&[0.0, 0.0], &[0.0, 0.0]);
        assert_eq!(same, OutputDifference::default());
    }
}
