//! Rotation and mirroring of pictures: phones record in the orientation of the sensor, and store how they were held.

use std::sync::Arc;

use weir_flow::{Image, OwnedPlanes, PixelFormat};

/// Side in pixels of the tiles that are transposed at a time: a tile fits into the cache, whole columns would not.
const TILE: usize = 32;

/// A rotation by quarter turns, with mirroring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Orientation {
    /// Rows become columns.
    transposed: bool,
    /// Then mirrored left to right.
    mirrored: bool,
    /// Then mirrored top to bottom.
    flipped: bool,
}

impl Orientation {
    /// From a display matrix: nine native integers, which map a point to (a p + c q, b p + d q). Rotations by other
    /// angles are rounded to the nearest quarter turn.
    pub(crate) fn of_matrix(matrix: &[u8]) -> Option<Self> {
        let mut numbers = [0_i32; 9];
        if matrix.len() < 36 {
            return None;
        }
        for (number, bytes) in numbers.iter_mut().zip(matrix.chunks_exact(4)) {
            *number = i32::from_ne_bytes(bytes.try_into().ok()?);
        }
        let [a, b, _, c, d, ..] = numbers.map(i64::from);
        let transposed = b.abs() + c.abs() > a.abs() + d.abs();
        let (x, y) = if transposed { (c, b) } else { (a, d) };
        Some(Self {
            transposed,
            mirrored: x < 0,
            flipped: y < 0,
        })
    }

    /// Whether the orientation changes nothing.
    pub(crate) fn is_upright(self) -> bool {
        self == Self::default()
    }

    /// Width and height after the rotation.
    pub(crate) fn size(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.transposed {
            (height, width)
        } else {
            (width, height)
        }
    }

    /// Whether pictures of this format can be transposed. Chroma halved horizontally would have to be halved
    /// vertically.
    pub(crate) fn fits(self, format: PixelFormat) -> bool {
        !(self.transposed && format == PixelFormat::Yuv422)
    }

    /// The rotated picture; its format must fit.
    pub(crate) fn turn(self, image: &Image) -> Image {
        let (width, height) = self.size((image.width, image.height));
        let planes = shapes(image)
            .into_iter()
            .enumerate()
            .map(|(index, (columns, rows, bytes))| {
                let (samples, stride) = image.planes.plane(index);
                let turned = match bytes {
                    1 => self.plane::<1>(samples, stride, columns, rows),
                    2 => self.plane::<2>(samples, stride, columns, rows),
                    _ => self.plane::<3>(samples, stride, columns, rows),
                };
                let columns = if self.transposed { rows } else { columns };
                (turned, columns * bytes)
            });
        Image {
            width,
            height,
            planes: Arc::new(OwnedPlanes {
                planes: planes.collect(),
            }),
            ..image.clone()
        }
    }

    /// Transforms a plane of samples of `N` bytes into packed rows.
    fn plane<const N: usize>(self, samples: &[u8], stride: usize, columns: usize, rows: usize) -> Vec<u8> {
        let (width, height) = if self.transposed {
            (rows, columns)
        } else {
            (columns, rows)
        };
        let mut out = vec![0; width * height * N];
        for top in (0..rows).step_by(TILE) {
            for left in (0..columns).step_by(TILE) {
                for row in top..(top + TILE).min(rows) {
                    let line = &samples[row * stride..];
                    for column in left..(left + TILE).min(columns) {
                        let (x, y) = if self.transposed {
                            (row, column)
                        } else {
                            (column, row)
                        };
                        let x = if self.mirrored { width - 1 - x } else { x };
                        let y = if self.flipped { height - 1 - y } else { y };
                        let to = (y * width + x) * N;
                        out[to..to + N].copy_from_slice(&line[column * N..(column + 1) * N]);
                    }
                }
            }
        }
        out
    }
}

/// Columns, rows and bytes per sample of each plane.
pub(super) fn shapes(image: &Image) -> Vec<(usize, usize, usize)> {
    let (width, height) = (image.width as usize, image.height as usize);
    let half = |side: usize| side.div_ceil(2);
    match image.format {
        PixelFormat::Gray8 => vec![(width, height, 1)],
        PixelFormat::Rgb24 => vec![(width, height, 3)],
        PixelFormat::Yuv444 => vec![(width, height, 1); 3],
        PixelFormat::Yuv422 => vec![
            (width, height, 1),
            (half(width), height, 1),
            (half(width), height, 1),
        ],
        PixelFormat::Yuv420 => vec![
            (width, height, 1),
            (half(width), half(height), 1),
            (half(width), half(height), 1),
        ],
        PixelFormat::Nv12 => vec![(width, height, 1), (half(width), half(height), 2)],
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::ColorMatrix;

    use super::*;

    /// As FFmpeg writes them: 16.16, row by row.
    fn matrix(a: i32, b: i32, c: i32, d: i32) -> Vec<u8> {
        let numbers = [a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30];
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn turned(matrix: &[u8], width: u32, height: u32, samples: &[u8]) -> (u32, u32, Vec<u8>) {
        let image = Image {
            width,
            height,
            format: PixelFormat::Gray8,
            matrix: ColorMatrix::Bt601,
            full_range: true,
            planes: Arc::new(OwnedPlanes {
                planes: vec![(samples.to_vec(), width as usize)],
            }),
        };
        let image = Orientation::of_matrix(matrix).unwrap().turn(&image);
        let (samples, stride) = image.planes.plane(0);
        assert_eq!(stride, image.width as usize);
        (image.width, image.height, samples.to_vec())
    }

    #[test]
    fn display_matrices_give_quarter_turns_and_mirroring() {
        let samples = [1, 2, 3, 4, 5, 6];
        let check = |matrix: Vec<u8>, width, height, expected: [u8; 6]| {
            assert_eq!(
                turned(&matrix, 3, 2, &samples),
                (width, height, expected.to_vec())
            );
        };
        check(matrix(1, 0, 0, 1), 3, 2, [1, 2, 3, 4, 5, 6]);
        // A quarter to the right, as of a phone that was held upright.
        check(matrix(0, 1, -1, 0), 2, 3, [4, 1, 5, 2, 6, 3]);
        check(matrix(-1, 0, 0, -1), 3, 2, [6, 5, 4, 3, 2, 1]);
        check(matrix(0, -1, 1, 0), 2, 3, [3, 6, 2, 5, 1, 4]);
        check(matrix(-1, 0, 0, 1), 3, 2, [3, 2, 1, 6, 5, 4]);
        check(matrix(0, 1, 1, 0), 2, 3, [1, 4, 2, 5, 3, 6]);
    }

    #[test]
    fn invalid_matrices_rotate_nothing() {
        assert_eq!(Orientation::of_matrix(&[0; 12]), None);
        assert!(Orientation::of_matrix(&[0; 36]).unwrap().is_upright());
        assert!(Orientation::of_matrix(&[0x80; 36]).is_some());
    }

    #[test]
    fn every_plane_is_rotated() {
        for format in [
            PixelFormat::Yuv420,
            PixelFormat::Yuv444,
            PixelFormat::Nv12,
            PixelFormat::Rgb24,
            PixelFormat::Gray8,
        ] {
            let (width, height) = (67, 35);
            let mut image = Image {
                width,
                height,
                format,
                matrix: ColorMatrix::Bt709,
                full_range: false,
                planes: Arc::new(OwnedPlanes::default()),
            };
            let planes = shapes(&image).into_iter().map(|(columns, rows, bytes)| {
                // With some bytes behind each row.
                let stride = columns * bytes + 5;
                let samples = (0..stride * rows).map(|index| (index * 7 % 251) as u8).collect();
                (samples, stride)
            });
            image.planes = Arc::new(OwnedPlanes {
                planes: planes.collect(),
            });
            let right = Orientation::of_matrix(&matrix(0, 1, -1, 0)).unwrap();
            let once = right.turn(&image);
            assert_eq!(
                (once.width, once.height, once.matrix),
                (height, width, ColorMatrix::Bt709)
            );
            let four = right.turn(&right.turn(&right.turn(&once)));
            for (plane, (columns, rows, bytes)) in shapes(&image).into_iter().enumerate() {
                let ((before, stride), (after, packed)) =
                    (image.planes.plane(plane), four.planes.plane(plane));
                for row in 0..rows {
                    let length = columns * bytes;
                    assert_eq!(
                        before[row * stride..][..length],
                        after[row * packed..][..length],
                        "{format:?}"
                    );
                }
            }
        }
    }
}
