//! Two ends with a transport behind each.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "a test that waits gives up at last")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use weir_tunnel::{Address, CertificateFiles, Gate, Opening, Tunnel, TunnelError, TunnelSettings};

/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);
const FOREVER: Duration = Duration::from_secs(3_600);

/// Files of certificates of one authority.
struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pair = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&pair).unwrap();
        fs::write(folder.path().join("authority.pem"), certificate.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, pair),
        }
    }

    /// Files of a node whose certificate is for a host and valid for so long.
    fn files(&self, name: &str, host: &str, valid: Duration) -> CertificateFiles {
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = (SystemTime::now() + valid).into();
        let certificate = params.signed_by(&pair, &self.issuer).unwrap();
        let path = |ending: &str| self.folder.path().join(format!("{name}.{ending}"));
        fs::write(path("pem"), certificate.pem()).unwrap();
        fs::write(path("key"), pair.serialize_pem()).unwrap();
        CertificateFiles {
            authority: self.folder.path().join("authority.pem"),
            certificate: path("pem"),
            key: path("key"),
        }
    }
}

/// Admits each name by a message that is that name.
#[derive(Default)]
struct ByName(AtomicUsize);

impl Gate for ByName {
    fn admit(&self, name: &str, _: Opening, message: &[u8]) -> Result<(), String> {
        let is_name = message == name.as_bytes();
        is_name
            .then_some(())
            .ok_or_else(|| format!("{name} is not {message:?}"))
    }

    fn on_refused(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn address(port: u16) -> Address {
    Address {
        host: "127.0.0.1".to_owned(),
        port,
    }
}

/// An end that listens, with its transport.
struct Server {
    tunnel: Tunnel,
    transport: UnixListener,
    gate: Arc<ByName>,
    port: u16,
}

fn server(files: CertificateFiles) -> Server {
    let (port, gate) = (free_port(), Arc::new(ByName::default()));
    let settings = TunnelSettings {
        listen: Some(address(port)),
        connect: Vec::new(),
        files,
    };
    let tunnel = Tunnel::open(&settings, Arc::<ByName>::clone(&gate)).unwrap();
    let transport = UnixListener::bind(tunnel.inner()).unwrap();
    Server {
        tunnel,
        transport,
        gate,
        port,
    }
}

/// An end that connects.
fn client(port: u16, files: CertificateFiles) -> Tunnel {
    let settings = TunnelSettings {
        listen: None,
        connect: vec![address(port)],
        files,
    };
    Tunnel::open(&settings, Arc::new(ByName::default())).unwrap()
}

/// The transport of an end connects and says who it is.
fn call(tunnel: &Tunnel, name: &str) -> UnixStream {
    let mut stream = UnixStream::connect(&tunnel.dials()[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    say(&mut stream, name);
    stream
}

fn say(stream: &mut UnixStream, name: &str) {
    let length = u16::try_from(name.len()).unwrap();
    stream.write_all(&length.to_le_bytes()).unwrap();
    stream.write_all(name.as_bytes()).unwrap();
}

fn hear(stream: &mut UnixStream) -> String {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut name = vec![0; usize::from(u16::from_le_bytes(length))];
    stream.read_exact(&mut name).unwrap();
    String::from_utf8(name).unwrap()
}

/// Both ends of a connection between two transports.
fn connected(server: &Server, client: &Tunnel) -> (UnixStream, UnixStream) {
    let mut near = call(client, "client");
    let (mut far, _) = server.transport.accept().unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(hear(&mut far), "client");
    say(&mut far, "server");
    assert_eq!(hear(&mut near), "server");
    (near, far)
}

fn is_closed(mut stream: UnixStream) -> bool {
    let mut rest = Vec::new();
    let end = stream.read_to_end(&mut rest);
    // A socket with bytes that nobody read ends with an error.
    rest.is_empty() && end.map_err(|error| error.kind()) != Err(std::io::ErrorKind::WouldBlock)
}

fn bytes(seed: usize) -> Vec<u8> {
    (0..32 << 20)
        .map(|number| ((number * 31 + seed) >> 3) as u8)
        .collect()
}

#[test]
fn bytes_pass_both_ways_at_once() {
    let authority = Authority::new();
    let server = server(authority.files("server", "127.0.0.1", FOREVER));
    let client = client(server.port, authority.files("client", "127.0.0.1", FOREVER));
    let (near, far) = connected(&server, &client);
    std::thread::scope(|scope| {
        for (stream, sent, expected) in [(&near, 1, 2), (&far, 2, 1)] {
            scope.spawn(move || (&*stream).write_all(&bytes(sent)).unwrap());
            scope.spawn(move || {
                let mut read = vec![0; 32 << 20];
                (&*stream).read_exact(&mut read).unwrap();
                assert!(read == bytes(expected));
            });
        }
    });
    drop(near);
    assert!(is_closed(far));
}

#[test]
fn last_bytes_arrive_before_a_tunnel_closes() {
    let authority = Authority::new();
    let server = server(authority.files("server", "127.0.0.1", FOREVER));
    let client = client(server.port, authority.files("client", "127.0.0.1", FOREVER));
    let (mut near, mut far) = connected(&server, &client);
    // Bytes that nobody reads are on their way back.
    far.write_all(&[7; 1_000]).unwrap();
    let reader = std::thread::spawn(move || {
        let mut read = Vec::new();
        far.read_to_end(&mut read).unwrap();
        read
    });
    near.write_all(&bytes(3)).unwrap();
    drop(near);
    assert!(client.close(PATIENCE));
    assert!(reader.join().unwrap() == bytes(3));
    assert!(server.tunnel.close(PATIENCE));
}

#[test]
fn peers_without_the_right_certificate_are_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(authority.files("server", "127.0.0.1", FOREVER));
    let mut stranger = other.files("client", "127.0.0.1", FOREVER);
    stranger.authority = authority.folder.path().join("authority.pem");
    let expired = authority.files("expired", "127.0.0.1", Duration::ZERO);
    std::thread::sleep(Duration::from_millis(1_100));
    // Another authority, a certificate that has expired, and a node that says that it is another one.
    let cases = [
        (stranger, "client"),
        (expired, "expired"),
        (authority.files("client", "127.0.0.1", FOREVER), "server"),
        (authority.files("client", "127.0.0.1", FOREVER), ""),
    ];
    for (refused, (files, name)) in cases.into_iter().enumerate() {
        let client = client(server.port, files);
        assert!(is_closed(call(&client, name)), "{name}");
        wait_for_refusals(&server, refused + 1);
    }
    // No TLS, and none that goes on.
    let mut garbage = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    garbage.write_all(&[0xa5; 100]).unwrap();
    wait_for_refusals(&server, 5);
    let silent = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let silent: Vec<TcpStream> = (0..100).map(|_| silent()).collect();
    wait_for_refusals(&server, 5 + 36);
    let client = client(server.port, authority.files("client", "127.0.0.1", FOREVER));
    let (_near, _far) = connected(&server, &client);
    drop(silent);
}

fn wait_for_refusals(server: &Server, refusals: usize) {
    let begin = std::time::Instant::now();
    while server.gate.0.load(Ordering::Relaxed) < refusals {
        assert!(begin.elapsed() < PATIENCE, "{refusals} refusals");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nodes_that_answer_for_another_host_or_as_another_node_are_not_connected_to() {
    let authority = Authority::new();
    let server = server(authority.files("server", "elsewhere", FOREVER));
    let client = client(server.port, authority.files("client", "127.0.0.1", FOREVER));
    assert!(is_closed(call(&client, "client")));
    let server = self::server(authority.files("server", "127.0.0.1", FOREVER));
    let client = self::client(server.port, authority.files("client", "127.0.0.1", FOREVER));
    let near = call(&client, "client");
    let (mut far, _) = server.transport.accept().unwrap();
    assert_eq!(hear(&mut far), "client");
    say(&mut far, "client");
    assert!(is_closed(near));
}

#[test]
fn connection_ends_when_a_certificate_expires() {
    let authority = Authority::new();
    let server = server(authority.files("server", "127.0.0.1", FOREVER));
    let client = client(
        server.port,
        authority.files("client", "127.0.0.1", Duration::from_secs(3)),
    );
    let (near, far) = connected(&server, &client);
    assert!(is_closed(near) && is_closed(far));
}

#[test]
fn a_node_that_is_not_there_is_tried_each_time() {
    let authority = Authority::new();
    let files = authority.files("server", "127.0.0.1", FOREVER);
    let early = client(free_port(), authority.files("client", "127.0.0.1", FOREVER));
    for _ in 0..3 {
        assert!(is_closed(call(&early, "client")));
    }
    let server = server(files);
    let late = client(server.port, authority.files("client", "127.0.0.1", FOREVER));
    for _ in 0..3 {
        connected(&server, &late);
    }
}

#[test]
fn files_and_addresses_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let files = authority.files("server", "127.0.0.1", FOREVER);
    let open = |files: &CertificateFiles, port| {
        let settings = TunnelSettings {
            listen: Some(address(port)),
            connect: Vec::new(),
            files: files.clone(),
        };
        Tunnel::open(&settings, Arc::new(ByName::default()))
            .map(drop)
            .unwrap_err()
    };
    let empty = authority.folder.path().join("empty.pem");
    fs::write(&empty, "nothing").unwrap();
    let other = authority.files("client", "127.0.0.1", FOREVER);
    let with = |change: fn(&mut CertificateFiles, &Path), path: &Path| {
        let mut files = files.clone();
        change(&mut files, path);
        (files, path.to_owned())
    };
    for (files, named) in [
        with(|files, path| path.clone_into(&mut files.authority), &empty),
        with(|files, path| path.clone_into(&mut files.certificate), &empty),
        with(|files, path| path.clone_into(&mut files.key), &empty),
        with(|files, path| path.clone_into(&mut files.key), &other.key),
        with(
            |files, path| path.clone_into(&mut files.key),
            Path::new("/nowhere"),
        ),
    ] {
        match open(&files, free_port()) {
            TunnelError::Certificate { path, reason } => {
                assert!(path == named && !reason.is_empty(), "{path:?} {reason}");
            }
            error => panic!("{named:?}: {error}"),
        }
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = open(&files, port).to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
}
