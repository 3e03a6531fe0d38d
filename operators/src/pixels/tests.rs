//! Sampling against a naive reference in `f64` that knows the definition only.

use std::sync::Arc;

use weir_flow::{ColorMatrix, Image, OwnedPlanes, PixelFormat, Point, Rect};

use super::*;

const FORMATS: [PixelFormat; 6] = [
    PixelFormat::Yuv420,
    PixelFormat::Yuv422,
    PixelFormat::Yuv444,
    PixelFormat::Nv12,
    PixelFormat::Rgb24,
    PixelFormat::Gray8,
];

/// A small generator, so that a failing case is named by its seed.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.below(10_000) as f32 / 10_000.0
    }
}

fn picture(random: &mut Seeded, width: u32, height: u32, format: PixelFormat) -> Image {
    let (half_w, half_h) = (width.div_ceil(2), height.div_ceil(2));
    let sizes: Vec<(u32, u32)> = match format {
        PixelFormat::Yuv420 => vec![(width, height), (half_w, half_h), (half_w, half_h)],
        PixelFormat::Yuv422 => vec![(width, height), (half_w, height), (half_w, height)],
        PixelFormat::Yuv444 => vec![(width, height); 3],
        PixelFormat::Nv12 => vec![(width, height), (half_w * 2, half_h)],
        PixelFormat::Rgb24 => vec![(width * 3, height)],
        PixelFormat::Gray8 => vec![(width, height)],
    };
    let planes = sizes
        .into_iter()
        .map(|(wide, high)| {
            let stride = (wide + random.below(9) as u32) as usize;
            let samples = (0..stride * high as usize)
                .map(|_| 16 + random.below(220) as u8)
                .collect();
            (samples, stride)
        })
        .collect();
    let matrix = [ColorMatrix::Bt601, ColorMatrix::Bt709, ColorMatrix::Bt2020][random.below(3) as usize];
    let full_range = random.below(2) == 1;
    Image {
        width,
        height,
        format,
        matrix,
        full_range,
        planes: Arc::new(OwnedPlanes { planes }),
    }
}

/// A sample of cells of `k` by `k` at a continuous position, by definition.
struct Naive<'a> {
    image: &'a Image,
    plane: usize,
    step: usize,
    channel: usize,
    size: (usize, usize),
    base: (usize, usize),
    factor: (usize, usize),
}

impl Naive<'_> {
    fn cell(&self, i: i64, j: i64) -> f64 {
        let (samples, stride) = self.image.planes.plane(self.plane);
        let (kx, ky) = self.factor;
        let cells = (
            (self.size.0 - self.base.0).div_ceil(kx),
            (self.size.1 - self.base.1).div_ceil(ky),
        );
        let i = i.clamp(0, cells.0 as i64 - 1) as usize;
        let j = j.clamp(0, cells.1 as i64 - 1) as usize;
        let (mut sum, mut count) = (0.0, 0.0);
        for y in self.base.1 + j * ky..(self.base.1 + (j + 1) * ky).min(self.size.1) {
            for x in self.base.0 + i * kx..(self.base.0 + (i + 1) * kx).min(self.size.0) {
                sum += f64::from(samples[y * stride + x * self.step + self.channel]);
                count += 1.0;
            }
        }
        sum / count
    }

    fn at(&self, x: f64, y: f64) -> f64 {
        let x = (x - self.base.0 as f64) / self.factor.0 as f64 - 0.5;
        let y = (y - self.base.1 as f64) / self.factor.1 as f64 - 0.5;
        let (i, j) = (x.floor() as i64, y.floor() as i64);
        let (fx, fy) = (x - x.floor(), y - y.floor());
        let top = self.cell(i, j) * (1.0 - fx) + self.cell(i + 1, j) * fx;
        let bottom = self.cell(i, j + 1) * (1.0 - fx) + self.cell(i + 1, j + 1) * fx;
        top * (1.0 - fy) + bottom * fy
    }
}

fn subsampling(format: PixelFormat) -> (usize, usize) {
    match format {
        PixelFormat::Yuv420 | PixelFormat::Nv12 => (2, 2),
        PixelFormat::Yuv422 => (2, 1),
        _ => (1, 1),
    }
}

/// Red, green, blue at output `(column, line)` of a stretch of `from` into `to`, by definition.
fn naive(
    image: &Image,
    from: &Rect,
    to: (usize, usize),
    at: (usize, usize),
    interpolation: Interpolation,
) -> Option<[f64; 3]> {
    let step = (
        (f64::from(from.x1) - f64::from(from.x0)),
        (f64::from(from.y1) - f64::from(from.y0)),
    );
    let step = (step.0 / to.0 as f64, step.1 / to.1 as f64);
    let x = f64::from(from.x0) + (at.0 as f64 + 0.5) * step.0;
    let y = f64::from(from.y0) + (at.1 as f64 + 0.5) * step.1;
    if x < 0.0 || y < 0.0 || x >= f64::from(image.width) || y >= f64::from(image.height) {
        return None;
    }
    let read = |plane: usize, step_by: usize, channel: usize, by: (usize, usize)| {
        let size = (
            (image.width as usize).div_ceil(by.0),
            (image.height as usize).div_ceil(by.1),
        );
        let factor = |step: f64| {
            if interpolation == Interpolation::Auto {
                (step.floor() as usize).max(1)
            } else {
                1
            }
        };
        let factor = (factor(step.0 / by.0 as f64), factor(step.1 / by.1 as f64));
        let base = |start: f32, by: usize, factor: usize, size: usize| {
            if factor == 1 {
                0
            } else {
                ((f64::from(start) / by as f64).floor().max(0.0) as usize).min(size - 1)
            }
        };
        let base = (
            base(from.x0, by.0, factor.0, size.0),
            base(from.y0, by.1, factor.1, size.1),
        );
        let naive = Naive {
            image,
            plane,
            step: step_by,
            channel,
            size,
            base,
            factor,
        };
        naive.at(x / by.0 as f64, y / by.1 as f64)
    };
    if image.format == PixelFormat::Rgb24 {
        return Some([0, 1, 2].map(|channel| read(0, 3, channel, (1, 1))));
    }
    let luma = read(0, 1, 0, (1, 1));
    let by = subsampling(image.format);
    let (u, v) = match image.format {
        PixelFormat::Gray8 => (128.0, 128.0),
        PixelFormat::Nv12 => (read(1, 2, 0, by), read(1, 2, 1, by)),
        _ => (read(1, 1, 0, by), read(2, 1, 0, by)),
    };
    Some(rgb(image, luma, u, v))
}

/// The conversion as the standards write it.
fn rgb(image: &Image, y: f64, u: f64, v: f64) -> [f64; 3] {
    let (kr, kb) = match image.matrix {
        ColorMatrix::Bt601 => (0.299, 0.114),
        ColorMatrix::Bt709 => (0.2126, 0.0722),
        ColorMatrix::Bt2020 => (0.2627, 0.0593),
    };
    let (y, pb, pr) = if image.full_range {
        (y / 255.0, (u - 128.0) / 255.0, (v - 128.0) / 255.0)
    } else {
        ((y - 16.0) / 219.0, (u - 128.0) / 224.0, (v - 128.0) / 224.0)
    };
    let (red, blue) = (y + 2.0 * (1.0 - kr) * pr, y + 2.0 * (1.0 - kb) * pb);
    let green = (y - kr * red - kb * blue) / (1.0 - kr - kb);
    [red, green, blue].map(|value| (value * 255.0).clamp(0.0, 255.0))
}

fn spec(width: u32, height: u32) -> InputSpec {
    InputSpec {
        width,
        height,
        channels: Channels::Rgb,
        arrangement: Arrangement::Nchw,
        mean: [0.0; 3],
        std: [1.0; 3],
        fill: 114.0,
    }
}

#[test]
fn stretching_agrees_with_the_definition() {
    for seed in 0..120 {
        let mut random = Seeded(seed);
        let format = FORMATS[seed as usize % FORMATS.len()];
        let (width, height) = (1 + random.below(60) as u32, 1 + random.below(60) as u32);
        let image = picture(&mut random, width, height, format);
        let (w, h) = (width as f32, height as f32);
        let (x0, y0) = (
            random.between(-0.3 * w, 0.7 * w),
            random.between(-0.3 * h, 0.7 * h),
        );
        let from = if random.below(3) == 0 {
            Rect::new(0.0, 0.0, w, h)
        } else {
            Rect::new(x0, y0, x0 + random.between(0.5, w), y0 + random.between(0.5, h))
        };
        let mut spec = spec(1 + random.below(30) as u32, 1 + random.below(30) as u32);
        spec.arrangement = [Arrangement::Nchw, Arrangement::Nhwc][random.below(2) as usize];
        spec.channels = [Channels::Rgb, Channels::Bgr][random.below(2) as usize];
        spec.mean = [10.0, 20.0, 30.0];
        spec.std = [2.0, 3.0, 4.0];
        let interpolation = [Interpolation::Auto, Interpolation::Bilinear][random.below(2) as usize];
        let mut out = vec![f32::NAN; spec.len()];
        Sampler::with_interpolation(interpolation).stretch(&image, &from, &spec, &mut out);
        let (across, down) = (spec.width as usize, spec.height as usize);
        for (index, value) in out.iter().enumerate() {
            let (channel, line, column) = match spec.arrangement {
                Arrangement::Nchw => (index / (across * down), index / across % down, index % across),
                Arrangement::Nhwc => (index % 3, index / 3 / across, index / 3 % across),
            };
            let source = if spec.channels == Channels::Bgr {
                2 - channel
            } else {
                channel
            };
            let expected = naive(&image, &from, (across, down), (column, line), interpolation)
                .map_or(114.0, |rgb| rgb[source]);
            let found = f64::from(value * spec.std[channel] + spec.mean[channel]);
            assert!(
                (found - expected).abs() < 0.05,
                "seed {seed}: {format:?} {interpolation:?} {image:?} {from:?} to {across}x{down}: channel {channel} of \
                 ({column}, {line}) is {found}, not {expected}"
            );
        }
    }
}

#[test]
fn a_picture_at_its_own_size_is_unchanged() {
    let samples: Vec<u8> = (0..7 * 5 * 3).map(|value| value as u8 * 2).collect();
    let image = Image::from_rgb(7, 5, samples.clone());
    let mut spec = spec(7, 5);
    spec.arrangement = Arrangement::Nhwc;
    let mut out = vec![0.0; spec.len()];
    let whole = Rect::new(0.0, 0.0, 7.0, 5.0);
    Sampler::new().stretch(&image, &whole, &spec, &mut out);
    assert!(
        out.iter()
            .zip(&samples)
            .all(|(value, sample)| *value == f32::from(*sample))
    );
    out.fill(0.0);
    let same = Projective::new([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]).unwrap();
    Sampler::new().warp(&image, &same, &spec, &mut out);
    assert!(
        out.iter()
            .zip(&samples)
            .all(|(value, sample)| *value == f32::from(*sample))
    );
}

#[test]
fn a_letterbox_lies_at_the_top_left_and_maps_back() {
    let image = Image::from_rgb(640, 360, vec![200; 640 * 360 * 3]);
    let spec = spec(416, 416);
    let mut out = vec![0.0; spec.len()];
    let placement = Sampler::new().letterbox(&image, &Rect::new(0.0, 0.0, 640.0, 360.0), &spec, &mut out);
    assert_eq!(
        out[..416 * 234].iter().filter(|value| **value != 200.0).count(),
        0
    );
    assert_eq!(
        out[416 * 234..416 * 416]
            .iter()
            .filter(|value| **value != 114.0)
            .count(),
        0
    );
    let back = placement.rect(&Rect::new(0.0, 0.0, 416.0, 234.0));
    assert!((back.x1 - 640.0).abs() < 1e-3 && (back.y1 - 360.0).abs() < 1e-3);
}

#[test]
fn regions_outside_or_invalid_are_filled() {
    let image = Image::from_rgb(4, 4, vec![9; 48]);
    let spec = spec(3, 3);
    let nan = Rect::new(f32::NAN, 0.0, 3.0, 3.0);
    let empty = Rect::new(2.0, 2.0, 2.0, 4.0);
    for from in [
        Rect::new(10.0, 10.0, 20.0, 20.0),
        Rect::new(-9.0, 0.0, -1.0, 4.0),
        nan,
        empty,
    ] {
        let mut out = vec![0.0; spec.len()];
        let placement = Sampler::new().stretch(&image, &from, &spec, &mut out);
        assert!(out.iter().all(|value| *value == 114.0), "{from:?}");
        assert!(placement.point(Point::new(1.0, 1.0)).x.is_finite());
    }
}

#[test]
fn a_rectangular_quadrilateral_is_stretched() {
    for (seed, format) in (7..).zip(FORMATS) {
        let image = picture(&mut Seeded(seed), 50, 40, format);
        let box_ = Rect::new(8.0, 4.0, 38.0, 24.0);
        let spec = spec(20, 15);
        let (mut stretched, mut warped) = (vec![0.0; spec.len()], vec![0.0; spec.len()]);
        let mut sampler = Sampler::new();
        sampler.stretch(&image, &box_, &spec, &mut stretched);
        let corners = [(8.0, 4.0), (38.0, 4.0), (38.0, 24.0), (8.0, 24.0)].map(|(x, y)| Point::new(x, y));
        let map = Projective::from_quad(corners, 20.0, 15.0).unwrap();
        sampler.warp(&image, &map, &spec, &mut warped);
        for (a, b) in stretched.iter().zip(&warped) {
            assert!((a - b).abs() < 0.1, "{format:?}: {a} is not {b}");
        }
    }
}

#[test]
fn luma_alone_reads_gray() {
    let image = Image::from_rgb(2, 1, vec![255, 0, 0, 0, 0, 255]);
    let mut spec = spec(2, 1);
    spec.channels = Channels::Luma;
    let mut out = vec![0.0; 2];
    Sampler::new().stretch(&image, &Rect::new(0.0, 0.0, 2.0, 1.0), &spec, &mut out);
    assert!((out[0] - 76.245).abs() < 0.01 && (out[1] - 29.07).abs() < 0.01);
}

#[test]
fn a_fine_pattern_averages_to_gray_when_reduced() {
    let samples: Vec<u8> = (0..1920 * 8)
        .flat_map(|index| [if index % 2 == 0 { 0 } else { 255 }; 3])
        .collect();
    let image = Image::from_rgb(1920, 8, samples);
    let spec = spec(416, 2);
    let mut out = vec![0.0; spec.len()];
    let whole = Rect::new(0.0, 0.0, 1920.0, 8.0);
    Sampler::new().stretch(&image, &whole, &spec, &mut out);
    assert!(out.iter().all(|value| (value - 127.5).abs() < 1.0));
    Sampler::with_interpolation(Interpolation::Bilinear).stretch(&image, &whole, &spec, &mut out);
    assert!(
        out.iter().any(|value| (value - 127.5).abs() > 60.0),
        "bilinear alone aliases"
    );
}
