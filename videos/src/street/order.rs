//! Drawing order: an object that may hide another is drawn after it.

use super::sight::Sight;
use crate::geometry::{Vec2, vec2};

/// Rectangle on the ground that an object occupies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Footprint {
    pub(super) at: Vec2,
    pub(super) forward: Vec2,
    /// Half its length and half its width.
    pub(super) half: Vec2,
}

impl Footprint {
    pub(super) fn corners(&self) -> [Vec2; 4] {
        let (f, h) = (self.forward, self.half);
        [(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)].map(|(a, b)| {
            let (u, v) = (a * h.x, b * h.y);
            self.at + vec2(f.x * u - f.y * v, f.y * u + f.x * v)
        })
    }

    /// True if it is in front of `other` as seen from `eye`; `None` if no edge of it separates the two.
    fn before(&self, other: &Self, eye: Vec2) -> Option<bool> {
        let side = vec2(-self.forward.y, self.forward.x);
        let edges = [
            (self.forward, self.half.x),
            (self.forward * -1.0, self.half.x),
            (side, self.half.y),
            (side * -1.0, self.half.y),
        ];
        let along = |point: Vec2, normal: Vec2| {
            let from = point - self.at;
            from.x * normal.x + from.y * normal.y
        };
        edges.iter().find_map(|(normal, reach)| {
            let parts = other
                .corners()
                .iter()
                .all(|corner| along(*corner, *normal) >= *reach - 0.02);
            // The other lies beyond this edge: it is the nearer one if the eye is beyond it too.
            parts.then(|| along(eye, *normal) < *reach)
        })
    }
}

/// The indices of the footprints in the order of drawing.
pub(super) fn back_to_front(footprints: &[Footprint], sight: &Sight) -> Vec<usize> {
    let eye = vec2(sight.eye().x, sight.eye().y);
    let far = |index: &usize| (footprints[*index].at - eye).length();
    let mut by_distance: Vec<usize> = (0..footprints.len()).collect();
    by_distance.sort_by(|a, b| far(b).total_cmp(&far(a)).then(a.cmp(b)));
    let behind = |index: usize| -> Vec<usize> {
        let one = &footprints[index];
        let others = by_distance.iter().copied().filter(|other| *other != index);
        let hidden = others.filter(|other| {
            let two = &footprints[*other];
            let before = one
                .before(two, eye)
                .or_else(|| two.before(one, eye).map(|before| !before));
            before.unwrap_or_else(|| far(&index) < far(other)) && near_in_angle(one, two, eye)
        });
        hidden.collect()
    };
    let mut drawn = Vec::with_capacity(footprints.len());
    let mut met = vec![false; footprints.len()];
    for first in &by_distance {
        // Depth-first search: everything that an object may hide is drawn before it. A cycle of three is
        // broken where it closes.
        let mut stack = vec![(*first, false)];
        while let Some((index, done)) = stack.pop() {
            if done {
                drawn.push(index);
            } else if !met[index] {
                met[index] = true;
                stack.push((index, true));
                stack.extend(behind(index).into_iter().rev().map(|other| (other, false)));
            }
        }
    }
    drawn
}

/// True if a ray from the eye may hit both objects.
fn near_in_angle(one: &Footprint, two: &Footprint, eye: Vec2) -> bool {
    let span = |it: &Footprint| {
        let to = it.at - eye;
        let away = to.length().max(0.1);
        (
            to * (1.0 / away),
            ((it.half.length() + 0.3) / away).min(1.0).asin(),
        )
    };
    let ((a, wide), (b, other)) = (span(one), span(two));
    let angle = (a.x * b.y - a.y * b.x).atan2(a.x * b.x + a.y * b.y).abs();
    angle < wide + other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Camera, vec3};

    #[test]
    fn a_short_thing_behind_the_near_end_of_a_long_one_is_drawn_first() {
        let sight = Sight::new(Camera {
            eye: vec3(0.0, 0.0, 4.0),
            yaw: 0.0,
            pitch: 0.2,
            focal: 900.0,
            centre: vec2(480.0, 270.0),
        });
        let forward = vec2(0.0, 1.0);
        let bus = Footprint {
            at: vec2(2.0, 16.0),
            forward,
            half: vec2(6.0, 1.25),
        };
        let car = Footprint {
            at: vec2(5.0, 14.0),
            forward,
            half: vec2(2.0, 0.9),
        };
        assert_eq!(back_to_front(&[bus, car], &sight), [1, 0]);
        let car = Footprint {
            at: vec2(2.2, 6.0),
            ..car
        };
        assert_eq!(back_to_front(&[car, bus], &sight), [1, 0]);
    }
}
