//! Times at which sources are analysed and gates apply.

use std::path::Path;

use weir_analytics::transforms::{Hours, Schedule, time_zone};
use weir_graph::SourceNode;

use crate::common::{VALID, catalog, check, graph};

const SOUTH: &str = "uri = \"rtsp://user:secret@camera/stream?x=1\"\n";

const EMULATED: &str = "[sources.a]\nuri = \"emulated:uniform?rate=5\"\nlike = \"north\"\n";

/// The valid graph with further keys of its camera, from line 15 on.
fn with(keys: &str) -> String {
    VALID.replace(SOUTH, &format!("{SOUTH}{keys}\n"))
}

fn camera(text: &str) -> SourceNode {
    graph(text).sources()[1].clone()
}

/// 20:00 to 06:00 in a time zone.
fn nights(zone: Option<&str>) -> Option<Schedule> {
    Some(Schedule {
        hours: Some(Hours {
            from: 20 * 60,
            until: 6 * 60,
        }),
        zone: zone.map(|zone| time_zone(zone).expect("a zone")),
        ..Schedule::default()
    })
}

#[test]
fn schedules_of_a_source_are_in_its_time_zone_else_in_that_of_the_graph() {
    let keys =
        "gate = \"motion\"\ngate_schedule = { days = [\"sat-sun\"] }\nactive = { hours = \"20:00-06:00\" }";
    let utc = camera(&with(keys));
    assert_eq!(utc.active, nights(None));
    let weekend = [false, false, false, false, false, true, true];
    let days = |source: &SourceNode| source.gate_schedule.as_ref().and_then(|schedule| schedule.days);
    assert_eq!(days(&utc), Some(weekend));
    let in_berlin = |text: &str| text.replace("[app]\n", "[app]\ntimezone = \"Europe/Berlin\"\n");
    let of_graph = camera(&in_berlin(&with(keys)));
    assert_eq!(of_graph.active, nights(Some("Europe/Berlin")));
    assert_eq!(
        of_graph.gate_schedule.and_then(|schedule| schedule.zone),
        time_zone("Europe/Berlin").ok()
    );
    let own = camera(&in_berlin(&with(&format!("{keys}\ntimezone = \"Asia/Tokyo\""))));
    assert_eq!(own.active, nights(Some("Asia/Tokyo")));
    assert_eq!(camera(VALID).active, None);
    // A stream that is added goes by the zone of the graph in force, unless it has one of its own.
    let site = graph(&in_berlin(VALID));
    let added = "[sources.yard]\nuri = \"rtsp://yard/1\"\nactive = { hours = \"20:00-06:00\" }\n";
    for (own, expected) in [("", None), ("timezone = \"Asia/Tokyo\"\n", Some("Asia/Tokyo"))] {
        let text = format!("{added}{own}");
        let added = site.parse_streams(&text, Path::new("graph.toml"), &catalog());
        assert_eq!(added.expect("a stream")[0].active, nights(expected));
    }
}

#[test]
fn sources_have_the_schedule_of_the_defaults_but_for_emulated_ones() {
    let defaults = "[defaults]\nactive = { hours = \"20:00-06:00\" }\n";
    let south = graph(&(with("active = { days = [\"mon\"] }") + defaults));
    let hours = south.sources().iter().map(|source| {
        let active = source.active.as_ref().expect("a schedule");
        (active.hours.is_some(), active.days.is_some())
    });
    assert_eq!(hours.collect::<Vec<_>>(), [(true, false), (false, true)]);
    let emulated = graph(&[VALID, EMULATED, defaults].concat());
    let emulated = emulated.sources().iter().find(|source| source.name == "a");
    assert_eq!(emulated.expect("a source").active, None);
}

#[test]
fn schedules_that_are_none_are_reported_at_their_keys() {
    for (keys, expected) in [
        (
            "active = { hours = \"22\" }",
            "15: `active` of source \"south\": `hours`: \"22\" is not a time of day",
        ),
        (
            "active = { days = [\"someday\"] }",
            "15: `days`: \"someday\" is no weekday",
        ),
        (
            "active = { except = [\"2026-02-30\"] }",
            "15: `except`: \"2026-02-30\" is no date",
        ),
        ("active = {}", "15: has no `hours`, `days` or `except`"),
        ("active = { hour = \"22:00-06:00\" }", "15: has no key \"hour\""),
        (
            "active = \"20:00-06:00\"",
            "15: `active` of source \"south\" must be a table",
        ),
        (
            "gate_schedule = { hours = \"20:00-06:00\" }",
            "15: `gate_schedule` has a meaning only with `gate`",
        ),
        (
            "gate = \"motion\"\ngate_schedule = { hours = \"25:00-06:00\" }",
            "16: `gate_schedule` of source \"south\": `hours`",
        ),
    ] {
        check(&with(keys), &[expected]);
    }
    let line = VALID.lines().count() + 4;
    let emulated = [VALID, EMULATED, "active = { hours = \"20:00-06:00\" }\n"].concat();
    let expected = format!("{line}: `active` is for streams with pictures");
    check(&emulated, &[&expected]);
}

#[test]
fn another_schedule_is_another_source() {
    let text = |active: &str| with(&format!("active = {{ hours = \"{active}\" }}"));
    let (before, after) = (camera(&text("20:00-06:00")), camera(&text("21:00-06:00")));
    assert_ne!(before, after);
}
