//! Nodes outside the fleet, and messages under keys of other nodes, are refused and counted without an effect
//! on others.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use common::stranger::{id_of, tls_to};
use common::{FLEET, engine, free_port, keys, open, settings, wait_for_members, wait_until};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use weir_fabric::{Certificates, Fabric, Members, RefusalLayer, Subscription, Urgency, refusals};
use zenoh::Wait;
use zenoh::qos::CongestionControl;

const NODES: [&str; 3] = ["north", "south", "west"];

/// Two nodes that see each other, of a fleet of three.
struct Pair {
    folder: tempfile::TempDir,
    ports: [u16; 3],
    north: (Fabric, Members),
    south: (Fabric, Members),
    states: Subscription,
    _alone: MutexGuard<'static, ()>,
}

/// Locks the process for one test at a time, since refusals are counted per process.
fn pair() -> Pair {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    static LOG: Once = Once::new();
    LOG.call_once(|| tracing_subscriber::registry().with(RefusalLayer::boxed()).init());
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), &NODES);
    let ports = [free_port(), free_port(), free_port()];
    let open = |number: usize| {
        let mut settings = settings(Some(folder.path()), &NODES, &ports, number);
        settings.max_message_bytes = 1 << 20;
        open(NODES[number], &settings)
    };
    let (mut north, mut south) = (open(0), open(1));
    wait_for_members(&mut north.1, &NODES[..2]);
    wait_for_members(&mut south.1, &NODES[..2]);
    let states = north.0.subscribe(weir_fabric::Kind::Engine, "state").unwrap();
    let pair = Pair {
        folder,
        ports,
        north,
        south,
        states,
        _alone: alone,
    };
    pair.goes_on();
    pair
}

impl Pair {
    /// Checks that a message of one node reaches the other, and that no other node's message arrived.
    fn goes_on(&self) {
        let mut arrived = None;
        wait_until("a message between the two", || {
            let (south, _) = &self.south;
            south
                .publish("state", Urgency::Control, &[], b"fine".to_vec())
                .unwrap();
            arrived = arrived.take().or(self.states.waiting().next());
            arrived.is_some()
        });
        let others = arrived.into_iter().chain(self.states.waiting());
        for message in others {
            assert_eq!(
                (message.from.id.as_str(), &*message.payload()),
                ("south", &b"fine"[..])
            );
        }
    }

    /// Checks that messages still arrive and that membership did not change after an attack.
    fn stays_undisturbed(mut self) {
        self.goes_on();
        for members in [&mut self.north.1, &mut self.south.1] {
            assert_eq!(members.changes(), []);
        }
    }

    /// A session of Zenoh as anyone may write it, that connects to the first node under this id and by these files.
    fn stranger(&self, id: Option<&str>, certificates: Option<&Certificates>) -> zenoh::Session {
        let authority = self.folder.path().join("authority.pem");
        let port = tls_to(self.ports[0], &authority, certificates);
        let mut config = zenoh::Config::default();
        let mut set = |key: &str, value: &str| config.insert_json5(key, value).unwrap();
        set("scouting/multicast/enabled", "false");
        set("connect/exit_on_failure", "false");
        set("connect/timeout_ms", "0");
        set("listen/endpoints", "[]");
        set("connect/endpoints", &format!("[\"tcp/127.0.0.1:{port}\"]"));
        if let Some(id) = id {
            set("id", &format!("{id:?}"));
        }
        zenoh::open(config).wait().unwrap()
    }

    /// Certificate files of a node, signed by the authority of the fleet.
    fn files(&self, node: &str) -> Certificates {
        Certificates::in_folder(self.folder.path(), node)
    }
}

/// Sends on what only its owner may, again and again, until what is refused is counted.
fn insist(session: &zenoh::Session, bytes: usize, what: &str, mut is_counted: impl FnMut() -> bool) {
    wait_until(what, || {
        let put = session.put(format!("weir/{FLEET}/engine/south/state"), vec![0; bytes]);
        let _ = put
            .congestion_control(CongestionControl::Block)
            .express(true)
            .wait();
        is_counted()
    });
}

#[test]
fn a_node_without_a_certificate_is_refused() {
    let pair = pair();
    let before = refusals().connections;
    let stranger = pair.stranger(Some(&id_of("west")), None);
    insist(&stranger, 4, "a refused connection", || {
        refusals().connections > before
    });
    pair.stays_undisturbed();
}

#[test]
fn a_node_with_another_authority_s_certificate_is_refused() {
    let pair = pair();
    let other = tempfile::tempdir().unwrap();
    keys(other.path(), &["south"]);
    let before = refusals().connections;
    let files = Certificates::in_folder(other.path(), "south");
    let stranger = pair.stranger(Some(&id_of("south")), Some(&files));
    insist(&stranger, 4, "a refused connection", || {
        refusals().connections > before
    });
    pair.stays_undisturbed();
}

#[test]
fn a_node_that_writes_under_another_s_key_or_takes_its_name_is_refused() {
    let pair = pair();
    let before = refusals().messages;
    let stranger = pair.stranger(Some(&id_of("west")), Some(&pair.files("west")));
    insist(&stranger, 4, "a refused message", || refusals().messages > before);
    let before = refusals().messages;
    let token = format!("weir/{FLEET}/alive/engine/east");
    let _token = stranger.liveliness().declare_token(token).wait().unwrap();
    wait_until("a refused token", || refusals().messages > before);
    pair.stays_undisturbed();
}

#[test]
fn a_node_that_connects_under_the_id_of_another_is_refused() {
    let pair = pair();
    for id in [
        Some(id_of("south")),
        Some(id_of("east")),
        Some("7".to_owned()),
        None,
    ] {
        let before = refusals().connections;
        let stranger = pair.stranger(id.as_deref(), Some(&pair.files("west")));
        insist(&stranger, 4, "a refused connection", || {
            refusals().connections > before
        });
    }
    pair.stays_undisturbed();
}

#[test]
fn a_certificate_of_the_authority_for_a_name_that_the_fleet_lacks_is_refused() {
    let pair = pair();
    keys(pair.folder.path(), &["east"]);
    let before = refusals().connections;
    let stranger = pair.stranger(Some(&id_of("east")), Some(&pair.files("east")));
    insist(&stranger, 4, "a refused connection", || {
        refusals().connections > before
    });
    pair.stays_undisturbed();
}

#[test]
fn garbage_is_refused() {
    let pair = pair();
    let before = refusals().connections;
    let mut garbage = TcpStream::connect(("127.0.0.1", pair.ports[0])).unwrap();
    garbage.write_all(&[0xa5; 4_096]).unwrap();
    wait_until("a refused connection", || refusals().connections > before);
    pair.stays_undisturbed();
}

#[test]
fn garbage_of_a_node_with_a_certificate_is_refused() {
    let pair = pair();
    let authority = pair.folder.path().join("authority.pem");
    let port = tls_to(pair.ports[0], &authority, Some(&pair.files("west")));
    for garbage in [&[0xa5; 100_000][..], &[0, 0], &[255, 255, 1], &[3, 0, 1, 9, 0xff]] {
        let before = refusals().connections;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // The connection may be closed before all is written.
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        wait_until("a refused connection", || refusals().connections > before);
    }
    pair.stays_undisturbed();
}

#[test]
fn connections_that_say_nothing_keep_no_node_out() {
    let mut pair = pair();
    let before = refusals().connections;
    let silent = || TcpStream::connect(("127.0.0.1", pair.ports[0])).unwrap();
    let silent: Vec<TcpStream> = (0..200).map(|_| silent()).collect();
    let settings = settings(Some(pair.folder.path()), &NODES, &pair.ports, 2);
    let (west, _seen) = open("west", &settings);
    wait_for_members(&mut pair.north.1, &NODES);
    assert!(refusals().connections > before);
    drop((west, silent));
    for members in [&mut pair.north.1, &mut pair.south.1] {
        wait_for_members(members, &NODES[..2]);
    }
    pair.stays_undisturbed();
}

/// Listens on the way to a port and passes on what comes, both ways, for one connection; gives its own port, and what went there.
fn tapped(to: u16) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let there = Arc::clone(&heard);
    let pass = |mut from: TcpStream, mut to: TcpStream, heard: Option<Arc<Mutex<Vec<u8>>>>| {
        let mut buffer = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if let Some(heard) = &heard {
                heard.lock().unwrap().extend(&buffer[..count]);
            }
            if to.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    };
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || pass(back.0, back.1, None));
        pass(client, server, Some(there));
    });
    (port, heard)
}

/// Replays the bytes of a node's connection from another connection.
#[test]
fn a_message_that_is_replayed_is_refused() {
    let mut pair = pair();
    let (port, heard) = tapped(pair.ports[0]);
    let mut of_west = settings(Some(pair.folder.path()), &NODES, &pair.ports, 2);
    of_west.connect = vec![format!("127.0.0.1:{port}").parse().unwrap()];
    let (west, _seen) = open("west", &of_west);
    wait_for_members(&mut pair.north.1, &NODES);
    let mut arrived = 0;
    wait_until("a message of the third", || {
        west.publish("state", Urgency::Control, &[], b"pay twice".to_vec())
            .unwrap();
        arrived += pair.states.waiting().count();
        arrived > 0
    });
    drop(west);
    // Messages on the way have arrived when the end of their sender is visible.
    wait_for_members(&mut pair.north.1, &NODES[..2]);
    pair.south.1.changes();
    pair.states.waiting().for_each(drop);
    let before = refusals().connections;
    let said = std::mem::take(&mut *heard.lock().unwrap());
    assert!(said.len() > 1_000, "{} bytes", said.len());
    let mut again = TcpStream::connect(("127.0.0.1", pair.ports[0])).unwrap();
    // The connection may be closed before all is written.
    let _ = again.write_all(&said);
    wait_until("a refused connection", || refusals().connections > before);
    // `goes_on` finds no message of anybody but the other.
    pair.stays_undisturbed();
}

/// Uses a node of the fleet whose limit is larger than that of the others.
#[test]
fn a_message_beyond_the_bound_of_who_receives_is_refused() {
    let mut pair = pair();
    let mut wide = settings(Some(pair.folder.path()), &NODES, &pair.ports, 2);
    wide.max_message_bytes = 256 << 20;
    let west = Fabric::open(engine("west"), &wide).unwrap();
    // Its messages are refused and it is not announced, so other nodes do not see it.
    for _ in 0..3 {
        let _ = west.publish("state", Urgency::Features, &[], vec![0; 64 << 20]);
    }
    pair.goes_on();
    assert_eq!(pair.north.1.changes(), []);
    pair.stays_undisturbed();
}

#[test]
fn files_of_keys_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), &NODES);
    let key: &Path = &folder.path().join("north.key");
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let settings = settings(Some(folder.path()), &NODES, &[free_port()], 0);
    let error = Fabric::open(engine("north"), &settings).unwrap_err().to_string();
    assert!(error.contains("644") && error.contains("chmod 600"), "{error}");
}
