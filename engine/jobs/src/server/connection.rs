//! Connection to a NATS server, on a thread of its own. Requests are repeated while the server is
//! unavailable.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::time::Instant;
use weir_nats::{Failure, Limits, Relay, Server, TlsConfig, tls};

use crate::error::QueueError;
use crate::place::{ServerOptions, ServerPlace};

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which an unavailable server is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same limit while a queue is opened.
const OPEN_PATIENCE: Duration = Duration::from_secs(10);

/// Interval between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Time in which pending messages must be sent when the connection closes.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum length in bytes of a file with a secret or certificates.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Rows and parts may be as large as the server's messages, one megabyte by default; few are requested at a
/// time.
const LIMITS: Limits = Limits {
    max_message_bytes: 8 << 20,
};
const MAX_WAITING: usize = 16;

/// Reason why a request failed.
pub(super) enum Trouble {
    /// A temporary error; the request may be repeated.
    Again(String),
    /// A permanent error.
    Final(QueueError),
}

/// Returns true if waiting for the server should stop.
pub(super) type GiveUp = Arc<dyn Fn() -> bool + Send + Sync>;

/// Shared part of a connection, which requests need.
pub(super) struct Link {
    pub(super) context: Context,
    /// Address of the queue, for messages to users.
    pub(super) place: String,
    give_up: Mutex<Option<GiveUp>>,
    /// True if the connection was made again since this flag was last read.
    was_lost: Arc<AtomicBool>,
}

/// See the module.
pub(super) struct Connection {
    handle: Handle,
    end: Arc<Notify>,
    link: Arc<Link>,
    /// Relay between the client and the server.
    _relay: Relay,
}

impl Connection {
    pub(super) fn open(place: &ServerPlace, options: &ServerOptions) -> Result<Self, QueueError> {
        let words = place.to_string();
        let wrong = |reason: String| QueueError::Connection(words.clone(), reason);
        let connect = connect_options(place, options).map_err(wrong)?;
        let server = Server {
            host: place.host().to_owned(),
            port: place.port(),
            tls: encryption(place, options).map_err(wrong)?,
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wrong(error.to_string()))?;
        let (handle, end) = (runtime.handle().clone(), Arc::<Notify>::default());
        let ended = Arc::clone(&end);
        let thread = std::thread::Builder::new().name("weir-nats".to_owned());
        let started = thread.spawn(move || {
            runtime.block_on(ended.notified());
            // A look-up of a name that hangs is not waited for.
            runtime.shutdown_background();
        });
        started.map_err(|error| wrong(error.to_string()))?;
        let was_lost = Arc::<AtomicBool>::default();
        let on_event = Arc::clone(&was_lost);
        let connect = connect.event_callback(move |event| {
            if matches!(event, Event::Connected) {
                on_event.store(true, Ordering::Relaxed);
            }
            std::future::ready(())
        });
        // Creating a context starts background tasks.
        let connecting = async move {
            let relay = Relay::start(server, LIMITS).await;
            let relay = relay.map_err(|error| weir_files::io_reason(&error))?;
            let client = connect_in_time(connect.name(relay.client_name()), &relay).await?;
            let context = jetstream::context::ContextBuilder::new();
            let context = context.timeout(TIMEOUT).ack_timeout(TIMEOUT).build(client);
            Ok((context, relay))
        };
        let connected = wait(&handle, &words, connecting);
        let connected = connected.and_then(|connected| connected.map_err(wrong));
        if connected.is_err() {
            end.notify_one();
        }
        let (context, relay) = connected?;
        let link = Link {
            context,
            place: words,
            give_up: Mutex::default(),
            was_lost,
        };
        Ok(Self {
            handle,
            end,
            link: Arc::new(link),
            _relay: relay,
        })
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `work` on the thread of the connection, and waits for it. `work` ends by itself.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, QueueError>> + Send + 'static,
    ) -> Result<T, QueueError> {
        wait(&self.handle, &self.link.place, work)?
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Acknowledgements that were sent last leave.
        let (sent, left) = mpsc::channel();
        let client = self.link.context.client();
        self.handle.spawn(async move {
            let _ = tokio::time::timeout(FLUSH_TIMEOUT, client.flush()).await;
            let _ = sent.send(());
        });
        let _ = left.recv_timeout(2 * FLUSH_TIMEOUT);
        self.end.notify_one();
    }
}

fn wait<T: Send + 'static>(
    handle: &Handle,
    place: &str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, QueueError> {
    let (give, given) = mpsc::channel();
    handle.spawn(async move {
        let _ = give.send(work.await);
    });
    given.recv().map_err(|_| QueueError::Server {
        place: place.to_owned(),
        reason: "its connection has ended".to_owned(),
    })
}

impl Link {
    pub(super) fn set_give_up(&self, give_up: GiveUp) {
        *self.give_up.lock().unwrap_or_else(PoisonError::into_inner) = Some(give_up);
    }

    fn gives_up(&self) -> bool {
        let give_up = self.give_up.lock().unwrap_or_else(PoisonError::into_inner);
        give_up.as_ref().is_some_and(|give_up| give_up())
    }

    /// True if the connection was made again since the last call, so that cached state of the server may be
    /// outdated.
    pub(super) fn take_lost(&self) -> bool {
        self.was_lost.swap(false, Ordering::Relaxed)
    }

    pub(super) fn failed(&self, reason: impl Into<String>) -> QueueError {
        QueueError::Server {
            place: self.place.clone(),
            reason: reason.into(),
        }
    }

    /// Tries until it succeeds, or the server was away for too long.
    pub(super) async fn persist<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, QueueError>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let began = Instant::now();
        loop {
            let reason = match tokio::time::timeout(TIMEOUT, attempt()).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(Trouble::Final(error))) => return Err(error),
                Ok(Err(Trouble::Again(reason))) => reason,
                Err(_) => "the server does not answer".to_owned(),
            };
            if began.elapsed() >= PATIENCE || self.gives_up() {
                return Err(self.failed(reason));
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

async fn connect_in_time(options: ConnectOptions, relay: &Relay) -> Result<Client, String> {
    let began = Instant::now();
    loop {
        let reason = match options.clone().connect(relay.address().to_string()).await {
            Ok(client) => return Ok(client),
            Err(error) => match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    return Err(
                        "the server refuses the connection: check WEIR_NATS_USERNAME and WEIR_NATS_PASSWORD_FILE, or \
                         WEIR_NATS_CREDENTIALS_FILE"
                            .to_owned(),
                    );
                }
                // The client only knows that the relay closed the connection.
                _ => match relay.failure() {
                    Some(Failure::Tls(reason)) => return Err(explained(&reason)),
                    Some(Failure::Server(reason)) => explained(&reason),
                    None => error.to_string(),
                },
            },
        };
        if began.elapsed() >= OPEN_PATIENCE {
            return Err(reason);
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Reason of a failed connection, with advice about certificates.
fn explained(reason: &str) -> String {
    let hint = if reason.contains("UnknownIssuer") {
        "; name the authority that signed its certificate by WEIR_NATS_CA_FILE"
    } else if ["CertificateRequired", "BadCertificate", "HandshakeFailure"]
        .iter()
        .any(|alert| reason.contains(alert))
    {
        "; it may ask for a certificate: name one by WEIR_NATS_CERTIFICATE_FILE and WEIR_NATS_KEY_FILE"
    } else if reason.contains("NotValidForName") || reason.contains("not valid for name") {
        "; name it as its certificate does"
    } else {
        ""
    };
    format!("{reason}{hint}")
}

fn connect_options(place: &ServerPlace, options: &ServerOptions) -> Result<ConnectOptions, String> {
    let mut connect = ConnectOptions::new()
        .connection_timeout(TIMEOUT)
        .request_timeout(Some(TIMEOUT))
        .ping_interval(Duration::from_secs(10))
        .subscription_capacity(MAX_WAITING)
        .ignore_discovered_servers()
        .reconnect_delay_callback(|_| RETRY_INTERVAL);
    let mut shows_user = true;
    if let Some(file) = &options.credentials_file {
        let credentials = secret(file)?;
        // The last line is complete only with a line break.
        let read = connect.credentials(&format!("{credentials}\n"));
        connect = read.map_err(|_| format!("{} contains no NATS credentials", file.display()))?;
    } else if let Some(user) = &options.username {
        let password = options.password_file.as_deref().map(secret).transpose()?;
        connect = connect.user_and_password(user.clone(), password.unwrap_or_default());
    } else {
        shows_user = options.certificate_file.is_some();
    }
    let is_near = place.is_loopback();
    if !is_near && !shows_user {
        return Err(
            "a queue server on another machine needs credentials: set WEIR_NATS_CREDENTIALS_FILE, \
             WEIR_NATS_USERNAME and WEIR_NATS_PASSWORD_FILE, or WEIR_NATS_CERTIFICATE_FILE and WEIR_NATS_KEY_FILE"
                .to_owned(),
        );
    }
    Ok(connect)
}

/// Encryption of the connection; `None` leaves the choice to the server, which only a server on this machine has.
fn encryption(place: &ServerPlace, options: &ServerOptions) -> Result<Option<TlsConfig>, String> {
    let shown = match (&options.certificate_file, &options.key_file) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.as_path(), key.as_path())),
        _ => {
            return Err(
                "WEIR_NATS_CERTIFICATE_FILE and WEIR_NATS_KEY_FILE need each other: set both".to_owned(),
            );
        }
    };
    let ca = options.ca_file.as_deref();
    if ca.is_none() && shown.is_none() && place.is_loopback() {
        return Ok(None);
    }
    tls(ca, shown).map(Some)
}

/// The secret in a file, without the line break at its end.
fn secret(path: &Path) -> Result<String, String> {
    let text = weir_files::read_text(path, MAX_FILE_BYTES);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::QueuePlace;

    fn refusal(address: &str, options: &ServerOptions) -> Option<String> {
        match QueuePlace::of(Path::new(address)) {
            Ok(QueuePlace::Server(place)) => {
                let connected = connect_options(&place, options).map(drop);
                connected
                    .and_then(|()| encryption(&place, options).map(drop))
                    .err()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_machine_needs_to_know_who_comes() {
        let none = ServerOptions::default();
        assert_eq!(refusal("nats://127.0.0.1:4222/jobs", &none), None);
        let words = refusal("nats://nats.lan:4222/jobs", &none);
        assert!(words.is_some_and(|words| words.contains("WEIR_NATS_CREDENTIALS_FILE")));
        let user = ServerOptions {
            username: Some("weir".to_owned()),
            ..ServerOptions::default()
        };
        assert_eq!(refusal("nats://nats.lan:4222/jobs", &user), None);
        let half = ServerOptions {
            key_file: Some("key.pem".into()),
            ..ServerOptions::default()
        };
        let words = refusal("nats://127.0.0.1:4222/jobs", &half);
        assert!(words.is_some_and(|words| words.contains("need each other")));
        let gone = ServerOptions {
            password_file: Some("none".into()),
            ..user
        };
        assert!(
            refusal("nats://127.0.0.1:4222/jobs", &gone).is_some_and(|words| words.starts_with("none: "))
        );
    }
}
