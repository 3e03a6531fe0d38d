//! Workers in processes of their own, one of which is killed.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_partition::ClientOptions;
use weir_partition::wire::Address;

use crate::common::process::{Process, park};
use crate::common::{Heard, Loader, listen, model, stage};

const AT: &str = "WEIR_TEST_WORKER_AT";

/// Entry point of the processes that the tests below start, not a test: they run this program again.
#[test]
fn worker_process() {
    let Ok(at) = std::env::var(AT) else { return };
    let worker = listen(&at, &Loader::default());
    park(worker.address());
}

const START: [&str; 2] = ["process::worker_process", AT];

#[test]
fn a_process_that_is_killed_costs_its_batches_and_serves_again_when_restarted() {
    let mut processes: Vec<Process> = (0..3).map(|_| Process::start(START, "127.0.0.1:0")).collect();
    let heard = Heard::start(ClientOptions::default());
    for (number, process) in (0..).zip(&processes) {
        // Nobody opens the gate of a process.
        let partitions = [model(number, "add 1"), model(10 + number, "gate")];
        heard.add(number, Address::Tcp(process.address), partitions);
    }
    let path: Vec<_> = (0..3).map(|number| stage(number, number)).collect();
    heard.run(0, &path, &[1.0]).unwrap();
    assert_eq!(heard.end(), (0, Ok(vec![4.0])));

    let stuck = [stage(0, 0), stage(1, 11), stage(2, 2)];
    heard.run(1, &stuck, &[1.0]).unwrap();
    heard.run(2, &stuck, &[1.0]).unwrap();
    let at = processes[1].address.to_string();
    drop(processes.remove(1));
    heard.fall(1, 1..3);
    heard.run(3, &[path[0], path[2]], &[1.0]).unwrap();
    assert_eq!(heard.end(), (3, Ok(vec![3.0])));

    let _again = Process::start(START, &at);
    heard.up(1);
    heard.run(4, &path, &[1.0]).unwrap();
    assert_eq!(heard.end(), (4, Ok(vec![4.0])));
}
