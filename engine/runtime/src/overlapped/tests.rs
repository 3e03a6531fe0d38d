//! A session whose steps wait until the test lets them go on, and report when they begin: no test waits for time.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use weir_flow::{Batching, DeviceKind, Model, Session};
use weir_types::{BatchId, ModuleId};

use super::*;
use crate::worker::Worker;

/// Longer than any step that is not stuck.
const STUCK: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Error,
    Panic,
}

type Report = (&'static str, u64);

/// Steps of one model: each reports its name and the number of the batch in it, and goes on when the test permits it.
#[derive(Clone)]
struct Steps {
    reports: Sender<Report>,
    go_on: BTreeMap<&'static str, Receiver<Option<Fault>>>,
    opened: Arc<AtomicU64>,
    counts: Arc<BTreeMap<&'static str, AtomicU64>>,
}

impl Steps {
    fn step(&self, name: &'static str, items: &[Item]) -> Result<(), SessionError> {
        let number = self.counts[name].fetch_add(1, Ordering::Relaxed);
        self.reports.send((name, number)).unwrap();
        match self.go_on[name].recv_timeout(STUCK).unwrap() {
            None => Ok(()),
            Some(Fault::Panic) => panic!("{name} panics by design"),
            Some(Fault::Error) => Err(SessionError::Run {
                model: "fake".into(),
                batch: items.len(),
                reason: format!("{name} fails by design"),
            }),
        }
    }
}

impl Model for Steps {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        unreachable!("it is opened in steps")
    }

    fn open_steps(&self, _device: DeviceKind) -> Result<SessionSteps, SessionError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(SessionSteps {
            prepare: Box::new(self.clone()),
            infer: Box::new(self.clone()),
            read_out: Box::new(self.clone()),
        })
    }
}

impl Prepare for Steps {
    fn prepare(&mut self, items: &[Item]) -> Result<StepData, SessionError> {
        self.step("prepare", items)?;
        Ok(Box::new(()))
    }
}

impl Infer for Steps {
    fn infer(&mut self, items: &[Item], _prepared: StepData) -> Result<StepData, SessionError> {
        self.step("infer", items)?;
        Ok(Box::new(()))
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

impl ReadOut for Steps {
    fn read_out(&mut self, items: &[Item], _outputs: StepData) -> Result<Vec<Inference>, SessionError> {
        self.step("read", items)?;
        Ok(Vec::new())
    }
}

/// A worker of one such model, and what the test sees and moves of it.
struct Bench {
    handle: WorkerHandle,
    reports: Receiver<Report>,
    go_on: BTreeMap<&'static str, Sender<Option<Fault>>>,
    opened: Arc<AtomicU64>,
    results: Receiver<BatchResult>,
}

const STEPS: [&str; 3] = ["prepare", "infer", "read"];

fn bench() -> Bench {
    let (reports, reported) = bounded(100);
    let (senders, receivers): (BTreeMap<_, _>, BTreeMap<_, _>) = STEPS
        .map(|name| {
            let (sender, receiver) = bounded(100);
            ((name, sender), (name, receiver))
        })
        .into_iter()
        .unzip();
    let opened = Arc::<AtomicU64>::default();
    let model = Steps {
        reports: reports.clone(),
        go_on: receivers,
        opened: Arc::clone(&opened),
        counts: Arc::new(STEPS.map(|name| (name, AtomicU64::new(0))).into_iter().collect()),
    };
    let placed = PlacedModel {
        model: 0,
        name: "fake".into(),
        device: DeviceKind::Cpu,
        opener: Arc::new(model),
    };
    let (done, results) = bounded(100);
    let on_launched = Box::new(move |launched: BatchLaunched| {
        reports.send(("launched", launched.batch.0)).unwrap();
    });
    let on_done = Box::new(move |result: BatchResult| done.send(result).unwrap());
    let worker = Worker::open(SlotId(0), Clock::start(), vec![placed], true).unwrap();
    let Err(worker) = worker.into_instance() else {
        panic!("it runs batches");
    };
    let handle = worker
        .start((on_launched, on_done, Box::new(|_| ())), &ProcessorTimes::start())
        .unwrap();
    Bench {
        handle,
        reports: reported,
        go_on: senders,
        opened,
        results,
    }
}

impl Bench {
    fn send(&self, batch: u64) {
        let job = Job {
            module: ModuleId(0),
            model: 0,
            batch: BatchId(batch),
            items: Vec::new(),
            useful_until: None,
        };
        self.handle.jobs.send(job).unwrap();
    }

    fn permit(&self, step: &str, fault: Option<Fault>) {
        self.go_on[step].send(fault).unwrap();
    }

    /// The next reports, which may come in any order.
    fn expect(&self, mut expected: Vec<Report>) {
        let mut reports: Vec<Report> = expected
            .iter()
            .map(|_| self.reports.recv_timeout(STUCK).unwrap())
            .collect();
        reports.sort_unstable();
        expected.sort_unstable();
        assert_eq!(reports, expected);
    }

    /// Number of the next batch that ends, and whether well.
    fn result(&self) -> (u64, Result<(), String>) {
        let result = self.results.recv_timeout(STUCK).unwrap();
        (result.batch.0, result.result.map(|_| ()))
    }

    /// Closes the channel of jobs; gives the results that were still to come.
    fn end(self) -> Vec<(u64, bool)> {
        let WorkerHandle { jobs, threads, .. } = self.handle;
        drop(jobs);
        for thread in threads {
            thread.join().unwrap();
        }
        let results = self.results.try_iter();
        results
            .map(|result| (result.batch.0, result.result.is_ok()))
            .collect()
    }
}

#[test]
fn a_batch_is_prepared_while_one_runs_and_read_while_the_next_runs() {
    let bench = bench();
    bench.send(0);
    bench.expect(vec![("prepare", 0)]);
    bench.permit("prepare", None);
    bench.expect(vec![("launched", 0), ("infer", 0)]);
    bench.send(1);
    bench.expect(vec![("prepare", 1)]);
    bench.permit("prepare", None);
    // It is prepared, and the run before it is not over: nothing more happens until that is.
    assert!(bench.reports.is_empty());
    bench.permit("infer", None);
    bench.expect(vec![("read", 0), ("launched", 1), ("infer", 1)]);
    bench.permit("infer", None);
    bench.permit("read", None);
    bench.expect(vec![("read", 1)]);
    bench.permit("read", None);
    assert_eq!((bench.result(), bench.result()), ((0, Ok(())), (1, Ok(()))));
    assert_eq!(bench.end(), []);
}

#[test]
fn a_batch_that_fails_in_any_step_is_launched_and_ends_once_and_the_next_ones_run() {
    for step in STEPS {
        for fault in [Fault::Error, Fault::Panic] {
            let bench = bench();
            for name in STEPS {
                for batch in 0..3 {
                    bench.permit(name, (name == step && batch == 1).then_some(fault));
                }
            }
            let mut ended = Vec::new();
            for batch in 0..3 {
                bench.send(batch);
                ended.push(bench.result());
            }
            let expected = match fault {
                Fault::Error => format!("model fake failed on a batch of 0: {step} fails by design"),
                Fault::Panic => format!("the session panicked: {step} panics by design"),
            };
            assert_eq!(
                ended,
                [(0, Ok(())), (1, Err(expected)), (2, Ok(()))],
                "{step} {fault:?}"
            );
            assert_eq!(bench.opened.load(Ordering::Relaxed), 2, "{step} {fault:?}");
            let launched = bench.reports.try_iter().filter(|(name, _)| *name == "launched");
            assert_eq!(launched.map(|(_, batch)| batch).collect::<Vec<_>>(), [0, 1, 2]);
            assert_eq!(bench.end(), []);
        }
    }
}

#[test]
fn what_was_sent_ends_in_order_when_no_more_jobs_come() {
    let bench = bench();
    bench.send(0);
    bench.expect(vec![("prepare", 0)]);
    bench.permit("prepare", None);
    bench.expect(vec![("launched", 0), ("infer", 0)]);
    bench.send(1);
    for name in STEPS {
        bench.permit(name, None);
        bench.permit(name, None);
    }
    assert_eq!(bench.end(), [(0, true), (1, true)]);
}
