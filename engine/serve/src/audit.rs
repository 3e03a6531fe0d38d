//! Log lines about access, for the target `audit`: each change with its client and outcome, and requests that were refused. They have
//! neither tokens nor bodies. Nothing is logged where no client needs a token, since there is no name to log.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::time::Instant;

use crate::access::Client;
use crate::rights::Right;
use crate::role::Role;

/// Interval between two lines about requests of unknown clients; those in between are counted.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(10);

/// A request, as audit lines show it.
pub(crate) struct Record {
    pub(crate) method: String,
    /// Path without a query.
    pub(crate) path: String,
    /// Stream or incident that the path names.
    pub(crate) name: String,
    pub(crate) right: Right,
}

/// Writes audit lines.
#[derive(Default)]
pub(crate) struct Audit(Mutex<Unknown>);

/// Requests of unknown clients since the last line about them.
#[derive(Default)]
struct Unknown {
    logged: Option<Instant>,
    count: u64,
}

impl Audit {
    /// Logs the request of a known client if it is a change, or was refused because a right was missing.
    pub(crate) fn on_answered(&self, record: &Record, client: &Client, from: &str, status: StatusCode) {
        let is_change = record.method != "GET" && record.right.role > Role::View;
        let is_session = record.method != "GET" && record.path.ends_with("/api/session");
        if !is_change && !is_session && status != StatusCode::FORBIDDEN {
            return;
        }
        let outcome = match status {
            status if status.is_success() => "done",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "denied",
            status if status.is_client_error() => "refused",
            _ => "failed",
        };
        tracing::info!(
            target: "audit",
            who = &*client.identity.name,
            role = client.identity.role.name(),
            by = client.means.name(),
            from,
            method = record.method,
            route = record.path,
            name = record.name,
            status = status.as_u16(),
            outcome,
        );
    }

    /// Logs a request of an unknown client, at most one line per interval.
    pub(crate) fn on_unknown(&self, record: &Record, from: &str, status: StatusCode, now: Instant) {
        let Some(count) = self.count_unknown(now) else {
            return;
        };
        tracing::warn!(
            target: "audit",
            from,
            method = record.method,
            route = record.path,
            status = status.as_u16(),
            outcome = "denied",
            requests = count,
        );
    }

    /// Counts a request of an unknown client; returns the number since the last line if a line is due.
    fn count_unknown(&self, now: Instant) -> Option<u64> {
        let mut unknown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.count += 1;
        let is_due = unknown
            .logged
            .is_none_or(|logged| now.duration_since(logged) >= UNKNOWN_INTERVAL);
        if !is_due {
            return None;
        }
        unknown.logged = Some(now);
        Some(std::mem::take(&mut unknown.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_unknown_clients_are_bounded() {
        let (audit, now) = (Audit::default(), Instant::now());
        assert_eq!(audit.count_unknown(now), Some(1));
        for _ in 0..1_000 {
            assert_eq!(audit.count_unknown(now + Duration::from_secs(1)), None);
        }
        assert_eq!(audit.count_unknown(now + UNKNOWN_INTERVAL), Some(1_001));
    }
}
