//! The ground: asphalt, kerbs, pavement, markings; and the sky.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::layout::{ACROSS, BEND, CYCLES, END, KERB, STOP_ACROSS, STOPS, ZEBRAS};
use super::stage::Stage;
use crate::canvas::{Canvas, Ink, Rgba, rgb};
use crate::geometry::{Vec2, Vec3, vec2, vec3};
use crate::seed::mix;

/// The colours of one street's ground.
struct Colours {
    asphalt: Rgba,
    pavement: Rgba,
    kerb: Rgba,
    marking: Rgba,
    cycles: Rgba,
}

/// Draws sky and ground onto the empty stage.
pub(super) fn draw(stage: &mut Stage, rng: &mut Pcg64, key: u64) {
    let grey = rng.random_range(0.36..0.47);
    let tint = rng.random_range(-0.015..0.025);
    let level = |colour: Rgba, stage: &Stage| stage.light.level(colour);
    let of = |value: f32, warm: f32| Rgba {
        r: value + warm,
        g: value,
        b: value - warm,
        a: 1.0,
    };
    let asphalt = of(grey, tint);
    let red_lanes = rng.random_bool(0.45);
    let colours = Colours {
        asphalt: level(asphalt, stage),
        pavement: level(
            of(rng.random_range(0.50..0.64), rng.random_range(0.0..0.05)),
            stage,
        ),
        kerb: level(of(0.70, 0.01), stage),
        marking: level(of(0.90, 0.01), stage),
        cycles: level(
            if red_lanes {
                asphalt.mixed(rgb(0x94_40_38), 0.55)
            } else {
                asphalt
            },
            stage,
        ),
    };
    sky(stage);
    streets(stage, &colours);
    markings(stage, &colours);
    patches(stage, rng, colours.asphalt);
    texture(stage, key);
}

fn sky(stage: &mut Stage) {
    let (width, height) = stage.canvas.size();
    let (top, low) = stage.light.sky;
    let horizon = stage
        .sight
        .point(stage.sight.eye() + vec3(0.0, 900.0, 0.0))
        .map_or(60.0, |at| at.y);
    let ink = Ink::Gradient {
        from: (vec2(0.0, (horizon - 230.0).min(-10.0)), top),
        to: (vec2(0.0, horizon), low),
    };
    stage.canvas.rect([0.0, 0.0, width as f32, height as f32], ink);
}

fn flat(x0: f32, y0: f32, x1: f32, y1: f32) -> [Vec3; 4] {
    [
        vec3(x0, y0, 0.0),
        vec3(x1, y0, 0.0),
        vec3(x1, y1, 0.0),
        vec3(x0, y1, 0.0),
    ]
}

/// The quarter of a disc at a corner of the pavement.
fn bend(centre: Vec2, radius: f32, towards: Vec2) -> Vec<Vec3> {
    let arc = (0..=8).map(|step| {
        let (sin, cos) = (std::f32::consts::FRAC_PI_2 * step as f32 / 8.0).sin_cos();
        vec3(
            centre.x + cos * radius * towards.x,
            centre.y + sin * radius * towards.y,
            0.0,
        )
    });
    std::iter::once(vec3(centre.x, centre.y, 0.0))
        .chain(arc)
        .collect()
}

fn streets(stage: &mut Stage, colours: &Colours) {
    stage.fill(&flat(-400.0, -20.0, 400.0, 900.0), colours.pavement);
    let edge = 0.28;
    let (near, far) = ACROSS;
    // Kerbs lie beneath, a little wider than the streets.
    stage.fill(&flat(-KERB - edge, -20.0, KERB + edge, END), colours.kerb);
    stage.fill(&flat(-200.0, near - edge, 200.0, far + edge), colours.kerb);
    for side in [-1.0, 1.0] {
        for (y, up) in [(near, -1.0), (far, 1.0)] {
            let (x, out) = (side * KERB, side * (KERB + BEND));
            stage.fill(&flat(x, y, out, y + up * BEND), colours.asphalt);
            let centre = vec2(out, y + up * BEND);
            let towards = vec2(-side, -up);
            stage.fill(&bend(centre, BEND, towards), colours.kerb);
            stage.fill(&bend(centre, BEND - edge, towards), colours.pavement);
        }
    }
    stage.fill(&flat(-200.0, near, 200.0, far), colours.asphalt);
    stage.fill(&flat(-KERB, -20.0, KERB, END), colours.asphalt);
    for side in [-1.0, 1.0] {
        for (from, to) in [(-20.0, near - BEND), (far + BEND, END)] {
            stage.fill(&flat(side * CYCLES, from, side * KERB, to), colours.cycles);
        }
    }
}

fn markings(stage: &mut Stage, colours: &Colours) {
    let paint = colours.marking.mixed(colours.asphalt, 0.12);
    let dash =
        |stage: &mut Stage, x0: f32, y0: f32, x1: f32, y1: f32| stage.fill(&flat(x0, y0, x1, y1), paint);
    let mut y = -8.0;
    while y < 130.0 {
        let free = ZEBRAS
            .iter()
            .all(|(from, to)| y + 3.0 < *from - 1.2 || y > *to + 1.2);
        if free && (y + 3.0 < ACROSS.0 - 1.0 || y > ACROSS.1 + 1.0) {
            dash(stage, -0.07, y, 0.07, y + 3.0);
        }
        y += 6.0;
    }
    for side in [-1.0, 1.0] {
        dash(stage, side * CYCLES - 0.06, -20.0, side * CYCLES + 0.06, STOPS.0);
        dash(stage, side * CYCLES - 0.06, STOPS.1, side * CYCLES + 0.06, 130.0);
        let mut x = 10.0;
        let middle = (ACROSS.0 + ACROSS.1) / 2.0;
        while x < 80.0 {
            dash(stage, side * x, middle - 0.07, side * (x + 3.0), middle + 0.07);
            x += 6.0;
        }
    }
    dash(stage, 0.1, STOPS.0, KERB - 0.1, STOPS.0 + 0.4);
    dash(stage, -KERB + 0.1, STOPS.1 - 0.4, -0.1, STOPS.1);
    let middle = (ACROSS.0 + ACROSS.1) / 2.0;
    dash(
        stage,
        -STOP_ACROSS,
        ACROSS.0 + 0.1,
        -STOP_ACROSS + 0.4,
        middle - 0.1,
    );
    dash(
        stage,
        STOP_ACROSS - 0.4,
        middle + 0.1,
        STOP_ACROSS,
        ACROSS.1 - 0.1,
    );
    for (from, to) in ZEBRAS {
        let mut x = -KERB + 0.3;
        while x < KERB - 0.4 {
            dash(stage, x, from, x + 0.5, to);
            x += 1.0;
        }
    }
}

/// Mended places and covers of drains.
fn patches(stage: &mut Stage, rng: &mut Pcg64, asphalt: Rgba) {
    for _ in 0..6 {
        let (x, y) = (rng.random_range(-3.2..2.4), rng.random_range(2.0..50.0));
        let (wide, long) = (rng.random_range(0.5..1.4), rng.random_range(0.8..4.0));
        let shade = rng.random_range(0.84..1.08);
        stage.fill(&flat(x, y, x + wide, y + long), asphalt.lit(shade).faded(0.55));
    }
    for _ in 0..3 {
        let (x, y) = (rng.random_range(-4.0..4.0), rng.random_range(4.0..40.0));
        let ring = |radius: f32| -> Vec<Vec3> {
            let points = (0..14).map(|step| {
                let (sin, cos) = (step as f32 * 0.449).sin_cos();
                vec3(x + cos * radius, y + sin * radius, 0.0)
            });
            points.collect()
        };
        stage.fill(&ring(0.36), asphalt.lit(0.6));
        stage.fill(&ring(0.30), asphalt.lit(0.8));
    }
}

/// Noise of the surface, slabs of the pavement, tracks of tyres; and clouds above the horizon.
fn texture(stage: &mut Stage, key: u64) {
    let noise = Noise::new(key);
    let mut picture = stage.canvas.picture();
    let eye = stage.sight.eye();
    let (clouds, cloud) = (stage.light.clouds, stage.light.sky.1.lit(1.04));
    let width = picture.width as usize;
    for (row, line) in picture.rgb.chunks_exact_mut(width * 3).enumerate() {
        let y = row as f32 + 0.5;
        // The camera is not rolled: a row has one slope, and its points lie on one line.
        let (from, to) = (
            stage.sight.ray(vec2(0.5, y)),
            stage.sight.ray(vec2(width as f32 - 0.5, y)),
        );
        if from.z < -0.012 {
            let reach = -eye.z / from.z;
            let start = vec2(eye.x + from.x * reach, eye.y + from.y * reach);
            let step = vec2((to.x - from.x) * reach, (to.y - from.y) * reach) * (1.0 / (width as f32 - 1.0));
            let pixel_width = step.length();
            for (column, pixel) in line.chunks_exact_mut(3).enumerate() {
                let by = surface(start + step * column as f32, pixel_width, &noise);
                for value in pixel {
                    *value = (f32::from(*value) * by).clamp(0.0, 255.0) as u8;
                }
            }
        } else if from.z > 0.0 {
            for (column, pixel) in line.chunks_exact_mut(3).enumerate() {
                let part = column as f32 / width as f32;
                let at = vec2(from.x + (to.x - from.x) * part, from.y) * (1.0 / (from.z + 0.12));
                let cover =
                    (noise.smooth(at * 1.3, 4) * 0.6 + noise.smooth(at * 3.7, 5) * 0.4 - 1.0 + clouds) * 2.0;
                let cover = cover.clamp(0.0, 0.8);
                for (value, light) in pixel.iter_mut().zip([cloud.r, cloud.g, cloud.b]) {
                    *value = (f32::from(*value) * (1.0 - cover) + light * 255.0 * cover) as u8;
                }
            }
        }
    }
    stage.canvas = Canvas::from(&picture);
}

/// Factor of the ground's brightness at a point; `pixel` is the width of a pixel there in metres.
fn surface(at: Vec2, pixel: f32, noise: &Noise) -> f32 {
    let road = at.x.abs() < KERB || (ACROSS.0..ACROSS.1).contains(&at.y);
    let fine = (0.03 / pixel).min(1.0);
    let grit = noise.cell(floor(at.x * 45.0), floor(at.y * 45.0), 0) - 0.5;
    let stain = noise.smooth(at * 0.55, 2) - 0.5;
    let blotch = noise.smooth(at * 3.0, 3) - 0.5;
    let mut by = 1.0 + grit * 0.16 * fine + stain * 0.16 + blotch * 0.07;
    if road {
        if at.x.abs() < KERB {
            // Tyres polish two tracks in each lane.
            by += 0.035 * ((at.x.abs() - 1.68).abs() * 4.1).cos();
        }
    } else {
        let joint = |value: f32, every: f32| {
            let part = value - floor(value / every) as f32 * every;
            part.min(every - part) < 0.012_f32.max(pixel * 0.5)
        };
        if joint(at.x, 0.6) || joint(at.y, 0.6) {
            by -= 0.20 * (0.02 / pixel).min(1.0);
        }
    }
    by
}

/// Chance, laid out in a square that repeats: looked up, since a picture asks for millions.
struct Noise {
    cells: Vec<f32>,
}

impl Noise {
    /// Cells along a side; a power of two.
    const SIDE: i32 = 128;

    fn new(key: u64) -> Self {
        let count = (Self::SIDE * Self::SIDE) as u64;
        let cells = (0..count).map(|index| (mix(key ^ index) >> 40) as f32 / 16_777_216.0);
        Self {
            cells: cells.collect(),
        }
    }

    /// Pseudo-random number from 0 to 1; `salt` separates different uses.
    fn cell(&self, x: i32, y: i32, salt: i32) -> f32 {
        let wrapped = |value: i32| (value & (Self::SIDE - 1)) as usize;
        // Rows are shifted against each other, so that no repetition is seen.
        let shift = (y >> 7).wrapping_mul(53) + salt * 37;
        self.cells[wrapped(y.wrapping_add(salt * 71)) * Self::SIDE as usize + wrapped(x.wrapping_add(shift))]
    }

    /// Smooth noise from 0 to 1.
    fn smooth(&self, at: Vec2, salt: i32) -> f32 {
        let (x, y) = (floor(at.x), floor(at.y));
        let ease = |part: f32| part * part * (3.0 - 2.0 * part);
        let (u, v) = (ease(at.x - x as f32), ease(at.y - y as f32));
        let low = self.cell(x, y, salt) * (1.0 - u) + self.cell(x + 1, y, salt) * u;
        let high = self.cell(x, y + 1, salt) * (1.0 - u) + self.cell(x + 1, y + 1, salt) * u;
        low * (1.0 - v) + high * v
    }
}

/// The whole number at or below; far faster here than the one of the library.
fn floor(value: f32) -> i32 {
    let towards_nought = value as i32;
    towards_nought - i32::from(value < towards_nought as f32)
}
