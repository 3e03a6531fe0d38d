//! Colours: the eight of Okabe and Ito, told apart by colour-blind readers too, and the greys around them.

use super::scene::Paint;

/// Text, axes, error bars and paper markers.
pub(super) const INK: Paint = Paint::solid([34, 34, 34]);
/// Frames and ticks.
pub(super) const FRAME: Paint = Paint::solid([120, 120, 120]);
/// Grid lines.
pub(super) const GRID: Paint = Paint::solid([226, 226, 226]);
/// The page.
pub(super) const PAGE: Paint = Paint::solid([255, 255, 255]);
/// Shaded regions.
pub(super) const REGION: Paint = Paint {
    rgb: [90, 90, 120],
    alpha: 0.16,
};

// Yellow is last: on white it is the weakest.
const SERIES: [[u8; 3]; 8] = [
    [0, 114, 178],
    [230, 159, 0],
    [0, 158, 115],
    [213, 94, 0],
    [86, 180, 233],
    [204, 121, 167],
    [110, 110, 110],
    [240, 228, 66],
];

/// The colour of the `index`th name of a figure; they repeat after eight.
pub(super) fn series(index: usize) -> Paint {
    Paint::solid(SERIES[index % SERIES.len()])
}
