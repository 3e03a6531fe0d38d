//! Keys of sources: mode, sampling, and how their addresses are displayed.

use weir_flow::{Connection, Settings, Transport, Value};
use weir_graph::{Graph, SourceMode, SourceNode};

use crate::common::{VALID, check, check_with, read};

fn graph(text: &str) -> Graph {
    read(text).expect("a valid graph")
}

#[test]
fn images_are_lossless_by_default_and_other_sources_live() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(place("images.mp4")).expect("a folder");
    let lossless = [
        place("images.mp4"),
        place("a.JPG"),
        format!("file:{}", place("b.png")),
    ];
    for uri in &lossless {
        assert_eq!(SourceMode::default_for(uri), SourceMode::Lossless, "{uri}");
    }
    for uri in [
        &place("a.mp4"),
        "https://host/a.jpg",
        "rtsp://camera",
        "/dev/video0",
        "emulated:uniform?rate=1",
    ] {
        assert_eq!(SourceMode::default_for(uri), SourceMode::Live, "{uri}");
    }
}

#[test]
fn the_mode_defaults_to_that_of_the_address() {
    let mode = |text: &str| {
        let graph = graph(text);
        (graph.sources()[0].mode, graph.sources()[0].mode_given)
    };
    let images = VALID.replace("crossing.mp4", "faces");
    assert_eq!(mode(&images), (SourceMode::Live, true));
    assert_eq!(
        mode(&images.replace("mode = \"live\"\n", "")),
        (SourceMode::Lossless, false)
    );
    assert_eq!(
        mode(&VALID.replace("mode = \"live\"\n", "")),
        (SourceMode::Live, false)
    );
}

#[test]
fn a_sample_is_a_rate_with_a_unit() {
    let sample = |text: &str| graph(&VALID.replace("mode = \"live\"", text)).sources()[0].sample;
    assert_eq!(sample("sample = \"5fps\""), Some(5.0));
    assert_eq!(sample("sample = \" 0.5 fps\""), Some(0.5));
    assert_eq!(sample(""), None);
    let wrong = |text: &str, said: &str| check_with("mode = \"live\"", text, &[said]);
    wrong(
        "sample = 5",
        "11: `sample` must be a rate in quotes, not a whole number | write a number with its unit",
    );
    wrong(
        "sample = \"5\"",
        "11: `sample`: \"5\" is not a rate of frames | write a number with its unit",
    );
    wrong(
        "sample = \"fps\"",
        "11: `sample`: \"fps\" is not a rate of frames",
    );
    wrong(
        "sample = \"0fps\"",
        "11: `sample` must lie between 0.001fps and 1000fps, not \"0fps\"",
    );
    wrong("sample = \"-1fps\"", "11: `sample` must lie between");
    wrong("sample = \"NaNfps\"", "11: `sample` must lie between");
    wrong(
        "sampel = \"5fps\"",
        "11: source \"north\" has no key \"sampel\" | did you mean \"sample\"?",
    );
    check_with(
        "uri = \"crossing.mp4\"\nmode = \"live\"",
        "uri = \"emulated:uniform?rate=1\"\nsample = \"5fps\"",
        &["11: `sample` is for recorded and live streams"],
    );
}

#[test]
fn problems_and_drawings_show_no_credentials() {
    check_with(
        "rtsp://user:secret@camera/stream?x=1",
        "rtsp:/user:secret@camera/stream",
        &["14: `uri`: \"rtsp:/***@camera/stream\" is not an address | addresses have two slashes"],
    );
    check_with(
        "uri = \"rtsp://user:secret@camera/stream?x=1\"",
        "uri = rtsp://user:secret@camera/stream",
        &["14: texts and durations stand in quotes: \"rtsp://***@camera/stream\""],
    );
    check_with(
        "rtsp://user:secret@camera/stream?x=1",
        "rtsp://user:sec/ret@camera/stream?x=1",
        &[
            "14: `uri`: the password of rtsp://***@camera/stream?x=1 contains a `/`, which ends the password | write %2F for it",
        ],
    );
    for uri in [
        "rtsp://user:secret@camera/1",
        "rtsp://user:12/secret@camera/1",
        "rtsp://camera/user=a&password=secret",
    ] {
        let graph = graph(&VALID.replace("rtsp://user:secret@camera/stream?x=1", uri));
        let drawings = graph.to_mermaid() + &graph.to_dot();
        assert!(
            !drawings.contains("secret") && !drawings.contains("ret@"),
            "{drawings}"
        );
        assert_eq!(drawings.matches("rtsp://camera/").count(), 2, "{drawings}");
    }
}

#[test]
fn a_camera_has_its_transport_and_options_of_the_list() {
    let camera = VALID.replace("\"crossing.mp4\"", "\"rtsp://camera/1\"");
    let connection = |text: &str| {
        graph(&camera.replace("mode = \"live\"", text)).sources()[0]
            .connection
            .clone()
    };
    assert_eq!(connection(""), Connection::default());
    let keys = "transport = \"udp\"\noptions = { probesize = 5000, user_agent = \"weir\" }";
    let options = [
        ("probesize".to_owned(), Value::Number(5000.0)),
        ("user_agent".to_owned(), Value::Text("weir".to_owned())),
    ];
    let expected = Connection {
        transport: Transport::Udp,
        options: Settings(options.into()),
        ..Connection::default()
    };
    assert_eq!(connection(keys), expected);
    assert!(connection("sound = true").sound);

    let wrong = |text: &str, said: &str| check(&camera.replace("mode = \"live\"", text), &[said]);
    wrong(
        "password_file = \"crossing.mp4\"",
        "11: `password_file` has no effect without `user` | add the name of the user: user = \"admin\"",
    );
    wrong(
        "user = \"a:b\"",
        "11: `user` cannot be \"a:b\" | a name of a user has no colon; the password is in the file that `password_file` names",
    );
    let file = "user = \"admin\"\npassword_file = \"crossing.mp4\"";
    let login = connection(file).login.unwrap();
    assert_eq!(login.user, "admin");
    let file_name = login.password_file.unwrap();
    assert!(
        file_name.is_absolute() && file_name.ends_with("crossing.mp4"),
        "{file_name:?}"
    );
    let with_both = camera.replace("rtsp://camera", "rtsp://u:p@camera");
    check(
        &with_both.replace("mode = \"live\"", "user = \"admin\""),
        &["11: `user`: the address contains a user, too | take the user and the password out of the address"],
    );
    wrong(
        "transport = \"upd\"",
        "11: `transport` cannot be \"upd\" | did you mean \"udp\"?",
    );
    wrong(
        "options = 3",
        "11: `options` of source \"north\" must be a table, not a whole number",
    );
    wrong(
        "options = { probsize = 5000 }",
        "11: has no key \"probsize\" | did you mean \"probesize\"?",
    );
    wrong(
        "options = { protocol_whitelist = \"file\" }",
        "11: `options` of source \"north\" has no key \"protocol_whitelist\" | keys: probesize, user_agent",
    );
    wrong(
        "options = { probesize = 1 }",
        "11: `probesize` must lie between 32 and 1000000, not 1",
    );
    check_with(
        "mode = \"live\"",
        "transport = \"udp\"",
        &["11: `transport` is for cameras at rtsp:// addresses | leave it out"],
    );
    let emulated = VALID.replace("\"crossing.mp4\"", "\"emulated:uniform?rate=1\"");
    check(
        &emulated.replace("mode = \"live\"", "options = { probesize = 5000 }"),
        &["11: `options` are for streams that FFmpeg reads"],
    );
}

#[test]
fn frames_come_from_the_smaller_stream_of_a_camera() {
    let text = |main: &str, detect: &str| {
        let keys = format!("uri = \"{main}\"\ndetect_uri = \"{detect}\"\n");
        VALID.replace("uri = \"crossing.mp4\"\nmode = \"live\"\n", &keys)
    };
    let both = graph(&text(
        "rtsp://user:secret@camera/main",
        "rtsp://user:secret@camera/sub",
    ));
    let north = &both.sources()[0];
    assert_eq!(north.uri, "rtsp://user:secret@camera/main");
    assert_eq!(north.frames_uri(), "rtsp://user:secret@camera/sub");
    assert_eq!(both.sources()[1].frames_uri(), both.sources()[1].uri);
    for drawing in [both.to_mermaid(), both.to_dot()] {
        assert!(drawing.contains("camera/main") && drawing.contains("camera/sub"));
        assert!(!drawing.contains("secret"), "{drawing}");
    }
    // The mode is that of what is read.
    let images = graph(&text("rtsp://camera/main", "faces"));
    assert_eq!(images.sources()[0].mode, SourceMode::Lossless);
    let udp = text("crossing.mp4", "rtsp://camera/sub\"\ntransport = \"udp");
    assert_eq!(graph(&udp).sources()[0].connection.transport, Transport::Udp);

    for (main, detect, said) in [
        (
            "crossing.mp4",
            "sub.mp4",
            "11: `detect_uri`: there is no file or folder \"sub.mp4\"",
        ),
        (
            "main.mp4",
            "crossing.mp4",
            "10: `uri`: there is no file or folder \"main.mp4\"",
        ),
        (
            "crossing.mp4",
            "rtsp:/user:secret@camera/sub",
            "11: `detect_uri`: \"rtsp:/***@camera/sub\" is not an address | addresses have two slashes",
        ),
        (
            "crossing.mp4",
            "emulated:uniform?rate=1",
            "11: `detect_uri` is the smaller stream of a camera or a recording, not of an emulated stream",
        ),
        (
            "emulated:uniform?rate=1",
            "crossing.mp4",
            "11: `detect_uri` is the smaller stream of a camera or a recording, not of an emulated stream",
        ),
    ] {
        check(&text(main, detect), &[said]);
    }
}

#[test]
fn a_template_stands_for_streams_that_are_added() {
    let text = VALID.replace("uri = \"crossing.mp4\"\nmode = \"live\"", "template = true");
    let one = graph(&text);
    assert_eq!(
        (one.sources().len(), one.templates()),
        (1, &["north".to_owned()][..])
    );
    assert_eq!(
        (one.source_index("south"), one.source_index("north")),
        (Some(0), Some(1))
    );
    assert!(one.to_mermaid().contains("north") && one.to_dot().contains("streams that are added"));
    // Videos take the place of templates as well.
    let video = |name: &str| SourceNode::new(name, "a.mp4");
    let both = one.clone().with_streams(vec![video("a"), video("b")]);
    assert!(both.templates().is_empty());
    assert_eq!(both.modules()[0].inputs.len(), 2);
    let only = text.replace(
        "[sources.south]\nuri = \"rtsp://user:secret@camera/stream?x=1\"\nfps = 12.5\n",
        "",
    );
    let only = graph(&only.replace("\"north\", \"south\"", "\"north\""));
    assert!(only.sources().is_empty());
    let others = one.changes_to(&graph(&text.replace("north", "east"))).others;
    assert!(others.contains(&"templates".to_owned()), "{others:?}");
    assert!(one.changes_to(&one).is_empty());

    let wrong = VALID.replace("mode = \"live\"", "template = true");
    check(&wrong, &["10: `uri` has no meaning for a template"]);
}

#[test]
fn names_that_addresses_lose_are_refused() {
    for name in [".", "..", "...."] {
        let text = format!("[sources.\"{name}\"]\nuri = \"rtsp://camera/1\"\n");
        let error = weir_graph::parse_streams(&text, std::path::Path::new("graph.toml")).unwrap_err();
        assert!(error.to_string().contains("cannot be a name"), "{error}");
    }
    let text = "[sources.\"..a\"]\nuri = \"RTSP://Camera/A\"\ntransport = \"udp\"\n";
    let nodes = weir_graph::parse_streams(text, std::path::Path::new("graph.toml")).unwrap();
    assert_eq!(nodes[0].uri, "rtsp://Camera/A");
}
