//! Facts that a sentence of a report states.

use super::{MANY, NO_VEHICLE, NOBODY, NUMBERS, PERSON, PLACES, VEHICLES, classes};

/// Number of things as reports give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// Number from zero to five.
    Exactly(usize),
    /// Six or more.
    Many,
}

impl Amount {
    /// True if the amount covers that count.
    #[must_use]
    pub fn is(self, count: usize) -> bool {
        match self {
            Self::Exactly(exactly) => count == exactly,
            Self::Many => count > NUMBERS.len(),
        }
    }
}

/// A fact that a sentence states.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// A thing that was not there before.
    New {
        /// Class of the thing.
        class: String,
        /// Place of the thing, one of `PLACES`.
        place: String,
    },
    /// Number of things of a class.
    Count {
        /// Class of the things.
        class: String,
        /// Number as the report gives it.
        amount: Amount,
    },
    /// At least one thing of a class is at a place.
    At {
        /// Class of the thing.
        class: String,
        /// Place of the thing, one of `PLACES`.
        place: String,
    },
    /// A plate is on a thing.
    Plate {
        /// Text of the plate.
        text: String,
        /// Class of the thing with the plate.
        class: String,
        /// Place of that thing, one of `PLACES`.
        place: String,
    },
    /// Name of a person who is there.
    Name(String),
}

/// A report as its sentences, each with its full stop.
#[must_use]
pub fn sentences(report: &str) -> Vec<&str> {
    let all = report.trim().split_inclusive('.').map(str::trim);
    all.filter(|sentence| !sentence.is_empty()).collect()
}

/// Facts that a sentence states; `None` if the grammar does not contain the sentence.
#[must_use]
pub fn facts(sentence: &str) -> Option<Vec<Fact>> {
    if sentence == NO_VEHICLE {
        return Some(VEHICLES.iter().map(|(class, _)| none_of(class)).collect());
    }
    if sentence == NOBODY {
        return Some(vec![none_of(PERSON.0)]);
    }
    let body = sentence.strip_suffix('.')?;
    if let Some(rest) = body.strip_prefix("New is one ") {
        return new_thing(rest);
    }
    if let Some(rest) = body.strip_prefix("Plate ") {
        let (text, rest) = rest.split_once(" is of one ")?;
        let (class, place) = class_and_place(rest)?;
        return Some(vec![plate(text, class, place)?]);
    }
    if let Some(rest) = body.strip_prefix("Known ") {
        return names(rest);
    }
    all_of(body)
}

fn none_of(class: &str) -> Fact {
    Fact::Count {
        class: class.to_owned(),
        amount: Amount::Exactly(0),
    }
}

fn known_place(text: &str) -> Option<&'static str> {
    PLACES.into_iter().find(|place| *place == text)
}

/// "car at the left"
fn class_and_place(text: &str) -> Option<(&'static str, &'static str)> {
    let (noun, place) = text.split_once(" at the ")?;
    let (class, _) = classes().find(|(class, _)| *class == noun)?;
    Some((class, known_place(place)?))
}

fn plate(text: &str, class: &str, place: &str) -> Option<Fact> {
    (!text.is_empty() && !text.contains(' ')).then(|| Fact::Plate {
        text: text.to_owned(),
        class: class.to_owned(),
        place: place.to_owned(),
    })
}

fn new_thing(rest: &str) -> Option<Vec<Fact>> {
    let (thing, text) = match rest.split_once(" with the plate ") {
        Some((thing, text)) => (thing, Some(text)),
        None => (rest, None),
    };
    let (class, place) = class_and_place(thing)?;
    let new = Fact::New {
        class: class.to_owned(),
        place: place.to_owned(),
    };
    let plate = match text {
        Some(text) => Some(plate(text, class, place)?),
        None => None,
    };
    Some([new].into_iter().chain(plate).collect())
}

/// Words of "a", "a and b", "a, b and c".
fn unlisted(text: &str) -> Vec<&str> {
    match text.rsplit_once(" and ") {
        Some((rest, last)) => rest.split(", ").chain([last]).collect(),
        None => vec![text],
    }
}

fn names(rest: &str) -> Option<Vec<Fact>> {
    let (verb, list) = rest.split_once(' ')?;
    let names = unlisted(list);
    let fits = verb == if names.len() == 1 { "is" } else { "are" };
    let is_name = |name: &&str| !name.is_empty() && !name.contains(' ');
    (fits && names.iter().all(is_name))
        .then(|| names.iter().map(|name| Fact::Name((*name).to_owned())).collect())
}

/// "Two cars are at the left and top right"
fn all_of(body: &str) -> Option<Vec<Fact>> {
    let (number, rest) = body.split_once(' ')?;
    let (noun, rest) = rest.split_once(' ')?;
    let (verb, places) = rest.split_once(" at the ")?;
    let amount = match NUMBERS.iter().position(|known| *known == number) {
        Some(below) => Amount::Exactly(below + 1),
        None => (number == MANY).then_some(Amount::Many)?,
    };
    let is_one = amount == Amount::Exactly(1);
    let (class, _) = classes().find(|(class, plural)| *(if is_one { class } else { plural }) == noun)?;
    if verb != if is_one { "is" } else { "are" } {
        return None;
    }
    let places: Option<Vec<&str>> = unlisted(places).into_iter().map(known_place).collect();
    let at = places?.into_iter().map(|place| Fact::At {
        class: class.to_owned(),
        place: place.to_owned(),
    });
    let count = Fact::Count {
        class: class.to_owned(),
        amount,
    };
    Some([count].into_iter().chain(at).collect())
}
