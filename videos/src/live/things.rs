//! Things that stand in rooms and hang on their walls.

use crate::canvas::{Canvas, Ink, Rgba, rgb};
use crate::geometry::{Vec2, vec2};

/// Colours of books, pots, pictures and doors.
pub(super) const COLOURS: [u32; 9] = [
    0xc2554a, 0x3f6f9f, 0xd9a441, 0x5a8a5c, 0x7a5a94, 0xe8e2d4, 0x2f3b4c, 0xb87a4c, 0x4aa0a0,
];

/// Object that stands or hangs along the wall, with a colour and a number that varies it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thing {
    pub(super) what: What,
    pub(super) x: f32,
    pub(super) colour: Rgba,
    pub(super) variant: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Shelf,
    Plant,
    Frame,
    Lamp,
    Door,
}

impl Thing {
    /// Draws it; the floor begins at `edge`, and `dusk` dims it.
    pub(super) fn draw(&self, canvas: &mut Canvas, edge: f32, dusk: f32, evening: bool) {
        match self.what {
            What::Shelf => self.shelf(canvas, dusk),
            What::Plant => self.plant(canvas, edge, dusk),
            What::Frame => self.frame(canvas, dusk),
            What::Lamp => self.lamp(canvas, edge, evening),
            What::Door => self.door(canvas, edge, dusk),
        }
    }

    /// The `index`th number from 0 to 1 of this thing's own.
    fn chance(&self, index: u32) -> f32 {
        let mixed = crate::seed::mix(u64::from(self.variant) * 977 + u64::from(index));
        (mixed >> 40) as f32 / (1u64 << 24) as f32
    }

    fn shelf(&self, canvas: &mut Canvas, dusk: f32) {
        let wood = rgb(0x7a5a3c).lit(dusk);
        for board in 0..3 {
            let y = 130.0 + board as f32 * 82.0;
            let mut x = self.x - 62.0;
            let mut book = board * 20;
            while x < self.x + 48.0 {
                let (wide, tall) = (7.0 + 9.0 * self.chance(book), 34.0 + 24.0 * self.chance(book + 1));
                let pick = (self.chance(book + 2) * COLOURS.len() as f32) as usize;
                let colour = rgb(COLOURS[pick.min(COLOURS.len() - 1)]).lit(0.85 * dusk);
                if self.chance(book + 3) < 0.8 {
                    canvas.rect([x, y - tall, x + wide, y], colour);
                    canvas.rect(
                        [x + 1.5, y - tall + 6.0, x + wide - 1.5, y - tall + 9.0],
                        colour.lit(1.5),
                    );
                }
                x += wide + 1.0;
                book += 4;
            }
            canvas.rect([self.x - 70.0, y, self.x + 70.0, y + 7.0], wood);
            canvas.rect(
                [self.x - 70.0, y + 7.0, self.x + 70.0, y + 11.0],
                wood.lit(0.6).faded(0.5),
            );
        }
    }

    fn plant(&self, canvas: &mut Canvas, edge: f32, dusk: f32) {
        let foot = vec2(self.x, edge + 26.0);
        let green = rgb(0x3f7a48).mixed(rgb(0x7aa050), self.chance(1)).lit(dusk);
        canvas.ellipse(
            foot + vec2(0.0, 6.0),
            vec2(44.0, 9.0),
            0.0,
            rgb(0x000000).faded(0.25),
        );
        let size = 0.8 + 0.5 * self.chance(2);
        for leaf in 0..11 {
            let angle = -1.25 + 0.25 * leaf as f32 + 0.2 * (self.chance(leaf + 10) - 0.5);
            let length = (95.0 + 70.0 * self.chance(leaf + 30)) * size;
            let (root, tip) = (
                foot - vec2(0.0, 48.0),
                foot + vec2(0.0, -48.0) + vec2(0.0, -length).turned(angle),
            );
            let side = vec2(15.0 * size, 0.0).turned(angle);
            let middle = root.towards(tip, 0.55);
            let tone = green.lit(0.75 + 0.45 * self.chance(leaf + 50));
            canvas.blob(&[root, middle + side, tip, middle - side], tone);
            canvas.line(&[root, tip], 1.5, tone.lit(0.8));
        }
        let pot = [
            vec2(-30.0, -52.0),
            vec2(30.0, -52.0),
            vec2(22.0, 4.0),
            vec2(-22.0, 4.0),
        ];
        let ink = Ink::Gradient {
            from: (foot - vec2(30.0, 0.0), self.colour.lit(1.05 * dusk)),
            to: (foot + vec2(30.0, 0.0), self.colour.lit(0.65 * dusk)),
        };
        canvas.polygon(&pot.map(|corner| foot + corner), ink);
    }

    fn frame(&self, canvas: &mut Canvas, dusk: f32) {
        let (wide, high) = (44.0 + 40.0 * self.chance(1), 40.0 + 34.0 * self.chance(2));
        let (x, y) = (self.x, 110.0 + 60.0 * self.chance(3));
        canvas.rect(
            [x - wide + 4.0, y - high + 6.0, x + wide + 4.0, y + high + 6.0],
            rgb(0x000000).faded(0.18),
        );
        canvas.rect([x - wide, y - high, x + wide, y + high], rgb(0x3a3028).lit(dusk));
        let ground = self.colour.mixed(rgb(0xf4eee0), 0.55).lit(dusk);
        canvas.rect(
            [x - wide + 7.0, y - high + 7.0, x + wide - 7.0, y + high - 7.0],
            ground,
        );
        let low = y + high - 7.0;
        let hill = |left: f32, right: f32, top: f32| -> [Vec2; 3] {
            [
                vec2(x + left * (wide - 7.0), low),
                vec2(x + (left + right) / 2.0 * (wide - 7.0), y + top * high),
                vec2(x + right * (wide - 7.0), low),
            ]
        };
        canvas.polygon(&hill(-1.0, 0.5, -0.1), self.colour.lit(0.9 * dusk));
        canvas.polygon(&hill(-0.3, 1.0, 0.2), self.colour.lit(0.65 * dusk));
        canvas.ellipse(
            vec2(x + wide * 0.4, y - high * 0.4),
            vec2(9.0, 9.0),
            0.0,
            rgb(0xf0c060).lit(dusk),
        );
    }

    fn lamp(&self, canvas: &mut Canvas, edge: f32, evening: bool) {
        let top = 150.0 + 40.0 * self.chance(1);
        canvas.line(
            &[vec2(self.x, top), vec2(self.x, edge + 14.0)],
            5.0,
            rgb(0x3a3634),
        );
        canvas.ellipse(vec2(self.x, edge + 14.0), vec2(30.0, 7.0), 0.0, rgb(0x2c2a28));
        if evening {
            for step in 1..9 {
                let reach = 34.0 * step as f32;
                let glow = rgb(0xffd890).faded(0.035);
                canvas.ellipse(vec2(self.x, top), vec2(reach, reach), 0.0, glow);
            }
        }
        let shade = [
            vec2(-24.0, -34.0),
            vec2(24.0, -34.0),
            vec2(42.0, 26.0),
            vec2(-42.0, 26.0),
        ];
        let tone = if evening {
            rgb(0xffe6b0)
        } else {
            self.colour.mixed(rgb(0xf0e8da), 0.6)
        };
        canvas.polygon(&shade.map(|corner| vec2(self.x, top) + corner), tone);
    }

    fn door(&self, canvas: &mut Canvas, edge: f32, dusk: f32) {
        let leaf = self.colour.mixed(rgb(0x8a7458), 0.5).lit(dusk);
        let (x0, x1) = (self.x - 66.0, self.x + 66.0);
        canvas.rect([x0 - 10.0, 56.0, x1 + 10.0, edge], rgb(0xe8e2d6).lit(dusk));
        canvas.rect([x0, 66.0, x1, edge], leaf);
        for (top, bottom) in [(86.0, 200.0), (222.0, edge - 24.0)] {
            canvas.rect([x0 + 16.0, top, x1 - 16.0, bottom], leaf.lit(0.86));
            canvas.rect([x0 + 20.0, top + 4.0, x1 - 16.0, bottom], leaf.lit(1.08));
        }
        canvas.ellipse(
            vec2(x1 - 9.0, 235.0),
            vec2(5.0, 5.0),
            0.0,
            rgb(0xd8c070).lit(dusk),
        );
    }
}
