//! For the benchmark of overhead: how long a message between an actor and a worker takes, over the same channels.

use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, Message, System};
use crossbeam_channel::Sender;
use tokio::sync::oneshot;
use weir_flow::{Batching, DeviceKind, Inference, Item, Model, Session, SessionError, Step};
use weir_types::{BatchId, ModuleId, SlotId, Span};

use crate::batch::{BatchResult, Job, PlacedModel, WorkerHandle};
use crate::clock::Clock;
use crate::processor_time::ProcessorTimes;
use crate::worker::Worker;

/// A model that takes no time.
struct EmptyModel;

impl Model for EmptyModel {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self))
    }
}

impl Session for EmptyModel {
    fn run(
        &mut self,
        _items: &[Item],
        _on_step: &mut dyn FnMut(Step),
    ) -> Result<Vec<Inference>, SessionError> {
        Ok(Vec::new())
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Returned;

/// Sends an empty batch to its worker, and the next when the result has returned.
struct PingActor {
    jobs: Sender<Job>,
    rounds: u64,
    clock: Clock,
    done: Option<oneshot::Sender<Span>>,
}

impl PingActor {
    fn send(&self) {
        let job = Job {
            module: ModuleId(0),
            model: 0,
            batch: BatchId(self.rounds),
            items: Vec::new(),
            useful_until: None,
        };
        // The channel of one is free: the batch before is done.
        let _ = self.jobs.try_send(job);
    }
}

impl Actor for PingActor {
    type Context = Context<Self>;

    fn started(&mut self, _context: &mut Self::Context) {
        self.send();
    }
}

impl Handler<Returned> for PingActor {
    type Result = ();

    fn handle(&mut self, _: Returned, _context: &mut Self::Context) {
        self.rounds -= 1;
        if self.rounds > 0 {
            self.send();
        } else if let Some(done) = self.done.take() {
            let _ = done.send(self.clock.now().since(weir_types::Timestamp::ZERO));
        }
    }
}

/// Mean time of one message between an actor and a worker's thread: half of a round trip.
///
/// # Errors
/// Where the machine gives no thread.
pub fn measure_message_latency(rounds: u64) -> std::io::Result<Span> {
    let clock = Clock::start();
    let opener: Arc<dyn Model> = Arc::new(EmptyModel);
    let placed = PlacedModel {
        model: 0,
        name: "nothing".to_owned(),
        device: DeviceKind::Cpu,
        opener,
    };
    let worker = Worker::open(SlotId(0), clock, vec![placed], false).map_err(std::io::Error::other)?;
    let mailbox = Context::<PingActor>::new();
    let address = mailbox.address();
    let on_done = Box::new(move |_: BatchResult| address.do_send(Returned));
    let Err(worker) = worker.into_instance() else {
        return Err(std::io::Error::other("a model of items has no instance"));
    };
    let WorkerHandle { jobs, threads, .. } = worker.start(
        (Box::new(|_| ()), on_done, Box::new(|_| ())),
        &ProcessorTimes::start(),
    )?;
    let system = System::new();
    let round_trips = system.block_on(async {
        let (done, round_trips) = oneshot::channel();
        mailbox.run(PingActor {
            jobs,
            rounds: rounds.max(1),
            clock: Clock::start(),
            done: Some(done),
        });
        round_trips.await
    });
    drop(system);
    for thread in threads {
        thread
            .join()
            .map_err(|_| std::io::Error::other("the worker panicked"))?;
    }
    Ok(round_trips.map_err(std::io::Error::other)? / (2 * rounds.max(1)))
}
