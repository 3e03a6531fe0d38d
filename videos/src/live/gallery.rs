//! Faces of the gallery, cut as a module cuts those that a perfect detector finds.

use rand::RngExt;

use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::vec2;
use crate::lens::Lens;
use crate::person::{Figure, Identity, draw_figure};
use crate::seed::{Part, Seed};

/// Side of a face's picture in pixels.
const SIDE: u32 = 96;

/// Height of a face in pixels before it is cut, in views by turns: near, and as small as a street shows it. A small face
/// is known more surely by a small one.
const HEIGHTS: [f32; 2] = [130.0, 24.0];

/// Fraction by which the crop of a face exceeds its box on each side: `widen` of modules, as in the training
/// of models.
const WIDEN: f32 = 0.1;

/// The face of the person `number` of `part` (0 is `p01` in the gallery of clips), neutral and nearly from before; `view`
/// varies light, direction and distance. 96 by 96 pixels: the box of the face and a little around it, stretched to a
/// square.
#[must_use]
pub fn gallery_face(part: Part, number: u64, view: u32) -> Picture {
    let seed = Seed::new(part, number * 64 + u64::from(view));
    let mut rng = seed.rng("gallery");
    let height = HEIGHTS[view as usize % HEIGHTS.len()];
    let figure = Figure {
        feet: vec2(150.0, 140.0 + height / 0.158 * 0.921),
        height: height / 0.158,
        head: [
            rng.random_range(-12.0..12.0),
            rng.random_range(-7.0..7.0),
            rng.random_range(-3.0..3.0),
        ],
        eyes: (rng.random_range(-4.0..4.0), rng.random_range(-3.0..3.0)),
        light: rng.random_range(-0.6..0.6),
        ..Figure::default()
    };
    let mut canvas = Canvas::new(300, 280, rgb(0xc8ccd0));
    let seen = draw_figure(&mut canvas, &Identity::of(part, number), &figure);
    let lens = Lens {
        grain: 2.0,
        gain: rng.random_range(0.9..1.05),
        vignette: 0.0,
        blur: 0.0,
    };
    let picture = lens.seen(canvas.picture(), seed.key("grain"));
    let face = seen.face.map_or([100.0, 90.0, 200.0, 200.0], |face| face.array());
    cut(&picture, face)
}

/// The part of `picture` within `[left, top, right, bottom]` and a little around it, stretched to a square.
fn cut(picture: &Picture, [x0, y0, x1, y1]: [f32; 4]) -> Picture {
    let (aside, above) = ((x1 - x0) * WIDEN / 2.0, (y1 - y0) * WIDEN / 2.0);
    let [x0, y0, x1, y1] = [x0 - aside, y0 - above, x1 + aside, y1 + above];
    let place = |value: f32, most: u32| (value.max(0.0) as u32).min(most.saturating_sub(1));
    let (left, top) = (place(x0, picture.width), place(y0, picture.height));
    let (right, bottom) = (place(x1.ceil(), picture.width), place(y1.ceil(), picture.height));
    let image =
        image::RgbImage::from_raw(picture.width, picture.height, picture.rgb.clone()).unwrap_or_default();
    let face = image::imageops::crop_imm(&image, left, top, (right - left).max(1), (bottom - top).max(1));
    let square = image::imageops::resize(
        &face.to_image(),
        SIDE,
        SIDE,
        image::imageops::FilterType::Triangle,
    );
    Picture {
        width: SIDE,
        height: SIDE,
        rgb: square.into_raw(),
    }
}
