//! Lists of incidents by filters, and marks of one.

use crate::common::{ask, error, start};

#[test]
fn filters_of_a_list_reach_the_backend() {
    let (server, memory) = start(None);
    let at = server.address();
    let (status, all) = ask(at, "GET", "/api/incidents", "", "");
    assert_eq!((status, all.contains("north")), (200, true), "{all}");
    let query = "stream=north&class=car&zone=a%20yard&rule=gate&type=line&from=2026-11-30T06:00:00%2B01:00&to=1795469405123\
                 &text=%C3%A4&seen=false&pinned=true&limit=20&before=7&bins=24";
    assert_eq!(ask(at, "GET", &format!("/api/incidents?{query}"), "", "").0, 200);
    let asked = memory.asked.lock().unwrap().join("\n");
    for value in [
        "\"north\"",
        "\"car\"",
        "\"a yard\"",
        "\"gate\"",
        "\"line\"",
        "\"2026-11-30T06:00:00+01:00\"",
        "\"1795469405123\"",
        "\"ä\"",
        "\"false\"",
        "\"true\"",
        "\"20\"",
        "\"7\"",
        "\"24\"",
        "cameras: None",
    ] {
        assert!(asked.contains(value), "{value}: {asked}");
    }
    for wrong in ["camera=north", "stream=north&stream=south", "cameras=north"] {
        let (status, answer) = ask(at, "GET", &format!("/api/incidents?{wrong}"), "", "");
        assert_eq!(status, 400, "{wrong}: {answer}");
        assert!(error(&answer).1.is_some(), "{answer}");
    }
}

#[test]
fn an_incident_is_read_and_marked() {
    let (server, memory) = start(None);
    let at = server.address();
    assert_eq!(ask(at, "GET", "/api/incidents/north", "", "").0, 200);
    for body in ["{\"seen\": true}", "{\"pinned\": false, \"seen\": true}"] {
        assert_eq!(ask(at, "PATCH", "/api/incidents/north", "", body).0, 200);
    }
    let asked = [
        "incident north",
        "mark {\"seen\":true} north",
        "mark {\"seen\":true,\"pinned\":false} north",
    ];
    assert_eq!(*memory.asked.lock().unwrap(), asked);
    for body in [
        "",
        "{}",
        "{",
        "{\"seen\": 1}",
        "{\"seen\": true, \"deleted\": true}",
    ] {
        let (status, answer) = ask(at, "PATCH", "/api/incidents/north", "", body);
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(error(&answer).1.unwrap().contains("seen"), "{answer}");
    }
    assert_eq!(ask(at, "GET", "/api/incidents/south", "", "").0, 404);
    assert_eq!(
        ask(at, "PATCH", "/api/incidents/south", "", "{\"seen\": true}").0,
        404
    );
}
