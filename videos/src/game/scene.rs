//! Draws one moment of the match and returns its ground truth.

use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::{Bounds, Vec2, vec2};
use crate::seed::mix;
use weir_truth::{FrameTruth, TruthObject};

use super::cast::Actor;
use super::hud::{Layout, Marks, icons};
use super::sight::{Cover, sight};
use super::sketch::{Sketch, Stand};
use super::story::Values;
use super::view::View;
use super::{Game, SIZE, effects, figures, terrain};

/// Thing in the picture: its class, drawing and position.
struct Thing {
    id: u64,
    class: &'static str,
    sketch: Sketch,
    stand: Stand,
    bounds: Bounds,
}

/// A shot that is being fired: from, to (pixels), seconds since the first of its row.
type Shot = (Vec2, Vec2, f32);

/// Intervals between clouds and between explosions, in seconds.
const CLOUD_S: f32 = 7.0;
const BLAST_S: f32 = 3.0;

impl Game {
    /// Picture at that time with those values on the display, and its ground truth.
    pub(super) fn moment(&self, seconds: f32, values: &Values) -> (Picture, FrameTruth) {
        let hero = self.cast.hero.course.at(seconds);
        let ahead = self.cast.hero.course.velocity(seconds);
        let view = View {
            eye: hero + ahead * 0.25,
            zoom: self.zoom,
        };
        let mut canvas = Canvas::new(SIZE.0, SIZE.1, self.map.palette.water);
        terrain::ground(&mut canvas, &self.map, &view, seconds);
        let layout = Layout::new(&self.skin, values);
        let mut things = self.crates(&view, seconds);
        things.extend(self.vehicles(&view, seconds));
        let (players, shots) = self.players(&view, seconds, values);
        let hero_turn = players.first().map_or(0.0, |thing| thing.stand.turn);
        things.extend(players.into_iter().rev());
        for thing in &things {
            shadow(&mut canvas, thing);
            if thing.id == self.cast.hero.id {
                mark(&mut canvas, thing);
            }
            thing.sketch.draw(&mut canvas, &thing.stand);
        }
        for (from, to, since) in shots {
            effects::shot(&mut canvas, from, to, since, view.zoom);
        }
        terrain::above(&mut canvas, &self.map, &view);
        let clouds = self.weather(&mut canvas, &view, seconds);
        let zone = effects::zone(self.key, seconds);
        effects::zone_edge(&mut canvas, zone, &view);
        let marks = Marks {
            hero: (hero, hero_turn),
            zone,
        };
        layout.draw(
            &mut canvas,
            &self.skin,
            values,
            (&self.story, seconds),
            (&self.map, &marks),
        );
        let covers = self.covers(&view, &layout, clouds);
        let mut objects = seen(&things, &covers);
        objects.extend(layout.truth(values));
        let truth = FrameTruth {
            objects,
            ..FrameTruth::default()
        };
        (canvas.picture(), truth)
    }

    fn crates(&self, view: &View, seconds: f32) -> Vec<Thing> {
        let crates = self.cast.crates.iter().filter(|loot| loot.since <= seconds);
        let things = crates.filter_map(|loot| {
            let stand = view.stand(loot.at, loot.turn);
            thing(loot.id, "crate", figures::crate_of(loot.kind), stand)
        });
        things.collect()
    }

    fn vehicles(&self, view: &View, seconds: f32) -> Vec<Thing> {
        let things = self.cast.cars.iter().filter_map(|car| {
            let (at, turn) = car.drive.at(seconds, &self.map.ring);
            if !view.sees(at, 80.0) {
                return None;
            }
            let sketch = figures::vehicle(car.body, car.colour);
            thing(car.id, "vehicle", sketch, view.stand(at, turn))
        });
        things.collect()
    }

    /// The hero first, then the others; and the shots that are fired.
    fn players(&self, view: &View, seconds: f32, values: &Values) -> (Vec<Thing>, Vec<Shot>) {
        let (mut things, mut shots) = (Vec::new(), Vec::new());
        let hero = &self.cast.hero;
        let everybody = std::iter::once((None, hero)).chain(
            self.cast
                .others
                .iter()
                .enumerate()
                .map(|(index, actor)| (Some(index), actor)),
        );
        for (index, actor) in everybody {
            let at = actor.course.at(seconds);
            if !actor.lives(seconds) || !view.sees(at, 60.0) {
                continue;
            }
            let mut outfit = actor.outfit;
            if index.is_none() {
                let item = values.slots.get(values.selected).copied().unwrap_or_default();
                outfit.weapon = icons::length(item);
            }
            let (turn, aimed) = self.aim(index, actor, at, seconds);
            let velocity = actor.course.velocity(seconds).length();
            let stride = actor.course.walked(seconds) * 8.0 + actor.mood;
            let sketch = figures::player(&outfit, stride, (velocity / 90.0).min(1.0));
            let stand = Stand {
                scale: view.zoom * 1.18,
                ..view.stand(at, turn)
            };
            if let Some((target, since)) = aimed.filter(|(_, since)| effects::flashes(*since)) {
                let (x, y) = figures::muzzle(&outfit);
                shots.push((stand.place(vec2(x, y)), view.place(target), since));
            }
            things.extend(thing(actor.id, "player", sketch, stand));
        }
        (things, shots)
    }

    /// Viewing direction of a player in radians, and the target at which the player shoots, with the seconds
    /// since the shot.
    fn aim(&self, index: Option<usize>, actor: &Actor, at: Vec2, seconds: f32) -> (f32, Option<(Vec2, f32)>) {
        let ahead = actor.course.velocity(seconds);
        let mut look = ahead * (1.0 / ahead.length().max(1.0));
        let mut shooting = None;
        let mut turn_to = |target: Vec2, weight: f32| {
            let to = target - at;
            look = look.towards(to * (1.0 / to.length().max(1.0)), weight);
        };
        let hero = self.cast.hero.course.at(seconds);
        if index.is_some() {
            let near = smooth((330.0 - (hero - at).length()) / 110.0);
            turn_to(hero, near * 0.9);
            // A burst of shots at random: one interval of 3.5 s in four.
            let (count, since) = row(seconds + actor.mood, 3.5);
            if since < 0.8 && near > 0.6 && mix(count ^ actor.id).is_multiple_of(4) {
                let wide = vec2(30.0, -26.0);
                shooting = Some((hero + wide, since));
            }
        }
        for fight in &self.story.fights {
            let (since, left) = (seconds - fight.from, fight.until - seconds);
            let mine = if fight.hero_shoots {
                None
            } else {
                Some(fight.other)
            };
            if mine != index || since < -0.5 || left < -0.5 {
                continue;
            }
            let other = self
                .cast
                .others
                .get(fight.other)
                .map(|other| other.course.at(seconds));
            let target = if fight.hero_shoots {
                other.unwrap_or(hero)
            } else {
                hero
            };
            turn_to(target, smooth((since + 0.5) * 2.0) * smooth((left + 0.5) * 2.0));
            if since >= 0.0 && left >= 0.0 {
                shooting = Some((target, since));
            }
        }
        (look.y.atan2(look.x), shooting)
    }

    /// Clouds of smoke and blasts; what the clouds hide.
    fn weather(&self, canvas: &mut Canvas, view: &View, seconds: f32) -> Vec<Cover> {
        let mut covers = Vec::new();
        for actor in &self.cast.others {
            let gone = actor.falls.map_or(-1.0, |at| seconds - at);
            if (0.0..0.7).contains(&gone) {
                let at = view.place(actor.course.at(seconds - gone));
                effects::cloud(canvas, at, 34.0 * view.zoom, gone / 0.7, actor.id);
            }
        }
        for lane in 0..3_u64 {
            let (count, since) = row(seconds + lane as f32 * 2.4, CLOUD_S);
            let chance = mix(self.key ^ mix(count * 4 + lane));
            let at = self.beside_hero(chance, seconds - since);
            if !chance.is_multiple_of(3) && view.sees(at, 120.0) {
                let (radius, age) = ((50.0 + (chance % 30) as f32) * view.zoom, since / CLOUD_S);
                effects::cloud(canvas, view.place(at), radius, age, chance);
                if age < 0.7 {
                    covers.push(Cover::Circle(
                        view.place(at),
                        radius * (0.38 + 0.38 * (age * 3.0).min(1.0)),
                    ));
                }
            }
            let (count, since) = row(seconds + lane as f32, BLAST_S);
            let chance = mix(self.key ^ mix(count * 4 + lane + 1000));
            if chance.is_multiple_of(4) && since < 0.6 {
                let at = self.beside_hero(chance, seconds - since);
                effects::blast(canvas, view.place(at), 46.0 * view.zoom, since / 0.6);
            }
        }
        covers
    }

    /// A point some way off the hero at that time.
    fn beside_hero(&self, chance: u64, seconds: f32) -> Vec2 {
        let part = |shift: u32| ((chance >> shift) & 0xff) as f32 / 255.0;
        let (angle, out) = (part(16) * std::f32::consts::TAU, 150.0 + 280.0 * part(24));
        self.cast.hero.course.at(seconds) + vec2(angle.cos(), angle.sin() * 0.6) * out
    }

    /// Everything that hides things on the ground.
    fn covers(&self, view: &View, layout: &Layout, mut covers: Vec<Cover>) -> Vec<Cover> {
        covers.extend(layout.panels().map(|bounds| Cover::Panel(*bounds)));
        let trees = self.map.trees.iter().filter(|tree| view.sees(tree.at, 60.0));
        covers.extend(trees.map(|tree| Cover::Circle(view.place(tree.at), tree.radius * view.zoom * 0.93)));
        let houses = self.map.houses.iter().filter(|house| view.sees(house.at, 140.0));
        covers.extend(houses.map(|house| Cover::Turned(view.stand(house.at, house.turn), house.half)));
        covers
    }
}

/// Number of the interval of `length` seconds, and the seconds since it began.
fn row(seconds: f32, length: f32) -> (u64, f32) {
    let count = (seconds / length).floor();
    (count.max(0.0) as u64, seconds - count * length)
}

/// Smooth step from 0 to 1.
fn smooth(part: f32) -> f32 {
    let part = part.clamp(0.0, 1.0);
    part * part * (3.0 - 2.0 * part)
}

/// A thing, if it lies in the frame.
fn thing(id: u64, class: &'static str, sketch: Sketch, stand: Stand) -> Option<Thing> {
    let bounds = sketch.bounds(&stand)?;
    let within = bounds.within(SIZE);
    (within.area() > 0.0).then_some(Thing {
        id,
        class,
        sketch,
        stand,
        bounds,
    })
}

/// Draws the ring that marks the player's own figure.
fn mark(canvas: &mut Canvas, hero: &Thing) {
    let radius = 25.0 * hero.stand.scale;
    let ink = rgb(0xff_ff_ff).faded(0.55);
    canvas.ring(hero.stand.at, vec2(radius, radius), 0.0, 2.2, ink);
}

fn shadow(canvas: &mut Canvas, thing: &Thing) {
    let (reach, off) = match thing.class {
        "vehicle" => (vec2(52.0, 26.0), 7.0),
        "crate" => (vec2(19.0, 17.0), 4.0),
        _ => (vec2(13.0, 16.0), 5.0),
    };
    let scale = thing.stand.scale;
    let at = thing.stand.at + vec2(off, off) * scale;
    canvas.ellipse(at, reach * scale, thing.stand.turn, rgb(0x10_18_20).faded(0.3));
}

/// Visible parts of the things. Each may be hidden by the covers and by the things above it.
fn seen(things: &[Thing], covers: &[Cover]) -> Vec<TruthObject> {
    let mut objects = Vec::new();
    for (index, thing) in things.iter().enumerate() {
        let above = things[index + 1..].iter().map(|other| match other.class {
            "vehicle" => Cover::Turned(other.stand, vec2(52.0, 23.0)),
            "crate" => Cover::Turned(other.stand, vec2(17.0, 15.0)),
            _ => Cover::Circle(other.stand.at, 13.0 * other.stand.scale),
        });
        let covers: Vec<Cover> = covers.iter().copied().chain(above).collect();
        objects.extend(sight(&thing.bounds, &covers).map(|sight| TruthObject {
            id: thing.id,
            class: thing.class.to_owned(),
            r#box: sight.bounds.array(),
            visible: sight.visible,
            ignore: sight.ignore,
            parent: None,
            attributes: std::collections::BTreeMap::new(),
        }));
    }
    objects
}
