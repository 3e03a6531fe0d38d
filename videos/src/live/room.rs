//! Rooms that people stand in: a living room, an entrance, a studio; by day or in the evening.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::SIZE;
use super::things::{COLOURS, Thing, What};
use crate::canvas::{Canvas, Ink, Rgba, rgb};
use crate::geometry::vec2;

/// Room with its furniture.
#[derive(Debug, Clone)]
pub(super) struct Room {
    /// True if it is dark outside.
    pub(super) evening: bool,
    wall: Rgba,
    floor: Rgba,
    /// Height in the picture at which the wall meets the floor, in pixels.
    edge: f32,
    kind: Kind,
    things: Vec<Thing>,
    /// Left edge and width of the window in pixels.
    window: Option<(f32, f32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Living,
    Entrance,
    Studio,
}

const WALLS: [u32; 10] = [
    0xd9cfc0, 0xc5d0d2, 0xb9c4a8, 0xe2d6c8, 0x9fb0bd, 0xd8b9a8, 0xc9c2d4, 0x8c9a90, 0xe6e4de, 0x6f7f8f,
];
const FLOORS: [u32; 5] = [0x8a6848, 0xa88660, 0x6d5844, 0x9a9690, 0x565a60];

impl Room {
    pub(super) fn of(rng: &mut Pcg64) -> Self {
        let evening = rng.random_bool(0.35);
        let kind = [Kind::Living, Kind::Living, Kind::Entrance, Kind::Studio][rng.random_range(0..4)];
        let kinds = match kind {
            Kind::Living => [What::Shelf, What::Plant, What::Frame, What::Lamp],
            Kind::Entrance => [What::Door, What::Plant, What::Frame, What::Plant],
            Kind::Studio => [What::Lamp, What::Plant, What::Lamp, What::Shelf],
        };
        let window = rng
            .random_bool(0.7)
            .then(|| (rng.random_range(20.0..620.0), rng.random_range(190.0..320.0)));
        let count = rng.random_range(3..=6);
        let things = (0..count).map(|index: u32| Thing {
            what: kinds[rng.random_range(0..kinds.len())],
            x: (index as f32 + rng.random_range(0.15..0.85)) * 960.0 / count as f32,
            colour: rgb(COLOURS[rng.random_range(0..COLOURS.len())]),
            variant: rng.random_range(0..1000),
        });
        let things = things
            .filter(|thing| {
                window.is_none_or(|(x, wide)| {
                    thing.x < x - 70.0 || thing.x > x + wide + 70.0 || thing.what == What::Plant
                })
            })
            .collect();
        Self {
            evening,
            wall: rgb(WALLS[rng.random_range(0..WALLS.len())]),
            floor: rgb(FLOORS[rng.random_range(0..FLOORS.len())]),
            edge: rng.random_range(370.0..450.0),
            kind,
            things,
            window,
        }
    }

    /// Direction of the main light: -1 left, 1 right.
    pub(super) fn light(&self) -> f32 {
        self.window
            .map_or(0.2, |(x, wide)| ((x + wide / 2.0) / 480.0 - 1.0).clamp(-0.8, 0.8))
    }

    pub(super) fn draw(&self, canvas: &mut Canvas) {
        let (width, height) = (SIZE.0 as f32, SIZE.1 as f32);
        let dusk = if self.evening { 0.62 } else { 1.0 };
        let (lit, dark) = (self.wall.lit(1.06 * dusk), self.wall.lit(0.8 * dusk));
        let far = if self.light() < 0.0 {
            [0.0, width]
        } else {
            [width, 0.0]
        };
        let wall = Ink::Gradient {
            from: (vec2(far[0], 0.0), lit),
            to: (vec2(far[1], height), dark),
        };
        canvas.rect([0.0, 0.0, width, self.edge], wall);
        let floor = Ink::Gradient {
            from: (vec2(0.0, self.edge), self.floor.lit(0.75 * dusk)),
            to: (vec2(0.0, height), self.floor.lit(1.05 * dusk)),
        };
        canvas.rect([0.0, self.edge, width, height], floor);
        self.boards(canvas, dusk);
        let skirting = self.wall.lit(1.2 * dusk);
        canvas.rect([0.0, self.edge - 10.0, width, self.edge], skirting);
        canvas.rect(
            [0.0, self.edge - 1.5, width, self.edge + 1.0],
            self.floor.lit(0.5 * dusk),
        );
        if self.kind == Kind::Studio {
            self.panels(canvas, dusk);
        }
        if let Some((x, wide)) = self.window {
            self.window(canvas, x, wide);
        }
        for thing in &self.things {
            thing.draw(canvas, self.edge, dusk, self.evening);
        }
    }

    fn boards(&self, canvas: &mut Canvas, dusk: f32) {
        for index in -8..=8 {
            let from = vec2(480.0 + index as f32 * 70.0, self.edge);
            let to = vec2(480.0 + index as f32 * 170.0, SIZE.1 as f32);
            canvas.line(&[from, to], 1.5, self.floor.lit(0.62 * dusk).faded(0.6));
        }
    }

    fn panels(&self, canvas: &mut Canvas, dusk: f32) {
        for column in 0..8 {
            let x = column as f32 * 120.0;
            let tone = if column % 2 == 0 { 0.94 } else { 1.07 };
            let ink = self.wall.lit(tone * dusk).faded(0.55);
            canvas.rect([x, 0.0, x + 118.0, self.edge - 10.0], ink);
        }
    }

    fn window(&self, canvas: &mut Canvas, x: f32, wide: f32) {
        let (top, bottom) = (45.0, 255.0);
        let frame = rgb(0xf0ece4).lit(if self.evening { 0.6 } else { 1.0 });
        canvas.rect([x - 9.0, top - 9.0, x + wide + 9.0, bottom + 9.0], frame);
        let (high, low) = if self.evening {
            (rgb(0x1a2440), rgb(0x4a3a58))
        } else {
            (rgb(0x9cc8ee), rgb(0xeef4f6))
        };
        let sky = Ink::Gradient {
            from: (vec2(x, top), high),
            to: (vec2(x, bottom), low),
        };
        canvas.rect([x, top, x + wide, bottom], sky);
        let hill = if self.evening {
            rgb(0x1c2230)
        } else {
            rgb(0x8fb284)
        };
        let share = |part: f32, y: f32| vec2(x + wide * part, y);
        let hills = [
            share(0.0, 215.0),
            share(0.2, 195.0),
            share(0.45, 212.0),
            share(0.7, 188.0),
            share(1.0, 210.0),
            share(1.0, bottom),
            share(0.0, bottom),
        ];
        canvas.polygon(&hills, hill);
        if self.evening {
            for index in 0..7 {
                let at = share(0.1 + 0.13 * index as f32, 222.0 + 9.0 * (index % 3) as f32);
                canvas.rect([at.x, at.y, at.x + 4.0, at.y + 5.0], rgb(0xf0c870));
            }
        }
        canvas.rect([x + wide / 2.0 - 4.0, top, x + wide / 2.0 + 4.0, bottom], frame);
        canvas.rect([x, top + 75.0, x + wide, top + 81.0], frame);
        canvas.rect(
            [x - 18.0, bottom + 6.0, x + wide + 18.0, bottom + 16.0],
            frame.lit(0.92),
        );
        let cloth = self
            .wall
            .mixed(rgb(0xf4ead8), 0.5)
            .lit(if self.evening { 0.6 } else { 0.97 });
        for (from, to) in [(x - 34.0, x + 22.0), (x + wide - 22.0, x + wide + 34.0)] {
            canvas.rect([from, top - 22.0, to, bottom + 70.0], cloth);
            for fold in 1..4 {
                let at = from + (to - from) * fold as f32 / 4.0;
                let line = [vec2(at, top - 20.0), vec2(at + 3.0, bottom + 70.0)];
                canvas.line(&line, 3.0, cloth.lit(0.85));
            }
        }
    }
}
