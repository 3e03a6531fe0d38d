//! Benchmark of one hop: the time to send a tensor from one worker to the next, over loopback TCP between
//! processes and within one process.
//!
//! `cargo run --release -p weir-partition --example hop`. The processes are this program, started again. It
//! prints two figures. The first is the hop as the workers report it on the engine's clock. The second does
//! not depend on clock synchronization: the end-to-end time over two workers minus that over one.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a benchmark ends where it cannot go on")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, unbounded};
use weir_flow::{DeviceKind, Element, PartitionLoader, PartitionSession, SessionError, Tensor};
use weir_partition::wire::{Address, BatchKey, LoadPartition, PartitionId};
use weir_partition::{
    Client, ClientOptions, Event, LocalWorkers, Now, Stage, Worker, WorkerId, WorkerOptions,
};
use weir_types::{BatchId, ModuleId, Timestamp};

const ROUNDS: u64 = 2_000;
const WARM_UP: u64 = 200;

/// Passes its inputs on.
struct Pass;

impl PartitionSession for Pass {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError> {
        Ok(inputs)
    }
}

impl PartitionLoader for Pass {
    fn load(
        &self,
        _part: &[u8],
        _device: DeviceKind,
        _half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError> {
        Ok(Box::new(Pass))
    }
}

fn clock() -> Now {
    let began = Instant::now();
    Arc::new(move || Timestamp::from_micros(began.elapsed().as_micros() as u64))
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process ends with this program in any case.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn process() -> (Process, Address) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.arg("worker").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (Process(child), Address::Tcp(line.trim().parse().unwrap()))
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("worker") {
        let at = "127.0.0.1:0".parse().unwrap();
        let worker = Worker::listen(at, WorkerOptions::default(), Arc::new(Pass), clock()).unwrap();
        println!("{}", worker.address());
        loop {
            std::thread::park();
        }
    }
    let processes = [process(), process()];
    measure(
        "loopback TCP, two processes",
        LocalWorkers::default(),
        processes.each_ref().map(|(_, at)| *at),
    );
    let locals = LocalWorkers::default();
    let workers = [0, 1].map(|_| {
        let options = WorkerOptions {
            locals: locals.clone(),
            ..WorkerOptions::default()
        };
        Worker::local(options, Arc::new(Pass), clock()).unwrap()
    });
    measure(
        "within one process",
        locals,
        workers.each_ref().map(Worker::address),
    );
}

fn measure(what: &str, locals: LocalWorkers, addresses: [Address; 2]) {
    let (sender, events) = unbounded();
    let options = ClientOptions {
        locals,
        ..ClientOptions::default()
    };
    let client = Client::start(options, clock(), Box::new(move |event| drop(sender.send(event)))).unwrap();
    for (worker, address) in (0..).zip(addresses) {
        let load = LoadPartition {
            partition: PartitionId(worker),
            plan: 0,
            shares: vec![0],
            half: false,
            batch: 1,
            declared: Vec::new(),
            model: Arc::default(),
        };
        client.load(WorkerId(worker), load);
        client.add(WorkerId(worker), address).unwrap();
    }
    let mut up = 0;
    while up < 2 {
        if let Event::Up { info, .. } = events.recv().unwrap() {
            println!("{what}: clocks are known to {}", info.uncertainty);
            up += 1;
        }
    }
    for bytes in [1 << 10, 64 << 10, 1 << 20, 4 << 20] {
        let one = ways(&client, &events, bytes, 1);
        let two = ways(&client, &events, bytes, 2);
        println!(
            "{what}, {:>4} KiB: hop p50 {:>6.0} us, p99 {:>6.0} us; end to end p50 {:>6.0} us over one worker, {:>6.0} us over two",
            bytes >> 10,
            quantile(&two.hops, 0.5),
            quantile(&two.hops, 0.99),
            quantile(&one.whole, 0.5),
            quantile(&two.whole, 0.5),
        );
    }
}

#[derive(Default)]
struct Times {
    hops: Vec<f64>,
    whole: Vec<f64>,
}

fn ways(client: &Client, events: &Receiver<Event>, bytes: usize, stages: u32) -> Times {
    let tensor = Tensor {
        name: "x".into(),
        element: Element::U8,
        shape: vec![bytes],
        data: vec![7; bytes],
    };
    let path: Vec<Stage> = (0..stages)
        .map(|worker| Stage {
            worker: WorkerId(worker),
            share: 0,
            partition: PartitionId(worker),
            booked: Timestamp::ZERO,
            sent: Timestamp::ZERO,
        })
        .collect();
    let mut times = Times::default();
    for batch in 0..WARM_UP + ROUNDS {
        let key = BatchKey {
            graph: 0,
            module: ModuleId(0),
            batch: BatchId(batch),
        };
        let inputs = vec![tensor.clone()];
        let began = Instant::now();
        client.run(key, 1, &path, inputs).unwrap();
        let stages = loop {
            match events.recv().unwrap() {
                Event::Done { key: of, times, .. } if of == key => break times,
                Event::Failed { failure, .. } => panic!("{failure}"),
                _ => {}
            }
        };
        if batch >= WARM_UP {
            times.whole.push(began.elapsed().as_secs_f64() * 1e6);
            let hops = stages.iter().skip(1).map(|stage| stage.transfer.span());
            times.hops.extend(hops.map(|span| span.micros() as f64));
        }
    }
    times
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * q).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}
