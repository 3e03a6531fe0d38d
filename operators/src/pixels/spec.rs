//! The input of a model, and the placement of a region in it. Plain values.

use weir_flow::{Point, Rect};

/// Channels and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma alone, one channel.
    Luma,
}

impl Channels {
    /// Number of channels.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::Rgb | Self::Bgr => 3,
            Self::Luma => 1,
        }
    }
}

/// Memory layout of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// One plane per channel.
    Nchw,
    /// One plane, with the channels of each pixel side by side.
    Nhwc,
}

/// Interpolation where a region is reduced.
///
/// `Auto` is the default and the better one. Bilinear interpolation reads two samples in each direction; once a picture
/// shrinks by more than two, the samples between them are never read, and thin or small objects (a plate, a distant
/// person) flicker with their position: aliasing. Averaging whole boxes first reads every sample and leaves a ratio
/// below two to bilinear interpolation, where both agree; up to a ratio of two, `Auto` *is* bilinear. `Bilinear` equals
/// OpenCV's default resize at any ratio, for comparison with pipelines built on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interpolation {
    /// From a ratio of two on, boxes of `floor(ratio)` samples are averaged first; then bilinear.
    #[default]
    Auto,
    /// Two taps in each direction at every ratio.
    Bilinear,
}

/// One item of a model's input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputSpec {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Channels and their order.
    pub channels: Channels,
    /// Order of the elements in memory.
    pub arrangement: Arrangement,
    /// Subtracted from each channel, in the order of `channels`; in values 0..=255.
    pub mean: [f32; 3],
    /// Divides each channel after the subtraction, in the order of `channels`.
    pub std: [f32; 3],
    /// Value 0..=255 of input pixels outside of the picture or the region.
    pub fill: f32,
}

impl InputSpec {
    /// Elements of one item.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.width as usize * self.height as usize * self.channels.count()
    }

    /// Whether an item has no pixels.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Placement of a region in an input, separately in x and y: `source = (input - offset) / scale + origin`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImagePlacement {
    /// The region's top left corner in source pixels.
    pub origin: Point,
    /// Position of that corner in the input.
    pub offset: Point,
    /// Input pixels per source pixel; never zero.
    pub scale: Point,
}

impl ImagePlacement {
    /// The source point at `input`.
    #[must_use]
    pub fn point(&self, input: Point) -> Point {
        Point::new(
            (input.x - self.offset.x) / self.scale.x + self.origin.x,
            (input.y - self.offset.y) / self.scale.y + self.origin.y,
        )
    }

    /// The source box at `input`.
    #[must_use]
    pub fn rect(&self, input: &Rect) -> Rect {
        let (a, b) = (
            self.point(Point::new(input.x0, input.y0)),
            self.point(Point::new(input.x1, input.y1)),
        );
        Rect::new(a.x, a.y, b.x, b.y)
    }
}
