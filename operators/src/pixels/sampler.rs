//! Axis-aligned regions of a picture into an input: `stretch` and `letterbox`.

use std::ops::Range;

use weir_flow::{Image, PixelFormat, Planes, Point, Rect};

use super::axis::AxisSpan;
use super::color::{Conversion, luma_of, source_of};
use super::resample::{Resampler, Window};
use super::spec::{Arrangement, Channels, ImagePlacement, InputSpec, Interpolation};

/// Samples pictures into inputs; owns the scratch buffers, so use one per thread.
#[derive(Debug, Default)]
pub struct Sampler {
    interpolation: Interpolation,
    luma: Resampler<1>,
    chroma: [Resampler<1>; 2],
    pairs: Resampler<2>,
    triples: Resampler<3>,
    rows: [Vec<f32>; 3],
}

/// Area of the input that a region covers: its first `width` columns and `height` rows.
pub(crate) struct Target<'a> {
    spec: &'a InputSpec,
    width: usize,
    height: usize,
}

impl<'a> Target<'a> {
    pub(crate) fn stretched(spec: &'a InputSpec) -> Self {
        Self {
            spec,
            width: spec.width as usize,
            height: spec.height as usize,
        }
    }

    pub(crate) fn letterboxed(from: &Rect, spec: &'a InputSpec) -> Self {
        let (width, height) = (from.width().max(1e-3), from.height().max(1e-3));
        let ratio = (spec.width as f32 / width).min(spec.height as f32 / height);
        let fit = |side: f32, most: u32| ((side * ratio).round() as usize).clamp(1, (most as usize).max(1));
        Self {
            spec,
            width: fit(width, spec.width),
            height: fit(height, spec.height),
        }
    }

    fn placement(&self, image: &Image, from: &Rect) -> ImagePlacement {
        let finite = (from.width() + from.height() + from.x0 + from.y0).is_finite();
        let there = from.width() > 0.0 && from.height() > 0.0 && finite;
        let scale = if is_empty_region(image, from, self.spec) {
            Point::new(1.0, 1.0)
        } else {
            Point::new(
                self.width as f32 / from.width(),
                self.height as f32 / from.height(),
            )
        };
        ImagePlacement {
            origin: if there {
                Point::new(from.x0, from.y0)
            } else {
                Point::default()
            },
            offset: Point::default(),
            scale,
        }
    }
}

/// The placement of [`Sampler::stretch`], or of [`Sampler::letterbox`] if `letterbox`.
pub(crate) fn placement(image: &Image, from: &Rect, spec: &InputSpec, letterbox: bool) -> ImagePlacement {
    let target = if letterbox {
        Target::letterboxed(from, spec)
    } else {
        Target::stretched(spec)
    };
    target.placement(image, from)
}

/// The samples that the outputs of a region cover, horizontally and vertically.
pub(crate) fn spans(from: &Rect, target: &Target<'_>) -> (AxisSpan, AxisSpan) {
    let span = |start: f32, side: f32, count: usize| AxisSpan {
        start: f64::from(start),
        step: f64::from(side) / count as f64,
        count,
    };
    (
        span(from.x0, from.width(), target.width),
        span(from.y0, from.height(), target.height),
    )
}

/// Whether the region or the picture is empty.
pub(crate) fn is_empty_region(image: &Image, from: &Rect, spec: &InputSpec) -> bool {
    let (width, height) = (from.width(), from.height());
    let empty = !(width > 0.0 && height > 0.0 && (width + height + from.x0 + from.y0).is_finite());
    empty || image.width == 0 || image.height == 0 || spec.is_empty()
}

impl Sampler {
    /// With the default interpolation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With another interpolation.
    #[must_use]
    pub fn with_interpolation(interpolation: Interpolation) -> Self {
        Self {
            interpolation,
            ..Self::default()
        }
    }

    /// Interpolation for smaller outputs.
    #[must_use]
    pub const fn interpolation(&self) -> Interpolation {
        self.interpolation
    }

    /// Fills the whole input with the region `from`, each direction scaled by its own ratio. Where the region exceeds
    /// the picture, the input is `spec.fill`.
    ///
    /// # Panics
    /// If `out` is not `spec.len()` long.
    pub fn stretch(
        &mut self,
        image: &Image,
        from: &Rect,
        spec: &InputSpec,
        out: &mut [f32],
    ) -> ImagePlacement {
        self.place(image, from, &Target::stretched(spec), out)
    }

    /// Scales the region `from` into the top left of the input, as large as fits at its aspect; the rest is
    /// `spec.fill`. The covered size is rounded to whole pixels, and the placement has the exact ratio of each
    /// direction.
    ///
    /// # Panics
    /// If `out` is not `spec.len()` long.
    pub fn letterbox(
        &mut self,
        image: &Image,
        from: &Rect,
        spec: &InputSpec,
        out: &mut [f32],
    ) -> ImagePlacement {
        self.place(image, from, &Target::letterboxed(from, spec), out)
    }

    fn place(&mut self, image: &Image, from: &Rect, target: &Target<'_>, out: &mut [f32]) -> ImagePlacement {
        let spec = target.spec;
        assert_eq!(out.len(), spec.len(), "the input's size");
        let placement = target.placement(image, from);
        if is_empty_region(image, from, spec) {
            fill(spec, 0..spec.height as usize, 0..spec.width as usize, out);
            return placement;
        }
        let (across, down) = spans(from, target);
        let (columns, rows) = (
            across.outputs_inside(image.width),
            down.outputs_inside(image.height),
        );
        fill_around(spec, &rows, &columns, out);
        if !columns.is_empty() && !rows.is_empty() {
            let window = Window {
                across: &across,
                columns: &columns,
                down: &down,
                rows: &rows,
                boxes: self.interpolation == Interpolation::Auto,
            };
            self.sample(image, &window, spec, out);
        }
        placement
    }

    fn sample(&mut self, image: &Image, window: &Window<'_>, spec: &InputSpec, out: &mut [f32]) {
        self.each_row(image, window, spec.channels != Channels::Luma, |line, rows| {
            put(rows, spec, line, window.columns, out);
        });
    }

    /// Calls `take` with each output row within the picture: red, green, blue, or luma in the first.
    fn each_row(
        &mut self,
        image: &Image,
        window: &Window<'_>,
        color: bool,
        mut take: impl FnMut(usize, &[Vec<f32>; 3]),
    ) {
        self.prepare(image, window, color);
        for row in &mut self.rows {
            row.resize(window.columns.len(), 0.0);
        }
        let conversion = Conversion::of(image);
        for (index, line) in window.rows.clone().enumerate() {
            self.row(image, index, color, &conversion);
            take(line, &self.rows);
        }
    }

    /// The whole picture as packed 8-bit RGB at its own size, to draw on. `out` is cleared and filled with `width *
    /// height * 3` samples.
    pub fn rgb(&mut self, image: &Image, out: &mut Vec<u8>) {
        out.clear();
        let (width, height) = (image.width as usize, image.height as usize);
        if width == 0 || height == 0 {
            return;
        }
        out.reserve(width * height * 3);
        if image.format == PixelFormat::Rgb24 {
            let (samples, stride) = image.planes.plane(0);
            (0..height).for_each(|row| out.extend_from_slice(&samples[row * stride..][..width * 3]));
            return;
        }
        let across = AxisSpan {
            start: 0.0,
            step: 1.0,
            count: width,
        };
        let down = AxisSpan {
            start: 0.0,
            step: 1.0,
            count: height,
        };
        let window = Window {
            across: &across,
            columns: &(0..width),
            down: &down,
            rows: &(0..height),
            boxes: false,
        };
        self.each_row(image, &window, true, |_, [red, green, blue]| {
            for ((red, green), blue) in red.iter().zip(green).zip(blue) {
                // Values are within 0..=255: adding a half rounds them.
                out.extend([(red + 0.5) as u8, (green + 0.5) as u8, (blue + 0.5) as u8]);
            }
        });
    }

    fn prepare(&mut self, image: &Image, window: &Window<'_>, color: bool) {
        let (width, height) = (image.width as usize, image.height as usize);
        if image.format == PixelFormat::Rgb24 {
            self.triples.prepare(window, width, height);
            return;
        }
        self.luma.prepare(window, width, height);
        if !color || image.format == PixelFormat::Gray8 {
            return;
        }
        let (by_x, by_y) = chroma_subsampling(image.format);
        let window = Window {
            across: &window.across.subsampled(by_x),
            down: &window.down.subsampled(by_y),
            ..*window
        };
        let (width, height) = (width.div_ceil(by_x as usize), height.div_ceil(by_y as usize));
        if image.format == PixelFormat::Nv12 {
            self.pairs.prepare(&window, width, height);
        } else {
            for chroma in &mut self.chroma {
                chroma.prepare(&window, width, height);
            }
        }
    }

    /// Resamples output row `index` into `self.rows`: red, green, blue, or luma in the first.
    fn row(&mut self, image: &Image, index: usize, color: bool, conversion: &Conversion) {
        let planes: &dyn Planes = image.planes.as_ref();
        let [first, second, third] = &mut self.rows;
        match image.format {
            PixelFormat::Rgb24 => {
                self.triples.row(planes, 0, index, &mut [first, second, third]);
                if !color {
                    for ((red, green), blue) in first.iter_mut().zip(second.iter()).zip(third.iter()) {
                        *red = luma_of(*red, *green, *blue);
                    }
                }
                return;
            }
            PixelFormat::Nv12 if color => self.pairs.row(planes, 1, index, &mut [second, third]),
            PixelFormat::Yuv420 | PixelFormat::Yuv422 | PixelFormat::Yuv444 if color => {
                let [u, v] = &mut self.chroma;
                u.row(planes, 1, index, &mut [second]);
                v.row(planes, 2, index, &mut [third]);
            }
            _ => {}
        }
        self.luma.row(planes, 0, index, &mut [first]);
        if color && image.format != PixelFormat::Gray8 {
            conversion.rows(first, second, third);
            return;
        }
        for y in first.iter_mut() {
            *y = conversion.luma(*y);
        }
        if color {
            second.copy_from_slice(first);
            third.copy_from_slice(first);
        }
    }
}

/// Divisors of the chroma planes' sides.
pub(crate) const fn chroma_subsampling(format: PixelFormat) -> (u32, u32) {
    match format {
        PixelFormat::Yuv420 | PixelFormat::Nv12 => (2, 2),
        PixelFormat::Yuv422 => (2, 1),
        PixelFormat::Yuv444 | PixelFormat::Rgb24 | PixelFormat::Gray8 => (1, 1),
    }
}

/// Normalises one row and writes it into the input.
fn put(rows: &[Vec<f32>; 3], spec: &InputSpec, line: usize, columns: &Range<usize>, out: &mut [f32]) {
    let (width, height, count) = (spec.width as usize, spec.height as usize, spec.channels.count());
    for channel in 0..count {
        let values = &rows[source_of(spec.channels, channel)];
        let scale = 1.0 / spec.std[channel];
        let shift = -spec.mean[channel] * scale;
        match spec.arrangement {
            Arrangement::Nchw => {
                let start = (channel * height + line) * width + columns.start;
                for (to, value) in out[start..].iter_mut().zip(values) {
                    *to = value * scale + shift;
                }
            }
            Arrangement::Nhwc => {
                let start = (line * width + columns.start) * count + channel;
                for (to, value) in out[start..].iter_mut().step_by(count).zip(values) {
                    *to = value * scale + shift;
                }
            }
        }
    }
}

/// Fills everything except the block of `rows` by `columns`.
fn fill_around(spec: &InputSpec, rows: &Range<usize>, columns: &Range<usize>, out: &mut [f32]) {
    let (width, height) = (spec.width as usize, spec.height as usize);
    if rows.is_empty() || columns.is_empty() {
        return fill(spec, 0..height, 0..width, out);
    }
    fill(spec, 0..rows.start, 0..width, out);
    fill(spec, rows.end..height, 0..width, out);
    fill(spec, rows.clone(), 0..columns.start, out);
    fill(spec, rows.clone(), columns.end..width, out);
}

/// Fills a block.
pub(crate) fn fill(spec: &InputSpec, rows: Range<usize>, columns: Range<usize>, out: &mut [f32]) {
    if columns.is_empty() {
        return;
    }
    let (width, height, count) = (spec.width as usize, spec.height as usize, spec.channels.count());
    let values: [f32; 3] =
        std::array::from_fn(|channel| (spec.fill - spec.mean[channel]) / spec.std[channel]);
    for line in rows {
        match spec.arrangement {
            Arrangement::Nchw => {
                for (channel, &value) in values.iter().enumerate().take(count) {
                    let start = (channel * height + line) * width;
                    out[start + columns.start..start + columns.end].fill(value);
                }
            }
            Arrangement::Nhwc => {
                let start = line * width;
                let block = &mut out[(start + columns.start) * count..(start + columns.end) * count];
                for pixel in block.chunks_exact_mut(count) {
                    pixel.copy_from_slice(&values[..count]);
                }
            }
        }
    }
}
