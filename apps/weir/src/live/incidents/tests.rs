use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use weir_flow::{BestShot, Description, IncidentValue, Phase, Rect, Value as Setting};

use super::state::{MAX_INCIDENTS, MAX_PINNED};
use super::*;

fn incident(number: usize, phase: Phase, picture_bytes: Option<usize>) -> Incident {
    Incident {
        id: format!("north/gate/{number}").into(),
        transform: "gate".into(),
        kind: "line",
        phase,
        track: Some(7),
        class: Some("car".into()),
        score: 0.9,
        rect: None,
        began_ms: 1_000 * number as u64,
        time_ms: 1_000 * number as u64 + 500,
        began_pts_ms: 0.0,
        pts_ms: 1_000.0,
        zones: vec!["yard".into()],
        values: vec![
            ("direction", IncidentValue::Text("in".into())),
            ("speed_kmh", IncidentValue::Number(48.0)),
        ],
        attributes: Vec::new(),
        best: picture_bytes.map(|bytes| {
            Arc::new(BestShot {
                picture: Arc::new(vec![1; bytes]),
                rect: Rect::default(),
                score: 0.9,
                frame: 1,
                pts_ms: 0.0,
            })
        }),
    }
}

fn add(incidents: &Incidents, number: usize, phase: Phase, picture_bytes: Option<usize>) {
    incidents.add(&"north".into(), &incident(number, phase, picture_bytes));
}

fn page(limit: usize) -> Page {
    Page {
        limit,
        ..Page::default()
    }
}

fn all(incidents: &Incidents) -> Value {
    incidents.list(&Filter::default(), &page(usize::MAX))
}

/// Numbers in the ids of a list.
fn numbers(list: &Value) -> Vec<usize> {
    let list = list["incidents"].as_array().unwrap().iter();
    list.map(|incident| {
        incident["id"]
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    })
    .collect()
}

fn id(number: usize) -> String {
    format!("north/gate/{number}")
}

/// Incidents with a store in a folder.
fn stored(folder: &Path) -> Incidents {
    let incidents = Incidents::default();
    incidents.open_store(Ok(folder));
    assert_eq!(all(&incidents)["kept"], json!({ "in": "state" }));
    incidents
}

/// The incidents of a store as another engine reads them. The thread of the first one goes on, and holds the lock: a copy is read.
fn restarted(folder: &Path) -> (Incidents, PathBuf) {
    let name = format!("{}-again", folder.file_name().unwrap().display());
    let copy = folder.with_file_name(name);
    fs::create_dir_all(copy.join("pictures")).unwrap();
    for part in ["", "pictures"] {
        for entry in fs::read_dir(folder.join(part)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs::copy(entry.path(), copy.join(part).join(entry.file_name())).unwrap();
            }
        }
    }
    (stored(&copy), copy)
}

/// Words about an incident, or about all incidents of its track.
fn described(number: usize, of_track: bool, text: &str) -> Description {
    Description {
        stream: "north".into(),
        incident: Arc::new(incident(number, Phase::Began, None)),
        of_track,
        model: "llava".into(),
        text: text.into(),
        fields: Vec::new(),
        time_ms: 9_000,
        tokens_in: 1,
        tokens_out: 1,
    }
}

#[test]
fn description_belongs_to_its_incident_or_to_all_of_its_track_and_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let incidents = stored(folder.path());
    add(&incidents, 1, Phase::Began, None);
    add(&incidents, 2, Phase::Ended, None);
    incidents.describe("words", &described(1, false, "A van with a Box."));
    incidents.describe("words", &described(9, false, "of none"));
    for other in 0..9 {
        incidents.describe(&format!("other-{other}"), &described(1, true, &"x".repeat(5_000)));
    }
    add(&incidents, 1, Phase::Ended, None);
    incidents.flush();
    let (again, copy) = restarted(folder.path());
    for incidents in [&incidents, &again] {
        let list = all(incidents);
        let words = |at: usize| list["incidents"][at]["descriptions"].as_object().unwrap();
        assert_eq!(words(1)["words"], "A van with a Box.");
        assert_eq!((words(0).len(), words(1).len()), (4, 4));
        assert_eq!(words(0)["other-3"].as_str().unwrap().len(), 1_000);
        let filter = Filter {
            text: Some("box".to_owned()),
            ..Filter::default()
        };
        assert_eq!(numbers(&incidents.list(&filter, &page(9))), [1]);
    }
    fs::remove_dir_all(copy).unwrap();
}

#[test]
fn later_events_change_the_same_incident() {
    let incidents = Incidents::default();
    add(&incidents, 1, Phase::Began, Some(10));
    add(&incidents, 2, Phase::Ended, None);
    add(&incidents, 1, Phase::Ended, None);
    let list = all(&incidents);
    assert_eq!(numbers(&list), [2, 1]);
    assert_eq!((&list["count"], &list["kept"]["in"]), (&json!(2), &json!("none")));
    let first = &list["incidents"][1];
    assert_eq!(
        (&first["phase"], &first["is_over"]),
        (&json!("ended"), &json!(true))
    );
    assert_eq!(
        (&first["has_picture"], &first["values"]["speed_kmh"]),
        (&json!(true), &json!(48.0))
    );
    assert_eq!(list["names"]["zones"], json!(["yard"]));
    assert_eq!(incidents.picture(&id(1)).unwrap().len(), 10);
    assert!(incidents.picture(&id(2)).is_none() && incidents.picture("c").is_none());
}

#[test]
fn oldest_incidents_and_pictures_go_first_except_pinned_ones() {
    let incidents = Incidents::default();
    for number in 0..MAX_INCIDENTS + 10 {
        let picture = (number % 1_000 == 0).then_some(16 << 20);
        add(&incidents, number, Phase::Ended, picture);
        if number == 0 {
            incidents.mark(&id(0), None, Some(true)).unwrap();
        }
    }
    let numbers = numbers(&all(&incidents));
    assert_eq!((numbers.len(), numbers[0]), (MAX_INCIDENTS, MAX_INCIDENTS + 9));
    assert_eq!(numbers[MAX_INCIDENTS - 2..], [11, 0]);
    let with_picture: Vec<usize> = (0..=10)
        .map(|at| at * 1_000)
        .filter(|at| incidents.picture(&id(*at)).is_some())
        .collect();
    assert_eq!(with_picture, [0, 8_000, 9_000, 10_000]);
}

#[test]
fn pins_are_bounded_and_free_again() {
    let incidents = Incidents::default();
    for number in 0..=MAX_PINNED {
        add(&incidents, number, Phase::Ended, None);
    }
    for number in 0..MAX_PINNED {
        incidents.mark(&id(number), Some(true), Some(true)).unwrap();
    }
    let refused = incidents.mark(&id(MAX_PINNED), Some(true), Some(true));
    assert_eq!(refused, Err(PinRefused::TooMany(MAX_PINNED)));
    assert_eq!(
        incidents.get(&id(MAX_PINNED)).unwrap()["seen"],
        false,
        "nothing is changed"
    );
    incidents.mark(&id(0), None, Some(true)).unwrap();
    incidents.mark(&id(0), None, Some(false)).unwrap();
    incidents.mark(&id(MAX_PINNED), None, Some(true)).unwrap();
    assert_eq!(incidents.mark("none", Some(true), None), Err(PinRefused::Unknown));
    let pinned = Filter {
        pinned: Some(true),
        ..Filter::default()
    };
    assert_eq!(numbers(&incidents.list(&pinned, &page(500))).len(), MAX_PINNED);
}

#[test]
fn a_list_is_continued_and_counted() {
    let incidents = Incidents::default();
    for number in 0..10 {
        add(&incidents, number, Phase::Ended, None);
    }
    let filter = Filter {
        from_ms: Some(2_000),
        to_ms: Some(8_000),
        ..Filter::default()
    };
    let (mut listed, mut before) = (Vec::new(), None);
    loop {
        let list = incidents.list(
            &filter,
            &Page {
                before,
                limit: 4,
                bins: Some(Bins {
                    from_ms: 2_000,
                    to_ms: 8_000,
                    count: 3,
                }),
            },
        );
        let bin = json!({ "count": 2 });
        assert_eq!(list["bins"], json!([bin, bin, bin]));
        listed.extend(numbers(&list));
        before = list["next"].as_str().map(|next| next.parse().unwrap());
        if before.is_none() {
            break;
        }
        add(&incidents, 10 + listed.len(), Phase::Ended, None);
    }
    assert_eq!(listed, [7, 6, 5, 4, 3, 2]);
    let none = Filter {
        cameras: Some(["south".to_owned()].into()),
        ..Filter::default()
    };
    let list = incidents.list(&none, &page(10));
    assert_eq!((&list["count"], &list["names"]["rules"]), (&json!(0), &json!([])));
}

#[test]
fn incidents_are_there_again_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("site");
    let incidents = Incidents::default();
    // Before the store is open.
    add(&incidents, 1, Phase::Began, Some(100));
    incidents.open_store(Ok(&folder));
    add(&incidents, 2, Phase::Ended, Some(200));
    add(&incidents, 3, Phase::Began, None);
    incidents.mark(&id(2), Some(true), Some(true)).unwrap();
    incidents.flush();
    let busy = Incidents::default();
    busy.open_store(Ok(&folder));
    let why = all(&busy)["kept"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("another engine"), "{why}");
    let (again, copy) = restarted(&folder);
    let list = all(&again);
    assert_eq!((numbers(&list), &list["count"]), (vec![3, 2, 1], &json!(0)));
    let second = &list["incidents"][1];
    assert_eq!((&second["seen"], &second["pinned"]), (&json!(true), &json!(true)));
    assert_eq!(list["incidents"][0]["is_over"], true, "its engine stopped");
    assert_eq!(again.picture(&id(2)).unwrap().len(), 200);
    assert_eq!(again.picture(&id(1)).unwrap().len(), 100);
    add(&again, 4, Phase::Ended, None);
    again.flush();
    assert_eq!(numbers(&all(&restarted(&copy).0)), [4, 3, 2, 1]);
}

#[test]
fn a_torn_last_line_is_the_only_loss() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("site");
    let incidents = stored(&folder);
    for number in 1..4 {
        add(&incidents, number, Phase::Ended, None);
    }
    incidents.flush();
    let log = folder.join("incidents.jsonl");
    let text = fs::read(&log).unwrap();
    fs::write(&log, &text[..text.len() - 20]).unwrap();
    let (again, copy) = restarted(&folder);
    assert_eq!(numbers(&all(&again)), [2, 1]);
    assert!(!copy.join("incidents.jsonl.broken").exists());
    // The next line does not join the torn one.
    add(&again, 4, Phase::Ended, None);
    again.flush();
    assert_eq!(numbers(&all(&restarted(&copy).0)), [4, 2, 1]);
}

#[test]
fn a_damaged_file_is_put_aside_and_read_as_far_as_it_can_be() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("site");
    let incidents = stored(&folder);
    for number in 1..4 {
        add(&incidents, number, Phase::Ended, Some(10));
    }
    incidents.flush();
    let log = folder.join("incidents.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(1, "\u{0}\u{0}{\"number\":");
    fs::write(&log, lines.join("\n") + "\n").unwrap();
    fs::write(
        folder.join("pictures/0123456789abcdef0123456789abcdef.jpg"),
        "of none",
    )
    .unwrap();
    fs::write(folder.join("pictures/notes.txt"), "of a person").unwrap();
    let (again, copy) = restarted(&folder);
    assert_eq!(numbers(&all(&again)), [3, 2, 1]);
    assert!(copy.join("incidents.jsonl.broken").exists());
    add(&again, 4, Phase::Ended, None);
    again.flush();
    let pictures = fs::read_dir(copy.join("pictures")).unwrap();
    assert_eq!(pictures.count(), 4, "three, and the file of a person");
    assert_eq!(numbers(&all(&restarted(&copy).0)), [4, 3, 2, 1]);
}

#[test]
fn without_a_folder_incidents_are_kept_in_memory_and_clients_learn_why() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    for folder in [Err("there is none".to_owned()), Ok(file.join("site"))] {
        let incidents = Incidents::default();
        incidents.open_store(folder.as_deref().map_err(Clone::clone));
        add(&incidents, 1, Phase::Ended, None);
        incidents.flush();
        let list = all(&incidents);
        assert_eq!((numbers(&list), &list["kept"]["in"]), (vec![1], &json!("none")));
        assert!(list["kept"]["why"].is_string(), "{list}");
    }
}

#[test]
fn the_clip_of_a_pinned_incident_is_marked_on_the_disk() {
    let place = tempfile::tempdir().unwrap();
    let incidents = Incidents::default();
    let path = Setting::Text(place.path().display().to_string());
    incidents.set_clips(vec![Settings([("path".to_owned(), path)].into())]);
    add(&incidents, 1, Phase::Ended, None);
    incidents.mark(&id(1), None, Some(true)).unwrap();
    let folder = place.path().join("north");
    fs::create_dir(&folder).unwrap();
    let clip = folder.join("19700101T000001.000Z-gate-1.mp4");
    fs::write(&clip, "MP4").unwrap();
    assert_eq!(all(&incidents)["incidents"][0]["has_clip"], true);
    assert!(incidents.clip(&id(1)).unwrap().is_some());
    // As the thread of the store does it now and then.
    incidents.0.pin_clips();
    let mark = folder.join("19700101T000001.000Z-gate-1.mp4.pinned");
    assert!(mark.exists());
    incidents.mark(&id(1), None, Some(false)).unwrap();
    assert!(!mark.exists() && clip.exists());
    incidents.0.pin_clips();
    assert!(!mark.exists());
}
