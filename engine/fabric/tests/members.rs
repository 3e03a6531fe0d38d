//! Nodes see each other come and go, and messages arrive.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_fabric::{FabricError, Kind, Member, MemberChange, Urgency};

use crate::common::{self, free_port, keys, open, settings, wait_for_members, wait_until};

fn engine(id: &str) -> Member {
    Member {
        kind: Kind::Engine,
        id: id.to_owned(),
    }
}

#[test]
fn three_nodes_with_certificates_see_each_other_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = ["north", "south", "west"];
    keys(folder.path(), &nodes);
    let ports = [free_port(), free_port(), free_port()];
    let settings = |number| settings(Some(folder.path()), &nodes, &ports, number);
    // The last one is there before those that it connects to.
    let (west, mut of_west) = open("west", &settings(2));
    let (north, mut of_north) = open("north", &settings(0));
    let (south, mut of_south) = open("south", &settings(1));
    for members in [&mut of_west, &mut of_north, &mut of_south] {
        wait_for_members(members, &nodes);
    }
    let subscription = north.subscribe(Kind::Engine, "state").unwrap();
    let other = west.subscribe(Kind::Engine, "other").unwrap();
    // A subscription takes a moment to be known.
    let mut first = None;
    wait_until("a message", || {
        south
            .publish("state", Urgency::Control, b"head", vec![7; 100_000])
            .unwrap();
        first = first.take().or(subscription.waiting().next());
        first.is_some()
    });
    let first = first.unwrap();
    assert_eq!(
        (&first.from, first.header.as_slice()),
        (&engine("south"), &b"head"[..])
    );
    assert_eq!(
        (first.payload(), first.payload_bytes()),
        (vec![7; 100_000].into(), 100_000)
    );
    assert!(other.waiting().next().is_none(), "of another topic");
    assert!(south.counts().sent >= 1 && north.counts().received >= 1);

    drop(south);
    let left = MemberChange::Left(engine("south"));
    assert!(wait_for_members(&mut of_north, &["north", "west"]).contains(&left));
    assert!(wait_for_members(&mut of_west, &["north", "west"]).contains(&left));
    let (_south, mut of_south) = open("south", &settings(1));
    for members in [&mut of_west, &mut of_north, &mut of_south] {
        wait_for_members(members, &nodes);
    }
    assert!(west.close());
    wait_for_members(&mut of_north, &["north", "south"]);
}

#[test]
fn messages_beyond_the_bound_are_not_sent() {
    let nodes = ["north"];
    let mut settings = settings(None, &nodes, &[free_port()], 0);
    settings.max_message_bytes = 1_000;
    let (north, _members) = open("north", &settings);
    let sent = north.publish("state", Urgency::Features, &[0; 10], vec![0; 991]);
    assert!(matches!(
        sent,
        Err(FabricError::TooLarge {
            bytes: 1_001,
            max_bytes: 1_000
        })
    ));
    assert!(
        north
            .publish("state", Urgency::Archive, &[0; 10], vec![0; 990])
            .is_ok()
    );
    let counts = north.counts();
    assert_eq!((counts.too_large, counts.sent), (1, 1));
    assert!(matches!(
        north.publish("a/b", Urgency::Control, &[], Vec::new()),
        Err(FabricError::Name { .. })
    ));
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let nodes = ["north"];
    let settings = settings(None, &nodes, &[free_port()], 0);
    let _north = open("north", &settings);
    let again = weir_fabric::Fabric::open(common::engine("north"), &settings);
    assert!(matches!(again, Err(FabricError::Open(_))), "{again:?}");
}
