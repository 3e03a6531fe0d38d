//! The display of the game: panels with values, and what decorates it.

mod decoration;
pub(super) mod icons;
mod panels;
mod skin;

use std::collections::BTreeMap;

use crate::canvas::Canvas;
use crate::geometry::{Bounds, vec2};
use weir_truth::{TruthAttribute, TruthObject};

use super::map::Map;
use super::story::{Story, Values};
pub(super) use decoration::Marks;
pub(super) use skin::Skin;
use skin::{Anchor, Places};

/// Lines of the feed.
const LINES: usize = 4;

/// Positions of the panels on the display.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    kills: Bounds,
    alive: Bounds,
    health: Bounds,
    slots: Vec<Bounds>,
    map: Bounds,
    feed: (Bounds, Anchor),
}

impl Layout {
    /// The layout of a skin for those values.
    pub(super) fn new(skin: &Skin, values: &Values) -> Self {
        let mut places = Places::new(skin);
        let map = places.take(skin.at_map, vec2(skin.map_side, skin.map_side));
        let digits = |value: u32, most: usize| if skin.snug { value.to_string().len() } else { most };
        let kills = places.take(skin.at_kills, panels::counter_size(skin, digits(values.kills, 2)));
        let alive = places.take(skin.at_alive, panels::counter_size(skin, digits(values.alive, 3)));
        let health = places.take(skin.at_health, panels::health_size(skin));
        let (count, gap) = (values.slots.len(), skin.gap.min(6.0));
        let long = count as f32 * (skin.slot + gap) - gap;
        let size = if skin.slot_column {
            vec2(skin.slot, long)
        } else {
            vec2(long, skin.slot)
        };
        let row = places.take(skin.at_icons, size);
        let slots = (0..count).map(|index| {
            let along = index as f32 * (skin.slot + gap);
            let (dx, dy) = if skin.slot_column {
                (0.0, along)
            } else {
                (along, 0.0)
            };
            Bounds {
                x0: row.x0 + dx,
                y0: row.y0 + dy,
                x1: row.x0 + dx + skin.slot,
                y1: row.y0 + dy + skin.slot,
            }
        });
        let slots = slots.collect();
        let feed = places.take(
            skin.at_feed,
            vec2(decoration::FEED, decoration::LINE * LINES as f32),
        );
        Self {
            kills,
            alive,
            health,
            slots,
            map,
            feed: (feed, skin.at_feed),
        }
    }

    /// Panels that hide the scene, all but the feed.
    pub(super) fn panels(&self) -> impl Iterator<Item = &Bounds> {
        [&self.kills, &self.alive, &self.health, &self.map]
            .into_iter()
            .chain(&self.slots)
    }

    /// Draws the display at that time.
    pub(super) fn draw(
        &self,
        canvas: &mut Canvas,
        skin: &Skin,
        values: &Values,
        (story, seconds): (&Story, f32),
        (map, marks): (&Map, &Marks),
    ) {
        decoration::small_map(canvas, &self.map, skin, map, marks);
        let (feed, anchor) = &self.feed;
        for (index, (line, age)) in story.lines(seconds, LINES).enumerate() {
            let y0 = feed.y0 + index as f32 * decoration::LINE;
            let at = Bounds {
                y0,
                y1: y0 + decoration::LINE,
                ..*feed
            };
            decoration::line(canvas, &at, skin, line, age, anchor.column == 2);
        }
        panels::counter(
            canvas,
            &self.kills,
            skin,
            &panels::kills_sign(skin),
            &values.kills.to_string(),
        );
        panels::counter(
            canvas,
            &self.alive,
            skin,
            &panels::alive_sign(skin),
            &values.alive.to_string(),
        );
        panels::health(canvas, &self.health, skin, values.health);
        for (index, (at, item)) in self.slots.iter().zip(&values.slots).enumerate() {
            panels::slot(canvas, at, skin, *item, index + 1, index == values.selected);
        }
    }

    /// Position of the health bar.
    #[cfg(test)]
    pub(super) fn bar(&self, skin: &Skin) -> Bounds {
        panels::bar(&self.health, skin)
    }

    /// Draws only the health panel.
    #[cfg(test)]
    pub(super) fn draw_health(&self, canvas: &mut Canvas, skin: &Skin, health: u32) {
        panels::health(canvas, &self.health, skin, health);
    }

    /// Ground truth of the display.
    pub(super) fn truth(&self, values: &Values) -> Vec<TruthObject> {
        let text = |value: u32| TruthAttribute::Text {
            text: value.to_string(),
        };
        let health = TruthAttribute::Number {
            value: values.health as f32,
        };
        let mut objects = vec![
            object(1001, "kills", &self.kills, text(values.kills)),
            object(1002, "alive", &self.alive, text(values.alive)),
            object(1003, "health", &self.health, health),
        ];
        for (id, (at, item)) in (1010..).zip(self.slots.iter().zip(&values.slots)) {
            let class = icons::ITEMS.get(*item).copied().unwrap_or_default().to_owned();
            objects.push(object(id, "icon", at, TruthAttribute::Class { class }));
        }
        objects
    }
}

fn object(id: u64, class: &str, at: &Bounds, attribute: TruthAttribute) -> TruthObject {
    TruthObject {
        id,
        class: class.to_owned(),
        r#box: at.array(),
        visible: 1.0,
        ignore: false,
        parent: None,
        attributes: BTreeMap::from([(class.to_owned(), attribute)]),
    }
}
