//! A canvas: shapes with smooth edges, by tiny-skia.

use tiny_skia::{
    Color, FillRule, GradientStop, LineCap, LineJoin, LinearGradient, Paint, Path, PathBuilder, Pixmap,
    Point, Shader, SpreadMode, Stroke, Transform,
};

use crate::geometry::Vec2;

/// A finished picture: rows of red, green, blue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Three bytes a pixel, rows from the top.
    pub rgb: Vec<u8>,
}

/// A colour with its opacity, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rgba {
    /// Red channel, 0 to 1.
    pub r: f32,
    /// Green channel, 0 to 1.
    pub g: f32,
    /// Blue channel, 0 to 1.
    pub b: f32,
    /// Opacity, 0 (transparent) to 1.
    pub a: f32,
}

/// An opaque colour from bytes, as `0xrrggbb`.
#[must_use]
pub const fn rgb(hex: u32) -> Rgba {
    Rgba {
        r: ((hex >> 16) & 0xff) as f32 / 255.0,
        g: ((hex >> 8) & 0xff) as f32 / 255.0,
        b: (hex & 0xff) as f32 / 255.0,
        a: 1.0,
    }
}

impl Rgba {
    /// The same colour, lighter (`by` above 1) or darker.
    #[must_use]
    pub fn lit(self, by: f32) -> Self {
        let channel = |value: f32| (value * by).clamp(0.0, 1.0);
        Self {
            r: channel(self.r),
            g: channel(self.g),
            b: channel(self.b),
            a: self.a,
        }
    }

    /// The same colour with another opacity.
    #[must_use]
    pub const fn faded(self, a: f32) -> Self {
        Self { a, ..self }
    }

    /// The colour that lies `part` of the way to `other`.
    #[must_use]
    pub fn mixed(self, other: Self, part: f32) -> Self {
        let channel = |from: f32, to: f32| from + (to - from) * part;
        Self {
            r: channel(self.r, other.r),
            g: channel(self.g, other.g),
            b: channel(self.b, other.b),
            a: channel(self.a, other.a),
        }
    }

    fn skia(self) -> Color {
        let channel = |value: f32| value.clamp(0.0, 1.0);
        Color::from_rgba(channel(self.r), channel(self.g), channel(self.b), channel(self.a))
            .unwrap_or(Color::BLACK)
    }
}

/// Fill of a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ink {
    /// One colour for the whole shape.
    Flat(Rgba),
    /// Linear gradient between two points.
    Gradient {
        /// Point and colour of the start.
        from: (Vec2, Rgba),
        /// Point and colour of the end.
        to: (Vec2, Rgba),
    },
}

impl From<Rgba> for Ink {
    fn from(colour: Rgba) -> Self {
        Self::Flat(colour)
    }
}

impl Ink {
    fn paint(self) -> Paint<'static> {
        let shader = match self {
            Self::Flat(colour) => Shader::SolidColor(colour.skia()),
            Self::Gradient { from, to } => LinearGradient::new(
                point(from.0),
                point(to.0),
                vec![
                    GradientStop::new(0.0, from.1.skia()),
                    GradientStop::new(1.0, to.1.skia()),
                ],
                SpreadMode::Pad,
                Transform::identity(),
            )
            .unwrap_or(Shader::SolidColor(from.1.skia())),
        };
        Paint {
            shader,
            anti_alias: true,
            ..Paint::default()
        }
    }
}

fn point(at: Vec2) -> Point {
    Point::from_xy(at.x, at.y)
}

/// Picture that is being drawn. Shapes whose extent is empty or not finite are not drawn.
#[derive(Clone)]
pub struct Canvas {
    pixmap: Pixmap,
    size: (u32, u32),
    /// True if shapes change pixels.
    is_painted: bool,
}

impl Canvas {
    /// Creates a canvas of one colour. Sides are at least one pixel.
    ///
    /// # Panics
    /// If a picture of that size does not fit into memory.
    #[must_use]
    pub fn new(width: u32, height: u32, colour: Rgba) -> Self {
        let mut pixmap = Pixmap::new(width.max(1), height.max(1)).expect("a picture that fits into memory");
        pixmap.fill(colour.skia());
        Self {
            size: (pixmap.width(), pixmap.height()),
            pixmap,
            is_painted: true,
        }
    }

    /// Canvas without pixels, for callers that need positions but no picture. Its picture is a single pixel.
    #[must_use]
    pub fn unpainted(width: u32, height: u32) -> Self {
        Self {
            size: (width, height),
            is_painted: false,
            ..Self::new(1, 1, rgb(0))
        }
    }

    /// Width and height in pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// Fills the polygon through `points`.
    pub fn polygon(&mut self, points: &[Vec2], ink: impl Into<Ink>) {
        self.fill(outline(points, true), ink);
    }

    /// Fills the smooth closed curve through `points` (Catmull-Rom).
    pub fn blob(&mut self, points: &[Vec2], ink: impl Into<Ink>) {
        self.fill(smooth(points), ink);
    }

    /// Fills an ellipse with half axes `radii`, turned by `angle` radians.
    pub fn ellipse(&mut self, centre: Vec2, radii: Vec2, angle: f32, ink: impl Into<Ink>) {
        self.fill(ellipse(centre, radii, angle), ink);
    }

    /// Draws the outline of an ellipse.
    pub fn ring(&mut self, centre: Vec2, radii: Vec2, angle: f32, width: f32, ink: impl Into<Ink>) {
        self.stroke(ellipse(centre, radii, angle), width, ink);
    }

    /// Draws a line through `points` with round ends and corners.
    pub fn line(&mut self, points: &[Vec2], width: f32, ink: impl Into<Ink>) {
        self.stroke(outline(points, false), width, ink);
    }

    /// Draws a smooth line through three points: the middle one pulls (a quadratic curve).
    pub fn curve(&mut self, [from, pull, to]: [Vec2; 3], width: f32, ink: impl Into<Ink>) {
        let mut path = PathBuilder::new();
        path.move_to(from.x, from.y);
        path.quad_to(pull.x, pull.y, to.x, to.y);
        self.stroke(path.finish(), width, ink);
    }

    /// Fills an upright rectangle.
    pub fn rect(&mut self, [x0, y0, x1, y1]: [f32; 4], ink: impl Into<Ink>) {
        let corner = |x, y| Vec2 { x, y };
        self.polygon(
            &[corner(x0, y0), corner(x1, y0), corner(x1, y1), corner(x0, y1)],
            ink,
        );
    }

    /// Lays another canvas over this one with its left and top there, each channel multiplied by that of `tint`.
    pub fn stamp(&mut self, other: &Self, (left, top): (u32, u32), tint: [f32; 3]) {
        if !self.is_painted {
            return;
        }
        let (width, height) = self.size();
        let (wide, high) = other.size();
        let by = tint.map(|channel| (channel.clamp(0.0, 2.0) * 256.0) as u32);
        let (from, to) = (other.pixmap.pixels(), self.pixmap.pixels_mut());
        for y in 0..high.min(height.saturating_sub(top)) {
            for x in 0..wide.min(width.saturating_sub(left)) {
                let over = from[(y * wide + x) as usize];
                if over.alpha() == 0 {
                    continue;
                }
                let under = &mut to[((y + top) * width + x + left) as usize];
                let rest = 255 - u32::from(over.alpha());
                let mixed = [
                    (over.red(), under.red(), by[0]),
                    (over.green(), under.green(), by[1]),
                    (over.blue(), under.blue(), by[2]),
                ]
                .map(|(over, under, by)| {
                    let light = (u32::from(over) * by) >> 8;
                    (light + (u32::from(under) * rest + 127) / 255).min(255) as u8
                });
                *under = tiny_skia::ColorU8::from_rgba(mixed[0], mixed[1], mixed[2], 255).premultiply();
            }
        }
    }

    /// Opacity of a pixel, 0 to 1; 0 outside of the canvas.
    #[must_use]
    pub fn opacity(&self, x: u32, y: u32) -> f32 {
        self.pixmap
            .pixel(x, y)
            .map_or(0.0, |pixel| f32::from(pixel.alpha()) / 255.0)
    }

    /// The finished picture.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let pixels = self.pixmap.pixels();
        Picture {
            width: self.pixmap.width(),
            height: self.pixmap.height(),
            // The canvas began opaque, so there is no division by the opacity.
            rgb: pixels
                .iter()
                .flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()])
                .collect(),
        }
    }

    fn fill(&mut self, path: Option<Path>, ink: impl Into<Ink>) {
        if let Some(path) = path.filter(|_| self.is_painted) {
            let paint = ink.into().paint();
            self.pixmap
                .fill_path(&path, &paint, FillRule::Winding, Transform::identity(), None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, width: f32, ink: impl Into<Ink>) {
        if let Some(path) = path.filter(|_| self.is_painted) {
            let stroke = Stroke {
                width,
                line_cap: LineCap::Round,
                line_join: LineJoin::Round,
                ..Stroke::default()
            };
            self.pixmap
                .stroke_path(&path, &ink.into().paint(), &stroke, Transform::identity(), None);
        }
    }
}

impl From<&Picture> for Canvas {
    /// Creates a canvas from a picture; missing pixels are black.
    fn from(picture: &Picture) -> Self {
        let mut canvas = Self::new(picture.width, picture.height, rgb(0));
        let pixels = canvas.pixmap.pixels_mut().iter_mut();
        for (pixel, value) in pixels.zip(picture.rgb.chunks_exact(3)) {
            let colour = tiny_skia::ColorU8::from_rgba(value[0], value[1], value[2], 255);
            *pixel = colour.premultiply();
        }
        canvas
    }
}

fn outline(points: &[Vec2], closed: bool) -> Option<Path> {
    let (first, rest) = points.split_first()?;
    let mut path = PathBuilder::new();
    path.move_to(first.x, first.y);
    for at in rest {
        path.line_to(at.x, at.y);
    }
    if closed {
        path.close();
    }
    path.finish()
}

fn smooth(points: &[Vec2]) -> Option<Path> {
    let count = points.len();
    let first = points.first()?;
    let mut path = PathBuilder::new();
    path.move_to(first.x, first.y);
    for index in 0..count {
        let at = |offset: usize| points[(index + offset + count - 1) % count];
        let (before, from, to, after) = (at(0), at(1), at(2), at(3));
        let (a, b) = (
            from + (to - before) * (1.0 / 6.0),
            to - (after - from) * (1.0 / 6.0),
        );
        path.cubic_to(a.x, a.y, b.x, b.y, to.x, to.y);
    }
    path.close();
    path.finish()
}

fn ellipse(centre: Vec2, radii: Vec2, angle: f32) -> Option<Path> {
    let rect = tiny_skia::Rect::from_ltrb(-radii.x, -radii.y, radii.x, radii.y)?;
    let turn = Transform::from_rotate(angle.to_degrees()).post_translate(centre.x, centre.y);
    PathBuilder::from_oval(rect)?.transform(turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::vec2;

    #[test]
    fn shapes_cover_what_they_say_and_nonsense_draws_nothing() {
        let mut canvas = Canvas::new(20, 10, rgb(0x00_00_00));
        canvas.rect([2.0, 2.0, 6.0, 6.0], rgb(0xff_ff_ff));
        canvas.ellipse(vec2(15.0, 5.0), vec2(3.0, 3.0), 0.5, rgb(0xff_00_00));
        canvas.polygon(&[], rgb(0xff_ff_ff));
        canvas.ellipse(
            vec2(f32::NAN, 0.0),
            vec2(1.0, f32::INFINITY),
            0.0,
            rgb(0xff_ff_ff),
        );
        let picture = canvas.picture();
        let pixel = |x: usize, y: usize| &picture.rgb[(y * 20 + x) * 3..][..3];
        assert_eq!(pixel(3, 3), [255, 255, 255]);
        assert_eq!(pixel(15, 5), [255, 0, 0]);
        assert_eq!(pixel(0, 9), [0, 0, 0]);
    }
}
