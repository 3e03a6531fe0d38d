//! An async runtime on the thread that calls it, for clients of brokers that have no other form: what it runs stands still
//! between calls, and ends with it.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// See the module.
pub(super) struct LocalRuntime(Option<Runtime>);

/// Says that what is waited for will not come.
#[derive(Default)]
pub(super) struct Signal(Notify);

impl Signal {
    /// Ends what waits, or else the next wait.
    #[cfg(feature = "nats")]
    pub(super) fn raise(&self) {
        self.0.notify_one();
    }
}

/// Outcome of a wait for a future.
pub(super) enum Waited<T> {
    /// The future completed with this value.
    Done(T),
    /// The timeout passed before the future completed.
    TimedOut,
    /// The signal was raised, or the runtime is gone.
    Stopped,
}

impl LocalRuntime {
    /// # Errors
    /// The machine gives no file handle for it.
    pub(super) fn new() -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| weir_files::io_reason(&error))?;
        Ok(Self(Some(runtime)))
    }

    /// Runs it within `limit`, and meanwhile what else was started here, until `signal` is raised.
    pub(super) fn run<F: Future>(&self, limit: Duration, signal: &Signal, future: F) -> Waited<F::Output> {
        let Some(runtime) = &self.0 else {
            return Waited::Stopped;
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                ended = tokio::time::timeout(limit, future) => {
                    ended.map_or(Waited::TimedOut, Waited::Done)
                }
                () = signal.0.notified() => Waited::Stopped,
            }
        })
    }

    /// Lets what was started here go on for that long; says whether `signal` was not raised.
    #[cfg(any(feature = "kafka", feature = "nats"))]
    pub(super) fn turn(&self, length: Duration, signal: &Signal) -> bool {
        !matches!(
            self.run(length, signal, std::future::pending::<()>()),
            Waited::Stopped
        )
    }
}

impl Drop for LocalRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // A look-up of a name that hangs is not waited for.
            runtime.shutdown_background();
        }
    }
}
