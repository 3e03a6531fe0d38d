//! An RGB picture to draw on: boxes, lines, discs, text. All shapes are clipped at the edges.

use super::font::Font;
use super::palette::Color;
use crate::ShownPicture;
use crate::media::Rgb;
use crate::pixels::Sampler;

/// The picture that is drawn on.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    width: u32,
    height: u32,
    samples: Vec<u8>,
}

/// Whole pixels: left, top, right and bottom, the last two exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x0: i64,
    pub(super) y0: i64,
    pub(super) x1: i64,
    pub(super) y1: i64,
}

impl Area {
    /// The area of that size nearest to `(x, y)` that lies within the picture; one that is larger begins at its edge.
    pub(super) fn inside(canvas: &Canvas, (x, y): (i64, i64), (width, height): (i64, i64)) -> Self {
        let x0 = x.min(i64::from(canvas.width) - width).max(0);
        let y0 = y.min(i64::from(canvas.height) - height).max(0);
        Self {
            x0,
            y0,
            x1: x0 + width,
            y1: y0 + height,
        }
    }

    /// Pixels that both areas cover.
    pub(super) fn shared(&self, other: &Self) -> i64 {
        let across = self.x1.min(other.x1) - self.x0.max(other.x0);
        let down = self.y1.min(other.y1) - self.y0.max(other.y0);
        across.max(0) * down.max(0)
    }
}

impl Canvas {
    /// Starts with a new picture.
    pub(super) fn begin(&mut self, picture: &ShownPicture, sampler: &mut Sampler) {
        let image = picture.image();
        (self.width, self.height) = (image.width, image.height);
        sampler.rgb(image, &mut self.samples);
        self.samples
            .resize(image.width as usize * image.height as usize * 3, 0);
    }

    pub(super) fn width(&self) -> u32 {
        self.width
    }

    pub(super) fn height(&self) -> u32 {
        self.height
    }

    /// The picture, to be encoded.
    pub(super) fn rgb(&self) -> Rgb<'_> {
        Rgb {
            width: self.width,
            height: self.height,
            samples: &self.samples,
        }
    }

    /// Blends one pixel with `opacity` of 255.
    fn blend(&mut self, x: i64, y: i64, color: Color, opacity: u8) {
        if x < 0 || y < 0 || x >= i64::from(self.width) || y >= i64::from(self.height) {
            return;
        }
        let at = (y as usize * self.width as usize + x as usize) * 3;
        for (sample, value) in self.samples[at..at + 3].iter_mut().zip(color) {
            let (old, new, share) = (u32::from(*sample), u32::from(value), u32::from(opacity));
            *sample = ((old * (255 - share) + new * share + 127) / 255) as u8;
        }
    }

    /// Fills an area.
    pub(super) fn fill(&mut self, area: Area, color: Color, opacity: u8) {
        let (width, height) = (i64::from(self.width), i64::from(self.height));
        for y in area.y0.clamp(0, height)..area.y1.clamp(0, height) {
            for x in area.x0.clamp(0, width)..area.x1.clamp(0, width) {
                self.blend(x, y, color, opacity);
            }
        }
    }

    /// Draws the outline of an area, `thick` pixels inwards.
    pub(super) fn outline(&mut self, area: Area, thick: i64, color: Color) {
        let Area { x0, y0, x1, y1 } = area;
        let (thick_x, thick_y) = (thick.min(x1 - x0), thick.min(y1 - y0));
        self.fill(
            Area {
                y1: y0 + thick_y,
                ..area
            },
            color,
            255,
        );
        self.fill(
            Area {
                y0: y1 - thick_y,
                ..area
            },
            color,
            255,
        );
        self.fill(
            Area {
                x1: x0 + thick_x,
                ..area
            },
            color,
            255,
        );
        self.fill(
            Area {
                x0: x1 - thick_x,
                ..area
            },
            color,
            255,
        );
    }

    /// Draws a line with round ends.
    pub(super) fn line(&mut self, from: (f32, f32), to: (f32, f32), thick: f32, color: Color) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = (dx * dx + dy * dy).max(1e-6);
        self.shape(
            (from.0.min(to.0), from.1.min(to.1)),
            (from.0.max(to.0), from.1.max(to.1)),
            thick,
            color,
            |x, y| {
                let along = (((x - from.0) * dx + (y - from.1) * dy) / length).clamp(0.0, 1.0);
                (x - from.0 - along * dx).hypot(y - from.1 - along * dy) - thick / 2.0
            },
        );
    }

    /// Fills a disc.
    pub(super) fn disc(&mut self, centre: (f32, f32), radius: f32, color: Color) {
        self.shape(centre, centre, radius * 2.0, color, |x, y| {
            (x - centre.0).hypot(y - centre.1) - radius
        });
    }

    /// Draws a circle.
    pub(super) fn circle(&mut self, centre: (f32, f32), radius: f32, thick: f32, color: Color) {
        self.shape(centre, centre, radius * 2.0 + thick, color, |x, y| {
            ((x - centre.0).hypot(y - centre.1) - radius).abs() - thick / 2.0
        });
    }

    /// Paints where `distance` from the shape's edge is negative, with smooth edges, within `grow / 2` of a box.
    fn shape(
        &mut self,
        from: (f32, f32),
        to: (f32, f32),
        grow: f32,
        color: Color,
        distance: impl Fn(f32, f32) -> f32,
    ) {
        let reach = grow / 2.0 + 1.0;
        // Casts saturate and turn NaN into 0, so points far outside give an empty range.
        let range = |low: f32, high: f32, size: u32| {
            ((low - reach).floor().max(0.0) as i64)..((high + reach).ceil().min(size as f32) as i64)
        };
        for y in range(from.1, to.1, self.height) {
            for x in range(from.0, to.0, self.width) {
                let cover = (0.5 - distance(x as f32 + 0.5, y as f32 + 0.5)).clamp(0.0, 1.0);
                if cover > 0.0 {
                    self.blend(x, y, color, (cover * 255.0) as u8);
                }
            }
        }
    }

    /// Draws a line of text, its top left corner at `(x, y)`.
    pub(super) fn text(&mut self, (x, y): (i64, i64), text: &str, font: Font, color: Color) {
        for (index, character) in text.chars().enumerate() {
            let left = x + font.width(index) as i64;
            font.glyph(character, |dx, dy, opacity| {
                self.blend(left + dx as i64, y + dy as i64, color, opacity);
            });
        }
    }
}
