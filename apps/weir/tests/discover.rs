//! `weir discover`: a camera is found with its streams, and devices that misbehave cost a bounded time, and no password.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod camera;

use std::process::Output;

use camera::{Camera, PASSWORD, USER, Wants};

use crate::common::place::{GRAPH, Place, refused};
use crate::common::{refuses, stderr, stdout};
use crate::soap_server::{Reply, Server};

/// Runs the command on one address, with the login that cameras of tests have.
fn discover(address: &str, options: &[&str]) -> Output {
    let place = Place::new();
    std::fs::write(place.at("password"), format!("{PASSWORD}\n")).unwrap();
    let mut arguments = vec!["discover", address, "--wait", "100ms"];
    arguments.extend(["--user", USER, "--password-file", "password"]);
    arguments.extend(options);
    place.weir(&arguments)
}

/// As [`discover`], without a login.
fn discover_without_login(address: &str, options: &[&str]) -> Output {
    let mut arguments = vec!["discover", address, "--wait", "100ms"];
    arguments.extend(options);
    Place::new().weir(&arguments)
}

/// All that the server received, as text.
fn received(server: &Server) -> String {
    let requests = server.requests().into_iter();
    requests.map(|request| request.head + &request.body).collect()
}

/// Checks that streams were found.
fn assert_found(found: &Output) {
    let is_found = found.status.success() && stdout(found).contains("rtsp://");
    assert!(is_found, "{}", stderr(found));
}

#[test]
fn a_camera_is_found_with_its_streams() {
    for wants in [Wants::Nothing, Wants::Token, Wants::Digest] {
        let server = Camera::new(wants).start();
        let found = discover(&server.address(), &[]);
        assert!(found.status.success(), "{}", stderr(&found));
        let expected = format!(
            "{}: Acme Cam & 3000, firmware 1.2.3, named \"Front Door\"\n \
             camera      profile  size       codec  fps  address\n \
             front-door  main     1920x1080  h264   25   rtsp://127.0.0.1:554/main?a=1&b=$2\n \
             front-door  second   640x360    h264   10   rtsp://127.0.0.1:554/second\n",
            server.address()
        );
        assert_eq!(stdout(&found), expected);
        assert_eq!(stderr(&found), "");
        let received = received(&server);
        assert!(!received.contains(PASSWORD), "{received}");
    }
}

#[test]
fn tables_of_a_camera_pass_check_in_a_graph() {
    let server = Camera::new(Wants::Token).start();
    let found = discover(&server.address(), &["--toml"]);
    assert!(found.status.success(), "{}", stderr(&found));
    let tables = stdout(&found);
    let read: toml::Table = toml::from_str(&tables).unwrap();
    let file = read["cameras"]["front-door"]["password_file"].as_str().unwrap();
    assert!(file.starts_with('/') && file.ends_with("/password"), "{file}");
    let tables = tables.replace(file, "password");
    assert!(!tables.contains(PASSWORD), "{tables}");
    let place = Place::new();
    let graph = GRAPH.replace("[sources.camera]\nuri = \"${CLIP:-not-there.mp4}\"\n", &tables);
    let graph = graph.replace("inputs = [\"camera\"]", "inputs = [\"front-door\"]");
    assert_ne!(graph, GRAPH);
    std::fs::write(place.at("found.toml"), graph).unwrap();
    std::fs::write(place.at("password"), PASSWORD).unwrap();
    let checked = place
        .command(&["check", "--quick", "found.toml"])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
    let camera = &read["cameras"]["front-door"];
    let service = format!("http://{}/onvif/device_service", server.address());
    assert_eq!(camera["onvif"].as_str(), Some(service.as_str()));
    let texts = ["uri", "detect_uri", "user"].map(|key| camera[key].as_str().unwrap());
    let expected = [
        "rtsp://127.0.0.1:554/main?a=1&b=$$2",
        "rtsp://127.0.0.1:554/second",
        USER,
    ];
    assert_eq!(texts, expected);
}

#[test]
fn json_has_all_that_is_known() {
    let server = Camera::new(Wants::Nothing).start();
    let found = discover_without_login(&server.address(), &["--json"]);
    assert!(found.status.success(), "{}", stderr(&found));
    let all: serde_json::Value = serde_json::from_str(&stdout(&found)).unwrap();
    let device = &all["devices"][0];
    assert_eq!(device["address"], server.address());
    assert_eq!(device["endpoint"], "urn:uuid:5f5a69c2-e0ae-504f-829b-00fcdb12");
    assert_eq!(
        (&device["serial"], &device["model"]),
        (&"S1".into(), &"Cam & 3000".into())
    );
    let stream = &device["cameras"][0]["streams"][1];
    let expected = serde_json::json!({
        "profile": "second", "codec": "h264", "width": 640, "height": 360, "fps": 10.0, "uri": "rtsp://127.0.0.1:554/second"
    });
    assert_eq!(stream, &expected);
    assert_eq!(device["warnings"], serde_json::json!([]));
}

#[test]
fn tokens_go_by_the_clock_of_the_camera() {
    let camera = Camera {
        ahead_s: 7_200,
        ..Camera::new(Wants::Token)
    };
    let found = discover(&camera.start().address(), &[]);
    assert_found(&found);
    assert!(stderr(&found).contains("its clock is 7"), "{}", stderr(&found));
    assert!(stderr(&found).contains(" s ahead"), "{}", stderr(&found));
}

#[test]
fn without_a_login_it_says_that_one_is_needed() {
    for wants in [Wants::Token, Wants::Digest] {
        let server = Camera::new(wants).start();
        let found = discover_without_login(&server.address(), &[]);
        assert!(found.status.success(), "{}", stderr(&found));
        assert!(
            stderr(&found).contains("it needs a login: --user and --password-file"),
            "{}",
            stderr(&found)
        );
        assert!(!received(&server).contains("UsernameToken"));
        refuses(
            &discover_without_login(&server.address(), &["--toml"]),
            &["no camera has an address"],
        );
    }
}

/// Cameras lock accounts after a few wrong passwords.
#[test]
fn a_refused_login_is_tried_once() {
    let server = Camera::new(Wants::Token).start();
    let place = Place::new();
    std::fs::write(place.at("password"), "wrong").unwrap();
    let address = server.address();
    let login = ["--user", USER, "--password-file", "password", "--wait", "100ms"];
    let found = place.weir(&[&["discover", address.as_str()][..], &login].concat());
    assert!(
        stderr(&found).contains("it refuses the login: Sender not authorized"),
        "{}",
        stderr(&found)
    );
    let tokens = server.requests().into_iter();
    assert_eq!(
        tokens
            .filter(|request| request.body.contains("UsernameToken"))
            .count(),
        1
    );
}

#[test]
fn challenges_without_end_are_given_up() {
    let offers = [
        ("Digest realm=\"r\", nonce=\"n\"", "it refuses the login"),
        (
            "Digest realm=\"r\", nonce=\"n\", stale=true",
            "it refuses the login",
        ),
        ("Basic realm=\"r\"", "plain text (Basic), which is not sent"),
        ("Negotiate", "by Negotiate, which is not known"),
    ];
    for (offer, reason) in offers {
        let server = Server::start(move |_, _| {
            Reply::with(
                "401 Unauthorized",
                &format!("WWW-Authenticate: {offer}\r\n"),
                "no",
            )
        });
        let found = discover(&server.address(), &[]);
        assert!(stderr(&found).contains(reason), "{offer}: {}", stderr(&found));
        assert!(server.requests().len() <= 6, "{}", server.requests().len());
        assert!(!received(&server).contains("Basic "), "{}", received(&server));
    }
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = Server::start(|_, _| Reply::with("200 OK", "", ""));
    let port = elsewhere.port;
    for status in [
        "301 Moved",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let location = format!("Location: http://ada:s3cret@localhost:{port}/onvif/device_service\r\n");
        let server = Server::start(move |_, _| Reply::with(status, &location, ""));
        let found = discover(&server.address(), &[]);
        refused_with(&found, "which is not followed");
        assert!(!stderr(&found).contains("s3cret"), "{}", stderr(&found));
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

/// Warnings, and one error that nothing answered.
fn refused_with(output: &Output, reason: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(reason) && !said.contains("panicked"),
        "{reason}: {said}"
    );
    assert!(said.contains("error: no address answered by ONVIF"), "{said}");
    assert_eq!(stdout(output), "");
}

#[test]
fn answers_beyond_the_bounds_are_refused() {
    let envelope = |body: &str| format!("<Envelope><Body>{body}</Body></Envelope>");
    let long = envelope(&format!("<a>{}</a>", "x".repeat(2 << 20)));
    let deep = envelope(&"<a>".repeat(100_000));
    let wide = envelope(&"<a/>".repeat(60_000));
    let bomb = format!(
        "<!DOCTYPE a [<!ENTITY b \"{}\">]>{}",
        "x".repeat(1_000),
        envelope("<a>&b;&b;</a>")
    );
    let entity = envelope("<a>&b;</a>");
    for (body, reason) in [
        (long, "longer than 1 MiB"),
        (deep, "within each other"),
        (wide, "more than 50000 elements"),
        (bomb, "a document type, which is not read"),
        (entity, "the entity b"),
        ("hello".to_owned(), "no XML"),
        ("<html></html>".to_owned(), "no SOAP envelope"),
    ] {
        let server = Server::start(move |_, _| Reply::with("200 OK", "", &body));
        refused_with(&discover(&server.address(), &[]), reason);
    }
    let endless = Server::start(|_, _| Reply::Endless);
    refused_with(&discover(&endless.address(), &[]), "longer than 1 MiB");
}

#[test]
fn a_device_that_never_answers_is_given_up() {
    let server = Server::start(|_, _| Reply::Silence);
    refused_with(&discover(&server.address(), &[]), "it gave no answer in time");
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    refused_with(&discover(&closed.to_string(), &[]), "refused");
}

#[test]
fn streams_of_other_hosts_are_shown_and_not_written() {
    for (rtsp, reason) in [
        (
            "rtsp://ada:s3cret@203.0.113.7:554",
            "its host is not the one that was asked",
        ),
        ("http://127.0.0.1:554", "it is not rtsp"),
        (
            "rtsp://127.0.0.1:554/user=ada_password=s3cret_",
            "its path contains a password",
        ),
    ] {
        let camera = Camera {
            rtsp: rtsp.to_owned(),
            ..Camera::new(Wants::Nothing)
        };
        let server = camera.start();
        let found = discover_without_login(&server.address(), &[]);
        assert!(found.status.success(), "{}", stderr(&found));
        assert!(stderr(&found).contains(reason), "{reason}: {}", stderr(&found));
        let all = stdout(&found) + &stderr(&found);
        assert!(
            !all.contains("s3cret") && !stdout(&found).contains("://"),
            "{all}"
        );
        let tables = discover_without_login(&server.address(), &["--toml"]);
        assert_eq!((stdout(&tables).as_str(), tables.status.code()), ("", Some(2)));
    }
}

/// Services are asked at the address that was named, whatever host the device names for them.
#[test]
fn requests_go_to_the_address_that_was_asked() {
    let elsewhere = Server::start(|_, _| Reply::with("200 OK", "", ""));
    let camera = Camera {
        services: format!("http://{}", elsewhere.address()),
        ..Camera::new(Wants::Token)
    };
    let found = discover(&camera.start().address(), &[]);
    assert_found(&found);
    assert_eq!(elsewhere.requests().len(), 0);
}

#[test]
fn names_with_control_characters_are_escaped() {
    let camera = Camera {
        model: "&#27;]0;title&#7;&#x202e;Cam\n[sinks.evil]".to_owned(),
        ..Camera::new(Wants::Nothing)
    };
    let server = camera.start();
    let all_options: [&[&str]; 3] = [&[], &["--json"], &["--toml"]];
    for options in all_options {
        let found = discover_without_login(&server.address(), options);
        let all = stdout(&found) + &stderr(&found);
        let is_hidden = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
        assert!(!all.contains(is_hidden), "{options:?}: {all:?}");
        assert!(!all.contains("\n[sinks.evil]"), "{all}");
    }
    let json = stdout(&discover_without_login(&server.address(), &["--json"]));
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
}

#[test]
fn a_device_without_onvif_gets_hints_by_brand() {
    let server = Server::start(|_, _| {
        Reply::Bytes(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nServer: Dahua Rtsp Server\r\n\r\n".to_vec())
    });
    let found = discover(&server.address(), &[]);
    let expected = format!(
        "{0}: speaks RTSP, and not ONVIF\n\
         usual addresses by brand, which were not tried:\n \
         brand           main stream                                                   second stream\n \
         Dahua, Amcrest  rtsp://{0}/cam/realmonitor?channel=1&subtype=0  rtsp://{0}/cam/realmonitor?channel=1&subtype=1\n",
        server.address()
    );
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        squeezed(&stdout(&found)),
        squeezed(&expected),
        "{}",
        stderr(&found)
    );
    assert_eq!(found.status.code(), Some(2));
}

#[test]
fn wrong_arguments_are_refused() {
    let place = Place::new();
    std::fs::write(place.at("empty"), "\n").unwrap();
    refused(
        &place.weir(&[
            "discover",
            "127.0.0.1",
            "--user",
            "ada",
            "--password-file",
            "none",
        ]),
        &["--password-file none", "there is no such file"],
    );
    refused(
        &place.weir(&[
            "discover",
            "127.0.0.1",
            "--user",
            "ada",
            "--password-file",
            "empty",
        ]),
        &["it is empty"],
    );
    refuses(
        &place.weir(&["discover", "--user", "ada"]),
        &["--password-file <FILE>"],
    );
    refuses(
        &place.weir(&["discover", "--password-file", "empty"]),
        &["--user <NAME>"],
    );
    for arguments in [
        &["discover", "ada:s3cret@127.0.0.1"][..],
        &["discover", "https://127.0.0.1"],
        &["discover", "127.0.0.1", "--interface", "127.0.0.1"],
        &["discover", "127.0.0.1", "--json", "--toml"],
    ] {
        assert_eq!(place.weir(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_search_on_an_address_of_no_interface_says_so() {
    let found = Place::new().weir(&["discover", "--interface", "203.0.113.1", "--wait", "100ms"]);
    refused(&found, &["cannot search for cameras: 203.0.113.1", "--interface"]);
}
