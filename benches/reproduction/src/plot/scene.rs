//! What a figure is drawn with: filled polygons, lines and text in figure units (pixels at 96 per inch, y downwards).
//! Both writers draw exactly this list, which is why the SVG and the PNG look the same.

/// A colour and how much of it covers what lies below (0 to 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Paint {
    pub(super) rgb: [u8; 3],
    pub(super) alpha: f32,
}

impl Paint {
    pub(super) const fn solid(rgb: [u8; 3]) -> Self {
        Self { rgb, alpha: 1.0 }
    }

    pub(super) const fn with_alpha(self, alpha: f32) -> Self {
        Self { rgb: self.rgb, alpha }
    }
}

/// Text sizes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Ticks and legends.
    Small,
    /// Axis labels and panel titles.
    Label,
    /// The figure's title.
    Title,
}

/// Which end of a text its place means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text is turned, against the clock, around its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    Eighth,
    Quarter,
}

/// A line of text; `at` is its vertical middle and the end named by `anchor`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub(super) at: (f64, f64),
    pub(super) content: String,
    pub(super) size: Size,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
    pub(super) turn: Turn,
    pub(super) paint: Paint,
}

/// One thing drawn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Polygon {
        points: Vec<(f64, f64)>,
        paint: Paint,
    },
    Line {
        points: Vec<(f64, f64)>,
        width: f64,
        dash: Option<[f64; 2]>,
        paint: Paint,
    },
    Text(Text),
}

/// Everything drawn, in order: the later covers the earlier.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn polygon(&mut self, points: Vec<(f64, f64)>, paint: Paint) {
        self.shapes.push(Shape::Polygon { points, paint });
    }

    /// The rectangle between two corners, given in any order.
    pub(super) fn rect(&mut self, a: (f64, f64), b: (f64, f64), paint: Paint) {
        self.polygon(vec![a, (b.0, a.1), b, (a.0, b.1)], paint);
    }

    pub(super) fn line(&mut self, points: Vec<(f64, f64)>, width: f64, paint: Paint) {
        self.shapes.push(Shape::Line {
            points,
            width,
            dash: None,
            paint,
        });
    }

    pub(super) fn dashed(&mut self, points: Vec<(f64, f64)>, width: f64, paint: Paint) {
        self.shapes.push(Shape::Line {
            points,
            width,
            dash: Some([6.0, 4.0]),
            paint,
        });
    }

    pub(super) fn text(&mut self, at: (f64, f64), content: &str, size: Size, anchor: Anchor) {
        self.shapes.push(Shape::Text(Text {
            at,
            content: content.to_owned(),
            size,
            bold: size == Size::Title,
            anchor,
            turn: Turn::None,
            paint: super::palette::INK,
        }));
    }

    pub(super) fn turned(&mut self, at: (f64, f64), content: &str, size: Size, anchor: Anchor, turn: Turn) {
        self.text(at, content, size, anchor);
        if let Some(Shape::Text(text)) = self.shapes.last_mut() {
            text.turn = turn;
        }
    }
}
