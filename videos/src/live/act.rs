//! A clip: people come near, stay a while and leave. Everything is a closed form of time.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::room::Room;
use super::staging::{self, Person};
use super::{GALLERY, SIZE};
use crate::World;
use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::vec2;
use crate::lens::{Lens, exposed};
use crate::person::{Arms, Expression, Figure, Gesture, Identity};
use crate::seed::{Part, Seed};
use weir_truth::FrameTruth;

/// An entrance or a room, and three to five people who come and go. 960 by 540 pixels, intended for 25 frames
/// per second.
#[derive(Debug, Clone)]
pub struct Live {
    seed: Seed,
    room: Room,
    lens: Lens,
    actors: Vec<Actor>,
}

/// Role of a person in the clip, repeated in rounds: come, stay, leave, be absent.
#[derive(Debug, Clone)]
struct Actor {
    seed: Seed,
    index: usize,
    who: Identity,
    /// Length of a round, and offset of this actor in it, in seconds.
    round: f32,
    ahead: f32,
    /// Time of absence in each round, in seconds.
    away: f32,
    /// Middle of the head, and height of the body, in pixels.
    place: (f32, f32),
    height: f32,
    light: f32,
}

/// Seconds that coming and going take.
const WALK: f32 = 3.2;
/// Seconds of the exposure.
const EXPOSURE: f32 = 0.014;

impl Live {
    /// The clip of that seed.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let mut rng = seed.rng("live");
        let room = Room::of(&mut rng);
        let count = rng.random_range(3..=5);
        let mut numbers = cast(&mut rng, count);
        if seed.part == Part::Clip && rng.random_bool(0.5) {
            // One of the people is in no gallery.
            numbers[0] = GALLERY + seed.number;
        }
        let horizon = rng.random_range(180.0..240.0);
        let first = rng.random_range(0..count);
        let actors = numbers.iter().enumerate().map(|(index, number)| {
            let slot = (index + first) % count;
            let head = rng.random_range(90.0..210.0_f32).min(700.0 / count as f32);
            let x = (slot as f32 + 0.5 + rng.random_range(-0.15..0.15)) * 960.0 / count as f32;
            let x = x.clamp(head * 0.75, 960.0 - head * 0.75);
            let round = rng.random_range(18.0..26.0);
            Actor {
                seed,
                index,
                who: Identity::of(seed.part, *number),
                round,
                ahead: if index < 2 {
                    rng.random_range(2.0..7.0)
                } else {
                    rng.random_range(0.0..1.0) * round
                },
                away: rng.random_range(1.0..4.0),
                place: (x, horizon + rng.random_range(-0.2..0.4) * head),
                height: head / 0.158,
                light: (room.light() + rng.random_range(-0.15..0.15_f32)).clamp(-1.0, 1.0),
            }
        });
        let actors = actors.collect();
        let lens = Lens {
            grain: rng.random_range(1.5..4.5),
            gain: if room.evening {
                rng.random_range(0.72..0.9)
            } else {
                rng.random_range(0.95..1.08)
            },
            vignette: rng.random_range(0.05..0.2),
            blur: 0.0,
        };
        Self {
            seed,
            room,
            lens,
            actors,
        }
    }

    fn exposure(&self, seconds: f32) -> (Picture, FrameTruth, bool) {
        let mut canvas = Canvas::new(SIZE.0, SIZE.1, rgb(0x808080));
        self.room.draw(&mut canvas);
        let mut fast = false;
        let people: Vec<Person> = self
            .actors
            .iter()
            .filter_map(|actor| {
                let figure = actor.figure(seconds)?;
                fast |= figure.pace > 0.3;
                Some(Person {
                    id: actor.index as u64,
                    who: actor.who.clone(),
                    figure,
                })
            })
            .collect();
        let truth = staging::draw(&mut canvas, &people);
        (canvas.picture(), truth, fast)
    }
}

/// `count` different numbers of the gallery.
fn cast(rng: &mut Pcg64, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let number = rng.random_range(0..GALLERY);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

impl World for Live {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn at(&self, seconds: f32) -> (Picture, FrameTruth) {
        let (picture, truth, fast) = self.exposure(seconds);
        let picture = if fast {
            let [before, after] = [-EXPOSURE / 2.0, EXPOSURE / 2.0].map(|off| self.exposure(seconds + off).0);
            exposed(&[before, picture.clone(), after]).unwrap_or(picture)
        } else {
            picture
        };
        let moment = (seconds * 1000.0).round() as i64;
        (
            self.lens.seen(picture, self.seed.key("grain") ^ moment as u64),
            truth,
        )
    }
}

/// Smooth step from 0 to 1.
fn ease(part: f32) -> f32 {
    let part = part.clamp(0.0, 1.0);
    part * part * (3.0 - 2.0 * part)
}

/// Direction of the head of a person who faces `facing` and wants to look at `wish`: towards the camera as
/// long as the body almost faces it, then along the path as the body turns away.
fn held(facing: f32, wish: f32) -> f32 {
    if facing.abs() <= 60.0 {
        wish.clamp(-42.0, 42.0)
    } else {
        (42.0 + (facing.abs() - 60.0) * 1.4).copysign(facing)
    }
}

/// Behaviour of a person for a few seconds.
#[derive(Debug, Clone, Copy)]
struct Mood {
    head: [f32; 3],
    expression: Expression,
    gesture: Gesture,
    speaks: bool,
}

impl Actor {
    /// Pose of the person at a time; `None` during absence.
    fn figure(&self, seconds: f32) -> Option<Figure> {
        let since = seconds + self.ahead + self.round;
        let (round, at) = ((since / self.round).floor(), since.rem_euclid(self.round));
        let stays = self.round - self.away;
        if at > stays {
            return None;
        }
        let mut rng = self.draws("way", round as i64);
        let sides = [1.0_f32, -1.0].map(|side| if rng.random_bool(0.5) { side } else { -side });
        // Displacement from the place: 1 is completely outside the picture.
        let (out, from) = if at < WALK {
            (1.0 - at / WALK, sides[0])
        } else {
            (((at - stays + WALK) / WALK).max(0.0), sides[1])
        };
        let coming = at < WALK;
        let glide = if coming {
            1.0 - (1.0 - out) * (1.0 + out)
        } else {
            out * out
        };
        let beyond = if from > 0.0 {
            960.0 - self.place.0
        } else {
            self.place.0
        } + self.height * 0.24;
        let height = self.height * (1.0 - 0.22 * glide);
        let x = self.place.0 + from * beyond * glide;
        let head_middle = 0.921;
        let pace = ease(out * 5.0) * 0.8;
        let facing = if coming { -from * 58.0 } else { from * 105.0 } * ease(out * 4.0);
        let mut figure = Figure {
            feet: vec2(x, self.place.1 + self.height * head_middle),
            height,
            stride: at * 6.0,
            pace,
            facing,
            light: self.light,
            ..Figure::default()
        };
        // Distant people have their heads at the same height of the picture, since the camera is at that
        // height.
        figure.feet.y = self.place.1 + height * head_middle;
        self.behave(&mut figure, seconds, ease(out * 4.0));
        Some(figure)
    }

    fn draws(&self, what: &str, number: i64) -> Pcg64 {
        let own = Seed::new(
            self.seed.part,
            self.seed.key(what) ^ (self.index as u64) << 32 ^ number as u64,
        );
        own.rng(what)
    }

    fn mood(&self, number: i64) -> Mood {
        let mut rng = self.draws("mood", number);
        let gesture = if rng.random_bool(0.45) {
            0
        } else {
            rng.random_range(0..Gesture::ALL.len())
        };
        Mood {
            head: [
                rng.random_range(-38.0..38.0),
                rng.random_range(-16.0..16.0),
                rng.random_range(-6.0..6.0),
            ],
            expression: Expression::ALL[rng.random_range(0..Expression::ALL.len())],
            gesture: Gesture::ALL[gesture],
            speaks: rng.random_bool(0.4),
        }
    }

    /// Head, eyes, face and arms; `walking` from 0 to 1 keeps them to the way.
    fn behave(&self, figure: &mut Figure, seconds: f32, walking: f32) {
        let own = 2.4 + 0.3 * self.index as f32;
        let since = seconds / own + 0.37 * self.index as f32;
        let (number, at) = (since.floor() as i64, since.fract() * own);
        let (was, is) = (self.mood(number - 1), self.mood(number));
        let turned = ease(at / 0.45);
        let quiet = 1.0 - walking;
        let mut head = [0.0; 3];
        for (axis, value) in head.iter_mut().enumerate() {
            *value = was.head[axis] + (is.head[axis] - was.head[axis]) * turned;
        }
        let wish = figure.facing + head[0] * (1.0 - 0.7 * walking);
        let yaw = held(figure.facing, wish);
        figure.head = [yaw - figure.facing, head[1], head[2]];
        figure.eyes = self.glance(seconds);
        let (expression, strength) = if at < 0.16 {
            (was.expression, 1.0 - at / 0.16)
        } else {
            (is.expression, ((at - 0.16) / 0.16).min(1.0))
        };
        (figure.expression, figure.strength) = (expression, strength * 0.95);
        let beat = (seconds * 9.0 + self.index as f32).sin() * (seconds * 5.3).sin();
        figure.speech = if is.speaks { beat.max(0.0) * quiet } else { 0.0 };
        let blink = (seconds / 3.1 + 0.41 * self.index as f32).fract() * 3.1;
        figure.blink = (1.0 - (blink - 0.08).abs() / 0.08).max(0.0);
        let phase = seconds * 7.0;
        let arms = Arms::of(was.gesture, phase).towards(&Arms::of(is.gesture, phase), ease(at / 0.6));
        figure.arms = arms.towards(&Arms::default(), walking);
    }

    /// Direction of the eyes in degrees: it stays for a while, then jumps.
    fn glance(&self, seconds: f32) -> (f32, f32) {
        let since = seconds / 0.9 + 0.53 * self.index as f32;
        let (number, at) = (since.floor() as i64, since.fract() * 0.9);
        let look = |number: i64| {
            let mut rng = self.draws("glance", number);
            (
                rng.random_range(-23.0..23.0_f32),
                rng.random_range(-13.0..13.0_f32),
            )
        };
        let (was, is) = (look(number - 1), look(number));
        let part = ease(at / 0.08);
        (was.0 + (is.0 - was.0) * part, was.1 + (is.1 - was.1) * part)
    }
}
