//! Decoration that comes and goes: flashes and tracers, smoke, explosions, the edge of the zone.

use crate::canvas::{Canvas, rgb};
use crate::geometry::{Vec2, vec2};
use crate::seed::mix;

use super::view::View;

/// True while a weapon flashes, at seven shots a second.
pub(super) fn flashes(since: f32) -> bool {
    (since * 7.0).fract() < 0.4
}

/// A flash at `muzzle` and a tracer towards `target`; all in pixels.
pub(super) fn shot(canvas: &mut Canvas, muzzle: Vec2, target: Vec2, since: f32, zoom: f32) {
    let ahead = target - muzzle;
    let away = ahead.length().max(1.0);
    let along = ahead * (1.0 / away);
    let aside = vec2(-along.y, along.x);
    let flown = 0.12 + 0.75 * ((since * 7.0).fract() / 0.4);
    let (tail, tip) = (muzzle + ahead * (flown - 0.1), muzzle + ahead * (flown + 0.1));
    canvas.line(&[tail, tip], 1.8 * zoom, rgb(0xff_e8_90).faded(0.85));
    let point = |far: f32, side: f32| muzzle + along * (far * zoom) + aside * (side * zoom);
    let star = [
        point(-1.0, -2.0),
        point(3.0, -7.0),
        point(6.0, -2.5),
        point(17.0, 0.0),
        point(6.0, 2.5),
        point(3.0, 7.0),
        point(-1.0, 2.0),
    ];
    canvas.polygon(&star, rgb(0xff_b0_30));
    canvas.polygon(
        &[point(0.0, -2.0), point(11.0, 0.0), point(0.0, 2.0)],
        rgb(0xff_f8_d8),
    );
}

/// A cloud that grows and fades within its part of `age` 0 to 1; it hides what is beneath it.
pub(super) fn cloud(canvas: &mut Canvas, at: Vec2, radius: f32, age: f32, key: u64) {
    let grown = radius * (0.5 + 0.5 * (age * 3.0).min(1.0));
    let fade = ((1.0 - age) * 2.5).clamp(0.0, 1.0);
    for index in 0..16_u64 {
        let chance = mix(key.wrapping_add(index));
        let part = |shift: u32| ((chance >> shift) & 0xff) as f32 / 255.0;
        let angle = part(0) * std::f32::consts::TAU + age * 0.6;
        let off = vec2(angle.cos(), angle.sin()) * (grown * part(8) * 0.75);
        let size = grown * (0.3 + 0.3 * part(16));
        let ink = rgb(0xdc_e0_e4).lit(0.86 + 0.16 * part(24));
        for (reach, opacity) in [(1.0, 0.16), (0.8, 0.16), (0.55, 0.16)] {
            let radii = vec2(size, size) * reach;
            canvas.ellipse(at + off, radii, 0.0, ink.faded(opacity * fade));
        }
    }
}

/// A blast; `age` 0 to 1.
pub(super) fn blast(canvas: &mut Canvas, at: Vec2, radius: f32, age: f32) {
    let reach = |by: f32| {
        let size = radius * by * age.sqrt();
        vec2(size, size)
    };
    let fade = (1.0 - age).clamp(0.0, 1.0);
    canvas.ellipse(at, reach(1.0), 0.0, rgb(0x48_40_38).faded(0.55 * fade));
    canvas.ellipse(at, reach(0.8), 0.0, rgb(0xff_88_20).faded(0.9 * fade));
    canvas.ellipse(at, reach(0.5), 0.0, rgb(0xff_e0_70).faded(fade));
    canvas.ring(at, reach(1.25), 0.0, 3.0, rgb(0xff_f0_d0).faded(0.6 * fade));
    for index in 0..8_u8 {
        let angle = f32::from(index) * 0.785 + 0.3;
        let out = vec2(angle.cos(), angle.sin());
        let (near, far) = (out * (radius * age), out * (radius * (0.3 + 1.2 * age)));
        canvas.line(&[at + near, at + far], 2.2, rgb(0xff_c0_50).faded(fade));
    }
}

/// The zone that shrinks: its middle and radius at that time, in units of the map.
pub(super) fn zone(key: u64, seconds: f32) -> (Vec2, f32) {
    let part = |shift: u32| ((key >> shift) & 0xff) as f32 / 127.5 - 1.0;
    let shrunk = (seconds / 200.0).clamp(0.0, 1.0);
    let middle = vec2(part(0) * 300.0, part(8) * 200.0);
    (
        middle,
        1050.0 - 600.0 * shrunk * (2.0 - shrunk) + part(16) * 150.0,
    )
}

/// Draws the edge of the zone and tints what lies outside.
pub(super) fn zone_edge(canvas: &mut Canvas, (middle, radius): (Vec2, f32), view: &View) {
    let corners = [(-480.0, -270.0), (480.0, -270.0), (480.0, 270.0), (-480.0, 270.0)];
    let inside = corners.iter().all(|(x, y)| {
        let corner = view.eye + vec2(*x, *y) * (1.0 / view.zoom);
        (corner - middle).length() < radius - 4.0
    });
    if inside {
        return;
    }
    let (at, radius) = (view.place(middle), radius * view.zoom);
    let wide = 3600.0;
    let outer = radius + wide / 2.0;
    canvas.ring(at, vec2(outer, outer), 0.0, wide, rgb(0x30_58_c8).faded(0.24));
    canvas.ring(at, vec2(radius, radius), 0.0, 3.5, rgb(0xd8_ec_ff).faded(0.9));
}
