//! Reports: two to ten sentences about a scene, by a grammar. The correct report is a function of the scene,
//! so a model's report can be compared with it, sentence by sentence and fact by fact.
//!
//! [`Scene::prompt`] is the input of a model, [`Scene::sentences`] the expected output, and [`facts`] parses
//! a sentence back into the facts that it states. Each part of the grammar is in a function of its own.

mod facts;
mod of_truth;
mod scene;
#[cfg(test)]
mod tests;

pub use facts::{Amount, Fact, facts, sentences};
pub use of_truth::{TrueThing, things};
pub use scene::{PLACES, Scene, Thing, place};

/// Classes of vehicles, in the order in which a report speaks of them, each with its plural.
pub const VEHICLES: [(&str, &str); 4] = [
    ("car", "cars"),
    ("van", "vans"),
    ("bus", "buses"),
    ("bicycle", "bicycles"),
];
/// The class of persons, with its plural.
pub const PERSON: (&str, &str) = ("person", "persons");
/// Most plates, and most names, of a report: those of the first things that have one.
pub const MAX_NAMED: usize = 3;

/// Words for numbers at the beginning of a sentence; larger numbers are `MANY`.
const NUMBERS: [&str; 5] = ["One", "Two", "Three", "Four", "Five"];
const MANY: &str = "Many";
const NO_VEHICLE: &str = "No vehicle is there.";
const NOBODY: &str = "Nobody is there.";

/// All classes, each with its plural.
fn classes() -> impl Iterator<Item = (&'static str, &'static str)> {
    VEHICLES.into_iter().chain([PERSON])
}
