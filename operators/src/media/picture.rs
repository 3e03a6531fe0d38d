//! From a decoder's frame to an [`Image`]: the same buffers where the layout is one of ours, converted where not.

use std::sync::Arc;

use ffmpeg_next::format::Pixel;
use ffmpeg_next::software::scaling::context::Definition;
use ffmpeg_next::{color, frame};
use weir_flow::{ColorMatrix, Image, Layout, Planes};

use super::ffi::Converter;

/// Lines from which on a video without a colour tag is taken as BT.709. Encoders leave the tag out often, and high
/// definition is made in BT.709 and less in BT.601; players decide in the same way.
const HIGH_DEFINITION_LINES: u32 = 720;

/// A decoder's reference-counted frame.
struct Decoded(frame::Video);

impl Planes for Decoded {
    fn plane(&self, index: usize) -> (&[u8], usize) {
        (self.0.data(index), self.0.stride(index))
    }
}

/// Wraps frames, and converts those in layouts that Weir does not have.
#[derive(Default)]
pub(crate) struct Pictures {
    converter: Option<Converter>,
}

impl Pictures {
    /// The picture in `frame`; `None` where it can be neither used nor converted.
    pub(crate) fn image(&mut self, frame: frame::Video) -> Option<Image> {
        let (matrix, full_range) = (matrix_of(&frame), full_range_of(&frame));
        let (frame, layout, full_range) = match layout_of(frame.format()) {
            Some(layout) if upright(&frame) => (frame, layout, full_range),
            _ => {
                let (frame, layout) = self.convert(&frame)?;
                // swscale maps the deprecated "J" formats to video range, and leaves the values of others alone.
                let full_range = layout == Layout::Rgb24 || (full_range && !is_j(frame.format()));
                (frame, layout, full_range)
            }
        };
        let (width, height) = (frame.width(), frame.height());
        (width > 0 && height > 0).then(|| Image {
            width,
            height,
            layout,
            matrix,
            full_range,
            planes: Arc::new(Decoded(frame)),
        })
    }

    fn convert(&mut self, frame: &frame::Video) -> Option<(frame::Video, Layout)> {
        let format = if is_red_green_blue(frame.format()) {
            Pixel::RGB24
        } else {
            Pixel::YUV420P
        };
        let (width, height) = (frame.width(), frame.height());
        let from = Definition {
            format: frame.format(),
            width,
            height,
        };
        if self
            .converter
            .as_ref()
            .is_none_or(|converter| *converter.from() != from)
        {
            self.converter = Converter::new(
                from,
                Definition {
                    format,
                    width,
                    height,
                },
            );
        }
        let mut converted = frame::Video::empty();
        self.converter.as_mut()?.run(frame, &mut converted).ok()?;
        Some((converted, layout_of(format)?))
    }
}

fn layout_of(format: Pixel) -> Option<Layout> {
    Some(match format {
        Pixel::YUV420P | Pixel::YUVJ420P => Layout::Yuv420,
        Pixel::YUV422P | Pixel::YUVJ422P => Layout::Yuv422,
        Pixel::YUV444P | Pixel::YUVJ444P => Layout::Yuv444,
        Pixel::NV12 => Layout::Nv12,
        Pixel::GRAY8 => Layout::Gray8,
        Pixel::RGB24 => Layout::Rgb24,
        _ => return None,
    })
}

/// Rows run downwards: FFmpeg flips some pictures by a negative stride, which a slice cannot show.
fn upright(frame: &frame::Video) -> bool {
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

/// Video range unless the frame says otherwise; gray without a tag is that of photographs, which use all values.
fn full_range_of(frame: &frame::Video) -> bool {
    match frame.color_range() {
        color::Range::JPEG => true,
        color::Range::MPEG => false,
        color::Range::Unspecified => is_j(frame.format()) || frame.format() == Pixel::GRAY8,
    }
}
