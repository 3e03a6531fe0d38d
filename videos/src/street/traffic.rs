//! Traffic of the street: lanes with a traffic light each, all in closed form.
//!
//! All vehicles of a lane have one speed. A lane's light is green once a cycle. Some vehicles arrive while it
//! is red, stop before the line in a queue and start one after the other; the others arrive later and drive
//! through. There is no overtaking, and vehicles that drive through pass after the queue is gone, so there
//! are no collisions (see the test).

use rand::RngExt;

use super::fleet::Vehicle;
use super::layout::{ACROSS, CYCLE_LANE, LANE, STOP_ACROSS, STOPS};
use crate::geometry::{Vec2, vec2};
use crate::seed::Seed;

/// Length of a cycle of the traffic lights, in seconds.
pub(super) const CYCLE: f32 = 26.0;
/// Start of the main street's green light in the cycle, and its duration, in seconds.
pub(super) const MAIN: (f32, f32) = (0.0, 10.0);
/// Start and duration of the other street's green light, in seconds.
pub(super) const SIDE: (f32, f32) = (14.0, 6.0);
/// Deceleration and acceleration of vehicles, in metres per second squared.
const BRAKES: f32 = 2.4;
const SPEEDS_UP: f32 = 1.7;

/// Lane with its stop line and traffic light.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    number: u64,
    /// Point at which the lane meets the stop line.
    line: Vec2,
    /// Direction of travel, a unit vector.
    pub(super) forward: Vec2,
    speed: f32,
    /// Start of the green light in the cycle, and its duration, in seconds.
    green: (f32, f32),
    /// True for a cycle lane.
    cycles: bool,
    /// Distances before and behind the stop line to which the lane is drawn, in metres.
    reach: (f32, f32),
}

/// Something that travels in a lane.
#[derive(Debug, Clone)]
pub(super) enum Thing {
    Vehicle(Vehicle),
    /// A bicycle, and the number of its rider.
    Bicycle(u64),
}

impl Thing {
    pub(super) fn half_length(&self) -> f32 {
        match self {
            Self::Vehicle(vehicle) => vehicle.half_length(),
            Self::Bicycle(_) => 0.9,
        }
    }
}

/// A thing in its lane at a moment.
#[derive(Debug, Clone)]
pub(super) struct Travelling {
    /// Number of the vehicle, constant throughout the clip; the lowest byte is 0.
    pub(super) id: u64,
    pub(super) thing: Thing,
    /// Distance of its middle past the stop line in metres, in the direction of travel; negative before the
    /// line.
    pub(super) way: f32,
    pub(super) at: Vec2,
    pub(super) forward: Vec2,
    pub(super) brakes: bool,
    /// True if it does not move.
    pub(super) still: bool,
}

/// Motion of a vehicle: the position of its front over time.
#[derive(Debug, Clone, Copy)]
enum Course {
    /// Drives through and passes the line at that time.
    Through(f32),
    /// Stops at the position `at` (0 or less) between two times.
    Halts { at: f32, from: f32, to: f32 },
}

impl Course {
    /// Position of the front past the line in metres; whether the vehicle brakes; whether it stands still.
    fn front(self, speed: f32, seconds: f32) -> (f32, bool, bool) {
        let Self::Halts { at, from, to } = self else {
            let Self::Through(passes) = self else {
                return (0.0, false, false);
            };
            return (speed * (seconds - passes), false, false);
        };
        if seconds >= to {
            let (since, gaining) = (seconds - to, speed / SPEEDS_UP);
            let gained = SPEEDS_UP / 2.0 * since.min(gaining).powi(2);
            return (at + gained + speed * (since - gaining).max(0.0), false, false);
        }
        let left = (from - seconds).max(0.0);
        let braking = speed / BRAKES;
        let front = at - BRAKES / 2.0 * left.min(braking).powi(2) - speed * (left - braking).max(0.0);
        (front, left < braking, left <= 0.0)
    }

    /// Times at which it would have passed the line without a stop: extrapolated from its arrival, and from
    /// its departure.
    fn passes(self, speed: f32) -> (f32, f32) {
        match self {
            Self::Through(passes) => (passes, passes),
            Self::Halts { at, from, to } => (
                from - speed / BRAKES / 2.0 - at / speed,
                to + speed / SPEEDS_UP / 2.0 - at / speed,
            ),
        }
    }
}

/// The lanes of the crossing.
pub(super) fn lanes(seed: Seed) -> Vec<Lane> {
    let mut rng = seed.rng("lanes");
    let (near, far) = (
        ACROSS.0 * 0.75 + ACROSS.1 * 0.25,
        ACROSS.0 * 0.25 + ACROSS.1 * 0.75,
    );
    let fast = rng.random_range(7.0..9.0);
    let slow = rng.random_range(4.4..5.2);
    let plan = [
        (vec2(LANE, STOPS.0), vec2(0.0, 1.0), MAIN, false, (22.0, 110.0)),
        (vec2(-LANE, STOPS.1), vec2(0.0, -1.0), MAIN, false, (95.0, 44.0)),
        (
            vec2(-STOP_ACROSS, near),
            vec2(1.0, 0.0),
            SIDE,
            false,
            (32.0, 62.0),
        ),
        (vec2(STOP_ACROSS, far), vec2(-1.0, 0.0), SIDE, false, (42.0, 62.0)),
        (
            vec2(CYCLE_LANE, STOPS.0),
            vec2(0.0, 1.0),
            MAIN,
            true,
            (18.0, 70.0),
        ),
        (
            vec2(-CYCLE_LANE, STOPS.1),
            vec2(0.0, -1.0),
            MAIN,
            true,
            (50.0, 40.0),
        ),
    ];
    let lanes = plan.into_iter().enumerate();
    lanes
        .map(|(number, (line, forward, green, cycles, reach))| Lane {
            number: number as u64,
            line,
            forward,
            speed: if cycles { slow } else { fast },
            green,
            cycles,
            reach,
        })
        .collect()
}

impl Lane {
    /// Everything in the lane at that time, from its front to its rear.
    pub(super) fn at(&self, seed: Seed, seconds: f32) -> Vec<Travelling> {
        let now = (seconds / CYCLE).floor() as i64;
        let mut all = Vec::new();
        for cycle in now - 1..=now + 1 {
            for (index, (thing, course)) in self.cycle(seed, cycle).into_iter().enumerate() {
                let (front, brakes, still) = course.front(self.speed, seconds);
                let way = front - thing.half_length();
                if way > -self.reach.0 && way < self.reach.1 {
                    all.push(Travelling {
                        id: (self.number + 1) << 32 | ((cycle + 4096) as u64) << 16 | (index as u64) << 8,
                        thing,
                        way,
                        at: self.point(way),
                        forward: self.forward,
                        brakes,
                        still,
                    });
                }
            }
        }
        all
    }

    /// The point of its middle line so far past the stop line.
    pub(super) fn point(&self, way: f32) -> Vec2 {
        self.line + self.forward * way
    }

    /// Vehicles that pass in one cycle, in order.
    fn cycle(&self, seed: Seed, cycle: i64) -> Vec<(Thing, Course)> {
        let mut rng = seed.rng(&format!("lane {} cycle {cycle}", self.number));
        let green = cycle as f32 * CYCLE + self.green.0;
        let red = CYCLE - self.green.1;
        let mut passing: Vec<(Thing, Course)> = Vec::new();
        let (queue, most) = if self.cycles {
            (rng.random_range(0..2), 2)
        } else {
            (rng.random_range(0..4), 7)
        };
        let mut at = -rng.random_range(0.4..1.2);
        // The last vehicle of the previous cycle passes while the light is still green; no vehicle is closer
        // to it than two lengths.
        let mut from = green - red + self.speed / BRAKES / 2.0 + 3.4 + rng.random_range(0.0..2.0);
        let mut to = green + rng.random_range(0.4..1.0);
        for _ in 0..queue {
            let thing = self.thing(&mut rng);
            let length = 2.0 * thing.half_length();
            passing.push((thing, Course::Halts { at, from, to }));
            at -= length + rng.random_range(1.4..2.6);
            from += length / self.speed + rng.random_range(1.6..3.0);
            to += rng.random_range(1.0..1.5);
        }
        // A vehicle that would stop only after the light has turned green does not stop.
        passing.retain(|(_, course)| matches!(course, Course::Halts { from, .. } if *from < green - 0.2));
        let clears = if self.cycles { 4.0 } else { 1.6 };
        let mut passes = green + rng.random_range(0.0..2.5);
        for _ in 0..most {
            if let Some((before, course)) = passing.last() {
                let gap = 2.0 * before.half_length() / self.speed + rng.random_range(1.0..2.6);
                passes = (course.passes(self.speed).1 + gap).max(passes);
            }
            let thing = self.thing(&mut rng);
            if passes > green + self.green.1 - clears {
                break;
            }
            passing.push((thing, Course::Through(passes)));
        }
        passing
    }

    pub(super) fn thing(&self, rng: &mut rand_pcg::Pcg64) -> Thing {
        if self.cycles {
            Thing::Bicycle(rng.random_range(0..1 << 20))
        } else {
            Thing::Vehicle(Vehicle::drawn(rng))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Part;

    #[test]
    fn who_drives_in_a_lane_keeps_apart() {
        for number in 0..6 {
            let seed = Seed::new(Part::Clip, number);
            for lane in lanes(seed) {
                for step in 0..160 {
                    let seconds = step as f32 * 0.5;
                    let all = lane.at(seed, seconds);
                    let mut spans: Vec<(f32, f32)> = all
                        .iter()
                        .map(|it| (it.way - it.thing.half_length(), it.way + it.thing.half_length()))
                        .collect();
                    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
                    for pair in spans.windows(2) {
                        assert!(
                            pair[0].1 + 0.5 < pair[1].0,
                            "seed {number} at {seconds}: {pair:?} in {lane:?}"
                        );
                    }
                }
            }
        }
    }
}
