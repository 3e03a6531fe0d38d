//! Cameras that cannot be read: each says in one sentence why, stays one stream among others, and no secret of its address
//! is shown anywhere.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{refuses, report, signal};

/// Secrets that no output may contain: a password, a token, and user with password as HTTP and RTSP encode
/// them.
const SECRETS: [&str; 3] = ["S3CR3T", "T0K3N", "YWRtaW46UzNDUjNU"];

/// A server on loopback that answers each connection; ends with the program.
fn serve(answer: impl Fn(std::net::TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    port
}

/// An RTSP camera that takes no password.
fn refusing_camera() -> u16 {
    serve(|mut stream| {
        let requests = BufReader::new(stream.try_clone().unwrap());
        let mut number = String::new();
        for line in requests.lines().map_while(Result::ok) {
            if let Some(given) = line.strip_prefix("CSeq:") {
                number = given.trim().to_owned();
            }
            if line.is_empty() {
                let answer = format!(
                    "RTSP/1.0 401 Unauthorized\r\nCSeq: {number}\r\nWWW-Authenticate: Basic realm=\"camera\"\r\n\r\n"
                );
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
    })
}

/// A camera that sends a second of sound (WAV, 8000 samples of a byte) and hangs up.
fn sound_only_camera() -> u16 {
    let mut wave =
        b"RIFF\x64\x1f\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\x40\x1f\0\0"
            .to_vec();
    wave.resize(wave.len() + 8_000, 128);
    serve(move |mut stream| {
        // A reader that hangs up has seen enough.
        let _ = stream.write_all(&wave);
    })
}

fn write_graph(folder: &Path, sources: &[(&str, String)]) {
    let mut text = "[app]\nname = \"cameras\"\nslo = \"1s\"\n".to_owned();
    for (name, uri) in sources {
        text += &format!("[sources.{name}]\nuri = \"{uri}\"\n");
    }
    let names: Vec<&str> = sources.iter().map(|(name, _)| *name).collect();
    text += &format!(
        "[models.any]\ndevice = \"emulated:a\"\nprofile = {{ \"1\" = \"1ms\" }}\n[modules.look]\noperator = \"emulate\"\n\
         model = \"any\"\ninputs = {names:?}\n[sinks.events]\ntype = \"jsonl\"\npath = \"events.jsonl\"\ndrops = true\n\
         inputs = [\"look\"]\n"
    );
    std::fs::write(folder.join("graph.toml"), text).unwrap();
}

#[test]
fn cameras_that_cannot_be_read_say_why_and_show_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A name that no network has to be asked about: its only part is too long.
    let unknown = "a".repeat(70);
    let with_user = "${CAMERA_USER}:${CAMERA_PASSWORD}@";
    let (refusing, sound) = (refusing_camera(), sound_only_camera());
    let sources = [
        (
            "refusing",
            format!("rtsp://{with_user}127.0.0.1:{refusing}/live?token=T0K3N"),
        ),
        ("unknown", format!("rtsp://{with_user}{unknown}/live?token=T0K3N")),
        ("sound", format!("tcp://127.0.0.1:{sound}?token=T0K3N")),
    ];
    write_graph(folder, &sources);
    let mut run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "graph.toml", "--report", "report.json"])
        .current_dir(folder)
        .env("CAMERA_USER", "admin")
        .env("CAMERA_PASSWORD", "S3CR3T")
        .env("RUST_LOG", "debug,ffmpeg=trace")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    // Once each of them was tried.
    while !said.contains("no source delivers") {
        assert!(log.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    signal(&run, "-INT");
    log.read_to_string(&mut said).unwrap();
    let mut output = run.wait_with_output().unwrap();
    output.stderr = said.into_bytes();

    let said = refuses(&output, &["stream refusing", "stream unknown", "stream sound"]);
    let report = report(&folder.join("report.json"));
    let events = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    for text in [&said, &report.to_string(), &events] {
        for secret in SECRETS {
            assert!(!text.contains(secret), "\"{secret}\" is in\n{text}");
        }
    }
    // What FFmpeg calls an error of input and output, it explains in its log, where that can be had.
    let unresolved = if cfg!(target_arch = "x86_64") {
        "resolve"
    } else {
        "check the address"
    };
    for (stream, reason) in [
        ("refusing", "401 Unauthorized"),
        ("unknown", unresolved),
        ("sound", "it sends sound but no pictures"),
    ] {
        let health = &report["streams"][stream]["health"];
        let down_because = health["down_because"].as_str().unwrap();
        assert!(down_because.contains(reason), "{stream}: {down_because}");
        let states = health["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| &change["state"]);
        assert_eq!(
            states.take(2).collect::<Vec<_>>(),
            ["connecting", "waiting"],
            "{health}"
        );
        assert_eq!(
            (&health["state"], &health["outages"]),
            (&"never-reached".into(), &1.into())
        );
        assert!(
            events.contains(&format!("\"type\":\"state\",\"stream\":\"{stream}\"")),
            "{events}"
        );
    }
}

#[test]
fn a_device_that_is_not_there_is_a_mistake_in_the_graph() {
    let folder = tempfile::tempdir().unwrap();
    write_graph(folder.path(), &[("camera", "/dev/video9999".to_owned())]);
    for command in ["check", "run"] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args([command, "graph.toml"])
            .current_dir(folder.path())
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        refuses(
            &output,
            &["graph.toml:5", "there is no file or folder \"/dev/video9999\""],
        );
    }
}
