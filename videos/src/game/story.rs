//! Course of the match: its events, and the values of the display after each.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::seed::Seed;

use super::cast::{Cast, Loot};
use super::hud::icons::{ITEMS, WEAPONS};

/// Values of the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    /// Number of players that the hero has beaten, 0 to 99.
    pub(super) kills: u32,
    /// Number of players left, 1 to 100.
    pub(super) alive: u32,
    /// Health of the hero, 0 to 100.
    pub(super) health: u32,
    /// Items by slot, as indices of [`ITEMS`].
    pub(super) slots: Vec<usize>,
    /// Index of the slot in hand.
    pub(super) selected: usize,
}

/// A line of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Before the sign.
    pub(super) left: String,
    /// A sign, as a place in [`ITEMS`].
    pub(super) sign: Option<usize>,
    /// After the sign.
    pub(super) right: String,
    /// True if the event concerns the hero.
    pub(super) own: bool,
}

/// Exchange of shots between the hero and another player, in seconds from `from` to `until`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fight {
    pub(super) from: f32,
    pub(super) until: f32,
    /// Index of the other player. The hero shoots if `hero_shoots`, else the other player does.
    pub(super) other: usize,
    pub(super) hero_shoots: bool,
}

#[derive(Debug, Clone)]
struct Event {
    at: f32,
    /// Time in seconds over which the health changes to its new value.
    takes: f32,
    line: Line,
    after: Values,
}

/// Events, fights and values of a match.
#[derive(Debug, Clone)]
pub(super) struct Story {
    begin: Values,
    events: Vec<Event>,
    pub(super) fights: Vec<Fight>,
}

/// Until when things happen.
const END_S: f32 = 240.0;

const NAMES: [&str; 20] = [
    "ROOK", "KITE", "EMBER", "NOVA", "FLINT", "MOSS", "RAVEN", "PIXEL", "ONYX", "LYNX", "COMET", "BRISK",
    "TALON", "FROST", "GHOST", "VIPER", "ORBIT", "ZEPHYR", "QUARTZ", "JOLT",
];

fn name(rng: &mut Pcg64) -> String {
    let name = NAMES[rng.random_range(0..NAMES.len())];
    if rng.random_bool(0.4) {
        return format!("{name}{}", rng.random_range(1..99));
    }
    name.to_owned()
}

impl Values {
    /// Values at the beginning of a match.
    fn opening(rng: &mut Pcg64) -> Self {
        let slots = rng.random_range(2..=4);
        let item = |slot: usize, rng: &mut Pcg64| match slot {
            0 | 1 => rng.random_range(0..WEAPONS),
            _ => rng.random_range(WEAPONS..ITEMS.len()),
        };
        Self {
            kills: rng.random_range(0..14),
            alive: rng.random_range(50..=100),
            health: rng.random_range(70..=100),
            slots: (0..slots).map(|slot| item(slot, rng)).collect(),
            selected: 0,
        }
    }

    /// Random values, each equally likely, for the training of readers.
    pub(super) fn any(seed: Seed) -> Self {
        let rng = &mut seed.rng("values");
        let slots = rng.random_range(2..=4);
        Self {
            kills: rng.random_range(0..=99),
            alive: rng.random_range(1..=100),
            health: rng.random_range(0..=100),
            slots: (0..slots).map(|_| rng.random_range(0..ITEMS.len())).collect(),
            selected: rng.random_range(0..slots),
        }
    }
}

impl Story {
    /// Draws the match of `seed`. Players whom the hero beats fall, which `cast` records.
    pub(super) fn new(seed: Seed, cast: &mut Cast) -> Self {
        let rng = &mut seed.rng("story");
        let begin = Values::opening(rng);
        let mut story = Self {
            begin: begin.clone(),
            events: Vec::new(),
            fights: Vec::new(),
        };
        let mut values = begin;
        let mut at = -7.0;
        while at < END_S {
            at += rng.random_range(1.3..2.8);
            // What is reported at the beginning happened before it.
            let (line, takes) = if at < 1.0 {
                (others_fight(&mut values, 0, rng), 0.0)
            } else {
                story.happen(at, &mut values, cast, rng)
            };
            let after = values.clone();
            story.events.push(Event {
                at,
                takes,
                line,
                after,
            });
        }
        story
    }

    /// Draws one event; returns its line, and the time over which the health follows.
    fn happen(&mut self, at: f32, values: &mut Values, cast: &mut Cast, rng: &mut Pcg64) -> (Line, f32) {
        let chance = rng.random_range(0.0..1.0_f32);
        if values.health < 45 && chance < 0.6 {
            let gain = rng.random_range(25..55).min(100 - values.health);
            values.health += gain;
            let medkit = ITEMS.iter().position(|item| *item == "medkit");
            return (said(format!("+{gain} HEALTH"), medkit), 0.9);
        }
        let event = match chance {
            0.0..0.26 => self.kill(at, values, cast, rng),
            0.26..0.55 => self.hit(at, values, cast, rng),
            0.55..0.70 => Some((select(values, rng), 0.0)),
            0.70..0.84 => Some((pick_up(values, rng), 0.0)),
            _ => None,
        };
        event.unwrap_or_else(|| {
            let most = values.alive.saturating_sub(1).min(3);
            (others_fight(values, most, rng), 0.0)
        })
    }

    /// The hero beats the nearest, if anybody is near.
    fn kill(
        &mut self,
        at: f32,
        values: &mut Values,
        cast: &mut Cast,
        rng: &mut Pcg64,
    ) -> Option<(Line, f32)> {
        if values.alive <= 2 || values.kills >= 99 {
            return None;
        }
        let victim = nearest(cast, at, 330.0)?;
        fall(cast, victim, at);
        self.fights.push(fight(at - 0.9, at, victim, true));
        values.kills += 1;
        values.alive -= 1;
        let in_hand = values.slots.get(values.selected).copied().unwrap_or_default();
        let line = Line {
            left: "YOU".to_owned(),
            sign: Some(in_hand.min(WEAPONS)),
            right: name(rng),
            own: true,
        };
        Some((line, 0.0))
    }

    /// Lets the nearest player hit the hero, who always survives.
    fn hit(&mut self, at: f32, values: &mut Values, cast: &Cast, rng: &mut Pcg64) -> Option<(Line, f32)> {
        if values.health <= 20 {
            return None;
        }
        let shooter = nearest(cast, at, 420.0)?;
        self.fights.push(fight(at - 0.6, at + 0.15, shooter, false));
        let loss = rng.random_range(4..32).min(values.health - 6);
        values.health -= loss;
        Some((said(format!("HIT BY {} -{loss}", name(rng)), None), 0.25))
    }

    /// Values of the display at that time.
    pub(super) fn values(&self, seconds: f32) -> Values {
        let past = self.events.partition_point(|event| event.at <= seconds);
        let Some(last) = past.checked_sub(1).and_then(|index| self.events.get(index)) else {
            return self.begin.clone();
        };
        let before = past.checked_sub(2).and_then(|index| self.events.get(index));
        let from = before.map_or(&self.begin, |event| &event.after).health as f32;
        let part = ((seconds - last.at) / last.takes.max(1e-3)).clamp(0.0, 1.0);
        let health = from + (last.after.health as f32 - from) * part;
        Values {
            health: health.round() as u32,
            ..last.after.clone()
        }
    }

    /// The last lines of the feed with their age in seconds, the newest first.
    pub(super) fn lines(&self, seconds: f32, most: usize) -> impl Iterator<Item = (&Line, f32)> {
        let past = self.events.partition_point(|event| event.at <= seconds);
        let lines = self.events[..past].iter().rev().take(most);
        lines.map(move |event| (&event.line, seconds - event.at))
    }
}

/// Lets a player fall; a crate with the player's items appears in the same place.
fn fall(cast: &mut Cast, victim: usize, at: f32) {
    let Some(actor) = cast.others.get_mut(victim) else {
        return;
    };
    actor.falls = Some(at);
    cast.crates.push(Loot {
        id: 600 + victim as u64,
        at: actor.course.at(at),
        turn: actor.mood,
        kind: (actor.mood * 0.01).clamp(0.0, 0.74),
        since: at + 0.25,
    });
}

fn fight(from: f32, until: f32, other: usize, hero_shoots: bool) -> Fight {
    Fight {
        from,
        until,
        other,
        hero_shoots,
    }
}

fn said(left: String, sign: Option<usize>) -> Line {
    Line {
        left,
        sign,
        right: String::new(),
        own: true,
    }
}

/// Others beat up to `most` others.
fn others_fight(values: &mut Values, most: u32, rng: &mut Pcg64) -> Line {
    values.alive -= if most > 0 { rng.random_range(1..=most) } else { 0 };
    Line {
        left: name(rng),
        sign: Some(rng.random_range(0..WEAPONS)),
        right: name(rng),
        own: false,
    }
}

/// Another slot is taken in hand.
fn select(values: &mut Values, rng: &mut Pcg64) -> Line {
    let next = rng.random_range(1..values.slots.len().max(2));
    values.selected = (values.selected + next) % values.slots.len().max(1);
    said("IN HAND".to_owned(), values.slots.get(values.selected).copied())
}

/// A slot gets another item: the first a weapon, the second any, the others no weapon.
fn pick_up(values: &mut Values, rng: &mut Pcg64) -> Line {
    let slot = rng.random_range(0..values.slots.len().max(1));
    let item = match slot {
        0 => rng.random_range(0..WEAPONS),
        1 => rng.random_range(0..ITEMS.len()),
        _ => rng.random_range(WEAPONS..ITEMS.len()),
    };
    if let Some(old) = values.slots.get_mut(slot) {
        *old = item;
    }
    said("PICKED UP".to_owned(), Some(item))
}

/// The living player nearest to the hero; `None` if there is none within `reach`.
fn nearest(cast: &Cast, seconds: f32, reach: f32) -> Option<usize> {
    let hero = cast.hero.course.at(seconds);
    let living = cast
        .others
        .iter()
        .enumerate()
        .filter(|(_, actor)| actor.lives(seconds));
    let away = living.map(|(index, actor)| (index, (actor.course.at(seconds) - hero).length()));
    let near = away
        .filter(|(_, away)| *away < reach)
        .min_by(|a, b| a.1.total_cmp(&b.1));
    near.map(|(index, _)| index)
}
