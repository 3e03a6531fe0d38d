//! Peers that break the protocol, workers that die, stall or lose batches: counted or reported, each once, and then on.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_partition::wire::{
    Address, BatchFailure, Limits, Message, PartitionId, StageInput, Welcome, WireError, read_message,
    read_preamble, write_message, write_preamble,
};
use weir_partition::{
    AllowedHop, AllowedHops, ClientOptions, ConnectionQuota, Event, Timeouts, Worker, WorkerError, WorkerId,
    WorkerOptions,
};
use weir_types::Timestamp;

use crate::common::{Heard, LONG, Loader, clock, key, listen, model, stage, tensor, wait_until};

fn tcp(worker: &Worker) -> std::net::SocketAddr {
    match worker.address() {
        Address::Tcp(address) => address,
        Address::Local(_) | Address::Node(_) => panic!("it listens on TCP"),
    }
}

/// Worker on a free port.
fn with(options: WorkerOptions) -> Worker {
    let at = "127.0.0.1:0".parse().unwrap();
    Worker::listen(at, options, Arc::new(Loader::default()), clock()).unwrap()
}

#[test]
fn an_address_that_other_machines_reach_is_refused() {
    for at in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7101"] {
        let at = at.parse().unwrap();
        let worker = Worker::listen(at, WorkerOptions::default(), Arc::new(Loader::default()), clock());
        assert!(
            matches!(worker, Err(WorkerError::OpenToOthers(refused)) if refused == at),
            "{at}"
        );
    }
}

/// Sends bytes and waits until the worker has closed the connection; gives what it answered.
fn bytes_to(worker: &Worker, bytes: &[u8], end: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(tcp(worker)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(bytes).unwrap();
    if end {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut answer = Vec::new();
    // A reset is an end, too: the worker closes without reading what else there is.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    answer
}

fn greeting() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_preamble(&mut bytes).unwrap();
    bytes
}

fn said(messages: &[Message]) -> Vec<u8> {
    let mut bytes = greeting();
    for message in messages {
        write_message(&mut bytes, message, Limits::default()).unwrap();
    }
    bytes
}

#[test]
fn peers_that_break_the_protocol_are_counted_and_disconnected() {
    let options = WorkerOptions {
        timeouts: Timeouts {
            stall: Duration::from_millis(200),
            ..WorkerOptions::default().timeouts
        },
        ..WorkerOptions::default()
    };
    let worker = with(options);
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "add 1")]);

    let mut version = greeting();
    version[8] = 77;
    let mut long = said(&[Message::Peer]);
    long.extend([0xff, 0xff, 0xff, 0xff, 12]);
    let mut garbage = said(&[Message::Peer]);
    garbage.extend([9, 0, 0, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let mut unknown = greeting();
    unknown.extend([0, 0, 0, 0, 200]);
    let ping = Message::Ping {
        sent: Timestamp::ZERO,
        offset: None,
    };
    let whole = said(&[Message::Peer, ping.clone()]);
    let half = &whole[..whole.len() - 3];
    let cases: [(&str, &[u8], bool); 9] = [
        ("a stranger", b"GET / HTTP/1.1\r\n\r\n", false),
        ("half a greeting", &greeting()[..5], true),
        ("half a greeting and silence", &greeting()[..5], false),
        ("another version", &version, false),
        ("a length beyond the bound", &long, false),
        ("a body that is none", &garbage, false),
        ("an unknown kind", &unknown, false),
        ("half a message and its end", half, true),
        ("half a message and silence", half, false),
    ];
    for (protocol_errors, (what, bytes, end)) in (1..).zip(cases) {
        bytes_to(&worker, bytes, end);
        assert_eq!(worker.stats().protocol_errors, protocol_errors, "{what}");
        heard.run(protocol_errors, &[stage(0, 0)], &[1.0]).unwrap();
        assert_eq!(
            heard.end(),
            (protocol_errors, Ok(vec![2.0])),
            "it goes on after {what}"
        );
    }
    // A message that has no place there.
    bytes_to(&worker, &said(&[Message::Peer, ping]), false);
    assert_eq!(worker.stats().protocol_errors, 10);
    assert!(heard.client.is_up(WorkerId(0)));
}

#[test]
fn another_version_is_refused_with_its_number() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let mut version = greeting();
    version[8] = 77;
    let answer = bytes_to(&worker, &version, false);
    let mut answer = answer.as_slice();
    read_preamble(&mut answer).unwrap();
    let Message::Refused { reason } = read_message(&mut answer, Limits::default()).unwrap() else {
        panic!("it is not refused")
    };
    assert!(reason.contains("version 77"), "{reason}");
}

#[test]
fn one_engine_at_a_time() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let first = Heard::start(ClientOptions::default());
    first.add(0, worker.address(), [model(0, "add 1")]);
    let hello = said(&[Message::Hello { engine: 42 }]);
    let answer = bytes_to(&worker, &hello, false);
    let mut answer = answer.as_slice();
    read_preamble(&mut answer).unwrap();
    let refused = read_message(&mut answer, Limits::default()).unwrap();
    assert!(
        matches!(&refused, Message::Refused { reason } if reason.contains("another engine")),
        "{refused:?}"
    );
    assert_eq!(worker.stats().refused, 1);

    first.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(first.end(), (0, Ok(vec![2.0])));
    drop(first);
    let second = Heard::start(ClientOptions::default());
    second.add(0, worker.address(), [model(1, "add 2")]);
    second.run(0, &[stage(0, 1)], &[1.0]).unwrap();
    assert_eq!(second.end(), (0, Ok(vec![3.0])));
    second.run(1, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(
        second.end(),
        (1, Err(BatchFailure::NotHeld)),
        "partitions of the other engine are gone"
    );
}

#[test]
fn connections_are_bounded() {
    let options = WorkerOptions {
        max_connections: ConnectionQuota {
            generators: 1,
            engines: 1,
            peers: 1,
            unidentified: 1,
        },
        // A silent peer keeps its connection for the whole test.
        timeouts: Timeouts {
            stall: LONG,
            ..WorkerOptions::default().timeouts
        },
        ..WorkerOptions::default()
    };
    let worker = with(options);
    let peer = || {
        let mut peer = TcpStream::connect(tcp(&worker)).unwrap();
        peer.write_all(&said(&[Message::Peer])).unwrap();
        read_preamble(&mut peer).unwrap();
        let answer = read_message(&mut peer, Limits::default()).unwrap();
        (peer, answer)
    };
    let (first, answer) = peer();
    assert!(matches!(answer, Message::Welcome(_)));
    let (_second, answer) = peer();
    assert!(matches!(answer, Message::Refused { .. }), "{answer:?}");
    assert_eq!(worker.stats().refused, 1);
    // All places for peers are taken, but the engine has a place of its own.
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "add 1")]);
    let answer = bytes_to(&worker, &said(&[Message::Hello { engine: 7 }]), false);
    assert!(String::from_utf8_lossy(&answer).contains("too many connections"));
    drop(first);

    let silent = TcpStream::connect(tcp(&worker)).unwrap();
    // The system accepts before the worker does: it is refused once the first is counted.
    wait_until("a second silent one is refused", || {
        let before = worker.stats().refused;
        bytes_to(&worker, b"", true);
        worker.stats().refused > before
    });
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (0, Ok(vec![2.0])), "who is served is served");
    drop(silent);
}

#[test]
fn a_peer_that_sends_nothing_is_disconnected_after_a_while() {
    let short = Duration::from_millis(200);
    let options = WorkerOptions {
        timeouts: Timeouts {
            stall: short,
            ..WorkerOptions::default().timeouts
        },
        peer_timeout: short,
        ..WorkerOptions::default()
    };
    let worker = with(options);
    // Each returns when the worker has closed the connection, which is the test.
    bytes_to(&worker, b"", false);
    bytes_to(&worker, &greeting(), false);
    bytes_to(&worker, &said(&[Message::Peer]), false);
    // Megabytes at once are no licence to be slow with the rest: at the least pace these would have lasted half a minute.
    let mut much = said(&[Message::Peer]);
    write_message(&mut much, &leg_of(5 << 20), Limits::default()).unwrap();
    much.truncate(much.len() - (1 << 20));
    bytes_to(&worker, &much, false);
    wait_until("nothing is being received", || {
        worker.stats().receiving_bytes == 0
    });
}

#[test]
fn unfinished_messages_are_bounded_together() {
    let options = WorkerOptions {
        max_receiving_bytes: 4 << 20,
        timeouts: Timeouts {
            stall: LONG,
            ..WorkerOptions::default().timeouts
        },
        ..WorkerOptions::default()
    };
    let worker = with(options);
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "add 1")]);
    let mut whole = said(&[Message::Peer]);
    write_message(&mut whole, &leg_of(1 << 20), Limits::default()).unwrap();
    // Each message lacks one byte: two of them fit into the half for peers, three do not.
    let half = &whole[..whole.len() - 1];
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut peer = TcpStream::connect(tcp(&worker)).unwrap();
        peer.write_all(half).unwrap();
        held.push(peer);
        // What came together with the greeting was counted with it.
        let bytes = held.len() as u64 * ((1 << 20) - (1 << 17));
        wait_until("it is being received", || worker.stats().receiving_bytes > bytes);
    }
    // What is sent to it may be lost with what it sent and was not read.
    bytes_to(&worker, half, false);
    assert_eq!(worker.stats().refused, 1);
    heard.run(0, &[stage(0, 0)], &vec![1.0; 1 << 18]).unwrap();
    let (_, sum) = heard.end();
    let sum = sum.expect("the engine has the other half");
    assert!(sum.len() == 1 << 18 && sum.iter().all(|value| *value == 2.0));
    drop(held);
    wait_until("nothing is being received", || {
        worker.stats().receiving_bytes == 0
    });
}

#[test]
fn features_go_only_where_they_may() {
    let loader = Loader::default();
    let next = listen("127.0.0.1:0", &loader);
    let options = |hops| WorkerOptions {
        hops,
        ..WorkerOptions::default()
    };
    let allowed = AllowedHop {
        ip: tcp(&next).ip(),
        port: Some(tcp(&next).port()),
    };
    let other = AllowedHop {
        port: Some(1),
        ..allowed
    };
    for (hops, goes) in [
        (AllowedHops::Listed(vec![other]), false),
        (AllowedHops::Listed(Vec::new()), false),
        (AllowedHops::Listed(vec![other, allowed]), true),
        (AllowedHops::Loopback, true),
    ] {
        let at = "127.0.0.1:0".parse().unwrap();
        let first = Worker::listen(at, options(hops.clone()), Arc::new(loader.clone()), clock()).unwrap();
        let heard = Heard::start(ClientOptions::default());
        heard.add(0, first.address(), [model(0, "add 1")]);
        heard.add(1, next.address(), [model(1, "add 2")]);
        heard.run(0, &[stage(0, 0), stage(1, 1)], &[1.0]).unwrap();
        match heard.end() {
            (0, Ok(sum)) if goes => assert_eq!(sum, [4.0]),
            (0, Err(BatchFailure::Unreachable(reason))) if !goes => {
                assert!(reason.contains("--hops"), "{reason}")
            }
            other => panic!("{hops:?}: {other:?}"),
        }
        // The next worker serves only one engine at a time.
        drop(heard);
    }
}

#[test]
fn models_are_bounded_together() {
    let options = WorkerOptions {
        max_model_bytes: 12,
        ..WorkerOptions::default()
    };
    let worker = with(options);
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "add 1"), model(1, "add 2")]);
    heard.client.load(WorkerId(0), model(2, "add 3"));
    heard.next("not loaded", |event| match event {
        Event::NotLoaded {
            partition, reason, ..
        } if partition.0 == 2 => {
            assert!(reason.contains("together"), "{reason}");
            Some(())
        }
        _ => None,
    });
    // A new model for a loaded partition replaces the old one, so it fits.
    heard.client.load(WorkerId(0), model(1, "add 4"));
    heard.loaded(1);
}

/// A feature of this many bytes, for a partition that does not exist.
fn leg_of(bytes: usize) -> Message {
    let mut tensor = tensor(&[]);
    tensor.shape = vec![bytes / 4];
    tensor.data = vec![0; bytes];
    Message::Feature(StageInput {
        engine: 1,
        key: key(0),
        items: 1,
        stage: 0,
        share: 0,
        partition: PartitionId(0),
        booked: Timestamp::ZERO,
        rest: Vec::new(),
        times: Vec::new(),
        began: Timestamp::ZERO,
        tensors: vec![tensor],
    })
}

#[test]
fn a_worker_that_dies_costs_its_batches_and_serves_again_when_restarted() {
    let loader = Loader::default();
    let worker = listen("127.0.0.1:0", &loader);
    let address = tcp(&worker);
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "gate"), model(1, "add 1")]);
    for batch in 0..4 {
        heard.run(batch, &[stage(0, 0)], &[1.0]).unwrap();
    }
    loader.gate.came(1);
    worker.stop();
    heard.fall(0, 0..4);
    assert!(heard.run(4, &[stage(0, 0)], &[1.0]).is_err());
    loader.gate.open(1);

    let again = listen(&address.to_string(), &loader);
    heard.up(0);
    heard.run(5, &[stage(0, 1)], &[1.0]).unwrap();
    assert_eq!(
        heard.end(),
        (5, Ok(vec![2.0])),
        "its partitions were loaded again"
    );
    assert_eq!(again.stats().batches, 1);
    let strays = heard.rest();
    let ends = strays
        .iter()
        .filter(|event| matches!(event, Event::Done { .. } | Event::Failed { .. }));
    assert_eq!(ends.count(), 0, "each batch ends once");
}

#[test]
fn a_worker_in_the_middle_of_a_chain_dies() {
    let loaders: Vec<Loader> = (0..3).map(|_| Loader::default()).collect();
    let mut workers: Vec<Option<Worker>> = loaders
        .iter()
        .map(|loader| Some(listen("127.0.0.1:0", loader)))
        .collect();
    let heard = Heard::start(ClientOptions::default());
    for (number, kind) in (0..).zip(["add 1", "gate", "add 1"]) {
        let address = workers[number as usize].as_ref().unwrap().address();
        heard.add(number, address, [model(number, kind)]);
    }
    let path: Vec<_> = (0..3).map(|number| stage(number, number)).collect();
    for batch in 0..3 {
        heard.run(batch, &path, &[1.0]).unwrap();
    }
    loaders[1].gate.came(1);
    let address = tcp(workers[1].as_ref().unwrap());
    workers[1] = None;
    heard.fall(1, 0..3);
    heard.run(3, &[stage(0, 0), stage(2, 2)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (3, Ok(vec![3.0])), "the plan goes on on the rest");

    loaders[1].gate.open(2);
    let _again = listen(&address.to_string(), &loaders[1]);
    heard.up(1);
    heard.run(4, &path, &[1.0]).unwrap();
    assert_eq!(
        heard.end(),
        (4, Ok(vec![3.0])),
        "also over the link from the worker before"
    );
}

#[test]
fn an_engine_that_comes_back_finds_its_partitions() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let options = || ClientOptions {
        engine: 42,
        ..ClientOptions::default()
    };
    let heard = Heard::start(options());
    heard.add(0, worker.address(), [model(0, "add 1"), model(1, "add 2")]);
    drop(heard);
    let heard = Heard::start(options());
    heard.client.load(WorkerId(0), model(9, "add 9"));
    heard.client.add(WorkerId(0), worker.address()).unwrap();
    heard.up(0);
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(
        heard.end(),
        (0, Err(BatchFailure::NotHeld)),
        "what the engine no longer wants is unloaded"
    );
}

/// A worker that greets and answers pings, and does with each batch as it likes.
fn actor(on_run: impl Fn(&mut TcpStream) -> bool + Send + 'static) -> (Address, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_preamble(&mut stream).unwrap();
        write_preamble(&mut stream).unwrap();
        let answer = |stream: &mut TcpStream, message: Message| {
            // The client may have gone.
            let _ = write_message(stream, &message, Limits::default());
        };
        loop {
            match read_message(&mut stream, Limits::default()) {
                Ok(Message::Hello { .. }) => answer(
                    &mut stream,
                    Message::Welcome(Welcome {
                        class: "fake".to_owned(),
                        shares: 1,
                        emulated: true,
                        max_message_bytes: 1 << 20,
                        held: Vec::new(),
                    }),
                ),
                Ok(Message::Ping { sent, .. }) => answer(&mut stream, Message::Pong { sent, at: sent }),
                Ok(Message::Run(_)) if !on_run(&mut stream) => {
                    // Stalled: it neither reads nor closes until the client has given it up.
                    while stream.peek(&mut [0; 1]).is_ok_and(|bytes| bytes > 0) {
                        if matches!(
                            read_message(&mut stream, Limits::default()),
                            Err(WireError::Closed | WireError::Io(_) | WireError::Broken(_))
                        ) {
                            return;
                        }
                    }
                    return;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    });
    (address, thread)
}

#[test]
fn a_worker_that_stalls_is_found() {
    let (address, thread) = actor(|_| false);
    let heard = Heard::start(Heard::quick());
    heard.add(0, address, []);
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    heard.run(1, &[stage(0, 0)], &[1.0]).unwrap();
    let reason = heard.fall(0, 0..2);
    assert!(reason.contains("silent"), "{reason}");
    thread.join().unwrap();
}

#[test]
fn a_worker_that_talks_garbage_is_disconnected() {
    let (address, thread) = actor(|stream| {
        stream.write_all(&[3, 0, 0, 0, 14, 1, 2, 3]).unwrap();
        true
    });
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, address, []);
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    heard.fall(0, 0..1);
    thread.join().unwrap();
}

#[test]
fn a_batch_of_which_nothing_is_heard_is_lost() {
    let (address, _thread) = actor(|_| true);
    let heard = Heard::start(ClientOptions {
        batch_timeout: Duration::from_millis(100),
        ..ClientOptions::default()
    });
    heard.add(0, address, []);
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (0, Err(BatchFailure::Lost)));
    assert!(heard.client.is_up(WorkerId(0)), "the worker itself answers");
}

#[test]
fn an_address_in_use_is_said() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let options = WorkerOptions::default();
    let second = Worker::listen(tcp(&worker), options, Arc::new(Loader::default()), clock());
    let error = second.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("in use") && !error.contains('\n'), "{error}");
}

#[test]
fn options_that_make_no_worker_are_said() {
    let check = |change: fn(&mut WorkerOptions)| {
        let mut options = WorkerOptions::default();
        change(&mut options);
        let at = "127.0.0.1:0".parse().unwrap();
        assert!(Worker::listen(at, options, Arc::new(Loader::default()), clock()).is_err());
    };
    check(|options| options.shares = 0);
    check(|options| options.max_queue = 0);
    check(|options| options.emulation.slowdown = 0.5);
    check(|options| options.emulation.slowdown = f64::NAN);
    check(|options| options.emulation.uplink_bps = Some(0));
}
