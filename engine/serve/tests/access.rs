//! Tokens with roles, sessions, proxies, base paths and TLS, over loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_serve::{
    AccessOptions, ProxyOptions, Role, ServeError, ServeOptions, Server, TlsFiles, Token, TokensFile, routes,
};

use crate::common::{Memory, TOKEN, ask, becomes, error, options, start_with};

const VIEWER: &str = "viewer-0123456789";
const GUARD: &str = "guard-0123456789";
pub(crate) const LOBBY: &str = "lobby-0123456789";

/// A file of tokens, readable by its owner only.
fn tokens_file(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// The tokens of a viewer, a guard, and a viewer of the camera `south` only.
fn tokens() -> String {
    format!(
        "[tokens.viewer]\nrole = \"view\"\ntoken = \"{VIEWER}\"\n\n[tokens.guard]\nrole = \"operate\"\ntoken = \"{GUARD}\"\n\n\
         [tokens.lobby]\nrole = \"view\"\ncameras = [\"south\"]\ntoken = \"{LOBBY}\"\n"
    )
}

pub(crate) fn start_with_tokens(folder: &TempDir) -> (Server, Arc<Memory>) {
    let path = tokens_file(folder, &tokens());
    start_with(options(AccessOptions {
        token: Some(Token::parse(TOKEN, "a test").unwrap()),
        tokens: Some(TokensFile::open(&path).unwrap()),
        ..AccessOptions::default()
    }))
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Head and body of an answer.
fn exchange(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn role_decides_which_routes_a_token_may_use() {
    let folder = tempfile::tempdir().unwrap();
    let (server, memory) = start_with_tokens(&folder);
    let at = server.address();
    for route in routes().filter(|route| route.path != "/api/session") {
        let path = route.path.replace("{name}", "north").replace("{version}", "1");
        let (status, answer) = ask(at, route.method, &path, &bearer(VIEWER), "");
        assert_ne!(status, 401, "{path}");
        assert_eq!(
            status == 403,
            route.method != "GET",
            "{} {path}: {answer}",
            route.method
        );
        if status == 403 && !path.starts_with("/v2") {
            assert!(error(&answer).0.contains("viewer has the role view"), "{answer}");
        }
    }
    assert!(
        memory
            .asked
            .lock()
            .unwrap()
            .iter()
            .all(|asked| !asked.starts_with("pause"))
    );
    let as_guard = |method: &str, path: &str| ask(at, method, path, &bearer(GUARD), "{}").0;
    assert_eq!(as_guard("POST", "/api/streams/north/pause"), 200);
    assert_eq!(as_guard("PUT", "/api/policy"), 200);
    assert_eq!(as_guard("DELETE", "/api/streams/north"), 403);
    assert_eq!(as_guard("PUT", "/api/graph"), 403);
    assert_eq!(ask(at, "DELETE", "/api/streams/north", &bearer(TOKEN), "").0, 200);
}

#[test]
fn viewer_of_some_cameras_sees_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (server, memory) = start_with_tokens(&folder);
    let at = server.address();
    let lobby = |path: &str| ask(at, "GET", path, &bearer(LOBBY), "");
    assert_eq!(lobby("/api/streams"), (200, "[]".to_owned()));
    assert_eq!(
        lobby("/api/incidents"),
        (200, "{\"count\":0,\"incidents\":[]}".to_owned())
    );
    for path in [
        "/api/streams/north/drops",
        "/api/incidents/north/picture",
        "/api/incidents/north/clip",
        "/api/search/north%2F1/picture",
        "/metrics",
        "/readyz",
        "/api/graph",
        "/api/timeline",
        "/api/drops",
        "/v2/models/north",
    ] {
        let (status, answer) = lobby(path);
        assert_eq!(status, 403, "{path}: {answer}");
        assert!(answer.contains("lobby"), "{path}: {answer}");
    }
    assert_eq!(lobby("/api/incidents/south/picture").0, 404);
    // Its own camera, which this backend does not know.
    assert_eq!(lobby("/api/streams/south/drops").0, 404);
    assert!(memory.asked.lock().unwrap().is_empty());
    let session: Value = serde_json::from_str(&lobby("/api/session").1).unwrap();
    let expected = json!({ "name": "lobby", "role": "view", "by": "token", "cameras": ["south"] });
    assert_eq!(session, expected);
}

#[test]
fn tokens_are_read_again_when_their_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = start_with_tokens(&folder);
    let at = server.address();
    let status = |token: &str| ask(at, "GET", "/api/streams", &bearer(token), "").0;
    assert_eq!((status(VIEWER), status(GUARD)), (200, 200));
    tokens_file(
        &folder,
        &format!("[tokens.guard]\nrole = \"operate\"\ntoken = \"{GUARD}\"\n"),
    );
    assert!(becomes(|| status(VIEWER) == 401));
    // A file that is wrong changes nothing; the next one that is right does.
    tokens_file(&folder, "[tokens.guard\n");
    tokens_file(&folder, &tokens());
    assert!(becomes(|| status(VIEWER) == 200));
    assert_eq!(status(GUARD), 200);
}

#[test]
fn files_of_tokens_that_others_can_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = tokens_file(&folder, &tokens());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = TokensFile::open(&path).unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
    assert!(TokensFile::open(&folder.path().join("none.toml")).is_err());
}

#[test]
fn session_stands_for_its_token_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = start_with_tokens(&folder);
    let at = server.address();
    let (head, body) = exchange(at, "POST", "/api/session", &bearer(GUARD), "{\"keep\": true}");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.contains("\"guard\"") && !body.contains(GUARD), "{body}");
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(
        cookie.contains("HttpOnly; SameSite=Strict; Max-Age=2592000") && !cookie.contains("Secure"),
        "{cookie}"
    );
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert!(!cookie.contains(GUARD), "{cookie}");
    assert_eq!(ask(at, "GET", "/api/streams", &cookie, "").0, 200);
    assert_eq!(ask(at, "GET", "/api/session", &cookie, "").0, 200);
    let pause = |headers: &str| ask(at, "POST", "/api/streams/north/pause", headers, "").0;
    assert_eq!(pause(&cookie), 403);
    assert_eq!(pause(&format!("{cookie}Origin: http://evil.example\r\n")), 403);
    assert_eq!(pause(&format!("{cookie}Sec-Fetch-Site: cross-site\r\n")), 403);
    let own = format!("{cookie}Origin: http://{at}\r\n");
    assert_eq!(pause(&own), 200);
    assert_eq!(ask(at, "DELETE", "/api/streams/north", &own, "").0, 403);
    // A session is no token: it opens no other one.
    assert_eq!(ask(at, "POST", "/api/session", &own, "").0, 409);
    assert_eq!(ask(at, "DELETE", "/api/session", &own, "").0, 200);
    assert_eq!(ask(at, "GET", "/api/streams", &cookie, "").0, 401);
    assert_eq!(
        exchange(at, "POST", "/api/session", &bearer("wrong-0123456789"), "")
            .0
            .split(' ')
            .nth(1),
        Some("401")
    );
}

#[test]
fn sessions_end_with_their_token() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = start_with_tokens(&folder);
    let at = server.address();
    let (head, _) = exchange(at, "POST", "/api/session", &bearer(VIEWER), "");
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(!cookie.contains("Max-Age"), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(ask(at, "GET", "/api/streams", &cookie, "").0, 200);
    tokens_file(
        &folder,
        &format!("[tokens.guard]\nrole = \"view\"\ntoken = \"{GUARD}\"\n"),
    );
    assert!(becomes(|| ask(at, "GET", "/api/streams", &cookie, "").0 == 401));
}

fn behind_proxy(trusted: &str) -> ServeOptions {
    options(AccessOptions {
        proxy: ProxyOptions {
            trusted: vec![trusted.parse().unwrap()],
            user_header: Some("x-forwarded-user".to_owned()),
            groups_header: Some("x-forwarded-groups".to_owned()),
            group_roles: vec![("admins".to_owned(), Role::Edit)],
            default_role: Some(Role::View),
        },
        ..AccessOptions::default()
    })
}

#[test]
fn users_of_a_trusted_proxy_have_the_roles_of_their_groups() {
    let (server, _) = start_with(behind_proxy("127.0.0.0/8"));
    let at = server.address();
    let user = "Host: weir.example\r\nX-Forwarded-User: anna\r\n";
    let (status, body) = ask(at, "GET", "/api/session", user, "");
    assert_eq!(status, 200);
    assert!(
        body.contains("\"by\":\"proxy\"") && body.contains("anna"),
        "{body}"
    );
    let pause = |headers: &str| ask(at, "POST", "/api/streams/north/pause", headers, "").0;
    assert_eq!(pause(user), 403);
    let admin = format!("{user}X-Forwarded-Groups: staff,admins\r\n");
    assert_eq!(pause(&admin), 200);
    assert_eq!(pause(&format!("{admin}Origin: https://evil.example\r\n")), 403);
    assert_eq!(pause(&format!("{admin}Origin: https://weir.example\r\n")), 200);
    assert_eq!(ask(at, "GET", "/api/streams", "", "").0, 401);

    let (server, _) = start_with(behind_proxy("10.0.0.0/8"));
    assert_eq!(ask(server.address(), "GET", "/api/streams", user, "").0, 401);
}

#[test]
fn proxy_that_authenticates_is_enough_for_an_address_that_others_reach() {
    let open = ServeOptions {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..behind_proxy("10.0.0.1")
    };
    assert!(Server::start(open, Arc::<Memory>::default()).is_ok());
    let trusted_only = ServeOptions {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..options(AccessOptions {
            proxy: ProxyOptions {
                trusted: vec!["10.0.0.1".parse().unwrap()],
                ..ProxyOptions::default()
            },
            ..AccessOptions::default()
        })
    };
    let refused = Server::start(trusted_only, Arc::<Memory>::default()).err();
    assert!(matches!(refused, Some(ServeError::TokenMissing(_))));
}

#[test]
fn base_path_is_answered_with_and_without() {
    let (server, _) = start_with(ServeOptions {
        base_path: "/video/weir/".parse().unwrap(),
        ..options(AccessOptions::default())
    });
    let at = server.address();
    for path in [
        "/healthz",
        "/api/streams",
        "/api/streams/north/drops",
        "/",
        "/page/main.js",
    ] {
        for base in ["", "/video/weir"] {
            assert_eq!(
                ask(at, "GET", &format!("{base}{path}"), "", "").0,
                200,
                "{base}{path}"
            );
        }
    }
    let (head, _) = exchange(at, "GET", "/video/weir", "", "");
    assert!(
        head.starts_with("HTTP/1.1 308") && head.contains("location: /video/weir/"),
        "{head}"
    );
    assert_eq!(ask(at, "GET", "/video/api/streams", "", "").0, 404);
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

#[test]
fn tls_encrypts_and_marks_the_cookie_as_secure() {
    let (server, _) = start_with(ServeOptions {
        tls: Some(TlsFiles {
            certificate: data("localhost.pem"),
            key: data("localhost.key"),
        }),
        ..options(AccessOptions {
            token: Some(Token::parse(TOKEN, "a test").unwrap()),
            ..AccessOptions::default()
        })
    });
    let at = server.address();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("localhost.pem")).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = StreamOwned::new(client, socket);
    let head = "POST /api/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n";
    let request = format!("{head}{}\r\n", bearer(TOKEN));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The server may close without the last message of TLS.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("; Secure"),
        "{answer}"
    );
    // Without TLS there is no answer.
    assert_eq!(ask_plain(at), 0);
}

/// Status of an answer to a request without TLS; 0 if there is none.
fn ask_plain(at: SocketAddr) -> u16 {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    u16::from(answer.starts_with(b"HTTP/"))
}

#[test]
fn files_of_tls_that_cannot_be_used_are_named() {
    for (certificate, key) in [("none.pem", "localhost.key"), ("localhost.pem", "localhost.pem")] {
        let refused = Server::start(
            ServeOptions {
                tls: Some(TlsFiles {
                    certificate: data(certificate),
                    key: data(key),
                }),
                ..options(AccessOptions::default())
            },
            Arc::<Memory>::default(),
        );
        let error = refused.err().map(|error| error.to_string()).unwrap();
        assert!(error.contains(".pem for TLS"), "{error}");
    }
}
