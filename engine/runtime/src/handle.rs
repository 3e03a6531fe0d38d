//! An engine on a thread of its own, and what controls it from others.

use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::bounded;
use tokio::sync::mpsc;
use weir_flow::{PacketObserver, PacketSubscription, StopFlag};
use weir_policy::gears::Gears;
use weir_policy::{Policy, Report, StreamReport};

use crate::assembly::{Assembly, RunError, RunOptions};
use crate::clock::Clock;
use crate::command::{Answer, Command, MAX_COMMANDS, NewStream, Service, StreamChange, StreamError};
use crate::prepare::prepare_swap;
use crate::run::run_and_serve;
use crate::snapshot::Snapshot;

/// The live engine.
pub struct Engine;

impl Engine {
    /// Starts a graph: returns when its sources have begun. The control thread is one of its own; what
    /// [`run`](crate::run()) does on the calling thread goes on there until the sources have ended or `stop` is raised; with
    /// [`RunOptions::until_stopped`] until `stop` is raised.
    ///
    /// # Errors
    /// As [`run`](crate::run()).
    pub fn start(assembly: Assembly, options: RunOptions, stop: &StopFlag) -> Result<Handle, RunError> {
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let (started, has_started) = bounded(1);
        let clock = Clock::start();
        let preparation = Arc::new(Preparation {
            clock,
            options: options.clone(),
            stop: stop.clone(),
            one_at_a_time: Mutex::default(),
        });
        let service = Service {
            clock,
            commands: receiver,
            started,
        };
        let own_stop = stop.clone();
        let builder = std::thread::Builder::new().name("weir-control".to_owned());
        let thread = builder.spawn(move || run_and_serve(assembly, &options, &own_stop, Some(service)))?;
        if has_started.recv().is_err() {
            // It has ended before, with the reason.
            let ended = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            return Err(ended.err().unwrap_or(RunError::Stopped));
        }
        Ok(Handle {
            control: Control {
                commands,
                preparation,
            },
            stop: stop.clone(),
            thread: Some(thread),
        })
    }
}

/// An engine that runs. Stopped when it is dropped, without being waited for.
pub struct Handle {
    control: Control,
    stop: StopFlag,
    thread: Option<JoinHandle<Result<Report, RunError>>>,
}

impl Handle {
    /// Returns a handle with which other threads change the engine.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends its sources, waits for what is in flight, and gives the report.
    ///
    /// # Errors
    /// As [`run`](crate::run()).
    pub fn stop(self) -> Result<Report, RunError> {
        self.stop.raise();
        self.wait()
    }

    /// Waits until it ends, and gives the report.
    ///
    /// # Errors
    /// As [`run`](crate::run()).
    pub fn wait(mut self) -> Result<Report, RunError> {
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            None => Err(RunError::Stopped),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop.raise();
        }
    }
}

impl Deref for Handle {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

/// Changes an engine while it runs, and shows its state. Its methods block until the control thread has answered: they are
/// not to be called from asynchronous code.
#[derive(Clone)]
pub struct Control {
    commands: mpsc::Sender<Command>,
    preparation: Arc<Preparation>,
}

/// State for the preparation of a graph that will replace the one in force.
struct Preparation {
    clock: Clock,
    options: RunOptions,
    stop: StopFlag,
    /// Graphs follow each other: each is made ready knowing the one in force.
    one_at_a_time: Mutex<()>,
}

impl Control {
    /// Adds a stream: its frames become requests from now on. That its source cannot be opened is in its state, as with the
    /// streams that the graph begins with.
    ///
    /// # Errors
    /// [`StreamError`]: nothing was changed.
    pub fn add_stream(&self, stream: NewStream) -> Result<(), StreamError> {
        self.ask(|answer| Command::Add(Box::new(stream), None, answer))
    }

    /// As [`Control::add_stream`], where its frames enter the modules and sinks of those names, as if it were among their
    /// `inputs`.
    ///
    /// # Errors
    /// [`StreamError`]: nothing was changed.
    pub fn add_stream_into(&self, stream: NewStream, entered: Vec<String>) -> Result<(), StreamError> {
        self.ask(|answer| Command::Add(Box::new(stream), Some(entered), answer))
    }

    /// Removes a stream: its source ends, what is in flight is delivered or dropped, and its name is free again when this
    /// returns with what it came to. What is in flight for longer than [`RunOptions::grace`] is dropped.
    ///
    /// # Errors
    /// [`StreamError`]: nothing was changed.
    pub fn remove_stream(&self, name: &str) -> Result<StreamReport, StreamError> {
        self.ask(|answer| Command::Remove(name.to_owned(), answer))
    }

    /// Pauses a stream: its source is closed, and opened again by [`Control::resume_stream`]; a recording begins again then.
    /// What is in flight comes out.
    ///
    /// # Errors
    /// [`StreamError`]: nothing was changed.
    pub fn pause_stream(&self, name: &str) -> Result<(), StreamError> {
        self.ask(|answer| Command::Pause(name.to_owned(), answer))
    }

    /// Resumes a stream that is paused; nothing happens to one that is not.
    ///
    /// # Errors
    /// [`StreamError`]: nothing was changed.
    pub fn resume_stream(&self, name: &str) -> Result<(), StreamError> {
        self.ask(|answer| Command::Resume(name.to_owned(), answer))
    }

    /// The observer gets the encoded packets of a stream until the subscription is dropped or the stream is removed. A stream
    /// that is added later under its name is another one.
    ///
    /// # Errors
    /// [`StreamError`]: there is no such stream, or it is being removed.
    pub fn observe_packets(
        &self,
        name: &str,
        observer: Arc<dyn PacketObserver>,
    ) -> Result<PacketSubscription, StreamError> {
        self.ask(|answer| Command::ObservePackets(name.to_owned(), observer, answer))
    }

    /// Changes the objective, the weight, the reserve or the groups of a stream from now on. Requests in flight keep their deadlines.
    ///
    /// # Errors
    /// [`StreamError`]: nothing was changed.
    pub fn change_stream(&self, name: &str, change: StreamChange) -> Result<(), StreamError> {
        self.ask(|answer| Command::Change(name.to_owned(), change, answer))
    }

    /// Puts another policy into force. What runs goes on, what waits is ordered by it, and nothing is lost.
    ///
    /// # Errors
    /// [`StreamError::FixedPolicy`] where it departs from the one in force in what is
    /// [fixed](Policy::fixed_differences) while a graph runs; nothing was changed then.
    pub fn apply_policy(&self, policy: Policy) -> Result<(), StreamError> {
        self.ask(|answer| Command::ApplyPolicy(Box::new(policy), answer))
    }

    /// Puts other gears into force, which were read for the graph that runs; `None`: what the graph itself sets its cascades to.
    /// Certainties change at once; what was handed on stays so.
    ///
    /// # Errors
    /// [`StreamError::Stopping`].
    pub fn apply_gears(&self, gears: Option<Gears>) -> Result<(), StreamError> {
        self.ask(|answer| Command::ApplyGears(gears.map(Box::new), answer))
    }

    /// Puts another graph into force. Its models are opened and measured and its sinks are opened first, beside the graph that
    /// runs. Then the frames of all streams enter it, from one to the next: those of a source of that name where that one does,
    /// those of others wherever any source does. What is in flight is finished by the graph before, so no frame is lost or
    /// counted twice. Streams stay as they are, also those that the graph does not name; sinks that are the same in both graphs
    /// go on, and others of the graph before are completed when nothing of it is in flight. A sink of the same name with other
    /// settings has to write another file. Models that are partitioned over workers keep their partitions: the workers and these
    /// models have to be the same in both graphs. A plan that differs from the one in force is switched to afterwards.
    ///
    /// # Errors
    /// [`StreamError`]: nothing was changed.
    pub fn swap(&self, assembly: Assembly) -> Result<(), StreamError> {
        let Preparation {
            clock,
            options,
            stop,
            one_at_a_time,
        } = &*self.preparation;
        let _guard = one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.ask(Command::Graph)?;
        let prepared = prepare_swap(assembly, &before, *clock, options, stop);
        let prepared = prepared.map_err(|error| StreamError::Graph(Box::new(error)))?;
        self.ask(|answer| Command::Swap(Box::new(prepared), answer))
    }

    /// The state now: streams, and the report until now.
    ///
    /// # Errors
    /// [`StreamError::Stopping`] where the engine has ended.
    pub fn snapshot(&self) -> Result<Snapshot, StreamError> {
        self.ask(Command::Snapshot).map(|snapshot| *snapshot)
    }

    fn ask<T>(&self, command: impl FnOnce(Answer<T>) -> Command) -> Result<T, StreamError> {
        let (answer, answered) = bounded(1);
        let sent = self.commands.blocking_send(command(answer));
        sent.map_err(|_| StreamError::Stopping)?;
        // A command that the end of the engine overtakes is not answered.
        answered.recv().unwrap_or(Err(StreamError::Stopping))
    }
}
