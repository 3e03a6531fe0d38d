//! Cameras that speak ONVIF, what goes by their events, and the ground in their pictures.

use weir_analytics::transforms::TransformKind;
use weir_flow::{CameraService, CameraTopic, Catalog, KeyKind, KeySpec, SinkSpec};
use weir_graph::{GateNode, SourceNode, parse};
use weir_types::Span;

use crate::common::{VALID, catalog, check, folder, graph};

const SOUTH: &str = "uri = \"rtsp://user:secret@camera/stream?x=1\"\n";
const ONVIF: &str = "onvif = \"http://camera/onvif/device_service\"\n";

/// The valid graph with further keys of its camera.
fn with(keys: &str) -> String {
    VALID.replace(SOUTH, &format!("{SOUTH}{keys}\n"))
}

fn camera(keys: &str) -> SourceNode {
    graph(&with(keys)).sources()[1].clone()
}

#[test]
fn a_camera_has_its_service_and_a_gate_that_goes_by_it() {
    let service = |keys: &str| camera(keys).connection.onvif;
    assert_eq!(service(""), None);
    let all = CameraService {
        address: "http://camera/onvif/device_service".to_owned(),
        channel: None,
    };
    assert_eq!(service(ONVIF), Some(all.clone()));
    let channel = Some("VideoSource_2".to_owned());
    assert_eq!(
        service(&format!("{ONVIF}onvif_source = \"VideoSource_2\"")),
        Some(CameraService { channel, ..all })
    );
    let hold = |keys: &str| match camera(&format!("{ONVIF}{keys}")).gate {
        Some(GateNode::Camera { hold }) => hold,
        other => panic!("{other:?}"),
    };
    assert_eq!(hold("gate = \"camera\""), Span::from_secs(5));
    assert_eq!(
        hold("gate = \"camera\"\ngate_hold = \"30s\""),
        Span::from_secs(30)
    );
    let contacted = camera(ONVIF);
    let contacted: Vec<&str> = contacted.contacted().collect();
    assert_eq!(contacted[1..], ["http://camera/onvif/device_service"]);
}

#[test]
fn services_that_cannot_be_asked_are_reported_without_their_secrets() {
    for (keys, expected) in [
        (
            "onvif = \"camera\"",
            "15: `onvif`: camera is not an http:// address | onvif = \"http://CAMERA",
        ),
        (
            "onvif = \"https://camera/onvif\"",
            "15: is not an http:// address",
        ),
        (
            "onvif = \"http://u:geheim@camera/onvif\"",
            "15: `onvif`: http://***@camera/onvif contains a user",
        ),
        ("onvif = \"http://\"", "15: `onvif`: http://"),
        (
            "onvif = \"http://camera/my service\"",
            "15: has a path that cannot be requested | a path begins with /",
        ),
        (
            "onvif = \"http://camera/onvif#1\"",
            "15: has a path that cannot be requested",
        ),
        (
            "onvif = \"http://camera?onvif\"",
            "15: has a path that cannot be requested",
        ),
        (
            "onvif_source = \"one\"",
            "15: `onvif_source` has a meaning only with `onvif`",
        ),
        ("gate = \"camera\"", "15: it has no `onvif`"),
        (
            "gate = \"motion\"\ngate_hold = \"5s\"",
            "16: `gate_hold` has a meaning only with gate = \"camera\"",
        ),
        (
            "gate_hold = \"5s\"",
            "15: `gate_hold` has a meaning only with gate = \"camera\"",
        ),
    ] {
        check(&with(keys), &[expected]);
    }
    check(
        &with(&format!("{ONVIF}gate = \"camera\"\ngate_hold = \"11m\"")),
        &["17: `gate_hold` must lie between"],
    );
    let ignore = "gate_ignore = [[[0, 0], [0.3, 0], [0.3, 0.1]]]";
    check(
        &with(&format!("{ONVIF}gate = \"camera\"\n{ignore}")),
        &["17: `gate_ignore` has a meaning only with gate = \"motion\""],
    );
    let file = VALID.replace("mode = \"live\"", ONVIF.trim_end());
    check(
        &file,
        &["11: `onvif` is for cameras at rtsp:// or http:// addresses"],
    );
}

#[test]
fn a_gate_by_the_camera_of_the_defaults_is_for_cameras_that_have_events() {
    let defaults = "[defaults]\ngate = \"camera\"\n";
    let graph = graph(&(with(ONVIF) + defaults));
    let gated: Vec<bool> = graph
        .sources()
        .iter()
        .map(|source| source.gate.is_some())
        .collect();
    assert_eq!(gated, [false, true]);
}

#[test]
fn events_of_a_camera_are_words_or_topics() {
    let text = with(ONVIF).replace("\"plates\"]\n", "\"plates\", \"bell\"]\n");
    let bell = |keys: &str| {
        format!("{text}\n[transforms.bell]\ntype = \"camera-event\"\ninputs = [\"detect\"]\n{keys}\n")
    };
    let graph = graph(&bell(
        "events = [\"input\", \"tns1:A/tns1:B\"]\nfrom = \"Rule=Yard\"",
    ));
    let TransformKind::CameraEvent(spec) = &graph.transforms()[0].spec.kind else {
        panic!("{:?}", graph.transforms());
    };
    assert_eq!(spec.topics, [CameraTopic::Input, CameraTopic::Path("A/B".into())]);
    assert_eq!(spec.from.as_deref(), Some("Rule=Yard"));
    let line = text.lines().count() + 2;
    check(&bell(""), &[&format!("{line}: it has no `events`")]);
    let line = line + 3;
    check(
        &bell("events = [\"moves\"]"),
        &[&format!("{line}: \"moves\" is no event of a camera")],
    );
}

#[test]
fn a_sink_that_moves_a_camera_names_one_that_can_be_asked() {
    const CAMERA: &[KeySpec] = &[KeySpec {
        name: "camera",
        kind: KeyKind::Text,
        about: "the camera",
    }];
    let mut sinks = catalog().sinks;
    sinks.push(SinkSpec {
        name: "ptz",
        about: "",
        keys: CAMERA,
        check: Default::default(),
    });
    let catalog = Catalog { sinks, ..catalog() };
    let read = |camera: &str| {
        let text = with(ONVIF)
            + "\n[sinks.move]\ntype = \"ptz\"\ninputs = [\"detect\"]\ncamera = \""
            + camera
            + "\"\n";
        let folder = folder();
        parse(&text, &folder.path().join("graph.toml"), &catalog, &|_| None)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(read("south"), Ok(()));
    let error = read("north").unwrap_err();
    assert!(
        error.contains("camera \"north\", which has no `onvif`"),
        "{error}"
    );
    let error = read("sooth").unwrap_err();
    assert!(
        error.contains("no camera \"sooth\"") && error.contains("south"),
        "{error}"
    );
}

#[test]
fn the_ground_has_four_points_and_their_places() {
    let points = "points = [[0.4, 0.5], [0.6, 0.5], [0.8, 0.9], [0.2, 0.9]]";
    let ground = |rest: &str| format!("ground = {{ {points}, {rest} }}\n");
    let metres = "metres = [[0, 10], [4, 10], [4, 0], [0, 0]]";
    let heights = "objects = { car = { min_height_m = 0.9, max_height_m = 2.5 } }";
    let node = camera(&(ground(metres) + heights));
    assert!(node.objects.ground.is_some() && node.objects.has_heights());
    for (keys, expected) in [
        (
            ground("metres = [[0, 1], [1, 1]]"),
            "15: `metres` of `ground` of source \"south\" must be four points",
        ),
        (format!("ground = {{ {points} }}"), "15: `metres`"),
        (
            ground("metres = [[0, 0], [1, 1], [2, 2], [3, 3]]"),
            "15: no camera sees `metres` as `points`",
        ),
        (
            ground(metres).replace("0.4, 0.5", "4, 0.5"),
            "15: `points` must be parts of the picture",
        ),
        (
            ground(metres) + "objects = { car = { min_height_m = 3, max_height_m = 2 } }",
            "16: no object has a size",
        ),
    ] {
        check(&with(&keys), &[expected]);
    }
    let warnings = graph(&with(heights));
    let mut warnings = warnings.warnings().iter().map(|warning| warning.message.clone());
    assert!(warnings.any(|warning| warning.contains("it has no `ground`")));
}
