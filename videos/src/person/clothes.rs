//! Limbs and clothes, drawn on a body's joints as they are seen.

use super::body::Joints;
use super::face::{across, shaded};
use super::identity::{Cut, Identity};
use crate::canvas::{Canvas, Ink, Rgba};
use crate::geometry::{Vec2, Vec3, vec2, vec3};

/// A body as it is seen: joints in the picture.
pub(super) struct Dressed<'a> {
    pub(super) who: &'a Identity,
    pub(super) joints: &'a Joints,
    pub(super) feet: Vec2,
    pub(super) height: f32,
    /// Sine and cosine of the orientation.
    pub(super) facing: (f32, f32),
    pub(super) light: f32,
}

impl Dressed<'_> {
    /// Position of a joint in the picture. A person facing the camera has the left side on the right of the
    /// picture.
    pub(super) fn at(&self, joint: Vec3) -> Vec2 {
        let (sin, cos) = self.facing;
        self.feet + vec2(joint.x * cos + joint.z * sin, -joint.y) * self.height
    }

    /// Distance of a joint towards the camera, in heights of the body.
    pub(super) fn depth(&self, joint: Vec3) -> f32 {
        let (sin, cos) = self.facing;
        -joint.x * sin + joint.z * cos
    }

    fn px(&self, length: f32) -> f32 {
        length * self.height
    }

    fn ink(&self, colour: Rgba, centre: Vec2, radius: f32) -> Ink {
        across(colour, self.light, centre, radius.max(1.0))
    }

    /// Tone of what lies `depth` behind the middle of the body: a little darker.
    fn tone(&self, colour: Rgba, depth: f32) -> Rgba {
        shaded(colour, (-depth * 2.2).clamp(0.0, 0.45))
    }

    pub(super) fn leg(&self, canvas: &mut Canvas, side: usize) {
        let (joints, clothes) = (self.joints, &self.who.clothes);
        let depth = self.depth(joints.knees[side]) - 0.02;
        let (hip, knee, ankle, toe) = (
            self.at(joints.hips[side]),
            self.at(joints.knees[side]),
            self.at(joints.ankles[side]),
            self.at(joints.toes[side]),
        );
        let build = 0.7 + 0.3 * clothes.build;
        let cloth = if clothes.skirt {
            self.who.skin
        } else {
            clothes.bottom
        };
        let (thick, thin) = if clothes.skirt {
            (0.036, 0.018)
        } else {
            (0.046, 0.027)
        };
        let shoe = self.tone(clothes.shoes, depth);
        let heel = ankle + vec2(0.0, self.px(0.018));
        self.limb(
            canvas,
            [heel, toe],
            [0.026, 0.02],
            self.ink(shoe, heel, self.px(0.04)),
        );
        // One shade for the whole limb, so that its parts do not show.
        let tone = self.ink(self.tone(cloth, depth), knee, self.px(0.05));
        self.limb(canvas, [knee, ankle], [0.037 * build, thin * build], tone);
        self.limb(canvas, [hip, knee], [thick * build, 0.037 * build], tone);
    }

    pub(super) fn arm(&self, canvas: &mut Canvas, side: usize) {
        let (joints, clothes) = (self.joints, &self.who.clothes);
        let depth = self.depth(joints.elbows[side]);
        // A little below the joint, within the slope of the shoulder.
        let root = joints.shoulders[side];
        let root = vec3(root.x * 0.95, root.y - 0.014, root.z);
        let (shoulder, elbow, wrist) = (
            self.at(root),
            self.at(joints.elbows[side]),
            self.at(joints.wrists[side]),
        );
        let build = 0.6 + 0.4 * clothes.build;
        let cloth = self.tone(clothes.top.lit(0.97), depth);
        let middle = shoulder.towards(elbow, 0.6);
        let sleeve = self.ink(cloth, middle, self.px(0.11));
        let skin = self.ink(self.tone(self.who.skin, depth), elbow, self.px(0.06));
        let end = joints.wrists[side] + (joints.wrists[side] - joints.elbows[side]) * 0.22;
        self.limb(canvas, [wrist, self.at(end)], [0.018, 0.021], skin);
        let forearm = if clothes.short_sleeves { skin } else { sleeve };
        self.limb(canvas, [elbow, wrist], [0.027 * build, 0.02], forearm);
        if clothes.short_sleeves {
            self.limb(canvas, [shoulder, elbow], [0.03 * build, 0.027 * build], skin);
            let to = shoulder.towards(elbow, 0.62);
            self.limb(canvas, [shoulder, to], [0.031 * build, 0.034 * build], sleeve);
        } else {
            self.limb(canvas, [shoulder, elbow], [0.031 * build, 0.029 * build], sleeve);
            let cuff = wrist.towards(elbow, 0.06);
            let off = wrist - elbow;
            let side = vec2(-off.y, off.x) * (self.px(0.02) / off.length().max(1e-3));
            canvas.line(&[cuff - side, cuff + side], self.px(0.006), cloth.lit(0.75));
        }
    }

    /// A limb between two points, of two radii in heights of the body.
    fn limb(&self, canvas: &mut Canvas, [from, to]: [Vec2; 2], radii: [f32; 2], ink: Ink) {
        let [first, second] = radii.map(|radius| self.px(radius));
        let off = to - from;
        let side = vec2(-off.y, off.x) * (1.0 / off.length().max(1e-3));
        canvas.ellipse(from, vec2(first, first), 0.0, ink);
        canvas.ellipse(to, vec2(second, second), 0.0, ink);
        let corners = [
            from + side * first,
            to + side * second,
            to - side * second,
            from - side * first,
        ];
        canvas.polygon(&corners, ink);
    }

    /// The outline of the trunk from shoulder to hip: widths of its front and of its side mix as it turns.
    fn trunk_point(&self, across: f32, height: f32) -> Vec2 {
        let (sin, cos) = self.facing;
        let joints = self.joints;
        let build = self.who.clothes.build;
        let shoulder = joints.shoulders[0].y;
        let hip = joints.hips[0].y;
        let part = ((shoulder - height) / (shoulder - hip)).clamp(-0.2, 1.2);
        let width = (joints.shoulders[0].x + 0.016) * (1.0 - part) + (0.05 + 0.036 * build) * part
            - 0.016 * (std::f32::consts::PI * part).sin() * (1.3 - build).max(0.0);
        let deep = 0.06 * (0.5 + 0.5 * build) + 0.012 * (std::f32::consts::PI * part).sin();
        let seen = (width * cos).hypot(deep * sin);
        let lean = joints.shoulders[0].z.midpoint(joints.shoulders[1].z) * (1.0 - part) * sin;
        self.feet + vec2(across * seen + lean, -height) * self.height
    }

    pub(super) fn trunk(&self, canvas: &mut Canvas) {
        let clothes = &self.who.clothes;
        let (shoulder, hip) = (self.joints.shoulders[0].y, self.joints.hips[0].y);
        self.lap(canvas, hip);
        let slope = [
            (0.0, 0.045),
            (0.45, 0.038),
            (0.86, 0.017),
            (1.02, -0.012),
            (1.0, -0.05),
        ];
        let sides = [0.25, 0.5, 0.75, 1.0, 1.12];
        let mut right: Vec<Vec2> = slope
            .iter()
            .map(|(across, up)| self.trunk_point(*across, shoulder + up))
            .collect();
        let height = |part: f32| shoulder + (hip - shoulder) * part;
        right.extend(sides.iter().map(|part| self.trunk_point(1.0, height(*part))));
        let middle = self.trunk_point(0.0, height(0.5)).x;
        let left = right
            .iter()
            .rev()
            .map(|point| vec2(2.0 * middle - point.x, point.y));
        let outline: Vec<Vec2> = right.iter().copied().chain(left).collect();
        let centre = self.trunk_point(0.0, height(0.5));
        canvas.polygon(&outline, self.ink(clothes.top, centre, self.px(0.13)));
        if self.facing.1 > -0.2 {
            self.front(canvas, &height);
        }
        self.pattern(canvas, &height);
    }

    /// Trousers about the hips, or a skirt.
    fn lap(&self, canvas: &mut Canvas, hip: f32) {
        let clothes = &self.who.clothes;
        let centre = self.trunk_point(0.0, hip);
        let ink = self.ink(clothes.bottom, centre, self.px(0.12));
        let (down, flare) = if clothes.skirt {
            (0.23, 1.35)
        } else {
            (0.035, 0.96)
        };
        let points = [
            self.trunk_point(-0.96, hip + 0.06),
            self.trunk_point(0.96, hip + 0.06),
            self.trunk_point(1.0, hip - 0.01),
            self.trunk_point(flare, hip - down),
            self.trunk_point(-flare, hip - down),
            self.trunk_point(-1.0, hip - 0.01),
        ];
        canvas.polygon(&points, ink);
    }

    /// Draws the visible parts of the front: an open jacket, strings of a hood, a neckline.
    fn front(&self, canvas: &mut Canvas, height: &dyn Fn(f32) -> f32) {
        let clothes = &self.who.clothes;
        let (sin, cos) = self.facing;
        let shift = sin * 0.5;
        let narrow = cos.max(0.15);
        let place = |across: f32, part: f32| {
            let across = (shift + across * narrow).clamp(-0.86, 0.86);
            // Parts over the shoulders follow their slope.
            let part = if part < 0.0 {
                part * (1.0 - across * across)
            } else {
                part
            };
            self.trunk_point(across, height(part))
        };
        match clothes.cut {
            Cut::Jacket => {
                let shirt = [
                    place(-0.3, -0.14),
                    place(0.3, -0.14),
                    place(0.16, 0.5),
                    place(0.2, 1.1),
                    place(-0.2, 1.1),
                    place(-0.16, 0.5),
                ];
                canvas.polygon(&shirt, self.ink(clothes.under, place(0.0, 0.4), self.px(0.08)));
                for side in [-1.0, 1.0] {
                    let lapel = [
                        place(side * 0.3, -0.15),
                        place(side * 0.52, 0.12),
                        place(side * 0.15, 0.52),
                    ];
                    canvas.polygon(&lapel, clothes.top.lit(0.82));
                }
            }
            Cut::Hooded => {
                let hood = [
                    place(-0.5, -0.17),
                    place(0.5, -0.17),
                    place(0.36, 0.06),
                    place(0.0, 0.13),
                    place(-0.36, 0.06),
                ];
                canvas.blob(&hood, clothes.top.lit(0.86));
                for side in [-1.0, 1.0] {
                    let string = [place(side * 0.14, 0.1), place(side * 0.16, 0.36)];
                    canvas.line(&string, self.px(0.005), clothes.top.lit(1.35));
                }
                let pocket = [
                    place(-0.42, 0.72),
                    place(0.42, 0.72),
                    place(0.58, 0.95),
                    place(-0.58, 0.95),
                ];
                canvas.polygon(&pocket, clothes.top.lit(0.9));
            }
            _ => {
                let ring = [place(-0.36, -0.14), place(0.0, 0.16), place(0.36, -0.14)];
                canvas.curve(ring, self.px(0.012), clothes.top.lit(0.78));
            }
        }
    }

    fn pattern(&self, canvas: &mut Canvas, height: &dyn Fn(f32) -> f32) {
        let clothes = &self.who.clothes;
        let mut band = |from: f32, to: f32, colour: Rgba| {
            let wide = 0.985;
            let points = [
                self.trunk_point(-wide, height(from)),
                self.trunk_point(wide, height(from)),
                self.trunk_point(wide, height(to)),
                self.trunk_point(-wide, height(to)),
            ];
            canvas.polygon(
                &points,
                self.ink(colour, points[0].towards(points[1], 0.5), self.px(0.12)),
            );
        };
        match clothes.cut {
            Cut::Striped => {
                for row in 0..6 {
                    let from = 0.22 + row as f32 * 0.145;
                    band(from, from + 0.06, clothes.under);
                }
            }
            Cut::Band => band(0.34, 0.54, clothes.under),
            _ => {}
        }
    }

    /// Middle of the head in the picture, and its height in pixels.
    pub(super) fn head(&self) -> (Vec2, f32) {
        (self.at(self.joints.head), self.px(super::body::HEAD))
    }

    /// A joint moved outwards for the box about the person.
    pub(super) fn reach(&self, joint: Vec3, by: f32) -> [Vec2; 2] {
        let at = self.at(vec3(joint.x, joint.y, joint.z));
        let off = vec2(self.px(by), self.px(by));
        [at - off, at + off]
    }
}
