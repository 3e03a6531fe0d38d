//! Planes of a picture in memory, by its format.

use weir_flow::PixelFormat;

use crate::pixels::chroma_subsampling;

/// Layout of one plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlaneLayout {
    /// Values of a sample.
    pub(super) channels: usize,
    /// Pixels of the picture that a sample stands for, in each direction.
    pub(super) by: (u32, u32),
}

/// Layouts of the planes of a format.
pub(super) fn layout(format: PixelFormat) -> Vec<PlaneLayout> {
    let plane = |channels, by| PlaneLayout { channels, by };
    let chroma = chroma_subsampling(format);
    match format {
        PixelFormat::Yuv420 | PixelFormat::Yuv422 | PixelFormat::Yuv444 => {
            vec![plane(1, (1, 1)), plane(1, chroma), plane(1, chroma)]
        }
        PixelFormat::Nv12 => vec![plane(1, (1, 1)), plane(2, chroma)],
        PixelFormat::Rgb24 => vec![plane(3, (1, 1))],
        PixelFormat::Gray8 => vec![plane(1, (1, 1))],
    }
}
