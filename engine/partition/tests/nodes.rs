//! Workers as nodes of a fleet, over a carrier that loses packets on request: every batch ends exactly once,
//! whatever is lost.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "a test that waits gives up at last")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use weir_partition::wire::{Address, BatchFailure};
use weir_partition::{
    Arrived, Carrier, ClientOptions, DispatchError, Event, NodeCarrier, NodeName, Packet, Peer, Role, Worker,
    WorkerId, WorkerOptions,
};

use crate::common::{self, Heard, LONG, Loader, clock, key, model, stage, tensor, wait_until};

/// Decides how a packet is delivered.
type Fate = Box<dyn FnMut(Peer, Peer, &Packet) -> Deliver + Send>;

/// Number of times that a packet is delivered.
#[derive(Clone, Copy, PartialEq)]
enum Deliver {
    Never,
    Once,
    Twice,
}

/// Sender, header and body of a packet.
type Sent = (Peer, Vec<u8>, Vec<u8>);

/// All nodes, with a queue of packets each.
#[derive(Clone)]
struct Network {
    /// Nodes that are not reported as present yet, though packets reach them.
    hidden: Arc<Mutex<BTreeSet<Peer>>>,
    /// Number of times that workers checked whether the engine is present.
    looks: Arc<AtomicU64>,
    nodes: Arc<Mutex<BTreeMap<Peer, Sender<Sent>>>>,
    fate: Arc<Mutex<Fate>>,
}

impl Network {
    fn new() -> Self {
        Self {
            hidden: Arc::default(),
            looks: Arc::default(),
            nodes: Arc::default(),
            fate: Arc::new(Mutex::new(Box::new(|_, _, _| Deliver::Once))),
        }
    }

    fn set_fate(&self, fate: impl FnMut(Peer, Peer, &Packet) -> Deliver + Send + 'static) {
        *self.fate.lock().unwrap() = Box::new(fate);
    }

    fn join(&self, me: Peer) -> NodeCarrier {
        let (sender, inbox) = unbounded();
        self.nodes.lock().unwrap().insert(me, sender);
        NodeCarrier::new(Arc::new(Node {
            network: self.clone(),
            me,
            inbox,
        }))
    }

    fn leave(&self, who: Peer) {
        self.nodes.lock().unwrap().remove(&who);
    }

    /// Waits until a worker has looked for the engine some times more.
    fn wait_for_looks(&self) {
        let looks = || self.looks.load(Ordering::Relaxed);
        let before = looks();
        wait_until("a worker looks", || looks() >= before + 3);
    }

    /// Hands something over as it is.
    fn inject(&self, from: Peer, to: Peer, header: &[u8], body: &[u8]) {
        let nodes = self.nodes.lock().unwrap();
        nodes[&to].send((from, header.to_vec(), body.to_vec())).unwrap();
    }
}

struct Node {
    network: Network,
    me: Peer,
    inbox: Receiver<Sent>,
}

impl Carrier for Node {
    fn send(&self, to: Peer, packet: Packet) -> Result<(), String> {
        let times = match (self.network.fate.lock().unwrap())(self.me, to, &packet) {
            Deliver::Never => 0,
            Deliver::Once => 1,
            Deliver::Twice => 2,
        };
        let nodes = self.network.nodes.lock().unwrap();
        if let Some(node) = nodes.get(&to) {
            for _ in 0..times {
                let _ = node.send((self.me, packet.header.clone(), packet.body.clone()));
            }
        }
        Ok(())
    }

    fn receive(&self, timeout: Duration) -> Option<Arrived> {
        let (from, header, body) = self.inbox.recv_timeout(timeout).ok()?;
        Some(Arrived {
            from,
            header,
            body: Box::new(Cursor::new(body)),
        })
    }

    fn is_present(&self, node: Peer) -> bool {
        if node == engine() {
            self.network.looks.fetch_add(1, Ordering::Relaxed);
        }
        let is_hidden = self.network.hidden.lock().unwrap().contains(&node);
        !is_hidden && self.network.nodes.lock().unwrap().contains_key(&node)
    }
}

fn peer(role: Role, name: &str) -> Peer {
    Peer {
        role,
        name: NodeName::new(name).unwrap(),
    }
}

fn engine() -> Peer {
    peer(Role::Engine, "north")
}

fn worker_node(number: u32) -> Peer {
    peer(Role::Worker, &format!("worker-{number}"))
}

fn worker(network: &Network, number: u32) -> Worker {
    let node = worker_node(number);
    let options = WorkerOptions {
        carrier: Some((network.join(node), node.name)),
        ..WorkerOptions::default()
    };
    Worker::in_fleet(options, Arc::new(Loader::default()), clock()).unwrap()
}

/// A client and workers that each add 1, as their partition `number`.
fn fleet(network: &Network, count: u32, options: ClientOptions) -> (Heard, Vec<Worker>) {
    let workers = (0..count).map(|number| worker(network, number)).collect();
    let heard = Heard::start(ClientOptions {
        carrier: Some(network.join(engine())),
        ..options
    });
    for number in 0..count {
        let address = Address::Node(worker_node(number).name);
        heard.add(
            number,
            address,
            [model(number, "add 1"), model(10 + number, "gate")],
        );
    }
    (heard, workers)
}

#[test]
fn a_batch_goes_through_a_chain_of_nodes() {
    let network = Network::new();
    let (heard, workers) = fleet(&network, 3, ClientOptions::default());
    let path: Vec<_> = (0..3).map(|number| stage(number, number)).collect();
    for batch in 0..20 {
        heard.run(batch, &path, &[batch as f32]).unwrap();
        assert_eq!(heard.end(), (batch, Ok(vec![batch as f32 + 3.0])));
    }
    for worker in &workers {
        assert_eq!(worker.stats().protocol_errors, 0);
    }
    let address = workers[1].address();
    assert_eq!(address, Address::Node(worker_node(1).name));
}

#[test]
fn what_is_lost_or_comes_twice_ends_the_connection_and_it_is_made_again() {
    for deliver in [Deliver::Never, Deliver::Twice] {
        for to_engine in [false, true] {
            let network = Network::new();
            let (heard, _workers) = fleet(&network, 2, ClientOptions::default());
            let mut is_due = true;
            network.set_fate(move |from, to, packet| {
                let of_first = [from, to].contains(&worker_node(0)) && (to == engine()) == to_engine;
                let is_one = of_first && [from, to].contains(&engine()) && !packet.is_urgent;
                if is_one && std::mem::take(&mut is_due) {
                    deliver
                } else {
                    Deliver::Once
                }
            });
            let path = [stage(0, 0), stage(1, 1)];
            heard.run(0, &path, &[1.0]).unwrap();
            // What the loss is seen by: the next packet.
            let _ = heard.run(1, &path, &[1.0]);
            heard.next("down", |event| match event {
                Event::Down { worker, .. } if worker.0 == 0 => Some(()),
                _ => None,
            });
            heard.up(0);
            wait_until("the first two have ended", || heard.client.in_flight_count() == 0);
            heard.run(2, &path, &[5.0]).unwrap();
            let end = heard.next("the end of the third", |event| match event {
                Event::Done {
                    key: ended, outputs, ..
                } if *ended == key(2) => Some(common::values(&outputs[0])),
                _ => None,
            });
            assert_eq!(end, vec![7.0]);
        }
    }
}

#[test]
fn every_batch_ends_once_where_packets_are_lost_at_random() {
    let network = Network::new();
    let options = ClientOptions {
        // Features have no connection: if one is lost, its batch ends by this timeout.
        batch_timeout: Duration::from_millis(500),
        ..Heard::quick()
    };
    let (heard, _workers) = fleet(&network, 3, options);
    let mut number: u64 = 1;
    network.set_fate(move |_, _, _| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        match (number >> 33) % 100 {
            0 => Deliver::Never,
            1 => Deliver::Twice,
            _ => Deliver::Once,
        }
    });
    let path: Vec<_> = (0..3).map(|number| stage(number, number)).collect();
    let mut taken = Vec::new();
    let began = std::time::Instant::now();
    for batch in 0..200_u64 {
        // Each loss costs what is in flight: some are to come through.
        wait_until("few are in flight", || heard.client.in_flight_count() < 4);
        loop {
            match heard
                .client
                .run(key(batch), 1, &path, vec![tensor(&[batch as f32])])
            {
                Ok(()) => break taken.push(batch),
                Err(DispatchError::Down(_) | DispatchError::Full) => std::thread::yield_now(),
                Err(other) => panic!("{other}"),
            }
            assert!(began.elapsed() < LONG * 4, "workers do not come up again");
        }
    }
    wait_until("all have ended", || heard.client.in_flight_count() == 0);
    let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
    let mut right = 0;
    for event in heard.rest() {
        match event {
            Event::Done { key, outputs, .. } => {
                *ends.entry(key.batch.0).or_default() += 1;
                assert_eq!(common::values(&outputs[0]), vec![key.batch.0 as f32 + 3.0]);
                right += 1;
            }
            Event::Failed { key, .. } => *ends.entry(key.batch.0).or_default() += 1,
            _ => {}
        }
    }
    assert_eq!(ends.keys().copied().collect::<Vec<_>>(), taken);
    assert!(ends.values().all(|count| *count == 1), "{ends:?}");
    assert!(right > 0);
}

#[test]
fn a_node_that_is_seen_no_more_is_down_and_no_feature_is_sent_to_it() {
    let network = Network::new();
    let (heard, _workers) = fleet(&network, 2, ClientOptions::default());
    network.leave(worker_node(1));
    // Either the worker before it or the engine detects the failure first.
    let path = [stage(0, 0), stage(1, 1)];
    if heard.run(0, &path, &[1.0]).is_ok() {
        let (batch, end) = heard.end();
        let is_reported = matches!(
            end,
            Err(BatchFailure::Unreachable(_) | BatchFailure::WorkerDown(_))
        );
        assert!(batch == 0 && is_reported, "{end:?}");
    }
    heard.next("down", |event| match event {
        Event::Down { worker, .. } if worker.0 == 1 => Some(()),
        _ => None,
    });
    assert_eq!(heard.run(1, &path, &[1.0]), Err(DispatchError::Down(WorkerId(1))));
    heard.run(2, &path[..1], &[1.0]).unwrap();
    assert_eq!(heard.end(), (2, Ok(vec![2.0])));
}

#[test]
fn an_engine_is_served_before_it_is_seen_and_ended_when_it_is_seen_no_more() {
    let network = Network::new();
    network.hidden.lock().unwrap().insert(engine());
    let (heard, workers) = fleet(&network, 1, ClientOptions::default());
    network.wait_for_looks();
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (0, Ok(vec![2.0])));
    network.hidden.lock().unwrap().clear();
    network.wait_for_looks();
    network.hidden.lock().unwrap().insert(engine());
    heard.next("down", |event| matches!(event, Event::Down { .. }).then_some(()));
    assert_eq!(workers[0].stats().protocol_errors, 0);
}

#[test]
fn an_engine_that_comes_anew_is_served_and_another_is_refused() {
    let network = Network::new();
    let (heard, workers) = fleet(&network, 1, ClientOptions::default());
    let other = peer(Role::Engine, "south");
    let second = Heard::start(ClientOptions {
        carrier: Some(network.join(other)),
        ..ClientOptions::default()
    });
    let address = Address::Node(worker_node(0).name);
    second.client.add(WorkerId(0), address).unwrap();
    wait_until("the other is refused", || workers[0].stats().refused > 0);
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (0, Ok(vec![2.0])));
    // The first engine disconnects, and the other is served.
    drop(heard.rest());
    second.up(0);
}

#[test]
fn what_means_nothing_is_counted_and_disturbs_nobody() {
    let network = Network::new();
    let (heard, workers) = fleet(&network, 1, ClientOptions::default());
    let stranger = peer(Role::Engine, "stranger");
    let mut hello = vec![0; 17];
    hello[0] = 9;
    for (from, header, body) in [
        (stranger, &b"garbage"[..], &b"garbage"[..]),
        (stranger, &hello, b"garbage"),
        // A message of four GiB.
        (stranger, &hello, &[255, 255, 255, 255, 3, 0]),
        (worker_node(7), &[0; 17], b"garbage"),
        (worker_node(7), &[0; 17], &[0, 0, 0, 0, 1]),
    ] {
        let before = workers[0].stats().protocol_errors;
        network.inject(from, worker_node(0), header, body);
        wait_until("it is counted", || {
            workers[0].stats().protocol_errors == before + 1
        });
        heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
        assert_eq!(heard.end(), (0, Ok(vec![2.0])));
    }
}
