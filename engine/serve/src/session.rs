//! Sessions of browsers that have sent their token once. A session is a random secret in a cookie; the table is bounded, and holds
//! digests of the secrets. It is in memory: a restart of the engine signs browsers out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::digest::{Digest, hex};

/// Sessions of one token; a further one takes the place of the one that ends first.
const MAX_OF_TOKEN: usize = 64;

/// Lifetime of a session whose browser is to stay signed in.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Lifetime of other sessions; the browser forgets the cookie when it is closed.
const SHORT: Duration = Duration::from_secs(12 * 3_600);

/// Bytes of randomness of a session.
const SECRET_BYTES: usize = 32;

struct Session {
    /// Digest of the token that it was opened with.
    token: Digest,
    ends: Instant,
}

/// A session that was opened.
pub(crate) struct Opened {
    /// The secret, for the cookie.
    pub(crate) secret: String,
    /// Lifetime for the browser to keep the cookie; `None`: until the browser is closed.
    pub(crate) kept: Option<Duration>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<BTreeMap<Digest, Session>>);

impl Sessions {
    /// Opens a session for the token with this digest.
    ///
    /// # Errors
    /// The machine gives no randomness.
    pub(crate) fn open(&self, token: Digest, keep: bool, now: Instant) -> io::Result<Opened> {
        let mut bytes = [0; SECRET_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let secret = hex(&bytes);
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.ends > now);
        let of_token = || sessions.iter().filter(|(_, session)| session.token == token);
        if of_token().count() >= MAX_OF_TOKEN
            && let Some(first) = of_token()
                .min_by_key(|(_, session)| session.ends)
                .map(|(id, _)| *id)
        {
            sessions.remove(&first);
        }
        let ends = now + if keep { KEPT } else { SHORT };
        sessions.insert(Digest::of(secret.as_bytes()), Session { token, ends });
        Ok(Opened {
            secret,
            kept: keep.then_some(KEPT),
        })
    }

    /// Returns the digest of the token that a session was opened with, if the session has not ended.
    pub(crate) fn token(&self, secret: &str, now: Instant) -> Option<Digest> {
        let sessions = self.lock();
        let session = sessions.get(&Digest::of(secret.as_bytes()))?;
        (session.ends > now).then_some(session.token)
    }

    /// Ends a session.
    pub(crate) fn close(&self, secret: &str) {
        self.lock().remove(&Digest::of(secret.as_bytes()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Digest, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ends_in_time_and_on_request() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = Digest::of(b"token");
        let short = sessions.open(token, false, now).unwrap();
        let kept = sessions.open(token, true, now).unwrap();
        assert!(short.kept.is_none() && kept.kept == Some(KEPT));
        let is_open = |opened: &Opened, now| {
            sessions
                .token(&opened.secret, now)
                .is_some_and(|found| found == token)
        };
        assert!(is_open(&short, now) && is_open(&kept, now + SHORT));
        assert!(!is_open(&short, now + SHORT) && !is_open(&kept, now + KEPT));
        sessions.close(&kept.secret);
        assert!(!is_open(&kept, now));
        assert!(sessions.token("", now).is_none());
    }

    #[test]
    fn sessions_of_one_token_are_bounded_and_leave_others_alone() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let first = sessions.open(one, true, now).unwrap();
        let own = sessions.open(other, false, now).unwrap();
        for number in 0..MAX_OF_TOKEN as u32 {
            sessions
                .open(one, true, now + Duration::from_secs(u64::from(number) + 1))
                .unwrap();
        }
        assert_eq!(sessions.lock().len(), MAX_OF_TOKEN + 1);
        assert!(sessions.token(&first.secret, now).is_none() && sessions.token(&own.secret, now).is_some());
    }
}
