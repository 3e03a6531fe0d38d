//! Deterministic noise to probe models with.

use half::f16;
use weir_flow::{Element, Tensor};

/// Side of the squares of smooth noise, in elements: pictures are smoother than white noise.
const SQUARE: usize = 8;

/// Deterministic noise (splitmix64), so that a model is judged alike on every load.
pub(super) fn noise(seed: u64, (low, high): (f32, f32), elements: &mut [f32]) {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for element in elements {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1_u64 << 24) as f32;
        *element = low + (high - low) * unit;
    }
}

/// An item of noise that is unlike those of other seeds: some are dark, some bright, some of little contrast, and some plain in
/// parts, so that a model answers each differently.
pub(super) fn unlike_item(seed: u64, (low, high): (f32, f32), elements: &mut [f32]) {
    // Of the range, the part that the noise lies in.
    const PARTS: [(f32, f32); 5] = [(0.0, 1.0), (0.0, 0.2), (0.7, 1.0), (0.4, 0.6), (0.0, 0.8)];
    let (from, to) = PARTS[seed as usize % PARTS.len()];
    let range = high - low;
    noise(seed, (low + range * from, low + range * to), elements);
    if seed % 2 == 1 {
        let half = elements.len() / 2;
        elements[..half].fill(low + range * from);
    }
}

/// Fills a tensor with noise: floats of `range`, bytes of all values, other integers of 0 and 1, which are valid as
/// masks and token ids.
pub(super) fn fill(tensor: &mut Tensor, seed: u64, range: (f32, f32), smooth: bool) {
    let range = match tensor.element {
        Element::F32 | Element::F16 | Element::F64 => range,
        Element::U8 => (0.0, 255.9),
        Element::I8 => (-128.0, 127.9),
        _ => (0.0, 1.9),
    };
    let mut values = vec![0.0; tensor.shape.iter().product()];
    noise(seed, range, &mut values);
    if smooth {
        squares(&tensor.shape, &mut values);
    }
    let values = values.into_iter();
    tensor.data = match tensor.element {
        Element::F32 => values.flat_map(f32::to_le_bytes).collect(),
        Element::F16 => values
            .flat_map(|value| f16::from_f32(value).to_le_bytes())
            .collect(),
        Element::F64 => values.flat_map(|value| f64::from(value).to_le_bytes()).collect(),
        Element::I32 => values.flat_map(|value| (value as i32).to_le_bytes()).collect(),
        Element::I64 => values.flat_map(|value| (value as i64).to_le_bytes()).collect(),
        Element::I8 => values.map(|value| (value as i8).cast_unsigned()).collect(),
        _ => values.map(|value| value as u8).collect(),
    };
}

/// Sets all values of a square to its first. Dimensions of fewer than three squares (channels, the batch) are
/// unchanged, wherever they are in the shape.
fn squares(shape: &[usize], values: &mut [f32]) {
    for at in 0..values.len() {
        let (mut rest, mut stride, mut first) = (at, 1, 0);
        for size in shape.iter().rev() {
            let place = rest % size;
            let step = if *size >= 3 * SQUARE { SQUARE } else { 1 };
            first += (place - place % step) * stride;
            rest /= size;
            stride *= size;
        }
        // The first value of a square precedes all others of it and maps to itself.
        values[at] = values[first];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smooth_noise_has_squares_in_either_layout() {
        for shape in [[1, 3, 32, 40], [1, 32, 40, 3]] {
            let mut values = vec![0.0; shape.iter().product()];
            noise(7, (-1.0, 1.0), &mut values);
            squares(&shape, &mut values);
            let different: std::collections::BTreeSet<u32> =
                values.iter().map(|value| value.to_bits()).collect();
            assert_eq!(different.len(), 3 * 4 * 5);
        }
    }
}
