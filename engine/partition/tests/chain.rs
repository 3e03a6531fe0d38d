//! Batches over chains of workers give what the partitions give in a row, and what is reported of them is true.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_partition::wire::{BatchFailure, Resource, Usage};
use weir_partition::{
    ClientOptions, DispatchError, Emulation, Event, LocalWorkers, Stage, Worker, WorkerId, WorkerOptions,
};
use weir_types::{Span, Timestamp};

use crate::common::{Heard, Loader, clock, key, listen, model, options, stage, tensor, wait_until};

const SUMS: [&str; 3] = ["mul 2", "add 3", "mul 5"];

fn in_a_row(value: f32, stages: usize) -> f32 {
    let sums: [fn(f32) -> f32; 3] = [|x| x * 2.0, |x| x + 3.0, |x| x * 5.0];
    sums[..stages].iter().fold(value, |value, sum| sum(value))
}

/// Workers with a part each, by turns over TCP and within the process.
fn workers(locals: &LocalWorkers, count: usize, over_tcp: impl Fn(usize) -> bool) -> Vec<Worker> {
    let start = |number| {
        let loader = Arc::new(Loader::default());
        if over_tcp(number) {
            let at = "127.0.0.1:0".parse().unwrap();
            Worker::listen(at, options(locals), loader, clock()).unwrap()
        } else {
            Worker::local(options(locals), loader, clock()).unwrap()
        }
    };
    (0..count).map(start).collect()
}

fn check_chain(count: usize, over_tcp: impl Fn(usize) -> bool) {
    let locals = LocalWorkers::default();
    let workers = workers(&locals, count, over_tcp);
    let heard = Heard::start(ClientOptions {
        locals,
        ..ClientOptions::default()
    });
    let mut path = Vec::new();
    for (number, worker) in (0..).zip(&workers) {
        heard.add(number, worker.address(), [model(number, SUMS[number as usize])]);
        path.push(stage(number, number));
    }
    // No more at a time than a share's queue takes.
    let (batches, at_a_time) = (40, 6);
    let mut ended = BTreeMap::new();
    for batch in 0..batches {
        heard.run(batch, &path, &[batch as f32, 0.5]).unwrap();
        if batch >= at_a_time {
            let (batch, result) = heard.end();
            assert!(
                ended.insert(batch, result.unwrap()).is_none(),
                "{batch} ended twice"
            );
        }
    }
    while ended.len() < batches as usize {
        let (batch, result) = heard.end();
        assert!(
            ended.insert(batch, result.unwrap()).is_none(),
            "{batch} ended twice"
        );
    }
    for (batch, result) in ended {
        assert_eq!(result, [in_a_row(batch as f32, count), in_a_row(0.5, count)]);
    }
    assert_eq!(heard.client.in_flight_count(), 0);
    let run: u64 = workers.iter().map(|worker| worker.stats().batches).sum();
    assert_eq!(run, batches * count as u64);
    // Permits for sent features are released after the write, so the result may arrive earlier.
    wait_until("all is given back", || {
        workers.iter().all(|worker| worker.stats().held_bytes == 0)
    });
}

#[test]
fn one_worker_over_tcp() {
    check_chain(1, |_| true);
}

#[test]
fn two_workers_over_tcp() {
    check_chain(2, |_| true);
}

#[test]
fn three_workers_over_tcp() {
    check_chain(3, |_| true);
}

#[test]
fn three_workers_in_the_process() {
    check_chain(3, |_| false);
}

#[test]
fn from_the_process_over_tcp() {
    check_chain(2, |number| number == 1);
}

#[test]
fn all_stages_on_one_worker() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let heard = Heard::start(ClientOptions::default());
    heard.add(
        0,
        worker.address(),
        (0..3).map(|partition| model(partition, SUMS[partition as usize])),
    );
    heard
        .run(0, &[stage(0, 0), stage(0, 1), stage(0, 2)], &[1.0])
        .unwrap();
    assert_eq!(heard.end(), (0, Ok(vec![in_a_row(1.0, 3)])));
}

#[test]
fn every_use_is_reported_and_the_end_repeats_it() {
    let locals = LocalWorkers::default();
    let workers = workers(&locals, 3, |_| true);
    let heard = Heard::start(ClientOptions::default());
    for (number, worker) in (0..).zip(&workers) {
        heard.add(number, worker.address(), [model(number, "add 1")]);
    }
    heard
        .run(8, &[stage(0, 0), stage(1, 1), stage(2, 2)], &[1.0])
        .unwrap();
    let (mut uses, mut done) = (BTreeMap::<(u32, bool), Usage>::new(), None);
    // They come over three connections, in any order.
    while done.is_none() || uses.len() < 5 {
        let event = heard.next("uses and the end", |event| Some(event.clone()));
        match event {
            Event::Used {
                key: of,
                stage,
                what,
                usage,
                worker,
            } if of == key(8) => {
                assert_eq!(worker, WorkerId(stage));
                assert!(
                    uses.insert((stage, what == Resource::Run), usage).is_none(),
                    "reported twice"
                );
            }
            Event::Done { key: of, times, .. } if of == key(8) => done = Some(times),
            _ => {}
        }
    }
    let done = done.unwrap();
    assert_eq!(done.len(), 3);
    for (stage, times) in (0..).zip(done) {
        assert_eq!(uses.get(&(stage, true)), Some(&times.run));
        let transfer = uses.get(&(stage, false));
        assert_eq!(
            transfer,
            (stage > 0).then_some(&times.transfer),
            "the way from the engine is not reported"
        );
        assert!(times.run.from <= times.run.to);
    }
}

#[test]
fn an_emulated_device_takes_its_time_and_says_so() {
    let slow = |emulation| {
        let options = WorkerOptions {
            class: "p4".to_owned(),
            emulation,
            ..WorkerOptions::default()
        };
        let at = "127.0.0.1:0".parse().unwrap();
        Worker::listen(at, options, Arc::new(Loader::default()), clock()).unwrap()
    };
    let (first, last) = (
        slow(Emulation {
            uplink_bps: Some(8_000_000),
            ..Emulation::default()
        }),
        slow(Emulation::default()),
    );
    let heard = Heard::start(ClientOptions::default());
    heard.client.add(WorkerId(0), first.address()).unwrap();
    let info = heard.up(0);
    assert!(info.emulated && info.class == "p4" && info.shares == 1);
    let mut declared = model(0, "add 1");
    declared.declared = vec![(1, Span::from_millis(20)), (4, Span::from_millis(50))];
    heard.client.load(WorkerId(0), declared);
    heard.loaded(0);
    heard.add(1, last.address(), [model(1, "add 1")]);
    // 4,000 bytes at a megabyte a second.
    heard
        .client
        .run(
            key(0),
            4,
            &[stage(0, 0), stage(1, 1)],
            vec![tensor(&[0.0; 1_000])],
        )
        .unwrap();
    let times = heard.next("the end", |event| match event {
        Event::Done { times, .. } => Some(times.clone()),
        _ => None,
    });
    assert!(
        times[0].run.span() >= Span::from_millis(50),
        "{:?}",
        times[0].run.span()
    );
    // Timestamps of two workers may differ by the error of their clocks.
    let slack = Span::from_millis(3);
    assert!(
        times[1].transfer.span() + slack >= Span::from_millis(4),
        "{:?}",
        times[1].transfer.span()
    );
}

#[test]
fn a_plan_is_switched_without_stopping() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "add 1")]);
    let mut next = model(1, "add 10");
    next.plan = 2;
    heard.client.load(WorkerId(0), next);
    heard.loaded(1);
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(
        heard.end(),
        (0, Ok(vec![2.0])),
        "the plan before goes on while the next is loaded"
    );
    heard.client.activate(2);
    heard.next("the switch", |event| {
        matches!(event, Event::Activated { plan: 2, .. }).then_some(())
    });
    heard.run(1, &[stage(0, 1)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (1, Ok(vec![11.0])));
    heard.run(2, &[stage(0, 0)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (2, Err(BatchFailure::NotHeld)));
}

#[test]
fn an_error_or_a_panic_costs_its_batch() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "fail"), model(1, "panic")]);
    let mut batch = 0;
    let mut check = |partition, value: f32| {
        batch += 1;
        heard.run(batch, &[stage(0, partition)], &[value]).unwrap();
        let (ended, result) = heard.end();
        assert_eq!(ended, batch);
        result
    };
    for _ in 0..3 {
        let failed = check(0, -1.0);
        assert!(
            matches!(&failed, Err(BatchFailure::Session(why)) if why.contains("less than nothing")),
            "{failed:?}"
        );
        assert_eq!(check(0, 1.0), Ok(vec![1.0]));
        assert_eq!(
            check(1, -1.0),
            Err(BatchFailure::Panicked("less than nothing".to_owned()))
        );
        assert_eq!(check(1, 1.0), Ok(vec![1.0]), "the partition is built anew");
    }
    assert_eq!(worker.stats().failed, 6);
}

#[test]
fn what_is_not_there_is_said() {
    let worker = listen("127.0.0.1:0", &Loader::default());
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "add 1")]);
    heard.run(0, &[stage(0, 9)], &[1.0]).unwrap();
    assert_eq!(heard.end(), (0, Err(BatchFailure::NotHeld)));
    let mut elsewhere = stage(0, 0);
    elsewhere.share = 5;
    heard.run(1, &[elsewhere], &[1.0]).unwrap();
    assert_eq!(heard.end(), (1, Err(BatchFailure::NotHeld)));
    assert_eq!(heard.run(2, &[], &[1.0]), Err(DispatchError::Path));
    assert_eq!(
        heard.run(2, &[stage(3, 0)], &[1.0]),
        Err(DispatchError::Down(WorkerId(3)))
    );
    heard.client.load(WorkerId(0), model(4, "nonsense"));
    let reason = heard.next("a refusal", |event| match event {
        Event::NotLoaded { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.contains("there is no such sum"), "{reason}");
    let mut nowhere = model(5, "add 1");
    nowhere.shares = vec![0, 7];
    heard.client.load(WorkerId(0), nowhere);
    let reason = heard.next("a refusal", |event| match event {
        Event::NotLoaded { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.contains("no share 7"), "{reason}");
}

#[test]
fn of_the_batches_that_wait_for_a_share_the_one_booked_first_runs_first() {
    let loader = Loader::default();
    let locals = LocalWorkers::default();
    let worker = Worker::local(options(&locals), Arc::new(loader.clone()), clock()).unwrap();
    let heard = Heard::start(ClientOptions {
        locals,
        ..ClientOptions::default()
    });
    heard.add(0, worker.address(), [model(0, "gate")]);
    let booked = |at| Stage {
        booked: Timestamp::from_micros(at),
        ..stage(0, 0)
    };
    heard.run(0, &[booked(0)], &[0.0]).unwrap();
    loader.gate.came(1);
    for (batch, at) in [(1, 30), (2, 20), (3, 10), (4, 20)] {
        heard.run(batch, &[booked(at)], &[0.0]).unwrap();
    }
    // A worker handles messages in order, so after this reply all earlier ones were handled.
    heard.client.load(WorkerId(0), model(1, "add 1"));
    heard.loaded(1);
    loader.gate.open(5);
    let order: Vec<u64> = (0..5).map(|_| heard.end().0).collect();
    assert_eq!(order, [0, 3, 2, 4, 1]);
}

#[test]
fn queues_are_bounded_by_batches_and_by_bytes() {
    let loader = Loader::default();
    let options = WorkerOptions {
        max_queue: 2,
        max_held_bytes: 100,
        ..WorkerOptions::default()
    };
    let at = "127.0.0.1:0".parse().unwrap();
    let worker = Worker::listen(at, options, Arc::new(loader.clone()), clock()).unwrap();
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "gate")]);
    let path = [stage(0, 0)];
    heard.run(0, &path, &[0.0]).unwrap();
    loader.gate.came(1);
    for batch in 1..=3 {
        heard.run(batch, &path, &[0.0]).unwrap();
    }
    assert_eq!(
        heard.end(),
        (3, Err(BatchFailure::QueueFull)),
        "one runs, two wait"
    );
    loader.gate.open(3);
    for batch in 0..3 {
        assert_eq!(heard.end(), (batch, Ok(vec![0.0])));
    }
    heard.run(4, &path, &[0.0; 26]).unwrap();
    assert_eq!(
        heard.end(),
        (4, Err(BatchFailure::QueueFull)),
        "104 bytes are more than 100"
    );
    assert_eq!(heard.run(5, &path, &[0.0; 25]), Ok(()));
    loader.gate.came(4);
    assert_eq!(heard.run(5, &path, &[0.0]), Err(DispatchError::Duplicate(key(5))));
    loader.gate.open(1);
    assert_eq!(heard.end(), (5, Ok(vec![0.0; 25])));
    assert_eq!(worker.stats().rejected, 2);
}

#[test]
fn a_message_that_the_next_worker_does_not_take_fails_its_batch() {
    let last = WorkerOptions {
        limits: weir_partition::wire::Limits {
            max_message_bytes: 1_000,
            ..Default::default()
        },
        ..WorkerOptions::default()
    };
    let at = "127.0.0.1:0".parse().unwrap();
    let (first, last) = (
        listen("127.0.0.1:0", &Loader::default()),
        Worker::listen(at, last, Arc::new(Loader::default()), clock()).unwrap(),
    );
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, first.address(), [model(0, "add 1")]);
    heard.add(1, last.address(), [model(1, "add 1")]);
    let path = [stage(0, 0), stage(1, 1)];
    heard.run(0, &path, &[0.0; 1_000]).unwrap();
    let (_, failed) = heard.end();
    assert!(
        matches!(&failed, Err(BatchFailure::Unreachable(why)) if why.contains("more than")),
        "{failed:?}"
    );
    heard.run(1, &path, &[0.0]).unwrap();
    assert_eq!(heard.end(), (1, Ok(vec![2.0])), "the link goes on");
    heard.run(2, &path[1..], &[0.0; 1_000]).unwrap();
    let (_, failed) = heard.end();
    assert!(
        matches!(&failed, Err(BatchFailure::Unreachable(why)) if why.contains("more than")),
        "{failed:?}"
    );
    heard
        .client
        .load(WorkerId(1), model(2, &format!("add 1{}", " ".repeat(1_000))));
    heard.next("a refusal", |event| {
        matches!(event, Event::NotLoaded { .. }).then_some(())
    });
    heard.run(3, &path[1..], &[0.0]).unwrap();
    assert_eq!(heard.end(), (3, Ok(vec![1.0])), "the connection goes on");
}

#[test]
fn a_client_that_ends_fails_what_is_in_flight() {
    let loader = Loader::default();
    let worker = listen("127.0.0.1:0", &loader);
    let heard = Heard::start(ClientOptions::default());
    heard.add(0, worker.address(), [model(0, "gate")]);
    heard.run(0, &[stage(0, 0)], &[0.0]).unwrap();
    heard.run(1, &[stage(0, 0)], &[0.0]).unwrap();
    loader.gate.came(1);
    let failed = heard.rest().into_iter().filter_map(|event| match event {
        Event::Failed { key, .. } => Some(key.batch.0),
        _ => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), [0, 1]);
    loader.gate.open(2);
}
