//! Items of a batch as the kernel of `preprocess.cu` reads them: all that is the same for every pixel of an item is computed
//! here, by the code that samples on the CPU.
//!
//! Pictures are NV12 in device memory, inputs are planes of floats (NCHW).

use weir_flow::{DevicePlanes, Image, PixelFormat, Rect};

use super::axis::{Axis, AxisSpan};
use super::color::{Conversion, source_of};
use super::projective::Projective;
use super::sampler::{Target, is_empty_region, spans};
use super::spec::{Arrangement, Channels, InputSpec};
use super::warp::points_a_side;

/// Source of the kernel, for NVRTC.
pub(crate) const KERNEL_SOURCE: &str = include_str!("preprocess.cu");

/// One direction of one plane, as `Axis` of the kernel.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct DeviceAxis {
    start: f64,
    step: f64,
    base: i32,
    factor: i32,
    cells: i32,
    size: i32,
}

/// One item, as `Item` of the kernel.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct DeviceItem {
    luma: u64,
    chroma: u64,
    map: [f64; 9],
    luma_x: DeviceAxis,
    luma_y: DeviceAxis,
    chroma_x: DeviceAxis,
    chroma_y: DeviceAxis,
    luma_pitch: i32,
    chroma_pitch: i32,
    width: i32,
    height: i32,
    mode: i32,
    grid: i32,
    columns: [i32; 2],
    rows: [i32; 2],
    channels: i32,
    order: [i32; 3],
    convert: [f32; 5],
    bias: [f32; 3],
    luma_bias: f32,
    mean: [f32; 3],
    scale: [f32; 3],
    fill: f32,
}

/// Sampling of an item on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DeviceSampling {
    /// A rectangle of the picture: scaled in each direction, or as large as fits at its aspect.
    Scale {
        /// In pixels of the picture.
        rect: Rect,
        /// Whether its aspect stays.
        letterbox: bool,
    },
    /// Under a map from the input to the picture.
    Warp(Projective),
}

/// Why a device cannot prepare an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DevicePixelsError {
    /// The picture is no NV12.
    #[error("pictures on a device are NV12, and this is {0:?}")]
    Format(PixelFormat),
    /// The input has its channels side by side.
    #[error("an input with its channels interleaved is prepared on the CPU")]
    Interleaved,
}

impl DeviceItem {
    /// An item of the picture `image`, whose planes are at `planes`; `image` itself is only asked for its size and colours.
    ///
    /// # Errors
    /// [`DevicePixelsError`]: the input is prepared on the CPU.
    pub(crate) fn new(
        image: &Image,
        planes: DevicePlanes,
        sampling: &DeviceSampling,
        spec: &InputSpec,
    ) -> Result<Self, DevicePixelsError> {
        if image.format != PixelFormat::Nv12 {
            return Err(DevicePixelsError::Format(image.format));
        }
        if spec.arrangement != Arrangement::Nchw {
            return Err(DevicePixelsError::Interleaved);
        }
        let (gain_and_chroma, bias, luma_bias) = Conversion::of(image).coefficients();
        let channel = |channel: usize| source_of(spec.channels, channel) as i32;
        let mut item = Self {
            luma: planes.luma,
            chroma: planes.chroma,
            map: [0.0; 9],
            luma_x: whole(image.width),
            luma_y: whole(image.height),
            chroma_x: whole(image.width.div_ceil(2)),
            chroma_y: whole(image.height.div_ceil(2)),
            luma_pitch: planes.luma_pitch.cast_signed(),
            chroma_pitch: planes.chroma_pitch.cast_signed(),
            width: spec.width.cast_signed(),
            height: spec.height.cast_signed(),
            mode: 0,
            grid: 1,
            columns: [0; 2],
            rows: [0; 2],
            channels: spec.channels.count() as i32,
            order: match spec.channels {
                Channels::Luma => [0; 3],
                Channels::Rgb | Channels::Bgr => [channel(0), channel(1), channel(2)],
            },
            convert: gain_and_chroma,
            bias,
            luma_bias,
            mean: spec.mean,
            scale: spec.std.map(|std| 1.0 / std),
            fill: spec.fill,
        };
        match sampling {
            DeviceSampling::Warp(inverse) => {
                item.mode = 1;
                item.map = inverse.coefficients();
                item.grid = points_a_side(inverse, spec) as i32;
            }
            DeviceSampling::Scale { rect, letterbox } => item.scale_region(image, rect, *letterbox, spec),
        }
        Ok(item)
    }

    fn scale_region(&mut self, image: &Image, rect: &Rect, letterbox: bool, spec: &InputSpec) {
        // Without a region all of the input is filled: no output is within the picture.
        if is_empty_region(image, rect, spec) {
            return;
        }
        let target = if letterbox {
            Target::letterboxed(rect, spec)
        } else {
            Target::stretched(spec)
        };
        let (across, down) = spans(rect, &target);
        let (columns, rows) = (
            across.outputs_inside(image.width),
            down.outputs_inside(image.height),
        );
        if columns.is_empty() || rows.is_empty() {
            return;
        }
        self.columns = [columns.start as i32, columns.end as i32];
        self.rows = [rows.start as i32, rows.end as i32];
        self.luma_x = axis(&across, image.width);
        self.luma_y = axis(&down, image.height);
        self.chroma_x = axis(&across.subsampled(2), image.width.div_ceil(2));
        self.chroma_y = axis(&down.subsampled(2), image.height.div_ceil(2));
    }
}

/// A plane that is read at single points: only its size counts.
fn whole(size: u32) -> DeviceAxis {
    DeviceAxis {
        factor: 1,
        cells: size.cast_signed(),
        size: size.cast_signed(),
        ..DeviceAxis::default()
    }
}

fn axis(span: &AxisSpan, size: u32) -> DeviceAxis {
    let (factor, base) = Axis::cells_of(span, size as usize, true);
    DeviceAxis {
        start: span.start,
        step: span.step,
        base: base as i32,
        factor: factor as i32,
        cells: (size as usize - base).div_ceil(factor) as i32,
        size: size.cast_signed(),
    }
}

#[cfg(test)]
mod tests;
