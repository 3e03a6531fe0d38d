//! Tokens with roles, the log of changes, base paths, and readiness while a camera is dark.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::common::service::{GRAPH, Service, folder, weir};
use crate::common::{becomes, refuses};

const VIEWER: &str = "viewer-0123456789";
const GUARD: &str = "guard-0123456789";

/// Writes a file that its owner alone can read; returns its path.
pub(crate) fn private(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

fn tokens(folder: &Path) -> String {
    let text = format!(
        "[tokens.viewer]\nrole = \"view\"\ntoken = \"{VIEWER}\"\n\n[tokens.guard]\nrole = \"operate\"\ntoken = \"{GUARD}\"\n"
    );
    private(folder, "tokens.toml", &text)
}

/// A request with a token.
fn ask(service: &Service, method: &str, path: &str, token: &str) -> (u16, String) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n",
        service.at
    );
    service.send(request.as_bytes(), false)
}

#[test]
fn changes_are_logged_with_their_clients_and_without_tokens() {
    for is_json in [false, true] {
        let folder = folder();
        let tokens = tokens(folder.path());
        let mut args = vec!["--tokens-file", &*tokens];
        if is_json {
            args.extend(["--log-format", "json"]);
        }
        let mut service = Service::start_in(folder, "127.0.0.1:0", &args);
        assert!(becomes(|| ask(&service, "GET", "/api/state", VIEWER).0 == 200));
        assert_eq!(ask(&service, "POST", "/api/streams/steady/pause", VIEWER).0, 403);
        assert_eq!(ask(&service, "POST", "/api/streams/steady/pause", GUARD).0, 200);
        assert_eq!(ask(&service, "POST", "/api/streams/none/pause", GUARD).0, 404);
        assert_eq!(ask(&service, "GET", "/api/state", "wrong-0123456789").0, 401);
        service.drain();
        let log = std::fs::read_to_string(service.folder.path().join("weir.err")).unwrap();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("audit")).collect();
        assert_eq!(lines.len(), 4, "{log}");
        assert!(!log.contains("0123456789"), "{log}");
        if is_json {
            let line: Value = serde_json::from_str(lines[1]).unwrap();
            assert_eq!(
                (&line["who"], &line["outcome"], &line["status"], &line["target"]),
                (&"guard".into(), &"done".into(), &200.into(), &"audit".into()),
                "{line}"
            );
        } else {
            assert!(
                lines[0].contains("who=\"viewer\"") && lines[0].contains("denied"),
                "{log}"
            );
            assert!(
                lines[1].contains("/api/streams/steady/pause") && lines[1].contains("done"),
                "{log}"
            );
            assert!(
                lines[2].contains("refused") && lines[2].contains("name=\"none\""),
                "{log}"
            );
            assert!(
                lines[3].contains("status=401") && lines[3].contains("requests=1"),
                "{log}"
            );
        }
    }
}

#[test]
fn options_of_access_that_cannot_be_used_are_refused() {
    let folder = folder();
    let serve = |args: &[&str]| {
        let mut weir = weir(folder.path());
        weir.args([
            "serve",
            "graph.toml",
            "--listen",
            "127.0.0.1:0",
            "--duration",
            "1s",
        ])
        .args(args)
        .output()
        .unwrap()
    };
    private(folder.path(), "tokens.toml", "[tokens.anna]\nrole = \"boss\"\n");
    refuses(
        &serve(&["--tokens-file", "tokens.toml"]),
        &["tokens.toml", "role = "],
    );
    refuses(
        &serve(&["--tls-cert", "none.pem", "--tls-key", "none.pem"]),
        &["none.pem", "TLS"],
    );
    refuses(&serve(&["--tls-cert", "none.pem"]), &["--tls-key"]);
    refuses(&serve(&["--base-path", "weir"]), &["/weir"]);
    refuses(&serve(&["--trusted-proxy", "proxy"]), &["10.0.0.0/24"]);
    refuses(&serve(&["--proxy-user-header", "X-User"]), &["--trusted-proxy"]);
    let proxy = ["--trusted-proxy", "127.0.0.1", "--proxy-user-header", "X-User"];
    refuses(
        &serve(&[&proxy[..], &["--proxy-role", "guards=boss"]].concat()),
        &["view, operate or edit"],
    );
}

#[test]
fn dark_camera_is_degraded_and_engine_stays_ready() {
    let folder = folder();
    let text = GRAPH.replace("emulated:uniform?rate=50", "rtsp://127.0.0.1:1/dark");
    std::fs::write(folder.path().join("graph.toml"), text).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let is_dark = || {
        let (status, body) = service.ask("GET", "/readyz", "");
        status == 200 && body.contains("\"degraded\"") && body.contains("stream steady")
    };
    assert!(becomes(is_dark), "{}", service.ask("GET", "/readyz", "").1);
    let metrics = || service.ask("GET", "/metrics", "").1;
    let is_counted = || metrics().contains("weir_streams{state=\"live\"} 0\n");
    assert!(becomes(is_counted), "{}", metrics());
    assert!(metrics().contains("weir_build_info{version="), "{}", metrics());
}
