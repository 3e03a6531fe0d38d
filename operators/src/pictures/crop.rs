//! A copy of a part of a picture, in the picture's own format: whole samples, reduced by whole numbers where it is large.

use std::sync::Arc;

use weir_flow::{Image, OwnedPlanes, Rect};

use super::layout::{PlaneLayout, layout};
use crate::pixels::chroma_subsampling;

/// Less than this many pixels in one direction is no picture.
const MIN_SIDE: f32 = 4.0;

/// The part of a region that lies within the picture, in whole pixels; `None` where that is next to nothing.
pub(super) fn within(image: &Image, rect: &Rect) -> Option<Rect> {
    let (width, height) = (image.width as f32, image.height as f32);
    let x0 = rect.x0.max(0.0).floor();
    let y0 = rect.y0.max(0.0).floor();
    let (x1, y1) = (rect.x1.min(width).ceil(), rect.y1.min(height).ceil());
    let is_finite = (rect.x0 + rect.y0 + rect.x1 + rect.y1).is_finite();
    (is_finite && x1 - x0 >= MIN_SIDE && y1 - y0 >= MIN_SIDE).then(|| Rect::new(x0, y0, x1, y1))
}

/// Position, width and height of the pixels that [`crop`] copies: those of the region, with whole samples of chroma.
pub(crate) fn region_of(image: &Image, rect: &Rect) -> Option<[u32; 4]> {
    let rect = within(image, rect)?;
    let (by_x, by_y) = chroma_subsampling(image.format);
    let (x, y) = (rect.x0 as u32 / by_x * by_x, rect.y0 as u32 / by_y * by_y);
    Some([x, y, rect.x1 as u32 - x, rect.y1 as u32 - y])
}

/// Copies a region. Where its longer side is at least twice `max_side`, squares of samples are averaged.
pub(crate) fn crop(image: &Image, rect: &Rect, max_side: u32) -> Option<Image> {
    let [x, y, width, height] = region_of(image, rect)?;
    let step = (width.max(height) / max_side.max(1)).max(1);
    let (out_width, out_height) = (width / step, height / step);
    if out_width == 0 || out_height == 0 {
        return None;
    }
    let planes = layout(image.format).into_iter().enumerate().map(
        |(
            index,
            PlaneLayout {
                channels,
                by: (by_x, by_y),
            },
        )| {
            let (samples, stride) = image.planes.plane(index);
            let region = Region {
                samples,
                stride,
                channels,
                left: (x / by_x) as usize,
                top: (y / by_y) as usize,
                width: (x + width).div_ceil(by_x) as usize - (x / by_x) as usize,
                height: (y + height).div_ceil(by_y) as usize - (y / by_y) as usize,
            };
            let (width, height) = (
                out_width.div_ceil(by_x) as usize,
                out_height.div_ceil(by_y) as usize,
            );
            (region.reduced(width, height, step as usize), width * channels)
        },
    );
    Some(Image {
        width: out_width,
        height: out_height,
        planes: Arc::new(OwnedPlanes {
            planes: planes.collect(),
        }),
        ..image.clone()
    })
}

/// A part of a plane.
struct Region<'a> {
    samples: &'a [u8],
    stride: usize,
    channels: usize,
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Region<'_> {
    fn row(&self, row: usize) -> &[u8] {
        let start = (self.top + row.min(self.height - 1)) * self.stride + self.left * self.channels;
        &self.samples[start..][..self.width * self.channels]
    }

    /// Means of squares of `step` by `step` samples. Squares that reach beyond the right or lower edge use
    /// only samples of the region.
    fn reduced(&self, width: usize, height: usize, step: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(width * height * self.channels);
        for row in 0..height {
            if step == 1 {
                out.extend_from_slice(&self.row(row)[..width * self.channels]);
                continue;
            }
            for column in 0..width {
                let columns = (column * step).min(self.width - 1)..((column + 1) * step).min(self.width);
                let rows = row * step..(row + 1) * step;
                for channel in 0..self.channels {
                    let samples = rows.clone().flat_map(|row| {
                        let line = self.row(row);
                        let at = |column: usize| u32::from(line[column * self.channels + channel]);
                        columns.clone().map(at)
                    });
                    let (sum, count) = samples.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
                    out.push((sum / count.max(1)) as u8);
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::PixelFormat;

    use super::*;

    /// Luma is the column, chroma half of it and the row.
    fn picture(format: PixelFormat, width: u32, height: u32) -> Image {
        let (by_x, by_y) = chroma_subsampling(format);
        let (chroma_width, chroma_height) = (width.div_ceil(by_x), height.div_ceil(by_y));
        let luma = (0..height).flat_map(|_| (0..width).map(|x| x as u8)).collect();
        let u = |_: u32, x: u32| x as u8;
        let v = |y: u32, _: u32| y as u8;
        let plane = |of: &dyn Fn(u32, u32) -> u8| -> Vec<u8> {
            (0..chroma_height)
                .flat_map(|y| (0..chroma_width).map(move |x| (y, x)))
                .map(|(y, x)| of(y, x))
                .collect()
        };
        let mut planes = vec![(luma, width as usize)];
        if format == PixelFormat::Nv12 {
            let pairs = plane(&u)
                .into_iter()
                .zip(plane(&v))
                .flat_map(|(u, v)| [u, v])
                .collect();
            planes.push((pairs, chroma_width as usize * 2));
        } else {
            planes.push((plane(&u), chroma_width as usize));
            planes.push((plane(&v), chroma_width as usize));
        }
        let rgb = Image::from_rgb(width, height, vec![0; (width * height * 3) as usize]);
        Image {
            format,
            planes: Arc::new(OwnedPlanes { planes }),
            ..rgb
        }
    }

    #[test]
    fn planes_of_every_format_are_cut_alike() {
        for format in [
            PixelFormat::Yuv420,
            PixelFormat::Yuv422,
            PixelFormat::Yuv444,
            PixelFormat::Nv12,
        ] {
            let (by_x, by_y) = chroma_subsampling(format);
            let image = picture(format, 33, 21);
            let cut = crop(&image, &Rect::new(11.0, 7.0, 33.0, 21.0), 100).unwrap();
            let (left, top) = (11 / by_x * by_x, 7 / by_y * by_y);
            assert_eq!((cut.width, cut.height), (33 - left, 21 - top), "{format:?}");
            assert_eq!(cut.planes.plane(0).0[0], left as u8);
            let (chroma, _) = cut.planes.plane(1);
            assert_eq!(chroma[0], (left / by_x) as u8, "{format:?}");
            let last = match format {
                PixelFormat::Nv12 => *chroma.last().unwrap(),
                _ => *cut.planes.plane(2).0.last().unwrap(),
            };
            assert_eq!(last, (21_u32.div_ceil(by_y) - 1) as u8, "{format:?}");
        }
    }

    #[test]
    fn what_is_large_is_averaged_by_whole_numbers() {
        let image = picture(PixelFormat::Yuv420, 200, 100);
        let cut = crop(&image, &Rect::new(0.0, 0.0, 200.0, 99.0), 50).unwrap();
        assert_eq!((cut.width, cut.height), (50, 24));
        // Columns 4 to 7 on the average, rounded down.
        assert_eq!(cut.planes.plane(0).0[1], 5);
        assert_eq!(cut.planes.plane(1).0.len(), 25 * 12);
    }
}
