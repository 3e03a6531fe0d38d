//! Large messages to one node arrive whole and in order, both ways at once, and small ones pass them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::Read;
use std::time::Duration;

use weir_fabric::Urgency;

use crate::common::{free_port, keys, open, settings, wait_for_members, wait_until};

const NODES: [&str; 3] = ["north", "south", "west"];
/// Size of a feature of a large batch.
const BYTES: usize = 4 << 20;
const COUNT: u32 = 100;

#[test]
fn large_messages_arrive_whole_and_in_order_both_ways_and_small_ones_pass_them() {
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), &NODES);
    let ports = [free_port(), free_port(), free_port()];
    let mut nodes = Vec::new();
    for (number, id) in NODES.iter().enumerate() {
        nodes.push(open(id, &settings(Some(folder.path()), &NODES, &ports, number)));
    }
    for (_, members) in &mut nodes {
        wait_for_members(members, &NODES);
    }
    let [(north, mut seen), (south, _), (west, _)] = nodes.try_into().ok().unwrap();
    let (inbox, others) = (south.inbox(1 << 30).unwrap(), west.inbox(1 << 30).unwrap());
    let to = south.identity().member().clone();
    let (back, from) = (north.inbox(1 << 30).unwrap(), north.identity().member().clone());
    // A way there.
    wait_until("the first message", || {
        north.send(&to, Urgency::Control, b"first", Vec::new()).unwrap();
        inbox.next(Duration::from_millis(20)).is_some()
    });
    wait_until("the first message back", || {
        south.send(&from, Urgency::Control, b"first", Vec::new()).unwrap();
        back.next(Duration::from_millis(20)).is_some()
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..COUNT {
                let payload = vec![1; BYTES];
                south.send(&from, Urgency::Features, b"back", payload).unwrap();
            }
        });
        scope.spawn(|| {
            let mut count = 0;
            while count < COUNT {
                let message = back.next(Duration::from_secs(60)).expect("a message back");
                count += u32::from(message.header == b"back" && message.payload_bytes() == BYTES);
            }
        });
        scope.spawn(|| {
            for number in 0..COUNT {
                let payload = vec![number as u8; BYTES];
                north
                    .send(&to, Urgency::Features, &number.to_le_bytes(), payload)
                    .unwrap();
            }
        });
        scope.spawn(|| {
            for _ in 0..COUNT {
                north.send(&to, Urgency::Control, b"alive", Vec::new()).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let (mut next, mut alive) = (0_u32, 0);
        while next < COUNT || alive < COUNT {
            let message = inbox.next(Duration::from_secs(60)).expect("a message");
            match message.header.as_slice() {
                b"alive" => alive += 1,
                b"first" => {}
                header => {
                    assert_eq!(header, next.to_le_bytes());
                    let mut payload = Vec::new();
                    message.into_reader().read_to_end(&mut payload).unwrap();
                    assert!(payload.len() == BYTES && payload.iter().all(|byte| *byte == next as u8));
                    next += 1;
                }
            }
        }
    });
    assert!(
        others.waiting().next().is_none(),
        "what is sent to one node is given to no other"
    );
    assert!(seen.changes().is_empty(), "nobody was away meanwhile");
    let (_, counts) = (south.counts(), west.counts());
    assert_eq!((counts.received, counts.overflowed), (0, 0));
}
