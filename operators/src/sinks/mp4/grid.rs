//! A picture with a grid and labels, to take points of zones and lines from.

use weir_flow::Overlay;

use super::canvas::{Area, Canvas};
use super::font::Font;
use super::overlays;
use super::palette::{BLACK, Color, WHITE};
use super::png::png;
use crate::ShownPicture;
use crate::pixels::Sampler;

/// Lines from one edge to the other, in each direction.
const STEPS: u32 = 10;

const MIDDLE: Color = [255, 210, 0];

/// The picture as PNG, with lines at every tenth of its width and height; each is labelled with its part of the frame, and
/// below that in pixels. Overlays are drawn over them.
///
/// # Errors
/// The reason where it cannot be encoded.
pub fn grid_png(picture: &ShownPicture, shown: &[Overlay]) -> Result<Vec<u8>, String> {
    let mut canvas = Canvas::default();
    canvas.begin(picture, &mut Sampler::new());
    draw(&mut canvas);
    let (width, height) = (canvas.width(), canvas.height());
    let thick = (height.min(width) as f32 / 300.0).clamp(1.5, 8.0);
    overlays::draw(&mut canvas, shown, thick, Font::for_lines(height));
    png(canvas.rgb())
}

fn draw(canvas: &mut Canvas) {
    let (width, height) = (canvas.width(), canvas.height());
    let font = Font::for_lines(height);
    let thick = (height.min(width) as f32 / 600.0).max(1.0);
    for step in 1..STEPS {
        let part = step as f32 / STEPS as f32;
        let (x, y) = (part * width as f32, part * height as f32);
        let color = if step * 2 == STEPS { MIDDLE } else { WHITE };
        // Dark beside bright, so that the line is seen on either.
        for (shift, color) in [(thick, BLACK), (0.0, color)] {
            canvas.line((x + shift, 0.0), (x + shift, height as f32), thick, color);
            canvas.line((0.0, y + shift), (width as f32, y + shift), thick, color);
        }
    }
    for step in 1..STEPS {
        let part = f64::from(step) / f64::from(STEPS);
        let (x, y) = (part * f64::from(width), part * f64::from(height));
        let (x, y) = (x.round() as i64, y.round() as i64);
        let lines = |pixels: i64| [format!("{part:.1}"), pixels.to_string()];
        label(canvas, (x, 0), &lines(x), font);
        label(canvas, (0, y), &lines(y), font);
    }
}

/// Lines of text below and to the right of a point.
fn label(canvas: &mut Canvas, (x, y): (i64, i64), lines: &[String], font: Font) {
    let pad = (font.height() / 6) as i64;
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let area = Area {
        x0: x + 2,
        y0: y + 2,
        x1: x + 2 + font.width(longest) as i64 + 2 * pad,
        y1: y + 2 + (font.height() * lines.len()) as i64,
    };
    canvas.fill(area, BLACK, 170);
    for (index, line) in lines.iter().enumerate() {
        let color = if index == 0 { WHITE } else { MIDDLE };
        let at = (area.x0 + pad, area.y0 + (index * font.height()) as i64);
        canvas.text(at, line, font, color);
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::{Frame, Image};

    use super::*;

    #[test]
    fn the_picture_keeps_its_size_and_has_lines_where_labels_say() {
        let grey = Image::from_rgb(320, 180, vec![128; 320 * 180 * 3]);
        let grey = ShownPicture::of(&Frame::new(0, 0.0, grey));
        let png = grid_png(&grey, &[]).expect("memory");
        let picture = image::load_from_memory(&png).expect("a PNG").to_rgb8();
        assert_eq!(picture.dimensions(), (320, 180));
        let differs = |x: u32, y: u32| picture.get_pixel(x, y).0 != [128; 3];
        assert!(differs(160, 95) && differs(288, 175) && differs(310, 90));
        assert!(!differs(170, 95) && !differs(300, 120));
    }
}
