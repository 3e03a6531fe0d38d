use std::collections::BTreeSet;

use super::hud::{Layout, Skin};
use super::*;
use crate::canvas::{Canvas, rgb};
use crate::seed::Part;
use weir_truth::{TruthAttribute, TruthObject};

fn seeds() -> impl Iterator<Item = Seed> {
    (0..15).map(|number| Seed::new(Part::Validation, number))
}

/// The values that a frame's truth has: kills, alive, health.
fn values(truth: &FrameTruth) -> (u32, u32, f32) {
    let one = |class: &str| -> &TruthObject {
        let mut found = truth.objects.iter().filter(|object| object.class == class);
        let object = found.next().expect("each panel is there");
        assert!(found.next().is_none(), "{class} is there once");
        object
    };
    let digits = |class: &str| match one(class).attributes.get(class) {
        Some(TruthAttribute::Text { text }) => text.parse().expect("digits"),
        other => panic!("{class} is a text, not {other:?}"),
    };
    let health = match one("health").attributes.get("health") {
        Some(TruthAttribute::Number { value }) => *value,
        other => panic!("health is a number, not {other:?}"),
    };
    (digits("kills"), digits("alive"), health)
}

fn check(truth: &FrameTruth) {
    let (kills, alive, health) = values(truth);
    assert!(kills <= 99 && (1..=100).contains(&alive) && (0.0..=100.0).contains(&health));
    let mut ids = BTreeSet::new();
    for object in &truth.objects {
        let [x0, y0, x1, y1] = object.r#box;
        assert!(
            x0 >= 0.0 && y0 >= 0.0 && x1 <= 960.0 && y1 <= 540.0 && x0 < x1 && y0 < y1,
            "{object:?}"
        );
        assert!((0.0..=1.0).contains(&object.visible));
        assert!(ids.insert(object.id), "{} is there twice", object.id);
        if let Some(TruthAttribute::Class { class }) = object.attributes.get("icon") {
            assert!(ITEMS.contains(&class.as_str()), "{class}");
        }
    }
    let icons = truth.objects.iter().filter(|object| object.class == "icon");
    assert!((2..=4).contains(&icons.count()));
    let panels: Vec<&TruthObject> = truth.objects.iter().filter(|object| object.id > 1000).collect();
    for (index, one) in panels.iter().enumerate() {
        for other in &panels[index + 1..] {
            let (a, b) = (one.r#box, other.r#box);
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{} lies on {}", one.class, other.class);
        }
    }
}

#[test]
fn a_moment_is_the_same_whenever_it_is_drawn() {
    let seed = Seed::new(Part::Clip, 3);
    let game = Game::new(seed);
    let later = game.at(9.5);
    assert_eq!(game.at(2.0), Game::new(seed).at(2.0));
    assert_eq!(later, game.at(9.5));
    assert_eq!(still(seed), still(seed));
    assert_ne!(still(seed).0, still(Seed::new(Part::Train, 3)).0);
}

#[test]
fn stills_say_what_is_so() {
    for seed in seeds() {
        let (picture, truth) = still(seed);
        assert_eq!((picture.width, picture.height), SIZE);
        check(&truth);
    }
}

#[test]
fn a_clip_goes_on_and_the_hero_is_always_in_it() {
    for seed in seeds() {
        let game = Game::new(seed);
        let (kills, alive, _) = values(&game.at(0.0).1);
        let mut last = (kills, alive);
        let mut changed = BTreeSet::new();
        for step in 0..240_u16 {
            let values = game.story.values(f32::from(step) * 0.5);
            assert!(
                values.kills >= last.0 && values.alive <= last.1,
                "{values:?} after {last:?}"
            );
            assert!(values.alive >= 1 && values.health <= 100 && values.selected < values.slots.len());
            last = (values.kills, values.alive);
            changed.insert((
                values.kills,
                values.alive,
                values.health,
                values.slots,
                values.selected,
            ));
        }
        assert!(changed.len() > 20, "much happens in two minutes");
        for seconds in [0.0, 33.3] {
            let (_, truth) = game.at(seconds);
            check(&truth);
            assert!(
                truth
                    .objects
                    .iter()
                    .any(|object| object.id == 1 && object.class == "player")
            );
        }
    }
}

#[test]
fn nobody_leaps() {
    let game = Game::new(Seed::new(Part::Clip, 5));
    let frame = 1.0 / FPS;
    for step in 0..90_u16 {
        let seconds = f32::from(step) * 0.4;
        for actor in game.cast.others.iter().chain([&game.cast.hero]) {
            let moved = actor.course.at(seconds + frame) - actor.course.at(seconds);
            assert!(moved.length() < 16.0, "{} in a frame", moved.length());
        }
        for car in &game.cast.cars {
            let (before, after) = (
                car.drive.at(seconds, &game.map.ring),
                car.drive.at(seconds + frame, &game.map.ring),
            );
            assert!((after.0 - before.0).length() < 20.0);
        }
    }
}

#[test]
fn the_bar_is_as_full_as_the_health_is_high() {
    let mut looks = 0;
    for seed in seeds() {
        let skin = Skin::new(seed);
        let mut values = Values::any(seed);
        for health in [0, 1, 17, 50, 83, 100] {
            values.health = health;
            let layout = Layout::new(&skin, &values);
            let bar = layout.bar(&skin);
            let row = |health: u32| {
                let mut canvas = Canvas::new(SIZE.0, SIZE.1, rgb(0x40_60_40));
                layout.draw_health(&mut canvas, &skin, health);
                let at = (bar.y0 as usize * SIZE.0 as usize + bar.x0 as usize) * 3;
                canvas.picture().rgb[at..at + bar.width() as usize * 3].to_vec()
            };
            let (full, empty) = (row(health), row(0));
            let lit = full
                .chunks(3)
                .zip(empty.chunks(3))
                .filter(|(a, b)| a != b)
                .count();
            let part = lit as f32 / bar.width() * 100.0;
            assert!((part - health as f32).abs() <= 1.0, "{part} % for {health}");
            looks += 1;
        }
    }
    assert_eq!(looks, 90);
}

#[test]
fn every_item_has_a_silhouette_of_its_own_that_fits_its_slot() {
    use super::sketch::Stand;
    let stand = Stand {
        at: crate::geometry::vec2(20.0, 20.0),
        turn: 0.0,
        scale: 1.6,
    };
    let mut pictures: Vec<Picture> = Vec::new();
    for (item, name) in ITEMS.iter().enumerate() {
        let sketch = super::hud::icons::icon(item, rgb(0xff_ff_ff));
        let bounds = sketch.bounds(&stand).expect("not empty");
        let half = 10.6 * stand.scale;
        assert!(bounds.x0 > 20.0 - half && bounds.x1 < 20.0 + half, "{}", name);
        assert!(bounds.y0 > 20.0 - half && bounds.y1 < 20.0 + half, "{}", name);
        let mut canvas = Canvas::new(40, 40, rgb(0));
        sketch.draw(&mut canvas, &stand);
        let picture = canvas.picture();
        assert!(!pictures.contains(&picture), "{}", name);
        pictures.push(picture);
    }
}
