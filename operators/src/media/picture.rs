//! From a decoder's frame to an [`Image`]: the same buffers if its format is supported, else converted.

use std::sync::Arc;

use ffmpeg_next::format::Pixel;
use ffmpeg_next::software::scaling::context::Definition;
use ffmpeg_next::{Rational, color, frame};
use weir_flow::{ColorMatrix, Image, PixelFormat, Planes};

use super::ffi::Converter;
use super::hardware;
use super::interlacing::first_moment;
use super::orientation::{Orientation, shapes};

/// Number of lines from which a video without a colour tag is taken as BT.709. Encoders often omit the tag; high
/// definition is made in BT.709 and lower resolutions in BT.601, and players decide in the same way.
const HIGH_DEFINITION_LINES: u32 = 720;

/// Widest pixels, and the inverse of the narrowest ones, that are believed.
const MAX_ASPECT: f64 = 4.0;
/// Largest difference from 1 of the aspect of pixels that count as square.
const SQUARE_TOLERANCE: f64 = 0.02;

/// Longest side that a picture gets by having square pixels.
const MAX_SIDE: u32 = 16_384;

/// A decoder's reference-counted frame.
struct Decoded(frame::Video);

impl Planes for Decoded {
    fn plane(&self, index: usize) -> (&[u8], usize) {
        (self.0.data(index), self.0.stride(index))
    }
}

/// Wraps frames, and converts those in formats that Weir does not support.
#[derive(Default)]
pub(crate) struct Pictures {
    converter: Option<Converter>,
    /// Converts to square pixels.
    scaler: Option<Converter>,
    /// Width of a pixel by its height as the container states it; 0: as the picture does.
    aspect: Option<Rational>,
    /// The CUDA GPU that decodes them.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "a build without CUDA copies all surfaces to the host")
    )]
    gpu: Option<u32>,
    /// Copies surfaces within the memory of the GPU; `None` before the first frame, and if copies go to the
    /// host.
    #[cfg(feature = "cuda")]
    surfaces: Option<super::surfaces::Surfaces>,
}

impl Pictures {
    /// Of a decoder on this GPU, where it is on one.
    pub(super) fn of_gpu(gpu: Option<u32>) -> Self {
        Self {
            gpu,
            ..Self::default()
        }
    }

    /// With pixels that are so much wider than high, as the container states it.
    pub(super) fn with_aspect(self, aspect: Option<Rational>) -> Self {
        Self { aspect, ..self }
    }

    /// The picture in `frame`, rotated for display; `None` if it can be neither used nor converted.
    pub(crate) fn image(&mut self, frame: frame::Video, orientation: Orientation) -> Option<Image> {
        let frame = if hardware::is_surface(&frame) {
            if orientation.is_upright()
                && !frame.is_interlaced()
                && self.square_size(&frame).is_none()
                && let Some(image) = self.on_device(&frame)
            {
                return Some(image);
            }
            hardware::to_host(&frame).ok()?
        } else {
            frame
        };
        let image = self.unturned(frame, orientation)?;
        Some(if orientation.is_upright() {
            image
        } else {
            orientation.turn(&image)
        })
    }

    /// A copy of a surface in the memory of its GPU; `None` where it comes to the host.
    #[cfg(feature = "cuda")]
    fn on_device(&mut self, frame: &frame::Video) -> Option<Image> {
        let gpu = self.gpu?;
        let surfaces = self
            .surfaces
            .get_or_insert_with(|| super::surfaces::Surfaces::new(gpu));
        let planes = surfaces.copied(&hardware::surface_planes(frame)?)?;
        Some(Image {
            width: frame.width(),
            height: frame.height(),
            format: PixelFormat::Nv12,
            matrix: matrix_of(frame),
            full_range: full_range_of(frame),
            planes,
        })
    }

    #[cfg(not(feature = "cuda"))]
    #[expect(
        clippy::unused_self,
        reason = "a build without CUDA copies all surfaces to the host"
    )]
    fn on_device(&self, _: &frame::Video) -> Option<Image> {
        None
    }

    /// The picture as it was decoded, in a format that can be rotated.
    fn unturned(&mut self, frame: frame::Video, orientation: Orientation) -> Option<Image> {
        let (matrix, full_range) = (matrix_of(&frame), full_range_of(&frame));
        let (is_interlaced, top_first) = (frame.is_interlaced(), frame.is_top_first());
        let square = self.square_size(&frame);
        let (frame, pixels, full_range) = match pixel_format_of(frame.format()) {
            Some(pixels) if runs_down(&frame) && orientation.fits(pixels) => (frame, pixels, full_range),
            _ => {
                let was_j = is_j(frame.format());
                let (frame, pixels) = self.convert(&frame)?;
                // swscale maps the deprecated "J" formats to video range, and keeps the values of others.
                let full_range = full_range && !was_j;
                (frame, pixels, full_range)
            }
        };
        let format = frame.format();
        let full_range = full_range || pixels == PixelFormat::Rgb24;
        let image = |frame: frame::Video| {
            let (width, height) = (frame.width(), frame.height());
            (width > 0 && height > 0).then(|| Image {
                width,
                height,
                format: pixels,
                matrix,
                full_range,
                planes: Arc::new(Decoded(frame)),
            })
        };
        let frame = if is_interlaced {
            let woven = image(frame)?;
            let first = first_moment(&woven, top_first);
            if square.is_none() {
                return Some(first);
            }
            copied(&first, format)?
        } else {
            frame
        };
        match square {
            Some(size) => image(self.scaled(&frame, size)?),
            None => image(frame),
        }
    }

    /// The size with square pixels, where the frame has others.
    fn square_size(&self, frame: &frame::Video) -> Option<(u32, u32)> {
        let size = (frame.width(), frame.height());
        let square = square_size(size, self.aspect.unwrap_or_else(|| frame.aspect_ratio()));
        (square != size).then_some(square)
    }

    /// The picture with square pixels.
    fn scaled(&mut self, frame: &frame::Video, (width, height): (u32, u32)) -> Option<frame::Video> {
        let from = Definition {
            format: frame.format(),
            width: frame.width(),
            height: frame.height(),
        };
        let to = Definition {
            format: from.format,
            width,
            height,
        };
        let scaler = Converter::between(&mut self.scaler, from, to)?;
        let mut scaled = frame::Video::empty();
        scaler.run(frame, &mut scaled).ok()?;
        Some(scaled)
    }

    fn convert(&mut self, frame: &frame::Video) -> Option<(frame::Video, PixelFormat)> {
        let format = if is_red_green_blue(frame.format()) {
            Pixel::RGB24
        } else if is_gray(frame.format()) {
            // swscale would map it to video range, whatever range it has.
            Pixel::GRAY8
        } else {
            Pixel::YUV420P
        };
        let (width, height) = (frame.width(), frame.height());
        let from = Definition {
            format: frame.format(),
            width,
            height,
        };
        let to = Definition {
            format,
            width,
            height,
        };
        let converter = Converter::between(&mut self.converter, from, to)?;
        let mut converted = frame::Video::empty();
        converter.run(frame, &mut converted).ok()?;
        Some((converted, pixel_format_of(format)?))
    }
}

/// The size of a picture with square pixels, of one whose pixels are `aspect` times as wide as high: none of its pixels are lost. What is about
/// square, or no shape of a pixel, changes nothing.
pub(super) fn square_size((width, height): (u32, u32), aspect: Rational) -> (u32, u32) {
    let ratio = f64::from(aspect.numerator()) / f64::from(aspect.denominator());
    let is_known = ratio.is_finite() && (1.0 / MAX_ASPECT..=MAX_ASPECT).contains(&ratio);
    if !is_known || (ratio - 1.0).abs() < SQUARE_TOLERANCE {
        return (width, height);
    }
    let wider = |side: u32, ratio: f64| ((f64::from(side) * ratio / 2.0).round() * 2.0) as u32;
    let size = if ratio > 1.0 {
        (wider(width, ratio), height)
    } else {
        (width, wider(height, 1.0 / ratio))
    };
    if size.0.max(size.1) > MAX_SIDE {
        return (width, height);
    }
    size
}

/// The planes of `image` in a frame of FFmpeg.
fn copied(image: &Image, format: Pixel) -> Option<frame::Video> {
    let mut frame = frame::Video::new(format, image.width, image.height);
    for (index, (columns, rows, bytes)) in shapes(image).into_iter().enumerate() {
        let (samples, stride) = image.planes.plane(index);
        let to_stride = frame.stride(index);
        let to = frame.data_mut(index);
        for row in 0..rows {
            let line = samples.get(row * stride..)?.get(..columns * bytes)?;
            to.get_mut(row * to_stride..)?
                .get_mut(..line.len())?
                .copy_from_slice(line);
        }
    }
    Some(frame)
}

fn pixel_format_of(format: Pixel) -> Option<PixelFormat> {
    Some(match format {
        Pixel::YUV420P | Pixel::YUVJ420P => PixelFormat::Yuv420,
        Pixel::YUV422P | Pixel::YUVJ422P => PixelFormat::Yuv422,
        Pixel::YUV444P | Pixel::YUVJ444P => PixelFormat::Yuv444,
        Pixel::NV12 => PixelFormat::Nv12,
        Pixel::GRAY8 => PixelFormat::Gray8,
        Pixel::RGB24 => PixelFormat::Rgb24,
        _ => return None,
    })
}

/// Rows run downwards: FFmpeg flips some pictures by a negative stride, which a slice cannot express.
fn runs_down(frame: &frame::Video) -> bool {
    (0..frame.planes()).all(|plane| i32::try_from(frame.stride(plane)).is_ok())
}

fn is_j(format: Pixel) -> bool {
    matches!(
        format,
        Pixel::YUVJ420P | Pixel::YUVJ422P | Pixel::YUVJ444P | Pixel::YUVJ440P | Pixel::YUVJ411P
    )
}

fn is_red_green_blue(format: Pixel) -> bool {
    let name = format.descriptor().map_or("", |descriptor| descriptor.name());
    [
        "rgb", "bgr", "gbr", "argb", "abgr", "0rgb", "0bgr", "pal8", "mono",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

/// Whether a format has luma alone, of any depth, with or without transparency.
fn is_gray(format: Pixel) -> bool {
    let name = format.descriptor().map_or("", |descriptor| descriptor.name());
    ["gray", "ya8", "ya16"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn matrix_of(frame: &frame::Video) -> ColorMatrix {
    match frame.color_space() {
        color::Space::BT709 => ColorMatrix::Bt709,
        color::Space::BT2020NCL | color::Space::BT2020CL => ColorMatrix::Bt2020,
        color::Space::Unspecified | color::Space::Reserved if frame.height() >= HIGH_DEFINITION_LINES => {
            ColorMatrix::Bt709
        }
        _ => ColorMatrix::Bt601,
    }
}

/// Video range unless the frame is tagged otherwise; untagged gray is that of photographs, which use all values.
fn full_range_of(frame: &frame::Video) -> bool {
    match frame.color_range() {
        color::Range::JPEG => true,
        color::Range::MPEG => false,
        color::Range::Unspecified => is_j(frame.format()) || is_gray(frame.format()),
    }
}

#[cfg(test)]
mod tests {
    use ffmpeg_next::software::scaling;

    use super::*;
    use crate::pixels::Sampler;

    /// A decoder's frame with a ramp of luma and flat chroma.
    fn decoded(format: Pixel, chroma: [u8; 2]) -> frame::Video {
        let mut frame = frame::Video::new(format, 64, 48);
        for plane in 0..frame.planes() {
            let stride = frame.stride(plane);
            for (index, sample) in frame.data_mut(plane).iter_mut().enumerate() {
                *sample = if plane == 0 {
                    (16 + index % stride * 3) as u8
                } else {
                    chroma[plane - 1]
                };
            }
        }
        frame
    }

    #[test]
    fn colours_are_those_of_swscale() {
        // Without this flag swscale takes a short cut that is up to three levels off its own exact result.
        let exact = scaling::Flags::BILINEAR | scaling::Flags::ACCURATE_RND | scaling::Flags::FULL_CHR_H_INT;
        let mut converter =
            scaling::Context::get(Pixel::YUV420P, 64, 48, Pixel::RGB24, 64, 48, exact).unwrap();
        for chroma in [[128, 128], [90, 200], [220, 60], [30, 120], [140, 110]] {
            let picture = decoded(Pixel::YUV420P, chroma);
            let mut expected = frame::Video::empty();
            converter.run(&picture, &mut expected).unwrap();
            let image = Pictures::default()
                .image(picture, Orientation::default())
                .unwrap();
            assert_eq!((image.matrix, image.full_range), (ColorMatrix::Bt601, false));
            let mut found = Vec::new();
            Sampler::new().rgb(&image, &mut found);
            for (row, line) in found
                .chunks(64 * 3)
                .zip(expected.data(0).chunks(expected.stride(0)))
            {
                for (a, b) in row.iter().zip(line) {
                    assert!(a.abs_diff(*b) <= 2, "chroma {chroma:?}: {a} is not {b}");
                }
            }
        }
    }

    #[test]
    fn pixel_formats_are_kept_or_converted() {
        let check = |format, pixels, full_range| {
            let image = Pictures::default()
                .image(decoded(format, [128, 128]), Orientation::default())
                .unwrap();
            assert_eq!(
                (image.format, image.full_range),
                (pixels, full_range),
                "{format:?}"
            );
            assert_eq!((image.width, image.height), (64, 48));
        };
        check(Pixel::YUV420P, PixelFormat::Yuv420, false);
        check(Pixel::YUVJ420P, PixelFormat::Yuv420, true);
        check(Pixel::YUVJ422P, PixelFormat::Yuv422, true);
        check(Pixel::YUV444P, PixelFormat::Yuv444, false);
        check(Pixel::NV12, PixelFormat::Nv12, false);
        check(Pixel::GRAY8, PixelFormat::Gray8, true);
        check(Pixel::RGB24, PixelFormat::Rgb24, true);
        check(Pixel::BGR24, PixelFormat::Rgb24, true);
        check(Pixel::YUV411P, PixelFormat::Yuv420, false);
    }

    #[test]
    fn gray_pictures_of_more_than_eight_bits_keep_their_range() {
        for (range, full_range) in [
            (color::Range::MPEG, false),
            (color::Range::JPEG, true),
            (color::Range::Unspecified, true),
        ] {
            let mut frame = frame::Video::new(Pixel::GRAY10LE, 64, 48);
            frame.set_color_range(range);
            let white = (235_u16 << 2).to_le_bytes();
            for sample in frame.data_mut(0).chunks_exact_mut(2) {
                sample.copy_from_slice(&white);
            }
            let image = Pictures::default().image(frame, Orientation::default()).unwrap();
            assert_eq!((image.format, image.full_range), (PixelFormat::Gray8, full_range));
            let (samples, _) = image.planes.plane(0);
            assert!(samples[0].abs_diff(235) <= 1, "{range:?}: {}", samples[0]);
        }
    }

    #[test]
    fn pictures_with_horizontally_halved_chroma_are_rotated() {
        let quarter = [0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30];
        let quarter: Vec<u8> = quarter
            .iter()
            .flat_map(|number: &i32| number.to_ne_bytes())
            .collect();
        let right = Orientation::of_matrix(&quarter).unwrap();
        let image = Pictures::default()
            .image(decoded(Pixel::YUV422P, [90, 200]), right)
            .unwrap();
        assert_eq!(
            (image.width, image.height, image.format),
            (48, 64, PixelFormat::Yuv420)
        );
    }

    #[test]
    fn pictures_get_square_pixels_without_losing_any() {
        for (size, aspect, square) in [
            ((480, 540), (2, 1), (960, 540)),
            ((720, 576), (16, 15), (768, 576)),
            ((720, 480), (8, 9), (720, 540)),
            ((704, 576), (0, 1), (704, 576)),
            ((704, 576), (1, 0), (704, 576)),
            ((704, 576), (-2, 1), (704, 576)),
            ((704, 576), (100, 1), (704, 576)),
            ((704, 576), (101, 100), (704, 576)),
            ((16_000, 576), (2, 1), (16_000, 576)),
        ] {
            let found = square_size(size, Rational::new(aspect.0, aspect.1));
            assert_eq!(found, square, "{size:?} {aspect:?}");
        }
        for format in [
            Pixel::YUV420P,
            Pixel::YUVJ422P,
            Pixel::NV12,
            Pixel::GRAY8,
            Pixel::BGR24,
        ] {
            let mut pictures = Pictures::default().with_aspect(Some(Rational::new(2, 1)));
            let image = pictures
                .image(decoded(format, [128, 128]), Orientation::default())
                .unwrap();
            assert_eq!((image.width, image.height), (128, 48), "{format:?}");
        }
    }

    #[test]
    fn untagged_high_definition_is_bt709() {
        let matrix = |height| matrix_of(&frame::Video::new(Pixel::YUV420P, 64, height));
        assert_eq!(
            (matrix(576), matrix(720)),
            (ColorMatrix::Bt601, ColorMatrix::Bt709)
        );
    }
}
