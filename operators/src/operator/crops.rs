//! Selection of items: the regions of a frame that a module looks at.

use std::sync::Arc;

use weir_flow::{Frame, Item, Object, ObjectRef, Points, Rect, Region, RequestResults};

use super::{ConfiguredOperator, CropShape};

/// Half the side of the square around an eye, relative to the distance between the eyes.
const EYE_HALF: f32 = 0.35;

pub(super) fn items(
    operator: &ConfiguredOperator,
    frame: &Arc<Frame>,
    results: &RequestResults,
) -> Vec<Item> {
    if operator.regions.is_empty() {
        return match &operator.tiles {
            Some((tiling, _)) => tiling.items_of(frame),
            None => vec![Item::of_frame(frame, Region::Whole)],
        };
    }
    let chosen = chosen(operator, results);
    let mut items = Vec::with_capacity(chosen.len());
    for (of, object) in chosen {
        let item = |region| Item {
            frame: Arc::clone(frame),
            region,
            object: Some(of),
            class: Some(Arc::clone(&object.class)),
        };
        let crop = |rect| Region::Crop {
            rect,
            points: Points::None,
        };
        match (operator.cut, &object.points) {
            (CropShape::Box, points) => {
                let (width, height) = (frame.image.width as f32, frame.image.height as f32);
                let rect = object.rect.widen(operator.widen).clamp(width, height);
                items.push(item(Region::Crop {
                    rect,
                    points: points.clone(),
                }));
            }
            (CropShape::Square, _) => items.push(item(crop(square(&object.rect).widen(operator.widen)))),
            (CropShape::Eyes, Points::Face([left, right, ..])) => {
                let half = EYE_HALF * (right.x - left.x).hypot(right.y - left.y);
                for eye in [left, right] {
                    items.push(item(crop(Rect::new(
                        eye.x - half,
                        eye.y - half,
                        eye.x + half,
                        eye.y + half,
                    ))));
                }
            }
            (CropShape::Eyes, _) => {}
        }
    }
    items
}

/// Objects of `regions`, the largest first.
pub(super) fn chosen<'a>(
    operator: &ConfiguredOperator,
    results: &'a RequestResults,
) -> Vec<(ObjectRef, &'a Object)> {
    let mut chosen: Vec<(ObjectRef, &Object)> = results
        .objects()
        .filter(|(_, object)| fits(operator, object))
        .collect();
    // The sort is stable: of equals, the first found stays first.
    chosen.sort_by(|(_, a), (_, b)| b.rect.area().total_cmp(&a.rect.area()));
    chosen.truncate(operator.max_items);
    chosen
}

fn fits(operator: &ConfiguredOperator, object: &Object) -> bool {
    let wanted = operator.regions.iter().any(|class| **class == *object.class);
    let has_points = operator.cut != CropShape::Eyes || matches!(object.points, Points::Face(_));
    wanted
        && !object.candidate
        && has_points
        && object.rect.width().min(object.rect.height()) >= operator.min_side
}

/// The square around the box's centre, as large as its longer side.
fn square(rect: &Rect) -> Rect {
    let (centre, half) = (rect.centre(), rect.width().max(rect.height()) / 2.0);
    Rect::new(centre.x - half, centre.y - half, centre.x + half, centre.y + half)
}
