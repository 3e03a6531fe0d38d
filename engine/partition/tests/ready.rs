//! Sessions are made ready, run and dropped by the thread of their share.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::{Arc, Mutex};

use weir_flow::{DeviceKind, PartitionLoader, PartitionSession, SessionError, Tensor};
use weir_partition::wire::LoadPartition;
use weir_partition::{ClientOptions, Event, LocalWorkers, Worker, WorkerId};

use crate::common::{Heard, LONG, clock, model, options, stage};

/// Log of actions on sessions, each with the name of its thread.
type Log = Arc<Mutex<Vec<(String, String)>>>;

fn write(log: &Log, what: String) {
    let thread = std::thread::current().name().unwrap_or_default().to_owned();
    log.lock().unwrap().push((what, thread));
}

/// Opens sessions of any name that write into the log. `fails` and `panics` do so when they begin.
struct Witness(Log);

struct Witnessed {
    name: String,
    log: Log,
}

impl PartitionLoader for Witness {
    fn load(
        &self,
        partition: &[u8],
        _device: DeviceKind,
        _half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError> {
        Ok(Box::new(Witnessed {
            name: String::from_utf8_lossy(partition).into_owned(),
            log: Arc::clone(&self.0),
        }))
    }
}

impl PartitionSession for Witnessed {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError> {
        write(&self.log, format!("{} runs", self.name));
        Ok(inputs)
    }

    fn begin(&mut self, batch: usize) -> Result<(), SessionError> {
        write(&self.log, format!("{} begins with {batch}", self.name));
        match self.name.as_str() {
            "panics" => panic!("no device"),
            "fails" => Err(SessionError::Run {
                model: self.name.clone(),
                batch,
                reason: "out of memory".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

impl Drop for Witnessed {
    fn drop(&mut self) {
        write(&self.log, format!("{} goes", self.name));
    }
}

/// A worker of two shares, and a client that has no partitions there yet.
fn start(log: &Log) -> (Worker, Heard) {
    let locals = LocalWorkers::default();
    let options = weir_partition::WorkerOptions {
        shares: 2,
        ..options(&locals)
    };
    let worker = Worker::local(options, Arc::new(Witness(Arc::clone(log))), clock()).unwrap();
    let heard = Heard::start(ClientOptions {
        locals,
        ..ClientOptions::default()
    });
    (worker, heard)
}

fn taken(log: &Log) -> Vec<(String, String)> {
    std::mem::take(&mut log.lock().unwrap())
}

fn by(what: &str, share: u32) -> (String, String) {
    (what.to_owned(), format!("weir-share-{share}"))
}

#[test]
fn a_session_is_made_ready_by_the_thread_that_runs_it_before_it_is_said_to_be_loaded() {
    let log = Log::default();
    let (worker, heard) = start(&log);
    let both = LoadPartition {
        batch: 7,
        shares: vec![0, 1],
        ..model(0, "part")
    };
    heard.add(0, worker.address(), [both]);
    let mut began = taken(&log);
    began.sort();
    assert_eq!(began, [by("part begins with 7", 0), by("part begins with 7", 1)]);
    heard.run(0, &[stage(0, 0)], &[1.0]).unwrap();
    heard.end().1.unwrap();
    assert_eq!(taken(&log), [by("part runs", 0)]);
}

#[test]
fn a_session_that_cannot_begin_is_not_loaded() {
    let log = Log::default();
    let (worker, heard) = start(&log);
    heard.add(0, worker.address(), []);
    for (partition, name, said) in [(1, "fails", "out of memory"), (2, "panics", "no device")] {
        heard.client.load(WorkerId(0), model(partition, name));
        let reason = heard.next("not loaded", |event| match event {
            Event::NotLoaded {
                partition: id,
                reason,
                ..
            } if id.0 == partition => Some(reason.clone()),
            _ => None,
        });
        assert!(reason.contains(said), "{reason}");
    }
}

#[test]
fn a_batch_that_no_profile_has_is_refused_before_anything_is_opened() {
    let log = Log::default();
    let (worker, heard) = start(&log);
    heard.add(0, worker.address(), []);
    let huge = LoadPartition {
        batch: u32::MAX,
        ..model(0, "part")
    };
    heard.client.load(WorkerId(0), huge);
    let reason = heard.next("not loaded", |event| match event {
        Event::NotLoaded { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.contains("larger than 4096"), "{reason}");
    assert_eq!(taken(&log), []);
}

#[test]
fn a_worker_that_stops_has_dropped_its_sessions() {
    let log = Log::default();
    let (worker, heard) = start(&log);
    let both = LoadPartition {
        shares: vec![0, 1],
        ..model(0, "part")
    };
    heard.add(0, worker.address(), [both]);
    taken(&log);
    worker.stop();
    let mut gone = taken(&log);
    gone.sort();
    assert_eq!(gone, [by("part goes", 0), by("part goes", 1)]);
    // The client receives an event.
    assert!(!heard.fall(0, 0..0).is_empty(), "within {LONG:?}");
}
