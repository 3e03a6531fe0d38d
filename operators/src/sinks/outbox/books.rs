//! Counters of an outbox, and the states of its events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::dead_letters::DeadLetters;
use super::message::Message;

/// `events = delivered + dead_letters + lost + waiting`.
pub(super) struct Books {
    pub(super) events: AtomicU64,
    pub(super) delivered: AtomicU64,
    pub(super) retries: AtomicU64,
    dead_letters: AtomicU64,
    pub(super) lost: AtomicU64,
    file: Mutex<Option<DeadLetters>>,
    trouble: Mutex<Trouble>,
}

/// Why events do not get to where they belong now.
#[derive(Default)]
struct Trouble {
    /// The other side takes none.
    down: Option<String>,
    /// Dead letters are not written.
    unwritten: Option<String>,
}

impl Books {
    pub(super) fn new(file: Option<DeadLetters>) -> Self {
        Self {
            events: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            dead_letters: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            file: Mutex::new(file),
            trouble: Mutex::default(),
        }
    }

    /// An event is given up.
    pub(super) fn give_up(&self, message: &Message, reason: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let appended = file.as_mut().map(|file| file.append(message, reason));
        let is_kept = matches!(appended, Some(Ok(())));
        let count = if is_kept { &self.dead_letters } else { &self.lost };
        count.fetch_add(1, Ordering::Relaxed);
        // Without a file nothing is written: what is lost is counted.
        let Some(appended) = appended else {
            return;
        };
        let unwritten = appended.err();
        let mut trouble = self.trouble();
        if let (None, Some(reason)) = (&trouble.unwritten, &unwritten) {
            tracing::error!("events are lost, because the dead-letter file cannot be written: {reason}");
        }
        trouble.unwritten = unwritten;
    }

    /// Whether the other side takes events now, or why not.
    pub(super) fn set_down(&self, reason: Option<String>) {
        self.trouble().down = reason;
    }

    /// Why events do not get to where they belong now.
    pub(super) fn outage(&self) -> Option<String> {
        let trouble = self.trouble();
        let down = trouble.down.as_ref().map(|down| format!("events wait: {down}"));
        let unwritten = trouble.unwritten.as_ref();
        let unwritten = unwritten.map(|reason| format!("dead letters are lost: {reason}"));
        let both: Vec<String> = down.into_iter().chain(unwritten).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// Closes the file, so that another run may have it.
    pub(super) fn close(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn counts(&self, waiting: usize) -> BTreeMap<&'static str, u64> {
        let counts = [
            ("events", &self.events),
            ("delivered", &self.delivered),
            ("retries", &self.retries),
            ("dead_letters", &self.dead_letters),
            ("lost", &self.lost),
        ];
        let counts = counts
            .into_iter()
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)));
        counts.chain([("waiting", waiting as u64)]).collect()
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
