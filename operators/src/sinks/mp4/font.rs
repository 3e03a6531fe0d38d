//! Pre-rendered glyphs in a size that suits the picture.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

const WEIGHT: FontWeight = FontWeight::Bold;

/// A font size: glyphs of one height, magnified by whole numbers for very large pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Font {
    raster: RasterHeight,
    zoom: usize,
}

impl Font {
    /// The size for a picture of this many lines: about a thirtieth of it, never less than 16 pixels.
    pub(super) fn for_lines(lines: u32) -> Self {
        let wanted = lines as usize / 34;
        let (raster, zoom) = match wanted {
            0..=17 => (RasterHeight::Size16, 1),
            18..=21 => (RasterHeight::Size20, 1),
            22..=27 => (RasterHeight::Size24, 1),
            _ => (RasterHeight::Size32, (wanted / 32).max(1)),
        };
        Self { raster, zoom }
    }

    /// Height of a line in pixels.
    pub(super) fn height(self) -> usize {
        self.raster.val() * self.zoom
    }

    /// Width of `count` characters in pixels.
    pub(super) fn width(self, count: usize) -> usize {
        get_raster_width(WEIGHT, self.raster) * self.zoom * count
    }

    /// Calls `paint(x, y, opacity)` for the pixels of a character that are not empty.
    pub(super) fn glyph(self, character: char, mut paint: impl FnMut(usize, usize, u8)) {
        let Some(glyph) =
            get_raster(character, WEIGHT, self.raster).or_else(|| get_raster('?', WEIGHT, self.raster))
        else {
            return;
        };
        for (y, row) in glyph.rows().enumerate() {
            for (x, &opacity) in row.iter().enumerate().filter(|(_, opacity)| **opacity > 0) {
                for index in 0..self.zoom * self.zoom {
                    paint(
                        x * self.zoom + index % self.zoom,
                        y * self.zoom + index / self.zoom,
                        opacity,
                    );
                }
            }
        }
    }
}

/// First characters of Chinese number plates, and the letters by which ISO 3166-2:CN names the province. The font has
/// no Chinese characters, so the letters are drawn instead; events keep the characters.
#[rustfmt::skip]
const PROVINCES: [(char, &str); 31] = [
    ('京', "BJ"), ('沪', "SH"), ('津', "TJ"), ('渝', "CQ"), ('冀', "HE"), ('晋', "SX"), ('蒙', "NM"), ('辽', "LN"),
    ('吉', "JL"), ('黑', "HL"), ('苏', "JS"), ('浙', "ZJ"), ('皖', "AH"), ('闽', "FJ"), ('赣', "JX"), ('鲁', "SD"),
    ('豫', "HA"), ('鄂', "HB"), ('湘', "HN"), ('粤', "GD"), ('桂', "GX"), ('琼', "HI"), ('川', "SC"), ('贵', "GZ"),
    ('云', "YN"), ('藏', "XZ"), ('陕', "SN"), ('甘', "GS"), ('青', "QH"), ('宁', "NX"), ('新', "XJ"),
];

/// `text` in characters that can be drawn.
pub(super) fn drawable(text: &str) -> String {
    let mut drawn = String::with_capacity(text.len());
    for character in text.chars() {
        match PROVINCES.iter().find(|(province, _)| *province == character) {
            Some((_, letters)) => {
                drawn.push_str(letters);
                drawn.push('·');
            }
            None if character.is_control() => drawn.push(' '),
            None => drawn.push(character),
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provinces_become_letters() {
        assert_eq!(drawable("皖A12345"), "AH·A12345");
        assert_eq!(drawable("a\nb"), "a b");
    }

    #[test]
    fn the_font_grows_with_the_picture() {
        let heights = [100, 360, 720, 1080, 2160, 4320].map(|lines| Font::for_lines(lines).height());
        assert_eq!(heights, [16, 16, 20, 32, 32, 96]);
    }
}
