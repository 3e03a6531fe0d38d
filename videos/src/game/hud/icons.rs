//! Silhouettes of weapons and items, drawn for this project in a field from -10 to 10.

use crate::canvas::{Rgba, rgb};

use super::super::sketch::Sketch;

/// Classes of items; the first `WEAPONS` are weapons.
pub const ITEMS: [&str; 13] = [
    "pistol", "rifle", "shotgun", "sniper", "smg", "knife", "grenade", "smoke", "medkit", "armour", "helmet",
    "ammo", "scope",
];
/// Number of entries of [`ITEMS`], from the first on, that are weapons held in hand.
pub(crate) const WEAPONS: usize = 6;

/// Length of a weapon in the hands, seen from above, in units of the map.
pub(crate) fn length(item: usize) -> f32 {
    [14.0, 24.0, 23.0, 30.0, 18.0, 10.0]
        .get(item)
        .copied()
        .unwrap_or(8.0)
}

/// The silhouette of an item in a main tint; details are darker or lighter.
pub(crate) fn icon(item: usize, main: Rgba) -> Sketch {
    let mut sketch = Sketch::default();
    let s = &mut sketch;
    match item {
        0 => pistol(s, main),
        1 => rifle(s, main),
        2 => shotgun(s, main),
        3 => sniper(s, main),
        4 => smg(s, main),
        5 => knife(s, main),
        6 => grenade(s, main),
        7 => smoke(s, main),
        8 => medkit(s, main),
        9 => armour(s, main),
        10 => helmet(s, main),
        11 => ammo(s),
        _ => scope(s, main),
    }
    sketch
}

fn pistol(s: &mut Sketch, main: Rgba) {
    s.line(
        &[(-1.5, 0.5), (-0.6, 3.4), (2.4, 3.2), (2.6, 0.0)],
        1.0,
        main.lit(0.7),
    );
    s.polygon(
        &[(-7.5, -0.5), (-2.0, -0.5), (-3.6, 7.5), (-8.6, 7.0)],
        main.lit(0.7),
    );
    s.bar([-8.5, -4.5, 8.0, 0.2], main);
    s.line(&[(-7.0, -1.2), (7.0, -1.2)], 0.8, main.lit(0.5));
    for x in [-7.0, -5.6, -4.2] {
        s.line(&[(x, -3.8), (x, -2.2)], 0.6, main.lit(0.5));
    }
    s.bar([6.4, -5.4, 7.4, -4.4], main);
}

fn rifle(s: &mut Sketch, main: Rgba) {
    s.polygon(
        &[(-10.0, -1.5), (-5.0, -2.0), (-5.0, 1.2), (-10.0, 4.0)],
        main.lit(0.7),
    );
    s.polygon(&[(-0.8, 0.8), (2.2, 0.8), (3.8, 6.4), (0.8, 7.2)], main.lit(0.75));
    s.polygon(
        &[(-4.6, 0.8), (-2.4, 0.8), (-3.8, 5.2), (-5.8, 4.8)],
        main.lit(0.7),
    );
    s.bar([-5.2, -2.6, 3.4, 1.0], main);
    s.bar([3.2, -2.2, 7.0, 0.4], main.lit(0.7));
    s.bar([6.8, -1.6, 10.0, -0.4], main);
    s.line(&[(-3.0, -3.6), (1.6, -3.6)], 0.9, main);
    s.line(&[(-2.6, -3.4), (-2.6, -2.6)], 0.9, main);
    s.line(&[(8.2, -3.6), (8.2, -1.4)], 0.9, main);
}

fn shotgun(s: &mut Sketch, main: Rgba) {
    let wood = rgb(0xb8_74_3c);
    s.polygon(
        &[
            (-10.0, 1.0),
            (-4.6, -2.0),
            (-2.0, -2.0),
            (-2.0, 1.2),
            (-4.4, 1.4),
            (-9.4, 5.4),
        ],
        wood,
    );
    s.bar([-2.4, -2.6, 10.0, -0.9], main);
    s.bar([-2.4, -0.6, 7.6, 1.2], main.lit(0.75));
    s.bar([1.6, -0.9, 6.2, 2.2], wood);
    for x in [2.8, 4.0, 5.2] {
        s.line(&[(x, -0.2), (x, 1.6)], 0.5, wood.lit(0.55));
    }
}

fn sniper(s: &mut Sketch, main: Rgba) {
    s.polygon(
        &[
            (-10.0, 0.0),
            (-5.0, -0.8),
            (1.0, -0.8),
            (1.0, 1.4),
            (-4.0, 1.6),
            (-10.0, 4.2),
        ],
        main.lit(0.72),
    );
    s.bar([-2.0, -1.2, 10.0, 0.0], main);
    s.bar([8.6, -1.8, 10.0, 0.6], main);
    s.bar([-4.4, -5.0, 3.0, -3.0], main.lit(0.85));
    s.bar([2.6, -5.6, 4.2, -2.4], main);
    s.bar([-5.6, -5.4, -4.0, -2.6], main);
    s.line(&[(-2.4, -3.0), (-2.4, -1.0)], 0.9, main);
    s.line(&[(1.2, -3.0), (1.2, -1.0)], 0.9, main);
    s.line(&[(5.4, 0.0), (3.8, 5.6)], 0.8, main.lit(0.8));
    s.line(&[(5.4, 0.0), (7.0, 5.6)], 0.8, main.lit(0.8));
}

fn smg(s: &mut Sketch, main: Rgba) {
    s.line(&[(-4.6, -2.2), (-9.4, -2.2), (-9.4, 2.6)], 1.1, main.lit(0.75));
    s.bar([0.6, 0.4, 3.0, 8.6], main.lit(0.75));
    s.polygon(
        &[(-4.4, 0.4), (-2.0, 0.4), (-2.8, 5.0), (-5.2, 5.0)],
        main.lit(0.7),
    );
    s.bar([-5.0, -3.8, 5.4, 0.8], main);
    s.bar([5.2, -2.6, 8.6, -0.8], main.lit(0.8));
    s.line(&[(-3.4, -2.0), (3.6, -2.0)], 0.8, main.lit(0.5));
    s.bar([-1.0, -5.0, 1.4, -3.6], main);
}

fn knife(s: &mut Sketch, main: Rgba) {
    s.polygon(
        &[(-2.2, 0.4), (0.4, 3.0), (8.6, -5.4), (9.2, -9.0), (5.8, -8.4)],
        main,
    );
    s.line(&[(0.4, 1.0), (7.6, -6.6)], 0.7, main.lit(0.6));
    s.line(&[(-3.4, 0.2), (0.8, 4.2)], 1.8, main.lit(0.55));
    s.line(&[(-2.6, 3.2), (-7.6, 8.0)], 3.4, rgb(0x8a_5c_34));
}

fn grenade(s: &mut Sketch, main: Rgba) {
    let green = rgb(0x7c_98_50).mixed(main, 0.25);
    s.oval([-0.5, 2.4, 5.6, 6.6], green);
    for y in [0.2, 3.0, 5.8] {
        s.line(&[(-4.6, y), (3.6, y)], 0.7, green.lit(0.55));
    }
    for x in [-3.0, -0.5, 2.0] {
        s.line(&[(x, -2.6), (x, 7.4)], 0.7, green.lit(0.55));
    }
    s.bar([-2.8, -6.6, 1.8, -3.4], main.lit(0.8));
    s.line(&[(0.0, -6.6), (4.4, -6.0), (6.2, 0.6)], 1.5, main);
    s.ring([-5.0, -6.4, 2.2], 1.0, main);
}

fn smoke(s: &mut Sketch, main: Rgba) {
    let puff = rgb(0xd8_dc_e0);
    for [x, y, r] in [
        [-3.6, -6.0, 3.2],
        [0.6, -7.0, 3.0],
        [4.2, -5.2, 3.0],
        [0.2, -4.2, 3.4],
    ] {
        s.oval([x, y, r, r], puff.lit(0.8 + r * 0.05));
    }
    s.bar([-3.8, -2.2, 3.8, 9.4], rgb(0x5c_68_74).mixed(main, 0.2));
    s.bar([-3.8, 0.6, 3.8, 3.0], rgb(0xe8_c0_40));
    s.bar([-2.2, -3.6, 2.2, -2.0], main.lit(0.6));
    s.line(&[(-2.2, 5.2), (2.2, 5.2)], 0.8, main);
    s.line(&[(-2.2, 7.2), (2.2, 7.2)], 0.8, main);
}

fn medkit(s: &mut Sketch, main: Rgba) {
    s.line(
        &[(-3.2, -5.0), (-3.2, -7.6), (3.2, -7.6), (3.2, -5.0)],
        1.5,
        main.lit(0.8),
    );
    s.bar([-9.0, -5.2, 9.0, 7.8], rgb(0xf0_f0_ee));
    s.bar([-9.0, 5.8, 9.0, 7.8], rgb(0xb8_bc_c0));
    s.bar([-1.6, -3.6, 1.6, 5.4], rgb(0xd8_28_2c));
    s.bar([-4.6, -0.6, 4.6, 2.4], rgb(0xd8_28_2c));
}

fn armour(s: &mut Sketch, main: Rgba) {
    let cloth = rgb(0x5a_78_a0).mixed(main, 0.25);
    s.polygon(
        &[
            (-6.8, -8.6),
            (-3.0, -8.6),
            (-2.2, -5.2),
            (2.2, -5.2),
            (3.0, -8.6),
            (6.8, -8.6),
            (6.0, -3.4),
            (8.0, -0.6),
            (7.4, 8.8),
            (-7.4, 8.8),
            (-8.0, -0.6),
            (-6.0, -3.4),
        ],
        cloth,
    );
    s.bar([-5.6, 2.4, -0.8, 7.0], cloth.lit(0.62));
    s.bar([0.8, 2.4, 5.6, 7.0], cloth.lit(0.62));
    s.line(&[(-6.4, 0.4), (6.4, 0.4)], 1.1, cloth.lit(0.62));
    s.line(&[(0.0, -4.4), (0.0, 8.2)], 0.7, cloth.lit(0.5));
}

fn helmet(s: &mut Sketch, main: Rgba) {
    let steel = rgb(0x80_88_5c).mixed(main, 0.25);
    s.line(
        &[(-5.6, 2.4), (-3.4, 8.0), (1.6, 8.0), (4.2, 2.6)],
        1.1,
        steel.lit(0.5),
    );
    s.polygon(
        &[
            (-8.8, 2.8),
            (-8.4, -2.0),
            (-6.0, -6.0),
            (-2.0, -8.0),
            (2.4, -7.8),
            (6.0, -5.6),
            (8.0, -1.8),
            (8.2, 1.2),
            (10.0, 2.8),
        ],
        steel,
    );
    s.bar([-9.0, 1.6, 9.4, 3.4], steel.lit(0.6));
    s.line(&[(-5.2, -3.6), (-1.6, -6.0)], 1.2, steel.lit(1.4));
}

fn ammo(s: &mut Sketch) {
    let (brass, tip) = (rgb(0xe0_b0_48), rgb(0xb0_68_40));
    for x in [-6.2, 0.0, 6.2] {
        s.polygon(
            &[
                (x - 2.2, -3.0),
                (x - 1.5, -6.6),
                (x, -9.0),
                (x + 1.5, -6.6),
                (x + 2.2, -3.0),
            ],
            tip,
        );
        s.bar([x - 2.2, -3.0, x + 2.2, 7.0], brass);
        s.bar([x - 0.6, -3.0, x + 0.6, 7.0], brass.lit(1.25));
        s.bar([x - 2.6, 7.2, x + 2.6, 8.8], brass.lit(0.75));
    }
}

fn scope(s: &mut Sketch, main: Rgba) {
    s.oval([0.0, 0.0, 8.6, 8.6], rgb(0x20_40_50));
    s.oval([-2.4, -2.8, 3.4, 2.6], rgb(0x40_78_90));
    s.ring([0.0, 0.0, 8.2], 2.0, main);
    s.line(&[(-7.6, 0.0), (7.6, 0.0)], 0.9, rgb(0xe8_40_38));
    s.line(&[(0.0, -7.6), (0.0, 7.6)], 0.9, rgb(0xe8_40_38));
    for step in [-4.0, 4.0] {
        s.line(&[(-1.2, step), (1.2, step)], 0.7, rgb(0xe8_40_38));
        s.line(&[(step, -1.2), (step, 1.2)], 0.7, rgb(0xe8_40_38));
    }
}
