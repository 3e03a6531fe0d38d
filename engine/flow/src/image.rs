//! A decoded picture, kept as the decoder left it: planes of luma and chroma behind an `Arc`, converted only where
//! and when a model wants pixels.

use std::fmt;
use std::sync::Arc;

use crate::geometry::Rect;

/// Pixel format of an [`Image`]. All samples have 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelFormat {
    /// Planes Y, U, V; chroma halved in both directions (4:2:0).
    Yuv420,
    /// Planes Y, U, V; chroma halved horizontally (4:2:2).
    Yuv422,
    /// Planes Y, U, V of one size (4:4:4).
    Yuv444,
    /// Planes Y and interleaved UV, halved in both directions.
    Nv12,
    /// A single plane with interleaved red, green and blue.
    Rgb24,
    /// A single plane of luma.
    Gray8,
}

/// Weights of the conversion from YUV to RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorMatrix {
    /// ITU-R BT.601, standard definition.
    #[default]
    Bt601,
    /// ITU-R BT.709, high definition.
    Bt709,
    /// ITU-R BT.2020, non-constant luminance.
    Bt2020,
}

/// Access to the samples. Decoders implement it over their own reference-counted buffers, so no copy is made.
pub trait Planes: Send + Sync {
    /// Bytes of plane `index` from its first sample on, and the distance between rows in bytes. Samples in a
    /// device's memory are copied to the host on the first call.
    fn plane(&self, index: usize) -> (&[u8], usize);
    /// Location of the samples in a device's memory, valid while this value lives; `None` if they are only on
    /// the host.
    fn on_device(&self) -> Option<DevicePlanes> {
        None
    }
}

/// Location of an NV12 picture in the memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePlanes {
    /// Index of the GPU.
    pub ordinal: u32,
    /// Device address of the luma plane.
    pub luma: u64,
    /// Device address of the interleaved chroma plane.
    pub chroma: u64,
    /// Distance between rows of luma in bytes.
    pub luma_pitch: u32,
    /// Distance between rows of chroma in bytes.
    pub chroma_pitch: u32,
}

/// Planes in memory that this process allocated.
#[derive(Debug, Clone, Default)]
pub struct OwnedPlanes {
    /// Samples and row stride of each plane.
    pub planes: Vec<(Vec<u8>, usize)>,
}

impl Planes for OwnedPlanes {
    fn plane(&self, index: usize) -> (&[u8], usize) {
        let (samples, stride) = &self.planes[index];
        (samples, *stride)
    }
}

/// A picture of `width` by `height`.
#[derive(Clone)]
pub struct Image {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Layout of the samples in the planes.
    pub format: PixelFormat,
    /// Weights of the conversion to RGB.
    pub matrix: ColorMatrix,
    /// True where luma uses 0..=255, false for 16..=235 ("video range").
    pub full_range: bool,
    /// Samples of the picture, by plane.
    pub planes: Arc<dyn Planes>,
}

impl Image {
    /// A picture over interleaved RGB samples, rows packed.
    #[must_use]
    pub fn from_rgb(width: u32, height: u32, samples: Vec<u8>) -> Self {
        debug_assert_eq!(samples.len(), width as usize * height as usize * 3);
        Self {
            width,
            height,
            format: PixelFormat::Rgb24,
            matrix: ColorMatrix::Bt601,
            full_range: true,
            planes: Arc::new(OwnedPlanes {
                planes: vec![(samples, width as usize * 3)],
            }),
        }
    }

    /// The box of the whole picture.
    #[must_use]
    pub fn bounds(&self) -> Rect {
        Rect::new(0.0, 0.0, self.width as f32, self.height as f32)
    }

    /// Bytes of all samples.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let pixels = u64::from(self.width) * u64::from(self.height);
        match self.format {
            PixelFormat::Yuv420 | PixelFormat::Nv12 => pixels * 3 / 2,
            PixelFormat::Yuv422 => pixels * 2,
            PixelFormat::Yuv444 | PixelFormat::Rgb24 => pixels * 3,
            PixelFormat::Gray8 => pixels,
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}x{} {:?})", self.width, self.height, self.format)
    }
}
