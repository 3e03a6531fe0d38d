//! What stands and moves in the street at a moment, drawn back to front, and the truth about it.

use std::collections::BTreeMap;

use super::cover::Mark;
use super::fleet::Vehicle;
use super::houses::{self, House};
use super::layout::{CORNERS, HOUSES};
use super::order::{Footprint, back_to_front};
use super::props::Prop;
use super::shadows;
use super::stage::{Pose, Stage, extent};
use super::vehicle::{self, Moving};
use crate::geometry::{Bounds, Vec2, vec2};
use crate::truth::{TruthAttribute, TruthObject};

/// Something in the street.
pub(super) enum Item<'a> {
    Vehicle {
        id: u64,
        vehicle: &'a Vehicle,
        pose: Pose,
        way: f32,
        brakes: bool,
    },
    Prop(&'a Prop),
    /// The houses of a near block, which hide the other street; left is less one.
    Block(f32, &'a [House]),
}

/// What was drawn of a thing, before it is known what comes to hide it.
struct Drawn {
    object: TruthObject,
    /// Its extent, uncut.
    extent: Bounds,
    mark: Mark,
    /// The least shorter side, or height, that is asked for.
    least: f32,
    by_height: bool,
}

impl Item<'_> {
    fn footprint(&self) -> Footprint {
        match self {
            Self::Vehicle { vehicle, pose, .. } => {
                shadows::footprint(pose, (vehicle.half_length(), vehicle.half_width()))
            }
            Self::Prop(prop) => Footprint { at: prop.at, forward: vec2(0.0, 1.0), half: vec2(0.15, 0.15) },
            Self::Block(side, _) => {
                let (from, to) = (-20.0, CORNERS.0);
                Footprint {
                    at: vec2(side * (HOUSES + 20.0), (from + to) / 2.0),
                    forward: vec2(0.0, 1.0),
                    half: vec2((to - from) / 2.0, 20.0),
                }
            }
        }
    }

    /// What it does to the ground.
    fn shadow(&self, stage: &mut Stage) {
        let footprint = self.footprint();
        match self {
            Self::Vehicle { vehicle, .. } => {
                shadows::cast(stage, &footprint, vehicle.shape.cabin.height.1);
            }
            Self::Prop(_) | Self::Block(..) => {}
        }
    }

    fn light(&self, stage: &mut Stage) {
        if let Self::Vehicle { vehicle, pose, .. } = self {
            shadows::beam(stage, pose, vehicle.half_length());
        }
    }

    fn draw(&self, stage: &mut Stage, owner: u32, seconds: f32) -> Vec<Drawn> {
        match self {
            Self::Vehicle { id, vehicle, pose, way, brakes } => {
                let moving = Moving { vehicle, pose: *pose, way: *way, brakes: *brakes };
                draw_vehicle(stage, owner, *id, &moving)
            }
            Self::Prop(prop) => {
                let cover = prop.draw(stage, seconds);
                stage.cover.paint(owner, &cover);
                Vec::new()
            }
            Self::Block(_, block) => {
                let cover = houses::draw(stage, block);
                stage.cover.paint(owner, &cover);
                Vec::new()
            }
        }
    }
}

fn draw_vehicle(stage: &mut Stage, owner: u32, id: u64, moving: &Moving<'_>) -> Vec<Drawn> {
    let outlines = vehicle::outlines(&stage.sight, moving);
    let Some(mut all) = extent(&outlines).filter(|all| apart(all, stage.canvas.size())) else {
        return Vec::new();
    };
    let seen = vehicle::draw(stage, moving);
    let mark = stage.cover.paint(owner, &outlines);
    let mut drawn = Vec::new();
    if let Some(corners) = seen.plate {
        if let Some(plate) = extent(std::slice::from_ref(&corners)) {
            all = all.with(&plate);
            let text = moving.vehicle.plate.clone();
            let attributes = BTreeMap::from([("plate".to_owned(), TruthAttribute::Text { text })]);
            drawn.push(Drawn {
                object: object(id + 1, "plate", Some(id), attributes),
                extent: plate,
                mark: stage.cover.part(owner, &corners),
                least: 6.0,
                by_height: true,
            });
        }
    }
    let class = moving.vehicle.make.class();
    let whole = Drawn {
        object: object(id, class, None, BTreeMap::new()),
        extent: all,
        mark,
        least: 12.0,
        by_height: false,
    };
    drawn.insert(0, whole);
    drawn
}

/// Whether anything of the box is within the picture.
fn apart(bounds: &Bounds, size: (u32, u32)) -> bool {
    let within = bounds.within(size);
    within.width() > 1.0 && within.height() > 1.0
}

fn object(
    id: u64,
    class: &str,
    parent: Option<u64>,
    attributes: BTreeMap<String, TruthAttribute>,
) -> TruthObject {
    TruthObject {
        id,
        class: class.to_owned(),
        r#box: [0.0; 4],
        visible: 1.0,
        ignore: false,
        parent,
        attributes,
    }
}

/// Draws all items, and says what is true of those that are in the picture.
pub(super) fn draw(stage: &mut Stage, items: &[Item<'_>], seconds: f32) -> Vec<TruthObject> {
    if stage.light.lamps {
        for item in items {
            item.light(stage);
        }
    }
    for item in items {
        item.shadow(stage);
    }
    let footprints: Vec<Footprint> = items.iter().map(Item::footprint).collect();
    let mut drawn = Vec::new();
    for index in back_to_front(&footprints, &stage.sight) {
        drawn.extend(items[index].draw(stage, index as u32, seconds));
    }
    let size = stage.canvas.size();
    let mut objects: Vec<TruthObject> = drawn
        .into_iter()
        .filter(|it| apart(&it.extent, size))
        .map(|it| it.truth(stage, size))
        .collect();
    objects.sort_by_key(|object| object.id);
    let ids: Vec<u64> = objects.iter().map(|object| object.id).collect();
    objects.retain(|object| object.parent.is_none_or(|parent| ids.contains(&parent)));
    objects
}

impl Drawn {
    fn truth(self, stage: &Stage, size: (u32, u32)) -> TruthObject {
        let within = self.extent.within(size);
        let visible = stage.cover.visible(&self.mark);
        let side = if self.by_height { within.height() } else { within.width().min(within.height()) };
        let cut = within.area() < 0.5 * self.extent.area();
        TruthObject {
            r#box: within.array(),
            visible,
            ignore: side < self.least || visible < 0.4 || cut,
            ..self.object
        }
    }
}

/// The corners of a box.
pub(super) fn corners(bounds: &Bounds) -> Vec<Vec2> {
    let [x0, y0, x1, y1] = bounds.array();
    vec![vec2(x0, y0), vec2(x1, y0), vec2(x1, y1), vec2(x0, y1)]
}
