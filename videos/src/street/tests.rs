//! Properties that the ground truth of every street must have.

use std::collections::BTreeMap;

use super::{Light, SIZE, Street, still};
use crate::World;
use crate::canvas::Picture;
use crate::seed::{Part, Seed};
use weir_truth::{FrameTruth, TruthAttribute, TruthObject};

fn well_formed(plate: &str) -> bool {
    let forms = ["AZ", "AZ", "09", "09", "09", "AZ"];
    let fits = |(character, form): (char, &str)| {
        let mut ends = form.chars();
        let (Some(first), Some(last)) = (ends.next(), ends.next()) else {
            return false;
        };
        (first..=last).contains(&character) && !"IOQ".contains(character)
    };
    plate.chars().count() == 6 && plate.chars().zip(forms).all(fits)
}

/// Checks one object against its frame.
fn check(object: &TruthObject, by_id: &BTreeMap<u64, &TruthObject>, of: &str) {
    let [x0, y0, x1, y1] = object.r#box;
    let (width, height) = (SIZE.0 as f32, SIZE.1 as f32);
    assert!(0.0 <= x0 && x0 < x1 && x1 <= width, "{of}: {object:?}");
    assert!(0.0 <= y0 && y0 < y1 && y1 <= height, "{of}: {object:?}");
    assert!((0.0..=1.0).contains(&object.visible), "{of}: {object:?}");
    let parent = object.parent.map(|id| by_id[&id]);
    match object.class.as_str() {
        "plate" => {
            let Some(TruthAttribute::Text { text }) = object.attributes.get("plate") else {
                panic!("{of}: a plate without its text");
            };
            assert!(well_formed(text), "{of}: {text}");
            let [a, b, c, d] = parent.expect("a plate's vehicle").r#box;
            assert!(
                a <= x0 + 2.0 && b <= y0 + 2.0 && c >= x1 - 2.0 && d >= y1 - 2.0,
                "{of}: {object:?}"
            );
        }
        "face" => {
            assert!(
                matches!(
                    object.attributes.get("identity"),
                    Some(TruthAttribute::Match { .. })
                ),
                "{of}"
            );
            assert_eq!(parent.expect("a face's person").class, "person", "{of}");
        }
        class => assert!(
            ["car", "van", "bus", "bicycle", "person"].contains(&class),
            "{of}: {class}"
        ),
    }
}

fn check_all(truth: &FrameTruth, of: &str) {
    let by_id: BTreeMap<u64, &TruthObject> = truth.objects.iter().map(|object| (object.id, object)).collect();
    assert_eq!(by_id.len(), truth.objects.len(), "{of}: ids are not distinct");
    for object in &truth.objects {
        check(object, &by_id, of);
    }
}

#[test]
fn the_truth_about_stills_is_sound() {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..10 {
        let (_, truth) = still(Seed::new(Part::Train, number), None);
        check_all(&truth, &format!("still {number}"));
        for object in truth.objects.iter().filter(|object| !object.ignore) {
            *counts.entry(object.class.clone()).or_default() += 1;
        }
    }
    for class in ["car", "van", "bus", "bicycle", "person", "plate", "face"] {
        assert!(
            counts.get(class).is_some_and(|count| *count >= 3),
            "{class}: {counts:?}"
        );
    }
}

#[test]
fn a_street_goes_on_smoothly() {
    for number in 0..5 {
        let (_, light) = Light::ALL[number as usize % Light::ALL.len()];
        let street = Street::new(Seed::new(Part::Clip, number), light);
        let seconds = 3.0 + 4.7 * number as f32;
        let (before, after) = (street.truth(seconds), street.truth(seconds + 0.04));
        check_all(&before, &format!("clip {number}"));
        let later: BTreeMap<u64, &TruthObject> =
            after.objects.iter().map(|object| (object.id, object)).collect();
        let mut lost = 0;
        for object in &before.objects {
            let Some(next) = later.get(&object.id) else {
                lost += 1;
                continue;
            };
            assert_eq!((&next.class, next.parent), (&object.class, object.parent));
            let moved = object
                .r#box
                .iter()
                .zip(next.r#box)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(moved < 45.0, "clip {number}: {object:?} moved by {moved}");
        }
        assert!(
            lost * 10 <= before.objects.len(),
            "clip {number}: {lost} of {}",
            before.objects.len()
        );
    }
}

#[test]
fn a_still_in_another_light_shows_the_same_in_the_same_places() {
    let seed = Seed::new(Part::Train, 5);
    let (drawn, truth) = still(seed, None);
    for light in [Light::Night, Light::Rain] {
        let (lit, same) = still(seed, Some(light));
        assert!(drawn != lit, "{light:?} changes the picture");
        let boxes = |truth: &FrameTruth| {
            truth
                .objects
                .iter()
                .map(|it| (it.id, it.r#box))
                .collect::<Vec<_>>()
        };
        assert_eq!(boxes(&truth), boxes(&same), "{light:?}");
    }
}

#[test]
fn a_frame_drawn_twice_is_the_same() {
    let seed = Seed::new(Part::Validation, 3);
    assert!(still(seed, None) == still(seed, None));
    let street = || Street::new(Seed::new(Part::Clip, 2), Light::Dusk);
    assert!(street().at(5.0) == street().at(5.0));
}

#[test]
fn what_is_true_of_a_frame_is_the_same_where_it_is_not_drawn() {
    let street = Street::new(Seed::new(Part::Clip, 4), Light::Dusk);
    let (drawn, truth) = (street.at(7.0).1, street.truth(7.0));
    assert!(drawn.objects.len() > 5 && drawn == truth);
}

#[test]
fn one_street_is_another_picture_in_each_light_and_the_same_truth() {
    let seed = Seed::new(Part::Clip, 4);
    let [day, others @ ..] = Light::ALL.map(|(name, light)| (name, Street::new(seed, light).at(7.0)));
    let mean = |picture: &Picture| {
        let sum: u64 = picture.rgb.iter().map(|&value| u64::from(value)).sum();
        sum / picture.rgb.len() as u64
    };
    for (name, (picture, truth)) in others {
        assert!(truth == day.1.1, "{name}");
        assert!(mean(&picture) < mean(&day.1.0), "{name}");
    }
}
