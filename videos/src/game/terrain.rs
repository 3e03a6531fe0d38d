//! Draws the island: ground, waters and roads beneath everybody, roofs and crowns above.

use crate::canvas::{Canvas, Rgba, rgb};
use crate::geometry::{Vec2, vec2};
use crate::seed::mix;

use super::SIZE;
use super::map::{House, Map, Round};
use super::view::View;

const SHADE: Rgba = rgb(0x10_18_20).faded(0.28);

/// Draws everything beneath the figures.
pub(super) fn ground(canvas: &mut Canvas, map: &Map, view: &View, seconds: f32) {
    let palette = &map.palette;
    let shore: Vec<Vec2> = map.coast.iter().map(|at| view.place(*at * 1.05)).collect();
    canvas.blob(&shore, palette.sand);
    canvas.blob(&view.places(&map.coast), palette.grass);
    for (outline, sandy) in &map.patches {
        let ink = if *sandy {
            palette.sand.faded(0.55)
        } else {
            palette.meadow.faded(0.6)
        };
        if seen(outline, view) {
            canvas.blob(&view.places(outline), ink);
        }
    }
    tufts(canvas, map, view);
    for lake in map.lakes.iter().filter(|lake| seen(lake, view)) {
        water(canvas, lake, map, view, seconds);
    }
    let scale = view.zoom;
    for lane in &map.lanes {
        let lane = lane.map(|at| view.place(at));
        canvas.curve(lane, 48.0 * scale, palette.sand.lit(0.8));
        canvas.curve(lane, 42.0 * scale, palette.sand.lit(0.92));
    }
    let ring = view.places(&map.ring_line);
    canvas.line(&ring, 92.0 * scale, palette.sand.lit(0.78));
    canvas.line(&ring, 82.0 * scale, palette.road);
    marks(canvas, map, view);
    for rock in map.rocks.iter().filter(|rock| view.sees(rock.at, 60.0)) {
        stone(canvas, rock, view);
    }
    for bush in map.bushes.iter().filter(|bush| view.sees(bush.at, 60.0)) {
        crown(canvas, bush, palette.crown.lit(1.15), view);
    }
}

fn seen(outline: &[Vec2], view: &View) -> bool {
    let Some(bounds) = crate::geometry::Bounds::about(view.places(outline)) else {
        return false;
    };
    let (width, height) = (SIZE.0 as f32, SIZE.1 as f32);
    bounds.x1 > -40.0 && bounds.y1 > -40.0 && bounds.x0 < width + 40.0 && bounds.y0 < height + 40.0
}

fn water(canvas: &mut Canvas, lake: &[Vec2], map: &Map, view: &View, seconds: f32) {
    let middle = lake.iter().fold(vec2(0.0, 0.0), |sum, at| sum + *at) * (1.0 / lake.len().max(1) as f32);
    let scaled = |by: f32| -> Vec<Vec2> {
        lake.iter()
            .map(|at| view.place(middle.towards(*at, by)))
            .collect()
    };
    canvas.blob(&scaled(1.13), map.palette.sand);
    canvas.blob(&scaled(1.0), map.palette.water);
    canvas.blob(&scaled(0.72), map.palette.water.lit(0.9));
    for (index, at) in lake.iter().enumerate().step_by(2) {
        let drift = (seconds * 0.8 + index as f32).sin() * 6.0;
        let at = view.place(middle.towards(*at, 0.5)) + vec2(drift, 0.0);
        let reach = 11.0 * view.zoom;
        canvas.curve(
            [
                at - vec2(reach, 0.0),
                at - vec2(0.0, 5.0 * view.zoom),
                at + vec2(reach, 0.0),
            ],
            1.6,
            rgb(0xff_ff_ff).faded(0.35),
        );
    }
}

/// Draws blades of grass and pebbles, which depend only on their position.
fn tufts(canvas: &mut Canvas, map: &Map, view: &View) {
    let step = 46.0;
    let reach = vec2(SIZE.0 as f32, SIZE.1 as f32) * (0.5 / view.zoom);
    let cells = |from: f32, to: f32| (from / step).floor() as i64..=(to / step).ceil() as i64;
    for row in cells(view.eye.y - reach.y, view.eye.y + reach.y) {
        for column in cells(view.eye.x - reach.x, view.eye.x + reach.x) {
            let chance = mix((row as u64)
                .wrapping_mul(0x1_0001)
                .wrapping_add(mix(column as u64)));
            let part = |shift: u32| ((chance >> shift) & 0xff) as f32 / 255.0;
            let at = vec2(column as f32 + part(0), row as f32 + part(8)) * step;
            if vec2(at.x / super::map::REACH.x, at.y / super::map::REACH.y).length() > 0.93 {
                continue;
            }
            let (at, size) = (view.place(at), (3.0 + part(16) * 3.0) * view.zoom);
            let ink = map.palette.grass.lit(if part(24) < 0.6 { 0.86 } else { 1.12 });
            if part(32) < 0.85 {
                let blades = [at + vec2(-size, -size), at, at + vec2(size, -size * 0.9)];
                canvas.line(&blades, 1.4, ink);
            } else {
                canvas.ellipse(at, vec2(size * 0.7, size * 0.5), 0.0, rgb(0xa8_a8_a0));
            }
        }
    }
}

/// The broken line in the middle of the ring road.
fn marks(canvas: &mut Canvas, map: &Map, view: &View) {
    for step in (0..360_u16).step_by(3) {
        let angle = f32::from(step).to_radians();
        let from = map.ring.at(angle, 0.0);
        if view.sees(from, 60.0) {
            let to = map.ring.at(angle + 0.026, 0.0);
            let ink = rgb(0xee_ea_da).faded(0.75);
            canvas.line(&[view.place(from), view.place(to)], 3.0 * view.zoom, ink);
        }
    }
}

fn stone(canvas: &mut Canvas, rock: &Round, view: &View) {
    let (at, radius) = (view.place(rock.at), rock.radius * view.zoom);
    let corner = |index: u8, reach: f32| {
        let angle = f32::from(index) * 0.9 + rock.kind * 6.0;
        let out = radius * reach * (0.85 + 0.2 * (rock.kind * 40.0 + f32::from(index) * 2.3).sin());
        vec2(angle.cos(), angle.sin() * 0.9) * out
    };
    let ring = |reach: f32, off: Vec2| -> Vec<Vec2> {
        (0..7).map(|index| at + off + corner(index, reach)).collect()
    };
    let grey = rgb(0x8c_8c_88).lit(0.85 + rock.kind * 0.3);
    canvas.polygon(&ring(1.05, vec2(4.0, 5.0) * view.zoom), SHADE);
    canvas.polygon(&ring(1.0, vec2(0.0, 0.0)), grey.lit(0.7));
    canvas.polygon(&ring(0.86, vec2(-1.0, -1.5) * view.zoom), grey);
    canvas.polygon(&ring(0.5, vec2(-0.18, -0.22) * radius), grey.lit(1.15));
}

/// Draws everything above the figures: roofs and the crowns of trees.
pub(super) fn above(canvas: &mut Canvas, map: &Map, view: &View) {
    for house in map.houses.iter().filter(|house| view.sees(house.at, 170.0)) {
        roof(canvas, house, view);
    }
    for tree in map.trees.iter().filter(|tree| view.sees(tree.at, 90.0)) {
        crown(canvas, tree, map.palette.crown, view);
    }
}

fn crown(canvas: &mut Canvas, tree: &Round, colour: Rgba, view: &View) {
    let (at, radius) = (view.place(tree.at), tree.radius * view.zoom);
    let colour = colour.lit(0.85 + tree.kind * 0.35);
    let lobes = |reach: f32, off: Vec2| -> Vec<Vec2> {
        let corners = (0..18_u8).map(|index| {
            let angle = f32::from(index) * std::f32::consts::TAU / 18.0 + tree.kind * 6.0;
            let out = reach * if index % 2 == 0 { 1.0 } else { 0.86 };
            at + off + vec2(angle.cos(), angle.sin()) * (radius * out)
        });
        corners.collect()
    };
    let high = vec2(-1.0, -1.2) * (radius * 0.12);
    canvas.blob(&lobes(1.0, vec2(0.16, 0.2) * radius), SHADE);
    canvas.blob(&lobes(1.0, vec2(0.0, 0.0)), colour.lit(0.72));
    canvas.blob(&lobes(0.8, high), colour);
    canvas.blob(&lobes(0.52, high * 2.0), colour.lit(1.18));
    canvas.blob(&lobes(0.24, high * 2.8), colour.lit(1.36));
}

fn roof(canvas: &mut Canvas, house: &House, view: &View) {
    let stand = view.stand(house.at, house.turn);
    let (x, y) = (house.half.x, house.half.y);
    let quad = |corners: [(f32, f32); 4]| corners.map(|(x, y)| stand.place(vec2(x, y)));
    let off = vec2(10.0, 13.0) * view.zoom;
    let shade: Vec<Vec2> = quad([(-x, -y), (x, -y), (x, y), (-x, y)])
        .iter()
        .map(|at| *at + off)
        .collect();
    canvas.polygon(&shade, SHADE.faded(0.35));
    canvas.polygon(&quad([(-x, -y), (x, -y), (x, y), (-x, y)]), house.roof.lit(0.6));
    let ridge = x - y * 0.7;
    let (x, y) = (x - 3.0, y - 3.0);
    canvas.polygon(
        &quad([(-x, -y), (x, -y), (ridge, 0.0), (-ridge, 0.0)]),
        house.roof.lit(1.12),
    );
    canvas.polygon(
        &quad([(-x, y), (x, y), (ridge, 0.0), (-ridge, 0.0)]),
        house.roof.lit(0.84),
    );
    canvas.polygon(
        &quad([(-x, -y), (-x, y), (-ridge, 0.0), (-ridge, 0.0)]),
        house.roof,
    );
    canvas.polygon(
        &quad([(x, -y), (x, y), (ridge, 0.0), (ridge, 0.0)]),
        house.roof.lit(0.94),
    );
    for part in [0.25, 0.5, 0.75] {
        for side in [-1.0, 1.0] {
            let reach = ridge + (x - ridge) * part;
            let row =
                [(-reach, side * y * part), (reach, side * y * part)].map(|(x, y)| stand.place(vec2(x, y)));
            canvas.line(&row, 1.0, house.roof.lit(0.7).faded(0.7));
        }
    }
    canvas.line(
        &[stand.place(vec2(-ridge, 0.0)), stand.place(vec2(ridge, 0.0))],
        2.4,
        house.roof.lit(1.3),
    );
    let chimney = quad([
        (x * 0.45, -y * 0.5),
        (x * 0.62, -y * 0.5),
        (x * 0.62, -y * 0.2),
        (x * 0.45, -y * 0.2),
    ]);
    canvas.polygon(&chimney, rgb(0x58_4c_48));
}
