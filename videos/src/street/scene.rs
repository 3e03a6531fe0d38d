//! Draws all objects of the street at a moment from back to front and returns their ground truth.

use std::collections::BTreeMap;

use super::bicycle::Riding;
use super::cover::Mark;
use super::fleet::Vehicle;
use super::houses::{self, House};
use super::layout::{CORNERS, HOUSES};
use super::order::{Footprint, back_to_front};
use super::people::{self, Somebody, SomebodySeen};
use super::props::Prop;
use super::shadows;
use super::stage::{Pose, Stage, extent};
use super::vehicle::{self, Moving};
use crate::geometry::{Bounds, Vec2, vec2};
use weir_truth::{TruthAttribute, TruthObject};

/// Marks the owner of cells as the rider of the thing of that number.
const RIDER: u32 = 1 << 31;

/// Something in the street.
pub(super) enum Item<'a> {
    Vehicle {
        id: u64,
        vehicle: &'a Vehicle,
        pose: Pose,
        way: f32,
        brakes: bool,
    },
    Bicycle {
        id: u64,
        riding: Riding<'a>,
    },
    Person {
        id: u64,
        somebody: Somebody<'a>,
    },
    Prop(&'a Prop),
    /// The houses of a near block, which hide the other street; left is less one.
    Block(f32, &'a [House]),
}

/// Object that was drawn, before it is known what will hide it.
struct Drawn {
    object: TruthObject,
    /// Bounding box, not clipped to the frame.
    extent: Bounds,
    mark: Mark,
    is_plate: bool,
}

impl Item<'_> {
    fn footprint(&self) -> Footprint {
        match self {
            Self::Vehicle { vehicle, pose, .. } => {
                shadows::footprint(pose, (vehicle.half_length(), vehicle.half_width()))
            }
            Self::Bicycle { riding, .. } => shadows::footprint(&riding.pose, (0.9, 0.3)),
            Self::Person { somebody, .. } => Footprint {
                at: somebody.at,
                forward: somebody.forward,
                half: vec2(0.25, 0.25),
            },
            Self::Prop(prop) => Footprint {
                at: prop.at,
                forward: vec2(0.0, 1.0),
                half: vec2(0.15, 0.15),
            },
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

    /// Draws the shadow on the ground.
    fn shadow(&self, stage: &mut Stage) {
        let footprint = self.footprint();
        match self {
            Self::Vehicle { vehicle, .. } => {
                shadows::cast(stage, &footprint, vehicle.shape.cabin.height.1);
            }
            Self::Bicycle { .. } => {
                let narrow = Footprint {
                    half: vec2(0.7, 0.12),
                    ..footprint
                };
                shadows::cast(stage, &narrow, 1.5);
            }
            Self::Person { somebody, .. } => {
                let narrow = Footprint {
                    half: vec2(0.14, 0.16),
                    ..footprint
                };
                shadows::cast(stage, &narrow, somebody.height);
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
            Self::Vehicle {
                id,
                vehicle,
                pose,
                way,
                brakes,
            } => {
                let moving = Moving {
                    vehicle,
                    pose: *pose,
                    way: *way,
                    brakes: *brakes,
                };
                draw_vehicle(stage, owner, *id, &moving)
            }
            Self::Bicycle { id, riding } => draw_bicycle(stage, owner, *id, riding),
            Self::Person { id, somebody } => {
                let seen = people::draw(stage, somebody);
                seen.map_or_else(Vec::new, |seen| {
                    person(stage, owner, (*id, *id + 1), &seen, somebody.name)
                })
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
    let plate = vehicle::draw(stage, moving);
    let mark = stage.cover.paint(owner, &outlines);
    let mut drawn = Vec::new();
    if let Some(corners) = plate
        && let Some(plate) = extent(std::slice::from_ref(&corners))
    {
        all = all.with(&plate);
        let text = moving.vehicle.plate.clone();
        let attributes = BTreeMap::from([("plate".to_owned(), TruthAttribute::Text { text })]);
        drawn.push(Drawn {
            object: object(id + 1, "plate", Some(id), attributes),
            extent: plate,
            mark: stage.cover.part(owner, &corners),
            is_plate: true,
        });
    }
    let class = moving.vehicle.make.class();
    let whole = Drawn {
        object: object(id, class, None, BTreeMap::new()),
        extent: all,
        mark,
        is_plate: false,
    };
    drawn.insert(0, whole);
    drawn
}

fn draw_bicycle(stage: &mut Stage, owner: u32, id: u64, riding: &Riding<'_>) -> Vec<Drawn> {
    let outlines = riding.outlines(stage);
    let mut drawn = Vec::new();
    // Near the camera the bicycle has left the picture while its rider is still in it.
    if let Some(all) = extent(&outlines).filter(|all| apart(all, stage.canvas.size())) {
        riding.draw(stage);
        drawn.push(Drawn {
            object: object(id, "bicycle", None, BTreeMap::new()),
            extent: all,
            mark: stage.cover.paint(owner, &outlines),
            is_plate: false,
        });
    }
    if let Some(seen) = riding.rider(stage) {
        // The rider hides a part of the bicycle: a cover of their own.
        drawn.extend(person(stage, owner | RIDER, (id + 1, id + 2), &seen, None));
    }
    drawn
}

/// Ground truth of a person and of the face, by the ids of both.
fn person(
    stage: &mut Stage,
    owner: u32,
    (id, face_id): (u64, u64),
    seen: &SomebodySeen,
    name: Option<&str>,
) -> Vec<Drawn> {
    let mark = stage.cover.paint(owner, &seen.runs);
    let mut drawn = vec![Drawn {
        object: object(id, "person", None, BTreeMap::new()),
        extent: seen.person,
        mark,
        is_plate: false,
    }];
    if let Some(face) = seen.face {
        let r#match = name.map(str::to_owned);
        let attributes = BTreeMap::from([("identity".to_owned(), TruthAttribute::Match { r#match })]);
        drawn.push(Drawn {
            object: object(face_id, "face", Some(id), attributes),
            extent: face,
            mark: stage.cover.part(owner, &corners(&face)),
            is_plate: false,
        });
    }
    drawn
}

/// True if some part of the box is within the picture.
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

/// Draws all items and returns the ground truth of those in the picture.
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
        // Objects of which almost nothing is visible are left out of the ground truth.
        .filter(|object| object.visible > 0.01)
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
        let inside = within.area() / self.extent.area().max(1e-3);
        // A plate that is hidden or cut in part cannot be read, nor one so aslant that it is hardly wider than high.
        let unread = self.is_plate && (visible < 0.9 || inside < 0.95 || within.width() < 15.0);
        let mut object = TruthObject {
            r#box: within.array(),
            visible,
            ..self.object
        };
        object.ignore = object.is_too_small() || visible < 0.5 || inside < 0.5 || unread;
        object
    }
}

/// The corners of a box.
fn corners(bounds: &Bounds) -> Vec<Vec2> {
    let [x0, y0, x1, y1] = bounds.array();
    vec![vec2(x0, y0), vec2(x1, y0), vec2(x1, y1), vec2(x0, y1)]
}
