//! Houses along the streets, and what closes them far away.

use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::body::within;
use super::layout::{CORNERS, HOUSES};
use super::stage::Stage;
use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, Vec3, vec2, vec3};

const WALLS: [u32; 12] = [
    0xd8_c8_a8, 0xc9_a0_7c, 0xb8_6a_50, 0xe4_dc_cc, 0xa8_b0_b4, 0xc8_b4_9c, 0x9a_5a_48, 0xdc_b8_8c,
    0xb4_bc_a8, 0xcf_c4_b8, 0xe0_cf_9e, 0x94_8c_84,
];
const ROOFS: [u32; 4] = [0x8a_48_38, 0x5a_50_4c, 0x6e_3c_30, 0x48_4c_54];

/// A house with a wall that faces the street, from one point of the ground to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct House {
    from: Vec2,
    to: Vec2,
    /// Out of the wall.
    normal: Vec3,
    key: u64,
}

/// All houses: those beyond the other street, then the near blocks on the left and on the right; each block
/// with its most distant house first.
pub(super) fn drawn(rng: &mut Pcg64) -> (Vec<House>, [Vec<House>; 2]) {
    let mut far = Vec::new();
    let near = [-1.0_f32, 1.0].map(|side| {
        let normal = vec3(-side, 0.0, 0.0);
        let along = |from: f32, to: f32, rng: &mut Pcg64| {
            let spans = plots(from, to, rng).into_iter();
            let houses = spans.map(|(near, far, key)| House {
                from: vec2(side * HOUSES, near),
                to: vec2(side * HOUSES, far),
                normal,
                key,
            });
            houses.collect::<Vec<_>>()
        };
        far.extend(along(CORNERS.1, 150.0, rng));
        let across = plots(HOUSES, 75.0, rng).into_iter().map(|(from, to, key)| House {
            from: vec2(side * from, CORNERS.1),
            to: vec2(side * to, CORNERS.1),
            normal: vec3(0.0, -1.0, 0.0),
            key,
        });
        far.extend(across);
        along(-8.0, CORNERS.0, rng)
    });
    let away = |house: &House| house.from.towards(house.to, 0.5).length();
    far.sort_by(|a, b| away(b).total_cmp(&away(a)));
    (far, near)
}

/// Parts a length into houses, the farthest first.
fn plots(from: f32, to: f32, rng: &mut Pcg64) -> Vec<(f32, f32, u64)> {
    let mut plots = Vec::new();
    let mut end = to;
    while end > from + 0.1 {
        let next = end - rng.random_range(7.0..14.0);
        let next = if next - from < 4.0 { from } else { next };
        plots.push((next, end, rng.random()));
        end = next;
    }
    plots
}

/// Draws the houses in that order, and says which polygons cover them.
pub(super) fn draw(stage: &mut Stage, houses: &[House]) -> Vec<Vec<Vec2>> {
    let covers = houses
        .iter()
        .map(|house| self::house(stage, house, &mut Pcg64::seed_from_u64(house.key)));
    covers.filter(|cover| cover.len() > 2).collect()
}

/// Draws trees and haze at the end of the street.
pub(super) fn closing(stage: &mut Stage, rng: &mut Pcg64) {
    let leaves = stage.light.level(rgb(0x4c_62_40));
    let colour = stage.light.hazed(leaves, 150.0);
    for step in 0..90 {
        let at = vec3(-62.0 + step as f32 * 1.4, 172.0, rng.random_range(0.0..6.5));
        if let Some(middle) = stage.sight.point(at) {
            let scale = stage.sight.scale(at);
            let radius = rng.random_range(1.6..3.2) * scale;
            stage.canvas.ellipse(
                middle,
                vec2(radius, radius),
                0.0,
                colour.lit(rng.random_range(0.93..1.05)),
            );
        }
    }
}

fn house(stage: &mut Stage, front: &House, rng: &mut Pcg64) -> Vec<Vec2> {
    let length = (front.to - front.from).length();
    let floors = rng.random_range(2..5_u32);
    let storey = rng.random_range(2.9..3.5);
    let height = floors as f32 * storey + 0.6;
    let at = |point: Vec2, z: f32| vec3(point.x, point.y, z);
    let wall = [
        at(front.from, 0.0),
        at(front.to, 0.0),
        at(front.to, height),
        at(front.from, height),
    ];
    let paint = rgb(WALLS[rng.random_range(0..WALLS.len())]).lit(rng.random_range(0.85..1.05));
    let roof = rgb(ROOFS[rng.random_range(0..ROOFS.len())]);
    let trim = paint.mixed(rgb(0xf4_f0_e8), 0.6);
    let (bays, shop) = (
        (length / rng.random_range(2.1..2.9)).max(2.0) as u32,
        rng.random_bool(0.4),
    );
    if !stage.faces(&wall, front.normal) || stage.sight.polygon(&wall).len() < 3 {
        return Vec::new();
    }
    let back = front.normal * -3.5 + vec3(0.0, 0.0, 2.8);
    let slope = [wall[3], wall[2], wall[2] + back, wall[3] + back];
    stage.surface(&slope, front.normal * 0.6 + vec3(0.0, 0.0, 0.8), roof);
    gable(stage, front, height, paint);
    stage.surface(&wall, front.normal, paint);
    let eaves = within(&wall, (0.0, 1.0), (1.0 - 0.25 / height, 1.0));
    stage.surface(&eaves, front.normal, trim);
    let base = within(&wall, (0.0, 1.0), (0.0, 0.7 / height));
    stage.surface(&base, front.normal, paint.lit(0.72));
    for floor in 0..floors {
        if floor == 0 && shop {
            shopfront(stage, &wall, front.normal, height, rng);
            continue;
        }
        for bay in 0..bays {
            let door = floor == 0 && bay == bays / 2;
            let lit = rng.random_bool(0.4);
            let tone = rng.random_range(0.75..1.1);
            let middle = (bay as f32 + 0.5) / bays as f32;
            let half = 0.52 / length;
            let low = (floor as f32 * storey + if door { 0.05 } else { 1.0 }) / height;
            let high = (floor as f32 * storey + 2.45) / height;
            opening(
                stage,
                &wall,
                front.normal,
                [middle - half, middle + half, low, high],
                (door, lit, tone),
                trim,
            );
        }
    }
    stage.sight.polygon(&[wall[0], wall[1], slope[2], slope[3]])
}

/// Draws the wall at the near end of a corner house.
fn gable(stage: &mut Stage, front: &House, height: f32, paint: Rgba) {
    if front.normal.x == 0.0 {
        return;
    }
    let deep = front.normal * -7.0;
    let foot = vec3(front.from.x, front.from.y, 0.0);
    let top = vec3(front.from.x, front.from.y, height);
    let ridge = top + front.normal * -3.5 + vec3(0.0, 0.0, 2.8);
    let side = [foot, foot + deep, top + deep, ridge, top];
    let normal = vec3(0.0, -1.0, 0.0);
    if stage.faces(&side, normal) {
        stage.surface(&side, normal, paint.lit(0.95));
    }
}

/// A window, or a door.
fn opening(
    stage: &mut Stage,
    wall: &[Vec3; 4],
    normal: Vec3,
    [x0, x1, low, high]: [f32; 4],
    (door, lit, tone): (bool, bool, f32),
    trim: Rgba,
) {
    let (edge_x, edge_y) = ((x1 - x0) * 0.10, (high - low) * 0.07);
    let frame = within(wall, (x0, x1), (low, high));
    let pixels = stage.sight.scale(frame[0]);
    if pixels <= 0.0 {
        return;
    }
    stage.surface(&frame, normal, trim);
    let pane = within(wall, (x0 + edge_x, x1 - edge_x), (low + edge_y, high - edge_y));
    if door {
        stage.surface(&pane, normal, rgb(0x5a_3c_2c).lit(tone));
        return;
    }
    if stage.light.lamps && lit {
        let warm = stage
            .light
            .hazed(rgb(0xf4_c8_78).lit(tone), stage.distance(&pane) * 0.6);
        stage.fill(&pane, warm);
    } else {
        let glass = stage
            .light
            .shade(rgb(0x3a_46_50), normal)
            .mixed(stage.light.sky.0, 0.22);
        stage.fill(&pane, stage.light.hazed(glass.lit(tone), stage.distance(&pane)));
    }
    if pixels > 14.0 {
        let bar = within(
            wall,
            ((x0 + x1) / 2.0 - edge_x * 0.3, (x0 + x1) / 2.0 + edge_x * 0.3),
            (low, high),
        );
        stage.surface(&bar, normal, trim);
    }
}

/// The large windows of a shop, beneath an awning's band.
fn shopfront(stage: &mut Stage, wall: &[Vec3; 4], normal: Vec3, height: f32, rng: &mut Pcg64) {
    let bands = [0x8a_20_28, 0x1f_4a_7a, 0x2a_6a_48, 0xc8_8a_20, 0x3a_3a_40];
    let band = rgb(bands[rng.random_range(0..bands.len())]);
    let glass = if stage.light.lamps {
        rgb(0xf0_d8_a0).lit(rng.random_range(0.7..1.0))
    } else {
        stage
            .light
            .shade(rgb(0x44_50_58), normal)
            .mixed(stage.light.sky.0, 0.25)
    };
    for part in 0..3 {
        let from = 0.05 + part as f32 * 0.31;
        let pane = within(wall, (from, from + 0.28), (0.35 / height, 2.3 / height));
        stage.fill(&pane, stage.light.hazed(glass, stage.distance(&pane)));
    }
    let sign = within(wall, (0.03, 0.97), (2.4 / height, 2.95 / height));
    stage.surface(&sign, normal, band);
    // An awning leans out over the pavement.
    let edge = within(wall, (0.03, 0.97), (2.0 / height, 2.4 / height));
    let out = normal * 0.9;
    let awning = [edge[0] + out, edge[1] + out, edge[2], edge[3]];
    stage.surface(
        &awning,
        normal * 0.6 + vec3(0.0, 0.0, 0.8),
        band.mixed(rgb(0xff_ff_ff), 0.2),
    );
}
