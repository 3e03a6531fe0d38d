//! Scenes by chance, for models that learn to report: what is in a frame, without a picture of it.

use weir_truth::report::{PERSON, PLACES, Scene, Thing, VEHICLES};

use crate::seed::{Seed, mix};

/// Most things of a scene.
const MOST: u64 = 20;
/// Characters of plates: those that are not mistaken for each other.
const PLATE: &[u8] = b"0123456789ABCDEFGHJKLMNPRSTUVWXYZ";
const DIGITS: &[u8] = b"0123456789";
const LETTERS: &[u8] = b"ABCDEFGHJKLMNPRSTUVWXYZ";
const NAME: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

/// Draws of one scene.
struct Draws {
    key: u64,
    count: u64,
}

impl Draws {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.count += 1;
        // Only the upper half is used; for such small numbers the bias is negligible.
        ((mix(self.key ^ mix(self.count)) >> 32) * end) >> 32
    }

    /// True with a probability of `percent` per cent.
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn text(&mut self, length: u64, characters: &[u8]) -> String {
        (0..length).map(|_| char::from(self.one_of(characters))).collect()
    }
}

/// The scene of a seed.
#[must_use]
pub fn scene(seed: Seed) -> Scene {
    let mut draws = Draws {
        key: seed.key("scene"),
        count: 0,
    };
    let draws = &mut draws;
    // More small scenes than large ones.
    let most = if draws.percent(50) {
        MOST
    } else {
        1 + draws.below(MOST)
    };
    let count = if draws.percent(3) {
        0
    } else {
        1 + draws.below(most)
    };
    let persons = draws.one_of(&[20, 50, 80]);
    let few: Vec<&str> = (0..3).map(|_| draws.one_of(&PLACES)).collect();
    let is_crowded = draws.percent(40);
    let things: Vec<Thing> = (0..count)
        .map(|_| {
            let class = if draws.percent(persons) {
                PERSON.0
            } else {
                draws.one_of(&VEHICLES).0
            };
            let place = if is_crowded {
                draws.one_of(&few)
            } else {
                draws.one_of(&PLACES)
            };
            thing(draws, class, place)
        })
        .collect();
    let new = (count > 0 && draws.percent(70)).then(|| things[draws.below(count) as usize].clone());
    Scene { new, things }
}

fn thing(draws: &mut Draws, class: &str, place: &'static str) -> Thing {
    let is_person = class == PERSON.0;
    let is_read = draws.percent(40);
    Thing {
        class: class.to_owned(),
        place,
        plate: (is_read && !is_person).then(|| plate(draws)),
        name: (is_read && is_person && draws.percent(60)).then(|| name(draws)),
    }
}

/// Text of a plate, or a text that a reader may return instead of one.
fn plate(draws: &mut Draws) -> String {
    if draws.percent(60) {
        let (first, number, last) = (
            draws.text(2, LETTERS),
            draws.text(3, DIGITS),
            draws.text(1, LETTERS),
        );
        return format!("{first}{number}{last}");
    }
    let length = 4 + draws.below(5);
    draws.text(length, PLATE)
}

/// Name as in a gallery.
fn name(draws: &mut Draws) -> String {
    if draws.percent(60) {
        return format!("p{}", draws.text(2, DIGITS));
    }
    let length = 3 + draws.below(5);
    draws.text(length, NAME)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_truth::report::{facts, sentences};

    use super::*;
    use crate::seed::Part;

    #[test]
    fn reports_of_all_scenes_are_read_back_and_parts_share_none() {
        let mut seen = BTreeSet::new();
        let mut lengths = BTreeSet::new();
        for number in 0..500 {
            let scene = scene(Seed::new(Part::Train, number));
            let (said, report) = (scene.sentences(), scene.report());
            assert_eq!(sentences(&report), said);
            for sentence in &said {
                assert!(facts(sentence).is_some(), "{sentence}");
            }
            lengths.insert(said.len());
            seen.insert(scene.prompt());
        }
        assert_eq!(lengths.first(), Some(&2));
        assert!(
            lengths.last().is_some_and(|most| (8..=10).contains(most)),
            "{lengths:?}"
        );
        let again = |number| scene(Seed::new(Part::Validation, number)).prompt();
        let shared = (0..500).map(again).filter(|prompt| seen.contains(prompt));
        let large = shared.filter(|prompt| prompt.len() > 60);
        assert_eq!(large.count(), 0, "small scenes are often alike");
    }
}
