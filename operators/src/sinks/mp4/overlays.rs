//! Drawing of what transforms show: zones as outlines, lines, and what they count.

use weir_flow::{Overlay, Point};

use super::canvas::{Area, Canvas};
use super::font::{Font, drawable};
use super::palette::{BLACK, Color};

const LINE: Color = [255, 210, 0];
const ZONE: Color = [0, 210, 255];
const MASK: Color = [255, 90, 90];

/// Draws outlines and their texts; the areas of the texts are returned, so that nothing else hides them.
pub(super) fn draw(canvas: &mut Canvas, overlays: &[Overlay], thick: f32, font: Font) -> Vec<Area> {
    let at = |point: &Point| (point.x, point.y);
    for overlay in overlays {
        let color = color(overlay);
        for pair in overlay.points.windows(2) {
            canvas.line(at(&pair[0]), at(&pair[1]), thick, color);
        }
        match overlay.points.as_slice() {
            [first, _, .., last] if overlay.is_closed => canvas.line(at(last), at(first), thick, color),
            [first, last] => {
                // Where it begins: its directions are seen from there.
                canvas.disc(at(first), thick * 2.5, color);
                canvas.disc(at(last), thick * 1.2, color);
            }
            _ => {}
        }
    }
    let mut areas: Vec<Area> = Vec::new();
    for overlay in overlays.iter().filter(|overlay| !overlay.points.is_empty()) {
        let text = match &*overlay.text {
            "" => drawable(&overlay.transform),
            text => drawable(&format!("{}: {text}", overlay.transform)),
        };
        let area = place(canvas, overlay, &text, font, &areas);
        canvas.fill(area, color(overlay), 225);
        canvas.text((area.x0 + pad(font), area.y0), &text, font, BLACK);
        areas.push(area);
    }
    areas
}

fn color(overlay: &Overlay) -> Color {
    match (overlay.kind, overlay.is_closed) {
        (Overlay::MASK, _) => MASK,
        (_, true) => ZONE,
        (_, false) => LINE,
    }
}

fn pad(font: Font) -> i64 {
    (font.height() / 6) as i64
}

/// Area for the text of an overlay: at its highest point, within the picture, and below texts in `taken`.
fn place(canvas: &Canvas, overlay: &Overlay, text: &str, font: Font, taken: &[Area]) -> Area {
    let highest = overlay.points.iter().min_by(|a, b| a.y.total_cmp(&b.y));
    let (x, y) = highest.map_or((0.0, 0.0), |point| (point.x, point.y));
    let width = font.width(text.chars().count()) as i64 + 2 * pad(font);
    let height = font.height() as i64;
    let of = |x: i64, y: i64| Area::inside(canvas, (x, y), (width, height));
    let (x, y) = (x.round() as i64, y.round() as i64);
    let places = (0..8).map(|row| of(x, y + row * height));
    let is_free = |area: &Area| taken.iter().all(|other| other.shared(area) == 0);
    places.clone().find(is_free).unwrap_or_else(|| of(x, y))
}

/// Texts beside the box of a track.
pub(super) fn tags(overlays: &[Overlay], track: u64) -> impl Iterator<Item = String> {
    let of_track = move |overlay: &Overlay| {
        let tags = overlay.tags.iter();
        tags.filter(|(tagged, _)| *tagged == track)
            .map(|(_, text)| drawable(text))
            .collect::<Vec<_>>()
    };
    overlays.iter().flat_map(of_track)
}
