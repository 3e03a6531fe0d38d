//! Reports are scored against the ground truth, sentence by sentence and fact by fact.

use super::*;

/// Two cars at the top left, one of them with a plate, a bus at the right that is ignored, and a person with a name.
fn street() -> Truth {
    let part = |id: u64, class: &str, of: u64, name: &str, attribute: Value| TruthObject {
        parent: Some(of),
        ..with(thing(id, class, 0.0), name, attribute)
    };
    let bus = TruthObject {
        r#box: [900.0, 200.0, 950.0, 300.0],
        ignore: true,
        ..thing(3, "bus", 0.0)
    };
    let person = TruthObject {
        r#box: [400.0, 500.0, 420.0, 540.0],
        ..thing(4, "person", 0.0)
    };
    clip(vec![vec![
        car(1, 0.0),
        part(5, "plate", 1, "plate", json!({"text": "AB123C"})),
        car(2, 20.0),
        bus,
        person,
        part(6, "face", 4, "identity", json!({"match": "p07"})),
    ]])
}

fn reported(text: &str) -> Value {
    let truth = street();
    let said = with_event_attribute(
        detection("car", 0.9, 0.0),
        "report",
        json!({"text": text, "score": 0.9}),
    );
    let score = score_clip(&truth, &[Some(vec![said])]);
    assert!(table(&score).contains("reports: 1 of them"));
    serde_json::to_value(score.reports.unwrap()).unwrap()
}

fn check(text: &str, sentences: [u64; 2], facts: [u64; 2], reported_facts: [u64; 2]) {
    let reports = reported(text);
    let of =
        |key: &str| [&reports[key]["stated"], &reports[key]["right"]].map(|value| value.as_u64().unwrap());
    assert_eq!((of("sentences"), of("facts")), (sentences, facts), "{text}");
    let reported_of = [&reports["true_facts"], &reports["reported"]].map(|value| value.as_u64().unwrap());
    assert_eq!(reported_of, reported_facts, "{text}");
}

#[test]
fn a_right_report_is_right_in_all() {
    let right = "New is one car at the top left with the plate AB123C. Two cars are at the top left. One person is at the bottom. \
                 Plate AB123C is of one car at the top left. Known is p07.";
    check(right, [5, 5], [8, 8], [6, 6]);
}

#[test]
fn what_is_wrong_or_left_out_is_counted() {
    check("Two cars are at the top left and right.", [1, 0], [3, 2], [6, 2]);
    check("Three cars are at the top left.", [1, 0], [2, 1], [6, 1]);
    check("Two cars are at the top.", [1, 0], [2, 1], [6, 1]);
    check("Nobody is there.", [1, 0], [1, 0], [6, 0]);
    check(
        "Plate AB128C is of one car at the top left.",
        [1, 0],
        [1, 0],
        [6, 0],
    );
    check("Plate AB123C is of one bus at the right.", [1, 0], [1, 0], [6, 1]);
    check("Known are p07 and p08.", [1, 0], [2, 1], [6, 1]);
    check("It rains. Known is p07.", [2, 1], [1, 1], [6, 1]);
}

#[test]
fn what_is_true_of_ignored_things_alone_is_neither_right_nor_wrong() {
    check("New is one bus at the right.", [0, 0], [0, 0], [6, 0]);
    // That a bus is there may be said or not; how many there are holds for both.
    check("One bus is at the right.", [1, 1], [1, 1], [6, 0]);
    check("Two buses are at the right.", [1, 0], [1, 0], [6, 0]);
}

#[test]
fn without_reports_there_are_no_figures() {
    let truth = street();
    let score = score_clip(&truth, &[Some(vec![detection("car", 0.9, 0.0)])]);
    assert_eq!(score.reports, None);
}
