//! A probe for the benchmark of overhead: what a message between an actor and a worker costs, by the very same wire.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message, System};
use crossbeam_channel::Sender;
use tokio::sync::oneshot;
use weir_flow::{Batching, DeviceKind, Inference, Item, Model, Session, SessionError, Step};
use weir_types::{BatchId, ModuleId, SlotId, Span};

use crate::clock::Clock;
use crate::worker::{Job, Placed, Ran, Worker, WorkerHandle};

/// Takes no time.
struct Nothing;

impl Model for Nothing {
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

impl Session for Nothing {
    fn run(&mut self, _items: &[Item], _lap: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        Ok(Vec::new())
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Back;

/// Sends an empty batch to its worker, and the next when it is back.
struct Player {
    jobs: Sender<Job>,
    rounds: u64,
    clock: Clock,
    done: Option<oneshot::Sender<Span>>,
}

impl Player {
    fn serve(&self) {
        let job = Job {
            module: ModuleId(0),
            model: 0,
            batch: BatchId(self.rounds),
            items: Vec::new(),
        };
        // The channel of one is free: the batch before is back.
        let _ = self.jobs.try_send(job);
    }
}

impl Actor for Player {
    type Context = Context<Self>;

    fn started(&mut self, _context: &mut Self::Context) {
        self.serve();
    }
}

impl Handler<Back> for Player {
    type Result = ();

    fn handle(&mut self, _: Back, _context: &mut Self::Context) {
        self.rounds -= 1;
        if self.rounds > 0 {
            self.serve();
        } else if let Some(done) = self.done.take() {
            let _ = done.send(self.clock.now().since(weir_types::Timestamp::ZERO));
        }
    }
}

/// Mean time of one message between an actor and a worker's thread: half of a round trip.
///
/// # Errors
/// Where the machine gives no thread.
pub fn hop(rounds: u64) -> std::io::Result<Span> {
    let clock = Clock::start();
    let opener: Arc<dyn Model> = Arc::new(Nothing);
    let placed = Placed {
        model: 0,
        name: "nothing".to_owned(),
        device: DeviceKind::Cpu,
        opener,
    };
    let worker = Worker::open(SlotId(0), clock, vec![placed]).map_err(std::io::Error::other)?;
    let back: Arc<std::sync::OnceLock<actix::Addr<Player>>> = Arc::default();
    let answer = Arc::clone(&back);
    let WorkerHandle { jobs, thread } = worker.start(Box::new(move |_: Ran| answer.wait().do_send(Back)))?;
    let system = System::new();
    let took = system.block_on(async {
        let (done, took) = oneshot::channel();
        let player = Player {
            jobs,
            rounds: rounds.max(1),
            clock: Clock::start(),
            done: Some(done),
        }
        .start();
        let _ = back.set(player);
        took.await
    });
    drop(system);
    thread
        .join()
        .map_err(|_| std::io::Error::other("the worker panicked"))?;
    Ok(took.map_err(std::io::Error::other)? / (2 * rounds.max(1)))
}
