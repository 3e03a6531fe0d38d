//! Reports are read back as what was put into them.

use super::*;

fn thing(class: &str, place: &'static str) -> Thing {
    Thing {
        class: class.to_owned(),
        place,
        plate: None,
        name: None,
    }
}

fn with_plate(class: &str, place: &'static str, plate: &str) -> Thing {
    Thing {
        plate: Some(plate.to_owned()),
        ..thing(class, place)
    }
}

fn person(place: &'static str, name: &str) -> Thing {
    Thing {
        name: Some(name.to_owned()),
        ..thing("person", place)
    }
}

fn street() -> Scene {
    let new = with_plate("car", "left", "AB123C");
    let mut things = vec![
        thing("car", "bottom"),
        new.clone(),
        thing("bus", "top right"),
        person("right", "p19"),
        person("top", "ada"),
    ];
    things.extend(vec![thing("person", "right"); 4]);
    Scene {
        new: Some(new),
        things,
    }
}

#[test]
fn a_report_says_what_is_there_in_the_order_of_the_grammar() {
    let scene = street();
    assert_eq!(
        scene.prompt(),
        "New: #AB123C car left. Seen: car bottom #AB123C car left bus top right @p19 person right @ada person top person right \
         person right person right person right."
    );
    let expected = [
        "New is one car at the left with the plate AB123C.",
        "Two cars are at the left and bottom.",
        "One bus is at the top right.",
        "Many persons are at the top and right.",
        "Plate AB123C is of one car at the left.",
        "Known are p19 and ada.",
    ];
    assert_eq!(scene.sentences(), expected);
    assert_eq!(sentences(&scene.report()), expected);
    let nothing = Scene::default();
    assert_eq!(nothing.prompt(), "Seen:.");
    assert_eq!(nothing.sentences(), ["No vehicle is there.", "Nobody is there."]);
}

#[test]
fn a_report_has_two_to_ten_sentences() {
    let mut full = street();
    full.things.push(thing("van", "top"));
    full.things.push(thing("bicycle", "top"));
    full.things
        .extend((0..9).map(|number| with_plate("car", "left", &format!("A{number}"))));
    full.things
        .extend((0..9).map(|number| person("left", &format!("p{number}"))));
    assert_eq!(full.sentences().len(), 10);
    assert!(
        full.report().ends_with("Known are p19, ada and p0."),
        "{}",
        full.report()
    );
}

#[test]
fn sentences_are_read_back_as_facts() {
    let class_place = |class: &str, place: &str| (class.to_owned(), place.to_owned());
    let at = |class: &str, place: &str| {
        let (class, place) = class_place(class, place);
        Fact::At { class, place }
    };
    let count = |class: &str, amount: Amount| Fact::Count {
        class: class.to_owned(),
        amount,
    };
    let plate = |text: &str, class: &str, place: &str| {
        let (class, place) = class_place(class, place);
        let text = text.to_owned();
        Fact::Plate { text, class, place }
    };
    let (class, place) = class_place("car", "left");
    let stated: Vec<Vec<Fact>> = street()
        .sentences()
        .iter()
        .map(|sentence| facts(sentence).unwrap_or_else(|| panic!("{sentence}")))
        .collect();
    assert_eq!(
        stated,
        [
            vec![Fact::New { class, place }, plate("AB123C", "car", "left")],
            vec![
                count("car", Amount::Exactly(2)),
                at("car", "left"),
                at("car", "bottom")
            ],
            vec![count("bus", Amount::Exactly(1)), at("bus", "top right")],
            vec![
                count("person", Amount::Many),
                at("person", "top"),
                at("person", "right")
            ],
            vec![plate("AB123C", "car", "left")],
            vec![Fact::Name("p19".to_owned()), Fact::Name("ada".to_owned())],
        ]
    );
    let none = facts("No vehicle is there.").expect("a sentence");
    assert_eq!(none.len(), VEHICLES.len());
    assert_eq!(
        facts("Nobody is there."),
        Some(vec![count("person", Amount::Exactly(0))])
    );
}

#[test]
fn what_is_no_sentence_of_the_grammar_states_nothing() {
    for sentence in [
        "",
        ".",
        "Two cars are at the left",
        "Two car are at the left.",
        "Two cars is at the left.",
        "One cars is at the left.",
        "Six cars are at the left.",
        "Two cars are at the middle.",
        "Two cars are at the left and.",
        "Two boats are at the left.",
        "New is one car at the left with the plate .",
        "Plate A B is of one car at the left.",
        "Plate AB is of one boat at the left.",
        "Known is a and b.",
        "Known are a.",
        "Known is a dog.",
        "It rains.",
    ] {
        assert_eq!(facts(sentence), None, "{sentence}");
    }
}

#[test]
fn amounts_above_five_are_many() {
    for count in 0..9 {
        assert_eq!(Amount::Many.is(count), count > 5);
        assert!(Amount::Exactly(count).is(count) && !Amount::Exactly(count + 1).is(count));
    }
}

#[test]
fn places_are_thirds_of_the_picture() {
    let at = |x: f32, y: f32| place(&[x - 5.0, y - 5.0, x + 5.0, y + 5.0], (90, 60));
    assert_eq!(at(10.0, 10.0), "top left");
    assert_eq!(at(30.0, 10.0), "top");
    assert_eq!(at(89.0, 20.0), "right");
    assert_eq!(at(45.0, 30.0), "centre");
    assert_eq!(at(95.0, 65.0), "bottom right");
    assert_eq!(place(&[0.0; 4], (0, 0)), "top left");
}

#[test]
fn the_scene_of_a_frame_has_what_can_be_asked_for() {
    use crate::{FrameTruth, TruthAttribute, TruthObject};

    let object = |id: u64, class: &str, parent: Option<u64>, ignore: bool| TruthObject {
        id,
        class: class.to_owned(),
        r#box: [0.0, 0.0, 30.0, 30.0],
        visible: 1.0,
        ignore,
        parent,
        attributes: [].into(),
    };
    let with = |mut object: TruthObject, name: &str, attribute: TruthAttribute| {
        object.attributes.insert(name.to_owned(), attribute);
        object
    };
    let plate = |text: &str| TruthAttribute::Text {
        text: text.to_owned(),
    };
    let who = |name: Option<&str>| TruthAttribute::Match {
        r#match: name.map(str::to_owned),
    };
    let frame = FrameTruth {
        objects: vec![
            object(1, "car", None, false),
            with(object(2, "plate", Some(1), false), "plate", plate("AB1")),
            object(3, "car", None, false),
            with(object(4, "plate", Some(3), true), "plate", plate("CD2")),
            object(5, "bus", None, true),
            object(6, "person", None, false),
            with(object(7, "face", Some(6), false), "identity", who(Some("p01"))),
            object(8, "person", None, false),
            with(object(9, "face", Some(8), false), "identity", who(None)),
        ],
        ..FrameTruth::default()
    };
    assert_eq!(
        Scene::of(&frame, (90, 90)).prompt(),
        "Seen: #AB1 car top left car top left @p01 person top left person top left."
    );
    let all = things(&frame, (90, 90));
    assert_eq!(all.len(), 5);
    assert_eq!(all[1].thing.plate.as_deref(), Some("CD2"));
    assert!(all[1].is_asked && !all[1].plate_is_asked && !all[2].is_asked);
}
