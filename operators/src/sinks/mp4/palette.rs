//! Colours of classes: a name has the same colour in every run.

/// Red, green, blue.
pub(super) type Color = [u8; 3];

pub(super) const WHITE: Color = [255, 255, 255];
pub(super) const BLACK: Color = [16, 16, 16];

/// Bright enough for a dark street and dark enough for a pale sky.
const COLORS: [Color; 12] = [
    [255, 92, 87],
    [57, 181, 255],
    [90, 214, 102],
    [255, 184, 47],
    [190, 124, 255],
    [0, 209, 197],
    [255, 120, 203],
    [176, 209, 54],
    [255, 143, 66],
    [113, 146, 255],
    [226, 196, 134],
    [121, 211, 167],
];

/// The colour of a class, by the FNV-1a hash of its name.
pub(super) fn color_of(class: &str) -> Color {
    let hash = class.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    COLORS[(hash >> 8) as usize % COLORS.len()]
}
