//! People on foot: figures laid over the street in its light.

use super::sight::dot;
use super::stage::Stage;
use crate::canvas::{Canvas, rgb};
use crate::geometry::{Bounds, Vec2, Vec3, vec2, vec3};
use crate::person::{Figure, Identity, draw_figure};

/// Person in the street, with the pose.
#[derive(Clone, Copy)]
pub(super) struct Somebody<'a> {
    pub(super) who: &'a Identity,
    /// Name in the gallery; `None` for people in no gallery.
    pub(super) name: Option<&'a str>,
    /// Height in metres.
    pub(super) height: f32,
    pub(super) at: Vec2,
    pub(super) forward: Vec2,
    /// Phase of the stride in radians, and its width (0 to 1).
    pub(super) stride: f32,
    pub(super) pace: f32,
    /// Direction of the head relative to the body in degrees.
    pub(super) head: [f32; 3],
}

/// Visible parts of a person.
pub(super) struct SomebodySeen {
    pub(super) person: Bounds,
    pub(super) face: Option<Bounds>,
    /// Cells of the cover that were drawn, as rectangles.
    pub(super) runs: Vec<Vec<Vec2>>,
}

/// A part of the picture that is drawn apart and laid over it in the light of the street.
pub(super) struct Cutout {
    canvas: Canvas,
    left: u32,
    top: u32,
}

impl Cutout {
    /// Transparent canvas for the content of the bounds; `None` if they are outside of the picture.
    pub(super) fn new(bounds: &Bounds, size: (u32, u32)) -> Option<Self> {
        let within = bounds.within(size);
        let (left, top) = (within.x0.floor() as u32, within.y0.floor() as u32);
        let (wide, high) = (within.x1.ceil() as u32 - left, within.y1.ceil() as u32 - top);
        (wide > 1 && high > 1).then(|| Self {
            canvas: Canvas::new(wide, high, rgb(0).faded(0.0)),
            left,
            top,
        })
    }

    /// Position of a point of the picture in the cutout.
    pub(super) fn inside(&self, point: Vec2) -> Vec2 {
        point - vec2(self.left as f32, self.top as f32)
    }

    pub(super) fn canvas(&mut self) -> &mut Canvas {
        &mut self.canvas
    }

    /// The box in the picture.
    pub(super) fn outside(&self, bounds: &Bounds) -> Bounds {
        let (x, y) = (self.left as f32, self.top as f32);
        Bounds {
            x0: bounds.x0 + x,
            y0: bounds.y0 + y,
            x1: bounds.x1 + x,
            y1: bounds.y1 + y,
        }
    }

    /// The box in the picture of what is more than half opaque.
    fn drawn(&self) -> Option<Bounds> {
        let (wide, high) = self.canvas.size();
        let solid = |x: u32, y: u32| self.canvas.opacity(x, y) > 0.5;
        let top = (0..high).find(|y| (0..wide).any(|x| solid(x, *y)))?;
        let low = (0..high).rfind(|y| (0..wide).any(|x| solid(x, *y)))?;
        let left = (0..wide).find(|x| (top..=low).any(|y| solid(*x, y)))?;
        let right = (0..wide).rfind(|x| (top..=low).any(|y| solid(*x, y)))?;
        Some(self.outside(&Bounds {
            x0: left as f32,
            y0: top as f32,
            x1: right as f32 + 1.0,
            y1: low as f32 + 1.0,
        }))
    }

    /// Draws it onto the picture, and returns its opaque parts: runs of rows two pixels high.
    pub(super) fn lay(&self, stage: &mut Stage, tint: [f32; 3]) -> Vec<Vec<Vec2>> {
        stage.canvas.stamp(&self.canvas, (self.left, self.top), tint);
        let (wide, high) = self.canvas.size();
        let mut runs = Vec::new();
        for row in (self.top.next_multiple_of(2)..self.top + high).step_by(2) {
            let solid = |x: u32| self.canvas.opacity(x, row - self.top) > 0.5;
            let mut from = None;
            for x in 0..=wide {
                match (from, x < wide && solid(x)) {
                    (None, true) => from = Some(x),
                    (Some(start), false) => {
                        let (x0, x1) = ((self.left + start) as f32, (self.left + x) as f32);
                        let (y0, y1) = (row as f32, row as f32 + 2.0);
                        runs.push(vec![vec2(x0, y0), vec2(x1, y0), vec2(x1, y1), vec2(x0, y1)]);
                        from = None;
                    }
                    _ => {}
                }
            }
        }
        runs
    }
}

/// Light on upright objects at that place, as a factor for each channel.
pub(super) fn tint(stage: &Stage, at: Vec3) -> [f32; 3] {
    let to_eye = stage.sight.eye() - at;
    let normal = super::sight::unit(vec3(to_eye.x, to_eye.y, 2.0));
    let white = stage.light.shade(rgb(0xff_ff_ff), normal);
    [white.r, white.g, white.b].map(|channel| 0.13 + 0.90 * channel)
}

/// Direction of `forward` as seen by the camera from there, in degrees: 0 towards the camera, 90 to the
/// right.
pub(super) fn facing(stage: &Stage, at: Vec2, forward: Vec2) -> f32 {
    let eye = stage.sight.eye();
    let to = vec2(eye.x, eye.y) - at;
    let right = vec2(-to.y, to.x);
    let part = |a: Vec2| a.x * forward.x + a.y * forward.y;
    part(right).atan2(part(to)).to_degrees()
}

/// Direction of the sun as seen by the camera: -1 left, 1 right.
pub(super) fn sun_side(stage: &Stage) -> f32 {
    if stage.light.lamps || stage.light.shadow < 0.12 {
        return 0.0;
    }
    let right = stage.sight.ray(vec2(960.0, 270.0)) - stage.sight.ray(vec2(0.0, 270.0));
    dot(super::sight::unit(right), stage.light.sun)
}

/// Draws a person; `None` if nothing of the person is in the picture.
pub(super) fn draw(stage: &mut Stage, somebody: &Somebody<'_>) -> Option<SomebodySeen> {
    let foot = vec3(somebody.at.x, somebody.at.y, 0.0);
    let feet = stage.sight.point(foot)?;
    let crown = stage.sight.point(foot + vec3(0.0, 0.0, somebody.height))?;
    let height = feet.y - crown.y;
    let about = Bounds {
        x0: feet.x - 0.5 * height,
        y0: crown.y - 0.12 * height,
        x1: feet.x + 0.5 * height,
        y1: feet.y + 0.12 * height,
    };
    let mut cutout = Cutout::new(&about, stage.canvas.size())?;
    let figure = Figure {
        feet: cutout.inside(feet),
        height,
        facing: facing(stage, somebody.at, somebody.forward),
        stride: somebody.stride,
        pace: somebody.pace,
        head: somebody.head,
        light: sun_side(stage),
        ..Figure::default()
    };
    let seen = draw_figure(cutout.canvas(), somebody.who, &figure);
    let tint = tint(stage, foot);
    let runs = cutout.lay(stage, tint);
    let bounds = cutout.outside(&seen.person);
    let size = stage.canvas.size();
    // The drawn cells are exact, except for parts beyond the frame.
    let whole = bounds.within(size) == bounds;
    let person = match cutout.drawn() {
        Some(drawn) if whole => drawn,
        Some(drawn) => bounds.with(&drawn),
        None => bounds,
    };
    Some(SomebodySeen {
        person,
        face: seen.face.map(|face| cutout.outside(&face)),
        runs,
    })
}
