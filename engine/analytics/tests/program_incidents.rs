//! Incidents of transforms that programs of users compute.

use weir_analytics::{FrameTime, ProgramIncidents};
use weir_flow::{
    Attribute, DeliveredObject, Delivery, Frame, Image, Object, Phase, Points, ProgramIncident, Rect,
};

fn delivery() -> Delivery {
    let object = Object {
        class: "car".into(),
        score: 0.5,
        rect: Rect::new(1.0, 2.0, 3.0, 4.0),
        parent: None,
        points: Points::None,
        candidate: false,
    };
    Delivery {
        objects: vec![DeliveredObject {
            id: 0,
            object,
            parent: None,
            attributes: Vec::new(),
            track: None,
        }],
        ..Delivery::new("door", Frame::new(0, 0.0, Image::from_rgb(2, 2, vec![0; 12])))
    }
}

fn at(time_ms: u64) -> FrameTime {
    FrameTime {
        pts_ms: time_ms as f64,
        time_ms,
    }
}

fn reported(phase: Phase, key: &str) -> ProgramIncident {
    ProgramIncident {
        key: key.into(),
        phase,
        object: Some(0),
        attributes: vec![("side".into(), Attribute::Number { value: 1.0 })],
    }
}

fn incidents() -> ProgramIncidents {
    ProgramIncidents::new("door".into(), "queue".into(), 1)
}

#[test]
fn named_incident_begins_is_updated_and_ends_under_one_id() {
    let (mut incidents, delivery) = (incidents(), delivery());
    let mut report = |phase, time| {
        let mut found = incidents.on_answer(vec![reported(phase, "a")], &delivery, at(time));
        assert_eq!(found.len(), 1);
        found.remove(0)
    };
    let began = report(Phase::Began, 10);
    assert_eq!(
        (began.phase, began.kind, &*began.transform),
        (Phase::Began, "python", "queue")
    );
    assert_eq!(began.class.as_deref(), Some("car"));
    assert_eq!(began.id, format!("door/queue/{}", 1 << 20).into());
    let again = report(Phase::Began, 20);
    assert_eq!((again.phase, &again.id), (Phase::Updated, &began.id));
    let ended = report(Phase::Ended, 30);
    assert_eq!((ended.phase, &ended.id), (Phase::Ended, &began.id));
    assert_eq!((ended.began_ms, ended.time_ms), (10, 30));
    assert_eq!(ended.attributes.len(), 1);
    let moment = report(Phase::Ended, 40);
    assert_ne!(moment.id, began.id);
    assert_eq!((moment.began_ms, moment.time_ms), (40, 40));
}

#[test]
fn open_incidents_end_with_their_process_and_their_stream() {
    let (mut incidents, delivery) = (incidents(), delivery());
    incidents.on_answer(vec![reported(Phase::Began, "a")], &delivery, at(10));
    assert!(incidents.on_generation(0, at(20)).is_empty());
    let ended = incidents.on_generation(1, at(20));
    assert_eq!(
        (ended.len(), ended[0].phase, ended[0].time_ms),
        (1, Phase::Ended, 20)
    );
    incidents.on_answer(vec![reported(Phase::Began, "b")], &delivery, at(30));
    let closed = incidents.close();
    assert_eq!((closed.len(), closed[0].time_ms), (1, 30));
    assert!(incidents.close().is_empty());
}

#[test]
fn incidents_beyond_the_bound_have_no_duration() {
    let (mut incidents, delivery) = (incidents(), delivery());
    let many = (0..1_001).map(|number| reported(Phase::Began, &number.to_string()));
    let found = incidents.on_answer(many.collect(), &delivery, at(10));
    assert_eq!(found[999].phase, Phase::Began);
    assert_eq!(found[1_000].phase, Phase::Ended);
    assert_eq!(incidents.close().len(), 1_000);
}
