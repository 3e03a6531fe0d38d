//! Interlaced pictures: their lines are of two moments, every other one of each. Samples of the second moment are kept where they
//! fit between their neighbours of the first, which is where nothing moves, and are replaced elsewhere.

use std::sync::Arc;

use weir_flow::{Image, OwnedPlanes};

use super::orientation::shapes;

/// The picture of its first moment: the lines 0, 2, 4... if `top_first`, else the lines 1, 3, 5...
pub(super) fn first_moment(image: &Image, top_first: bool) -> Image {
    let planes = shapes(image)
        .into_iter()
        .enumerate()
        .map(|(index, (columns, rows, bytes))| {
            let (samples, stride) = image.planes.plane(index);
            let line = columns * bytes;
            (of_plane(samples, stride, line, rows, top_first), line)
        });
    Image {
        planes: Arc::new(OwnedPlanes {
            planes: planes.collect(),
        }),
        ..image.clone()
    }
}

/// The samples of a plane in packed lines.
fn of_plane(samples: &[u8], stride: usize, line: usize, rows: usize, top_first: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(line * rows);
    let row = |row: usize| &samples[row * stride..][..line];
    for at in 0..rows {
        let is_first = at.is_multiple_of(2) == top_first;
        if is_first || rows == 1 {
            out.extend_from_slice(row(at));
            continue;
        }
        let below = row(if at + 1 < rows { at + 1 } else { at - 1 });
        let above = if at > 0 { row(at - 1) } else { below };
        let around = above.iter().zip(below);
        out.extend(row(at).iter().zip(around).map(|(own, (above, below))| {
            // The median of the three.
            (*own).clamp(*above.min(below), *above.max(below))
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wall with a soft slope from top to bottom, and a bar from `left` on.
    fn scene(left: u32) -> Vec<u8> {
        let sample = |y: u32, x: u32| {
            if (left..left + 10).contains(&x) {
                220
            } else {
                (20 + y) as u8
            }
        };
        (0..41)
            .flat_map(|y| (0..60).flat_map(move |x| [sample(y, x); 3]))
            .collect()
    }

    #[test]
    fn what_moves_is_shown_at_its_first_moment_and_what_rests_is_kept() {
        for (top_first, first, second) in [(true, 5, 30), (false, 30, 5)] {
            let (even, odd) = (scene(5), scene(30));
            let lines = even.chunks(180).zip(odd.chunks(180)).enumerate();
            let woven: Vec<u8> = lines
                .flat_map(|(y, (even, odd))| if y % 2 == 0 { even } else { odd })
                .copied()
                .collect();
            let shown = first_moment(&Image::from_rgb(60, 41, woven), top_first);
            let (samples, stride) = shown.planes.plane(0);
            let at = |x: usize, y: usize| i32::from(samples[y * stride + x * 3]);
            for y in 0..41 {
                assert_eq!(at(first + 3, y), 220, "{top_first} {y}");
                assert!((at(second + 3, y) - 20 - y as i32).abs() <= 1, "{top_first} {y}");
                assert!((at(50, y) - 20 - y as i32).abs() <= 1, "{top_first} {y}");
            }
        }
    }

    #[test]
    fn pictures_of_a_line_or_two_are_no_trouble() {
        for rows in 1..4 {
            for top_first in [true, false] {
                let image = Image::from_rgb(2, rows, vec![9; 6 * rows as usize]);
                assert_eq!(first_moment(&image, top_first).height, rows);
            }
        }
    }
}
