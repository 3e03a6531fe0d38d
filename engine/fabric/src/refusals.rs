//! Connections and messages that are refused before a node sees them. The tunnel counts connections. Zenoh
//! reports its refusals only in its log, so events of the log are counted.
//!
//! The texts are those of the pinned version of Zenoh; `tests/intruders.rs` fails if they change.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::Registry;

use crate::counts::Refusals;

/// Log target of Zenoh's access control.
const ACCESS: &str = "zenoh::net::routing::interceptor";
/// Log target of connection handshakes.
const TRANSPORT: &str = "zenoh_transport::unicast";

static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
static MESSAGES: AtomicU64 = AtomicU64::new(0);

/// Refusals in this process since [`RefusalLayer::boxed`] was installed.
#[must_use]
pub fn refusals() -> Refusals {
    Refusals {
        connections: CONNECTIONS.load(Ordering::Relaxed),
        messages: MESSAGES.load(Ordering::Relaxed),
    }
}

/// Counts a connection that the tunnel refused.
pub(crate) fn count_connection() {
    CONNECTIONS.fetch_add(1, Ordering::Relaxed);
}

/// Counts what the transport logs that it refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct RefusalLayer;

impl RefusalLayer {
    /// Layer for the subscriber of the program. It reacts only to the few events that it counts.
    #[must_use]
    pub fn boxed() -> Box<dyn Layer<Registry> + Send + Sync> {
        let targets = Targets::new()
            // A line for each message: which was taken and which refused.
            .with_target(ACCESS, Level::TRACE)
            .with_target(TRANSPORT, Level::WARN);
        Self.with_filter(targets).boxed()
    }
}

impl<S: Subscriber> Layer<S> for RefusalLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        match kind(event.metadata().target(), &words.0) {
            Some(Refused::Connection) => CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            Some(Refused::Message) => MESSAGES.fetch_add(1, Ordering::Relaxed),
            None => 0,
        };
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Connection,
    Message,
}

/// Classifies a log event of Zenoh as a refusal; `None` for other events.
fn kind(target: &str, words: &str) -> Option<Refused> {
    if target.starts_with(ACCESS) {
        // Refusals of messages that this node itself sends are not counted.
        return (words.contains("unauthorized") && words.contains("(ingress)")).then_some(Refused::Message);
    }
    let is_transport = target.starts_with(TRANSPORT) && words.contains("accept");
    is_transport.then_some(Refused::Connection)
}

/// The message of an event.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a text does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
