//! Parts that all connections of a tunnel share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::certificates::Credentials;

/// Connections at a time.
const MAX_LINKS: usize = 1_024;
/// Time between two lines of the log about connections that were refused: anybody can cause them.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Direction of a first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Of the end that connected.
    Call,
    /// Of the end that accepted.
    Reply,
}

/// Decides on peers whose certificate is valid.
pub trait Gate: Send + Sync + 'static {
    /// Whether the peer of this name may open a connection by this message, without its length.
    ///
    /// # Errors
    /// A reason for the log.
    fn admit(&self, name: &str, opening: Opening, message: &[u8]) -> Result<(), String>;

    /// Counts a connection to this node that was refused.
    fn on_refused(&self);
}

pub(crate) struct Shared {
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) credentials: Credentials,
    /// Socket on which the transport accepts.
    pub(crate) inner: PathBuf,
    links: Arc<Semaphore>,
    /// Each connection holds a sender, so that the end of all is seen.
    running: WeakSender<()>,
    refusals: Mutex<Refusals>,
}

/// Refused connections since the latest line of the log.
#[derive(Default)]
struct Refusals {
    logged: Option<Instant>,
    silent: u64,
}

/// A place among the connections.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _running: Sender<()>,
}

impl Shared {
    pub(crate) fn new(
        gate: Arc<dyn Gate>,
        credentials: Credentials,
        inner: PathBuf,
        running: WeakSender<()>,
    ) -> Self {
        Self {
            gate,
            credentials,
            inner,
            links: Arc::new(Semaphore::new(MAX_LINKS)),
            running,
            refusals: Mutex::default(),
        }
    }

    /// A place for one more connection, unless there are too many or the tunnel is closing.
    pub(crate) fn place(&self) -> Result<Place, String> {
        let permit = Arc::clone(&self.links).try_acquire_owned();
        let permit = permit.map_err(|_| format!("there are {MAX_LINKS} connections"))?;
        let running = self.running.upgrade().ok_or("this node is leaving")?;
        Ok(Place {
            _permit: permit,
            _running: running,
        })
    }

    /// Counts a connection to this node that was refused, and logs it unless another one was logged just now.
    pub(crate) fn refuse(&self, from: &dyn std::fmt::Display, reason: &str) {
        self.gate.on_refused();
        let now = Instant::now();
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = refusals.logged.is_none_or(|logged| now - logged >= LOG_INTERVAL);
        if is_due {
            let silent = std::mem::take(&mut refusals.silent);
            refusals.logged = Some(now);
            tracing::warn!(%from, reason, silent, "a connection was refused");
        } else {
            refusals.silent += 1;
        }
    }
}
