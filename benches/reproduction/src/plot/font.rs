//! Letters: a monospaced bitmap face carried by a crate, so that no figure depends on the fonts of a machine.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

use super::scene::Size;

/// Device pixels of a PNG for one figure unit.
pub(super) const SCALE: f64 = 1.5;

// The face advances by this much of its em.
const ADVANCE: f64 = 0.6;

fn raster_height(size: Size) -> RasterHeight {
    match size {
        Size::Small => RasterHeight::Size20,
        Size::Label => RasterHeight::Size24,
        Size::Title => RasterHeight::Size32,
    }
}

fn weight(bold: bool) -> FontWeight {
    if bold {
        FontWeight::Bold
    } else {
        FontWeight::Regular
    }
}

/// Width of one letter, in figure units.
pub(super) fn advance(size: Size) -> f64 {
    get_raster_width(FontWeight::Regular, raster_height(size)) as f64 / SCALE
}

/// The em, in figure units: what SVG calls the font size.
pub(super) fn em(size: Size) -> f64 {
    advance(size) / ADVANCE
}

/// Width of a line of text, in figure units.
pub(super) fn width(text: &str, size: Size) -> f64 {
    advance(size) * text.chars().count() as f64
}

/// How much of each device pixel a line of text covers, row by row.
pub(super) struct Coverage {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) alpha: Vec<u8>,
}

/// A line of text in device pixels; letters that the face lacks become `?`.
pub(super) fn coverage(text: &str, size: Size, bold: bool) -> Coverage {
    let raster = raster_height(size);
    let step = get_raster_width(weight(bold), raster);
    let width = step * text.chars().count();
    let height = raster.val();
    let mut alpha = vec![0; width * height];
    for (index, letter) in text.chars().enumerate() {
        let known =
            get_raster(plain(letter), weight(bold), raster).or_else(|| get_raster('?', weight(bold), raster));
        let Some(glyph) = known else { continue };
        for (y, row) in glyph.rows().enumerate() {
            let from = y * width + index * step;
            let span = row.len().min(step);
            alpha[from..from + span].copy_from_slice(&row[..span]);
        }
    }
    Coverage { width, height, alpha }
}

fn plain(letter: char) -> char {
    match letter {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}' | '\u{2019}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        '\u{3bc}' => '\u{b5}',
        letter if letter.is_control() => ' ',
        letter => letter,
    }
}
