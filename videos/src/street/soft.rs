//! A slight softness of the lens, less than a pixel wide.

use crate::canvas::Picture;

/// The picture with `part` (0 to 1/3) of each pixel's light spread to either neighbour, along rows and then columns.
pub(super) fn softened(picture: &Picture, part: f32) -> Picture {
    let side = (part.clamp(0.0, 1.0 / 3.0) * 256.0) as u32;
    if side == 0 {
        return picture.clone();
    }
    let row = picture.width as usize * 3;
    let mut rows = Vec::with_capacity(picture.rgb.len());
    for line in picture.rgb.chunks_exact(row.max(3)) {
        rows.extend_from_slice(&spread(line, 3, side));
    }
    Picture {
        rgb: spread(&rows, row, side),
        ..*picture
    }
}

/// Mixes each value with its neighbours at a distance of `step`; there is nothing beyond the ends.
fn spread(values: &[u8], step: usize, side: u32) -> Vec<u8> {
    let count = values.len();
    let mix = |before: u8, value: u8, after: u8| {
        let sum = (u32::from(before) + u32::from(after)) * side + u32::from(value) * (256 - 2 * side);
        ((sum + 128) >> 8) as u8
    };
    if count < 2 * step {
        return values.to_vec();
    }
    let mut spread = Vec::with_capacity(count);
    spread.extend((0..step).map(|index| mix(values[index], values[index], values[index + step])));
    let inner = values.iter().zip(&values[step..]).zip(&values[2 * step..]);
    spread.extend(inner.map(|((before, value), after)| mix(*before, *value, *after)));
    spread.extend((count - step..count).map(|index| mix(values[index - step], values[index], values[index])));
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_is_spread_and_none_is_lost() {
        let mut rgb = vec![0; 5 * 5 * 3];
        rgb[(2 * 5 + 2) * 3] = 240;
        let picture = Picture {
            width: 5,
            height: 5,
            rgb,
        };
        let soft = softened(&picture, 0.25);
        let red: u32 = soft.rgb.iter().step_by(3).map(|value| u32::from(*value)).sum();
        assert_eq!(
            (red, soft.rgb[(2 * 5 + 2) * 3], soft.rgb[(2 * 5 + 3) * 3]),
            (240, 60, 30)
        );
        assert_eq!(softened(&picture, 0.0), picture);
    }
}
