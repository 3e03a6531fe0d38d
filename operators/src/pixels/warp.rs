//! Rotated or slanted regions of a picture into an input, pixel by pixel: aligned faces, rectified plates.

use weir_flow::{Image, PixelFormat};

use super::Sampler;
use super::color::{Conversion, luma_of, source_of};
use super::projective::Projective;
use super::sampler::chroma_subsampling;
use super::spec::{Arrangement, Channels, InputSpec, Interpolation};

impl Sampler {
    /// Fills the input with the pixels that `inverse` (input -> picture) maps to: bilinear, `spec.fill` outside the
    /// picture. With [`Interpolation::Auto`], where an input pixel covers two or more source pixels, a grid of up to 4
    /// by 4 points within it is averaged.
    ///
    /// # Panics
    /// If `out` is not `spec.len()` long.
    pub fn warp(&mut self, image: &Image, inverse: &Projective, spec: &InputSpec, out: &mut [f32]) {
        assert_eq!(out.len(), spec.len(), "the input's size");
        let (width, height) = (spec.width as usize, spec.height as usize);
        let count = spec.channels.count();
        let grid = if self.interpolation() == Interpolation::Auto {
            points_a_side(inverse, spec)
        } else {
            1
        };
        let reader = Reader::new(image, spec.channels != Channels::Luma);
        let scale = spec.std.map(|std| 1.0 / std);
        for y in 0..height {
            for x in 0..width {
                let color = reader.mean(inverse, x, y, grid, spec.fill);
                for channel in 0..count {
                    let at = match spec.arrangement {
                        Arrangement::Nchw => (channel * height + y) * width + x,
                        Arrangement::Nhwc => (y * width + x) * count + channel,
                    };
                    let value = color[source_of(spec.channels, channel)];
                    out[at] = (value - spec.mean[channel]) * scale[channel];
                }
            }
        }
    }
}

/// Points to average along each side of an input pixel, by the ratio in the middle of the input.
pub(crate) fn points_a_side(inverse: &Projective, spec: &InputSpec) -> usize {
    let (x, y) = (f64::from(spec.width) / 2.0, f64::from(spec.height) / 2.0);
    let (here, right, below) = (inverse.at(x, y), inverse.at(x + 1.0, y), inverse.at(x, y + 1.0));
    let length = |to: (f64, f64)| (to.0 - here.0).hypot(to.1 - here.1);
    // The smaller ratio of both directions: a slanted plate is stretched in one direction only.
    let ratio = length(right).min(length(below));
    if ratio.is_finite() {
        (ratio as usize).clamp(1, 4)
    } else {
        1
    }
}

/// Reads single points of a picture.
struct Reader<'a> {
    image: &'a Image,
    planes: [(&'a [u8], usize); 3],
    conversion: Conversion,
    color: bool,
    division: (f32, f32),
}

impl<'a> Reader<'a> {
    fn new(image: &'a Image, color: bool) -> Self {
        let plane = |index| image.planes.plane(index);
        let planes = match image.format {
            PixelFormat::Yuv420 | PixelFormat::Yuv422 | PixelFormat::Yuv444 => [plane(0), plane(1), plane(2)],
            PixelFormat::Nv12 => [plane(0), plane(1), plane(1)],
            PixelFormat::Rgb24 | PixelFormat::Gray8 => [plane(0); 3],
        };
        let (by_x, by_y) = chroma_subsampling(image.format);
        let division = (1.0 / by_x as f32, 1.0 / by_y as f32);
        Self {
            image,
            planes,
            conversion: Conversion::of(image),
            color,
            division,
        }
    }

    /// The mean of `grid` by `grid` points within the input's pixel.
    fn mean(&self, inverse: &Projective, x: usize, y: usize, grid: usize, fill: f32) -> [f32; 3] {
        let mut total = [0.0; 3];
        for index in 0..grid * grid {
            let offset = |index: usize| (index as f64 + 0.5) / grid as f64;
            let (at_x, at_y) = inverse.at(x as f64 + offset(index % grid), y as f64 + offset(index / grid));
            let inside = (0.0..f64::from(self.image.width)).contains(&at_x)
                && (0.0..f64::from(self.image.height)).contains(&at_y);
            let color = if inside {
                self.point(at_x as f32, at_y as f32)
            } else {
                [fill; 3]
            };
            for (total, value) in total.iter_mut().zip(color) {
                *total += value;
            }
        }
        total.map(|value| value / (grid * grid) as f32)
    }

    /// Red, green, blue, or luma three times, at a point within the picture.
    fn point(&self, x: f32, y: f32) -> [f32; 3] {
        let (width, height) = (self.image.width as usize, self.image.height as usize);
        if self.image.format == PixelFormat::Rgb24 {
            let corners = Corners::at(x, y, width, height);
            let [red, green, blue] = [0, 1, 2].map(|channel| corners.read(self.planes[0], 3, channel));
            return if self.color {
                [red, green, blue]
            } else {
                [luma_of(red, green, blue); 3]
            };
        }
        let luma = Corners::at(x, y, width, height).read(self.planes[0], 1, 0);
        if !self.color || self.image.format == PixelFormat::Gray8 {
            return [self.conversion.luma(luma); 3];
        }
        let (by_x, by_y) = chroma_subsampling(self.image.format);
        let (wide, high) = (width.div_ceil(by_x as usize), height.div_ceil(by_y as usize));
        let corners = Corners::at(x * self.division.0, y * self.division.1, wide, high);
        let (step, second) = if self.image.format == PixelFormat::Nv12 {
            (2, 1)
        } else {
            (1, 0)
        };
        let (u, v) = (
            corners.read(self.planes[1], step, 0),
            corners.read(self.planes[2], step, second),
        );
        self.conversion.rgb(luma, u, v)
    }
}

/// The four samples around a point, and their weights.
struct Corners {
    columns: [usize; 2],
    lines: [usize; 2],
    right: f32,
    down: f32,
}

impl Corners {
    fn at(x: f32, y: f32, width: usize, height: usize) -> Self {
        let along = |position: f32, size: usize| {
            let position = (position - 0.5).clamp(0.0, (size - 1) as f32);
            let first = position as usize;
            ([first, (first + 1).min(size - 1)], position - first as f32)
        };
        let ((columns, right), (lines, down)) = (along(x, width), along(y, height));
        Self {
            columns,
            lines,
            right,
            down,
        }
    }

    fn read(&self, (samples, stride): (&[u8], usize), step: usize, channel: usize) -> f32 {
        let [top, bottom] = self.lines.map(|line| {
            let [a, b] = self
                .columns
                .map(|column| f32::from(samples[line * stride + column * step + channel]));
            a + (b - a) * self.right
        });
        top + (bottom - top) * self.down
    }
}
