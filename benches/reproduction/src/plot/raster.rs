//! A scene as pixels: polygons and lines through a path rasteriser, text from the bitmap face, blended over white.

use zeno::{Cap, Command, Join, Mask, Stroke, Vector};

use super::font::{self, Coverage, SCALE};
use super::scene::{Anchor, Paint, Scene, Shape, Text, Turn};

/// An RGB image, eight bits a channel, rows from the top.
pub(super) struct Image {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) rgb: Vec<u8>,
}

/// Draws everything, at [`SCALE`] pixels per figure unit.
pub(super) fn draw(scene: &Scene) -> Image {
    let width = (f64::from(scene.width) * SCALE).round() as u32;
    let height = (f64::from(scene.height) * SCALE).round() as u32;
    let mut image = Image {
        width,
        height,
        rgb: vec![255; width as usize * height as usize * 3],
    };
    for shape in &scene.shapes {
        match shape {
            Shape::Polygon { points, paint } => image.fill(points, *paint),
            Shape::Line {
                points,
                width,
                dash,
                paint,
            } => image.stroke(points, *width, *dash, *paint),
            Shape::Text(text) => image.text(text),
        }
    }
    image
}

impl Image {
    fn fill(&mut self, points: &[(f64, f64)], paint: Paint) {
        if points.len() < 3 {
            return;
        }
        let mut path = commands(points);
        path.push(Command::Close);
        let (mask, placement) = Mask::new(path.as_slice()).render();
        self.blend(&mask, (placement.left, placement.top), placement.width, paint);
    }

    fn stroke(&mut self, points: &[(f64, f64)], width: f64, dash: Option<[f64; 2]>, paint: Paint) {
        if points.len() < 2 {
            return;
        }
        let (path, width) = match *points {
            [a, b] if a.0 == b.0 || a.1 == b.1 => crisp(a, b, width),
            _ => (commands(points), (width * SCALE) as f32),
        };
        let mut stroke = Stroke::new(width);
        stroke.join(Join::Round).cap(Cap::Butt);
        let dashes = dash.map(|on_off| on_off.map(|length| (length * SCALE) as f32));
        if let Some(dashes) = &dashes {
            stroke.dash(dashes, 0.0);
        }
        let (mask, placement) = Mask::new(path.as_slice()).style(stroke).render();
        self.blend(&mask, (placement.left, placement.top), placement.width, paint);
    }

    fn text(&mut self, text: &Text) {
        let coverage = font::coverage(&text.content, text.size, text.bold);
        let (width, height) = (coverage.width as f64, coverage.height as f64);
        let shift = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => (width / 2.0).round(),
            Anchor::End => width,
        };
        // Constants, not sines: the same bits on every machine.
        let (cos, sin) = match text.turn {
            Turn::None => (1.0, 0.0),
            Turn::Eighth => (std::f64::consts::FRAC_1_SQRT_2, -std::f64::consts::FRAC_1_SQRT_2),
            Turn::Quarter => (0.0, -1.0),
        };
        let (x, y) = ((text.at.0 * SCALE).round(), (text.at.1 * SCALE).round());
        let corners = [
            (-shift, -height / 2.0),
            (width - shift, -height / 2.0),
            (-shift, height / 2.0),
            (width - shift, height / 2.0),
        ]
        .map(|(u, v)| (x + u * cos - v * sin, y + u * sin + v * cos));
        let low = |pick: fn(&(f64, f64)) -> f64| {
            corners.iter().map(pick).fold(f64::INFINITY, f64::min).floor() as i32 - 1
        };
        let high = |pick: fn(&(f64, f64)) -> f64| {
            corners.iter().map(pick).fold(f64::NEG_INFINITY, f64::max).ceil() as i32 + 1
        };
        for row in low(|c| c.1)..high(|c| c.1) {
            for column in low(|c| c.0)..high(|c| c.0) {
                let (dx, dy) = (f64::from(column) + 0.5 - x, f64::from(row) + 0.5 - y);
                let (u, v) = (dx * cos + dy * sin + shift, dy * cos - dx * sin + height / 2.0);
                self.cover(column, row, sample(&coverage, u - 0.5, v - 0.5), text.paint);
            }
        }
    }

    fn blend(&mut self, mask: &[u8], (left, top): (i32, i32), width: u32, paint: Paint) {
        if width == 0 {
            return;
        }
        for (row, line) in mask.chunks_exact(width as usize).enumerate() {
            for (column, cover) in line.iter().enumerate() {
                self.cover(
                    left + column as i32,
                    top + row as i32,
                    f32::from(*cover) / 255.0,
                    paint,
                );
            }
        }
    }

    fn cover(&mut self, x: i32, y: i32, cover: f32, paint: Paint) {
        let inside = x >= 0 && y >= 0 && (x as u32) < self.width && (y as u32) < self.height;
        let share = cover * paint.alpha;
        if !inside || share <= 0.0 {
            return;
        }
        let at = (y as usize * self.width as usize + x as usize) * 3;
        for (below, above) in self.rgb[at..at + 3].iter_mut().zip(paint.rgb) {
            *below = (f32::from(*below) * (1.0 - share) + f32::from(above) * share).round() as u8;
        }
    }
}

fn commands(points: &[(f64, f64)]) -> Vec<Command> {
    points
        .iter()
        .enumerate()
        .map(|(index, (x, y))| {
            let at = Vector::new((x * SCALE) as f32, (y * SCALE) as f32);
            if index == 0 {
                Command::MoveTo(at)
            } else {
                Command::LineTo(at)
            }
        })
        .collect()
}

/// An upright or level line on whole pixels, so that axes and grids are not blurred.
fn crisp(a: (f64, f64), b: (f64, f64), width: f64) -> (Vec<Command>, f32) {
    let pixels = (width * SCALE).floor().max(1.0);
    let offset = (pixels % 2.0) / 2.0;
    let snap = |value: f64| ((value * SCALE).floor() + offset) as f32;
    let plain = |value: f64| (value * SCALE) as f32;
    let upright = a.0 == b.0;
    let place = |(x, y): (f64, f64)| {
        if upright {
            Vector::new(snap(x), plain(y))
        } else {
            Vector::new(plain(x), snap(y))
        }
    };
    (
        vec![Command::MoveTo(place(a)), Command::LineTo(place(b))],
        pixels as f32,
    )
}

/// Coverage (0 to 1) between the four pixels around a place.
fn sample(coverage: &Coverage, u: f64, v: f64) -> f32 {
    let (left, top) = (u.floor(), v.floor());
    let (right, down) = ((u - left) as f32, (v - top) as f32);
    let pixel = |x: f64, y: f64| {
        let inside = x >= 0.0 && y >= 0.0 && x < coverage.width as f64 && y < coverage.height as f64;
        if inside {
            f32::from(coverage.alpha[y as usize * coverage.width + x as usize]) / 255.0
        } else {
            0.0
        }
    };
    let above = pixel(left, top) * (1.0 - right) + pixel(left + 1.0, top) * right;
    let below = pixel(left, top + 1.0) * (1.0 - right) + pixel(left + 1.0, top + 1.0) * right;
    above * (1.0 - down) + below * down
}
