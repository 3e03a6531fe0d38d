//! Pedestrians: routes over the pavements and the zebra crossings, in closed form.
//!
//! If a route crosses a street, its pedestrians start at times at which the light lets them cross.

use rand::RngExt;
use rand::seq::SliceRandom;

use super::traffic::CYCLE;
use crate::geometry::{Vec2, vec2};
use crate::seed::Seed;

/// Number of pedestrians who start in a cycle: from the gallery, and in no gallery.
const NAMED: u64 = 9;
const STRANGERS: u64 = 4;
/// Number of people in the gallery.
pub(super) const GALLERY: u64 = 20;
/// Times at which pedestrians may step onto the main and the other street, while traffic waits: start in the
/// cycle and duration, in seconds.
const OVER_MAIN: (f32, f32) = (13.4, 2.0);
const OVER_SIDE: (f32, f32) = (25.4, 7.0);

/// Route of pedestrians through the street.
struct Route {
    points: &'static [(f32, f32)],
    /// Distance from the start to the kerb in metres, and the times (start, duration) at which the street may
    /// be crossed.
    gate: Option<(f32, (f32, f32))>,
}

/// Routes by their points, in metres to the right of the middle of the street and ahead of the camera.
const ROUTES: [Route; 13] = [
    // Along the pavements, over the other street.
    Route {
        points: &[(-6.6, 62.0), (-6.6, -3.0)],
        gate: Some((32.3, OVER_SIDE)),
    },
    Route {
        points: &[(-6.6, -3.0), (-6.6, 62.0)],
        gate: Some((25.5, OVER_SIDE)),
    },
    Route {
        points: &[(6.6, 62.0), (6.6, -3.0)],
        gate: Some((32.3, OVER_SIDE)),
    },
    Route {
        points: &[(6.6, -3.0), (6.6, 62.0)],
        gate: Some((25.5, OVER_SIDE)),
    },
    // Round the corner, towards the camera and away.
    Route {
        points: &[(-38.0, 20.4), (-5.8, 20.4), (-5.4, -3.0)],
        gate: None,
    },
    Route {
        points: &[(-38.0, 20.4), (-5.8, 20.4), (-5.4, -3.0)],
        gate: None,
    },
    Route {
        points: &[(-7.4, -3.0), (-7.4, 20.4), (-38.0, 20.4)],
        gate: None,
    },
    Route {
        points: &[(-38.0, 20.4), (-5.8, 20.4), (-5.4, -3.0)],
        gate: None,
    },
    Route {
        points: &[(38.0, 20.4), (6.5, 20.4), (6.3, -3.0)],
        gate: None,
    },
    // Routes over the zebra crossings.
    Route {
        points: &[(34.0, 20.4), (6.6, 20.4), (6.2, 17.5), (-5.9, 17.5), (-5.4, -3.0)],
        gate: Some((31.7, OVER_MAIN)),
    },
    Route {
        points: &[(6.4, -3.0), (6.4, 17.5), (-5.9, 17.5), (-5.4, -3.0)],
        gate: Some((22.1, OVER_MAIN)),
    },
    Route {
        points: &[(-6.4, -3.0), (-6.4, 17.5), (6.4, 17.5), (6.6, -3.0)],
        gate: Some((22.1, OVER_MAIN)),
    },
    Route {
        points: &[(-6.4, 60.0), (-6.4, 34.5), (6.4, 34.5), (6.4, 60.0)],
        gate: Some((27.1, OVER_MAIN)),
    },
];

/// Pedestrian at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walker {
    /// Number of the pedestrian, constant throughout the clip; the lowest byte is 0.
    pub(super) id: u64,
    pub(super) at: Vec2,
    /// Direction of the walk, a unit vector.
    pub(super) forward: Vec2,
    /// Distance walked in metres.
    pub(super) way: f32,
    /// Speed in metres per second.
    pub(super) speed: f32,
    /// Number of the person; below [`GALLERY`] for people of the gallery.
    pub(super) who: u64,
}

/// All pedestrians at that time.
pub(super) fn at(seed: Seed, seconds: f32) -> Vec<Walker> {
    let now = (seconds / CYCLE).floor() as i64;
    let setting_out = (now - 4..=now + 2).flat_map(|cycle| cycle_at(seed, cycle, seconds));
    setting_out.collect()
}

fn cycle_at(seed: Seed, cycle: i64, seconds: f32) -> Vec<Walker> {
    let mut rng = seed.rng(&format!("walkers {cycle}"));
    let mut order: Vec<u64> = (0..NAMED + STRANGERS).collect();
    order.shuffle(&mut rng);
    let mut walkers = Vec::new();
    for (index, ordinal) in order.into_iter().enumerate() {
        let route = &ROUTES[index % ROUTES.len()];
        let speed = rng.random_range(1.2..1.55);
        let (wait, aside) = (rng.random_range(0.0..1.0_f32), rng.random_range(-0.12..0.12));
        // Each route keeps to its own part of the pavement, so that pedestrians of different routes walk
        // beside each other.
        let aside = aside - 0.8 + 1.6 * (index * 5 % ROUTES.len()) as f32 / ROUTES.len() as f32;
        let stranger = GALLERY + rng.random_range(0..400);
        // The people of the gallery take turns, so that no one is in two places.
        let named = (cycle.rem_euclid(GALLERY as i64) as u64 * NAMED + ordinal) % GALLERY;
        let start = cycle as f32 * CYCLE;
        let leaves = match route.gate {
            Some((metres, (from, span))) => start + from + wait * span - metres / speed,
            None => start + wait * CYCLE - 20.0,
        };
        let way = (seconds - leaves) * speed;
        let Some((at, forward)) = place(route.points, way) else {
            continue;
        };
        // Shifted to their right: both ways along a pavement are apart, and so are the sides of a zebra crossing.
        let shift = vec2(forward.y, -forward.x) * (0.35 + 0.5 * aside);
        walkers.push(Walker {
            id: (64 + index as u64) << 32 | ((cycle + 4096) as u64) << 16,
            at: at + shift,
            forward,
            way,
            speed,
            who: if ordinal < NAMED { named } else { stranger },
        });
    }
    walkers
}

/// Point of a route after this many metres, and the direction there; `None` before the start or after the
/// end.
fn place(points: &[(f32, f32)], way: f32) -> Option<(Vec2, Vec2)> {
    let point = |way: f32| -> Option<Vec2> {
        let mut left = way;
        for pair in points.windows(2) {
            let (from, to) = (vec2(pair[0].0, pair[0].1), vec2(pair[1].0, pair[1].1));
            let length = (to - from).length();
            if left <= length {
                return (left >= 0.0).then(|| from.towards(to, left / length));
            }
            left -= length;
        }
        None
    };
    // Corners are cut a little: the place is the mean of a step before and one after.
    let (before, after) = (point(way - 0.7)?, point(way + 0.7)?);
    let along = after - before;
    Some((
        before.towards(after, 0.5),
        along * (1.0 / along.length().max(1e-3)),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::traffic::{self, lanes};
    use super::*;
    use crate::seed::Part;

    #[test]
    fn nobody_walks_into_traffic() {
        for number in 0..4 {
            let seed = Seed::new(Part::Clip, number);
            let lanes = lanes(seed);
            for step in 0..160 {
                let seconds = step as f32 * 0.4;
                let traffic: Vec<traffic::Travelling> =
                    lanes.iter().flat_map(|lane| lane.at(seed, seconds)).collect();
                for walker in at(seed, seconds) {
                    for it in &traffic {
                        let to = walker.at - it.at;
                        let along = (to.x * it.forward.x + to.y * it.forward.y).abs();
                        let aside = (to.x * it.forward.y - to.y * it.forward.x).abs();
                        let clear = along > it.thing.half_length() + 0.2 || aside > 0.9;
                        assert!(clear, "seed {number} at {seconds}: {walker:?}, {it:?}");
                    }
                }
            }
        }
    }
}
