//! Scene of a frame, with the prompt for a model and the expected report.

use std::io::Write;

use serde::Serialize;

use super::{MANY, MAX_NAMED, NO_VEHICLE, NOBODY, NUMBERS, PERSON, VEHICLES, classes};

/// Places in a picture by thirds, row by row: the order in which a report names them.
pub const PLACES: [&str; 9] = [
    "top left",
    "top",
    "top right",
    "left",
    "centre",
    "right",
    "bottom left",
    "bottom",
    "bottom right",
];

/// Place of the middle of a box (left, top, right, bottom) in a picture of that size.
#[must_use]
pub fn place(r#box: &[f32; 4], (width, height): (u32, u32)) -> &'static str {
    let third = |low: f32, high: f32, size: u32| match 3.0 * (low + high) / 2.0 / size.max(1) as f32 {
        at if at < 1.0 => 0,
        at if at < 2.0 => 1,
        _ => 2,
    };
    let [x0, y0, x1, y1] = *r#box;
    PLACES[3 * third(y0, y1, height) + third(x0, x1, width)]
}

/// A thing in a scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    /// Its class, one of vehicles or a person.
    pub class: String,
    /// One of [`PLACES`].
    pub place: &'static str,
    /// Text of its plate, if it is known.
    pub plate: Option<String>,
    /// Name of the person, if it is known.
    pub name: Option<String>,
}

impl Thing {
    /// Description of the thing in a prompt.
    fn given(&self) -> String {
        let plate = self.plate.as_ref().map(|plate| format!(" #{plate}"));
        let name = self.name.as_ref().map(|name| format!(" @{name}"));
        let more = [plate, name].into_iter().flatten();
        format!("{} {} {}", more.collect::<String>(), self.class, self.place)
    }
}

/// A line of what models learn to report from.
#[derive(Serialize)]
struct Pair {
    prompt: String,
    report: String,
}

/// Content of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scene {
    /// Thing that was not there before, which is the reason for a report.
    pub new: Option<Thing>,
    /// All things in the frame, including `new`.
    pub things: Vec<Thing>,
}

impl Scene {
    /// Prompt for a model; a graph builds it by the templates of `describe`.
    #[must_use]
    pub fn prompt(&self) -> String {
        let new = self.new.as_ref().map(|new| format!("New:{}. ", new.given()));
        let things: String = self.things.iter().map(Thing::given).collect();
        format!("{}Seen:{things}.", new.unwrap_or_default())
    }

    /// Sentences of the expected report.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut said: Vec<String> = self.new.iter().map(new_thing).collect();
        let vehicles = VEHICLES.into_iter().filter_map(|class| self.all_of(class));
        let before = said.len();
        said.extend(vehicles);
        if said.len() == before {
            said.push(NO_VEHICLE.to_owned());
        }
        said.push(self.all_of(PERSON).unwrap_or_else(|| NOBODY.to_owned()));
        let known = || self.things.iter().filter(|thing| is_known(thing));
        let plates = known().filter_map(plate).take(MAX_NAMED);
        said.extend(plates);
        let names: Vec<&str> = known()
            .filter_map(|thing| thing.name.as_deref())
            .take(MAX_NAMED)
            .collect();
        said.extend(names_of(&names));
        said
    }

    /// The sentences in one text.
    #[must_use]
    pub fn report(&self) -> String {
        self.sentences().join(" ")
    }

    /// Writes the prompt and the report as a line of JSON.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, mut to: impl Write) -> std::io::Result<()> {
        let pair = Pair {
            prompt: self.prompt(),
            report: self.report(),
        };
        serde_json::to_writer(&mut to, &pair)?;
        to.write_all(b"\n")
    }

    /// "Two cars are at the left and top right.", where there are any.
    fn all_of(&self, (class, plural): (&str, &str)) -> Option<String> {
        let places = || {
            let things = self.things.iter().filter(|thing| thing.class == class);
            things.map(|thing| thing.place)
        };
        let count = places().count();
        let which: Vec<&str> = PLACES
            .into_iter()
            .filter(|place| places().any(|it| it == *place))
            .collect();
        let (noun, verb) = if count == 1 {
            (class, "is")
        } else {
            (plural, "are")
        };
        let number = NUMBERS.get(count.checked_sub(1)?).unwrap_or(&MANY);
        Some(format!("{number} {noun} {verb} at the {}.", listed(&which)))
    }
}

fn is_known(thing: &Thing) -> bool {
    classes().any(|(class, _)| class == thing.class)
}

/// "New is one car at the left with the plate AB123C."
fn new_thing(new: &Thing) -> String {
    let plate = new.plate.as_ref().map(|plate| format!(" with the plate {plate}"));
    format!(
        "New is one {} at the {}{}.",
        new.class,
        new.place,
        plate.unwrap_or_default()
    )
}

/// "Plate AB123C is of one car at the left."
fn plate(thing: &Thing) -> Option<String> {
    let text = thing.plate.as_ref()?;
    Some(format!(
        "Plate {text} is of one {} at the {}.",
        thing.class, thing.place
    ))
}

/// "Known are ada and bob."
fn names_of(names: &[&str]) -> Option<String> {
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| format!("Known {verb} {}.", listed(names)))
}

/// "a", "a and b", "a, b and c".
fn listed(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
