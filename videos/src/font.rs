//! Font made of strokes, drawn for this project: digits, capital letters and a few signs.
//!
//! The cell of a character is four units wide and six high. A character is drawn through any map from that
//! cell to the picture, so plates can be seen in perspective.

use crate::canvas::{Canvas, Rgba};
use crate::geometry::{Vec2, vec2};

/// Width of a character's cell, in its own units.
pub const WIDTH: f32 = 4.0;
/// Height of a character's cell.
pub const HEIGHT: f32 = 6.0;
/// Distance from the left edge of one cell to that of the next.
pub const ADVANCE: f32 = 5.6;

/// Strokes by character: points `x,y`, strokes parted by `;`.
const GLYPHS: &[(char, &str)] = &[
    ('0', "0,1 1,0 3,0 4,1 4,5 3,6 1,6 0,5 0,1"),
    ('1', "0.8,1.3 2.3,0 2.3,6"),
    ('2', "0,1.2 1,0 3,0 4,1 4,2.2 0,6 4,6"),
    (
        '3',
        "0,0.9 1,0 3,0 4,1 4,2 3,2.9 1.6,2.9;3,2.9 4,3.8 4,5 3,6 1,6 0,5.1",
    ),
    ('4', "3,6 3,0 0,4.2 4,4.2"),
    ('5', "3.8,0 0.4,0 0.2,2.8 2.8,2.5 4,3.5 4,5 3,6 1,6 0,5.2"),
    (
        '6',
        "3.7,0.7 2.8,0 1.2,0 0,1.4 0,5 1,6 3,6 4,5 4,3.8 3,2.8 1,2.8 0,3.7",
    ),
    ('7', "0,0 4,0 1.6,6"),
    (
        '8',
        "1,2.9 0,2 0,1 1,0 3,0 4,1 4,2 3,2.9 1,2.9 0,3.9 0,5 1,6 3,6 4,5 4,3.9 3,2.9",
    ),
    (
        '9',
        "0.3,5.3 1.2,6 2.8,6 4,4.6 4,1 3,0 1,0 0,1 0,2.2 1,3.2 3,3.2 4,2.3",
    ),
    ('A', "0,6 2,0 4,6;0.8,3.8 3.2,3.8"),
    (
        'B',
        "0,0 0,6 2.9,6 4,5.1 4,3.9 3,3 0,3;0,0 2.6,0 3.6,0.8 3.6,2.1 2.8,3",
    ),
    ('C', "4,1.1 3,0 1.2,0 0,1.3 0,4.7 1.2,6 3,6 4,4.9"),
    ('D', "0,0 0,6 2.4,6 4,4.6 4,1.4 2.4,0 0,0"),
    ('E', "4,0 0,0 0,6 4,6;0,3 3,3"),
    ('F', "4,0 0,0 0,6;0,3 3,3"),
    ('G', "4,1.1 3,0 1.2,0 0,1.3 0,4.7 1.2,6 2.8,6 4,5 4,3.3 2.3,3.3"),
    ('H', "0,0 0,6;4,0 4,6;0,3 4,3"),
    ('I', "1,0 3,0;2,0 2,6;1,6 3,6"),
    ('J', "1.2,0 4,0 4,4.7 2.9,6 1.2,6 0,4.8"),
    ('K', "0,0 0,6;4,0 0.1,3.4;1.4,2.4 4,6"),
    ('L', "0,0 0,6 4,6"),
    ('M', "0,6 0,0 2,3.4 4,0 4,6"),
    ('N', "0,6 0,0 4,6 4,0"),
    (
        'O',
        "2,0 0.6,0.7 0,2.2 0,3.8 0.6,5.3 2,6 3.4,5.3 4,3.8 4,2.2 3.4,0.7 2,0",
    ),
    ('P', "0,6 0,0 2.9,0 4,1 4,2.3 2.9,3.3 0,3.3"),
    (
        'Q',
        "2,0 0.6,0.7 0,2.2 0,3.8 0.6,5.3 2,6 3.4,5.3 4,3.8 4,2.2 3.4,0.7 2,0;2.5,4.3 4.1,6.3",
    ),
    ('R', "0,6 0,0 2.9,0 4,1 4,2.3 2.9,3.2 0,3.2;1.8,3.2 4,6"),
    (
        'S',
        "3.9,1 3,0 1,0 0,0.9 0,2 0.9,2.8 3.1,3.2 4,4 4,5.1 3,6 1,6 0,5",
    ),
    ('T', "0,0 4,0;2,0 2,6"),
    ('U', "0,0 0,4.7 1.1,6 2.9,6 4,4.7 4,0"),
    ('V', "0,0 2,6 4,0"),
    ('W', "0,0 0.9,6 2,2.4 3.1,6 4,0"),
    ('X', "0,0 4,6;4,0 0,6"),
    ('Y', "0,0 2,3 4,0;2,3 2,6"),
    ('Z', "0,0 4,0 0,6 4,6"),
    ('-', "0.7,3 3.3,3"),
    ('/', "0.4,6 3.6,0"),
    (':', "2,1.8 2,2;2,4.4 2,4.6"),
    ('%', "0.2,6 3.8,0;0.9,0.6 0.9,1.4;3.1,4.6 3.1,5.4"),
    ('+', "2,1 2,5;0,3 4,3"),
    ('.', "2,5.8 2,6"),
];

/// Strokes of a character in units of its cell; empty for a space or an unknown character.
pub fn strokes(character: char) -> impl Iterator<Item = Vec<Vec2>> {
    let found = GLYPHS.iter().find(|(known, _)| *known == character);
    let strokes = found.map_or("", |(_, strokes)| *strokes).split(';');
    strokes.filter(|stroke| !stroke.is_empty()).map(|stroke| {
        let points = stroke.split(' ').filter_map(|point| {
            let (x, y) = point.split_once(',')?;
            Some(vec2(x.parse().ok()?, y.parse().ok()?))
        });
        points.collect()
    })
}

/// Width of a line of text in units of a cell.
#[must_use]
pub fn width(text: &str) -> f32 {
    let count = text.chars().count() as f32;
    (count * ADVANCE - (ADVANCE - WIDTH)).max(0.0)
}

/// Draws a line of text. `place` maps its units, whose origin is the top left of the first cell, to the
/// picture.
pub fn draw(canvas: &mut Canvas, text: &str, place: impl Fn(Vec2) -> Vec2, weight: f32, ink: Rgba) {
    for (index, character) in text.chars().enumerate() {
        let left = vec2(index as f32 * ADVANCE, 0.0);
        for stroke in strokes(character) {
            let points: Vec<Vec2> = stroke.iter().map(|point| place(*point + left)).collect();
            canvas.line(&points, weight, ink);
        }
    }
}

/// Draws a line of text upright with its top left at `at`, `height` pixels high.
pub fn write(canvas: &mut Canvas, text: &str, at: Vec2, height: f32, weight: f32, ink: Rgba) {
    let scale = height / HEIGHT;
    draw(canvas, text, |point| at + point * scale, weight, ink);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capital_letter_and_digit_lies_in_its_cell() {
        for character in ('0'..='9').chain('A'..='Z') {
            let points: Vec<Vec2> = strokes(character).flatten().collect();
            assert!(points.len() >= 2, "{character}");
            let inside = |point: &Vec2| (-0.2..=4.2).contains(&point.x) && (-0.4..=6.4).contains(&point.y);
            assert!(points.iter().all(inside), "{character}");
        }
        assert_eq!(strokes(' ').count(), 0);
    }
}
