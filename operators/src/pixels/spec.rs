//! What a model's input wants, and where a region of the picture came to lie in it. Values only.

use weir_flow::{Point, Rect};

/// Which channels, in which order.
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
    /// How many.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::Rgb | Self::Bgr => 3,
            Self::Luma => 1,
        }
    }
}

/// How the input lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// One plane a channel.
    Nchw,
    /// Channels of a pixel side by side.
    Nhwc,
}

/// How a region is made smaller.
///
/// `Auto` is the better one and the default. Bilinear sampling looks at two pixels in each direction; once a picture
/// shrinks by more than two, others between them are never looked at, and what is thin (a plate, a far person)
/// flickers with its position: aliasing. Averaging whole boxes first looks at every pixel and leaves a ratio below two to
/// bilinear, where both agree; up to a ratio of two, `Auto` *is* bilinear. `Bilinear` gives what OpenCV's default
/// resize gives at any ratio, for comparison with pipelines built on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interpolation {
    /// From a ratio of two on, boxes of `floor(ratio)` pixels are averaged first; then bilinear.
    #[default]
    Auto,
    /// Two taps in each direction at every ratio.
    Bilinear,
}

/// One item of a model's input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputSpec {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Channels and their order.
    pub channels: Channels,
    /// Memory order.
    pub arrangement: Arrangement,
    /// Taken off each channel, in the order of `channels`; of values 0..=255.
    pub mean: [f32; 3],
    /// Each channel is divided by this afterwards.
    pub std: [f32; 3],
    /// Value 0..=255 where the input lies outside of the picture or of the region.
    pub fill: f32,
}

impl InputSpec {
    /// Numbers that one item takes.
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

/// Where a region came to lie in an input, separately in x and y:
/// `source = (input - offset) / scale + origin`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImagePlacement {
    /// The region's top left corner in the picture.
    pub origin: Point,
    /// Where that corner lies in the input.
    pub offset: Point,
    /// Input pixels to one pixel of the picture; never zero.
    pub scale: Point,
}

impl ImagePlacement {
    /// The point of the picture that lies at `input`.
    #[must_use]
    pub fn point(&self, input: Point) -> Point {
        Point::new(
            (input.x - self.offset.x) / self.scale.x + self.origin.x,
            (input.y - self.offset.y) / self.scale.y + self.origin.y,
        )
    }

    /// The box of the picture that lies at `input`.
    #[must_use]
    pub fn rect(&self, input: &Rect) -> Rect {
        let (a, b) = (
            self.point(Point::new(input.x0, input.y0)),
            self.point(Point::new(input.x1, input.y1)),
        );
        Rect::new(a.x, a.y, b.x, b.y)
    }
}
