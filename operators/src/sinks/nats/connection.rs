//! A connection to NATS, and what an event's acknowledgement is.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, Subscriber};
use futures_util::StreamExt;
use weir_flow::{Settings, Sink, SinkError, SinkFactory};
use weir_nats::{Failure, Limits, Relay, Server};

use super::super::addresses::addresses;
use super::super::event_sink::EventSink;
use super::super::local_runtime::{LocalRuntime, Signal, Waited};
use super::super::outbox::{Connections, Connector, Line, Message, Outbox, Outcome};
use super::super::outbox_keys::{self, outbox_options};
use super::super::renewed::Renewed;
use super::super::secret::{secret, secret_file};
use super::super::tls;
use super::subjects::Subjects;

/// Timeout for a connection or an acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time that an idle connection may work, every 100 ms, so that it answers pings of the server.
const IDLE_TURN: Duration = Duration::from_millis(1);

/// Servers send acknowledgements, and what came back to say that an event was passed on: tens of bytes, a few at a time.
const LIMITS: Limits = Limits {
    max_message_bytes: 64 << 10,
};
const MAX_WAITING: usize = 16;

/// A connection is never made again by itself.
const NEVER: Duration = Duration::from_secs(86_400);

pub(super) struct NatsFactory(pub(super) Settings);

impl SinkFactory for NatsFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let subjects = Subjects::new(settings)?;
        let transport = Connections::new(NatsConnector::new(settings)?);
        let outbox = Outbox::start("nats", transport, outbox_options(settings)?)?;
        let topic = move |stream: &str, kind| subjects.of(stream, kind);
        Ok(Box::new(EventSink::new(outbox, settings, topic)?))
    }

    fn targets(&self) -> Vec<PathBuf> {
        outbox_keys::path(&self.0).into_iter().collect()
    }
}

struct NatsConnector {
    /// Names of the servers.
    target: String,
    access: Renewed<Access>,
    /// Connections that were tried: each begins with another server.
    tried: AtomicUsize,
    jetstream: bool,
}

/// Servers with their encryption, and the login.
#[derive(Clone)]
struct Access {
    servers: Vec<Server>,
    options: ConnectOptions,
}

impl Access {
    fn read(settings: &Settings) -> Result<Self, SinkError> {
        let failed = |reason: String| SinkError {
            target: "to NATS".to_owned(),
            reason,
        };
        let names = addresses(settings, "servers", 4222, "to NATS")?;
        let tls = tls::tls_config(settings)?;
        let server = |name: &String| {
            let (host, port) = name.rsplit_once(':')?;
            Some(Server {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: port.parse().ok()?,
                tls: tls.clone(),
            })
        };
        let mut options = ConnectOptions::new()
            .connection_timeout(TIMEOUT)
            .request_timeout(Some(TIMEOUT))
            .ping_interval(Duration::from_secs(10))
            .client_capacity(16)
            .subscription_capacity(MAX_WAITING)
            .ignore_discovered_servers();
        if let Some(credentials) = secret_file(settings, "credentials_file")? {
            // Its last line is read as one.
            let read = options.credentials(&format!("{credentials}\n"));
            options =
                read.map_err(|_| failed("`credentials_file` contains no NATS credentials".to_owned()))?;
        } else if let Some(user) = settings.text("username").filter(|user| !user.is_empty()) {
            let password = secret(settings, "password", "password_file")?;
            options = options.user_and_password(user.to_owned(), password.unwrap_or_default());
        }
        Ok(Self {
            servers: names.iter().filter_map(server).collect(),
            options,
        })
    }
}

impl NatsConnector {
    fn new(settings: &Settings) -> Result<Self, SinkError> {
        Ok(Self {
            target: addresses(settings, "servers", 4222, "to NATS")?.join(", "),
            access: Renewed::new(settings, Access::read)?,
            tried: AtomicUsize::default(),
            jetstream: settings.flag("jetstream", true),
        })
    }
}

impl Connector for NatsConnector {
    type Line = NatsLine;

    fn target(&self) -> &str {
        &self.target
    }

    fn connect(&self) -> Result<NatsLine, String> {
        let runtime = LocalRuntime::new()?;
        let broken = Arc::<Signal>::default();
        let is_up = Arc::new(AtomicBool::new(false));
        let (on_event, was_up) = (Arc::clone(&broken), Arc::clone(&is_up));
        let Access { servers, options } = self.access.get();
        let options = options
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    on_event.raise();
                }
                std::future::ready(())
            })
            .reconnect_delay_callback(move |_| {
                let was_up = was_up.load(Ordering::Relaxed);
                if was_up { NEVER } else { Duration::ZERO }
            });
        let connecting = async {
            let (client, relay) = self.connect_to_any(&servers, &options).await?;
            is_up.store(true, Ordering::Relaxed);
            let route = if self.jetstream {
                let context = jetstream::context::ContextBuilder::new();
                Route::Stored(context.timeout(TIMEOUT).ack_timeout(TIMEOUT).build(client))
            } else {
                let inbox = client.new_inbox();
                let echo = client.subscribe(inbox.clone()).await;
                let echo = echo.map_err(|error| error.to_string())?;
                Route::Passed { client, inbox, echo }
            };
            Ok::<_, String>((route, relay))
        };
        let (route, relay) = match runtime.run(TIMEOUT, &broken, connecting) {
            Waited::Done(connected) => connected?,
            Waited::TimedOut => return Err("the server does not answer".to_owned()),
            Waited::Stopped => return Err("the server closed the connection".to_owned()),
        };
        Ok(NatsLine {
            runtime,
            route,
            relay,
            broken,
        })
    }
}

impl NatsConnector {
    /// A client of the first server that takes it, and what stands between the two.
    async fn connect_to_any(
        &self,
        servers: &[Server],
        options: &ConnectOptions,
    ) -> Result<(Client, Relay), String> {
        let first = self.tried.fetch_add(1, Ordering::Relaxed) % servers.len().max(1);
        let (before, from) = servers.split_at(first.min(servers.len()));
        let mut reason = "no server is named".to_owned();
        for server in from.iter().chain(before) {
            let relay = Relay::start(server.clone(), LIMITS).await;
            let relay = relay.map_err(|error| weir_files::io_reason(&error))?;
            let options = options.clone().name(relay.client_name());
            match options.connect(relay.address().to_string()).await {
                Ok(client) => return Ok((client, relay)),
                Err(error) => reason = connect_reason(&error, &relay),
            }
        }
        Err(reason)
    }
}

/// Why a server was cut off or not reached.
fn cause(relay: &Relay) -> Option<String> {
    relay.failure().map(|failure| match failure {
        Failure::Server(reason) | Failure::Tls(reason) => tls::explained(&reason),
    })
}

/// A connection that is up. Its parts stand still but while it is used.
struct NatsLine {
    runtime: LocalRuntime,
    route: Route,
    relay: Relay,
    /// Raised when the server is gone.
    broken: Arc<Signal>,
}

/// Route of an event to the server; the routes differ in the acknowledgement that they wait for.
enum Route {
    /// JetStream acknowledges that it has stored the event.
    Stored(jetstream::Context),
    /// A server without JetStream acknowledges nothing. It passes on the messages of one connection in order,
    /// so a second message that comes back to `inbox` proves that the event before it was passed on.
    Passed {
        client: Client,
        inbox: String,
        echo: Subscriber,
    },
}

impl Route {
    async fn send(&mut self, message: &Message) -> Outcome {
        match self {
            Self::Stored(context) => {
                let publish = PublishMessage::build()
                    .payload(message.body.clone().into())
                    .message_id(&message.id);
                let sent = context.send_publish(message.topic.clone(), publish).await;
                let stored = match sent {
                    Ok(stored) => stored.await,
                    Err(error) => Err(error),
                };
                stored.map_or_else(
                    |error| publish_outcome(&error, &message.topic),
                    |_| Outcome::Delivered,
                )
            }
            Self::Passed { client, inbox, echo } => {
                let mut headers = async_nats::HeaderMap::new();
                headers.insert("Nats-Msg-Id", message.id.as_str());
                let body = message.body.clone().into();
                let sent = client.publish_with_headers(message.topic.clone(), headers, body);
                if let Err(error) = sent.await {
                    return match error.kind() {
                        async_nats::PublishErrorKind::MaxPayloadExceeded => {
                            Outcome::Refused(error.to_string())
                        }
                        _ => Outcome::Failed(error.to_string()),
                    };
                }
                if let Err(error) = client.publish(inbox.clone(), Vec::new().into()).await {
                    return Outcome::Failed(error.to_string());
                }
                match echo.next().await {
                    Some(_) => Outcome::Delivered,
                    None => Outcome::Failed("the connection is over".to_owned()),
                }
            }
        }
    }
}

impl Line for NatsLine {
    fn send(&mut self, message: &Message) -> Outcome {
        match self.runtime.run(TIMEOUT, &self.broken, self.route.send(message)) {
            Waited::Done(outcome) => outcome,
            Waited::TimedOut => Outcome::Failed("the server sends no acknowledgements".to_owned()),
            Waited::Stopped => {
                let closed = || "the server closed the connection".to_owned();
                Outcome::Failed(cause(&self.relay).unwrap_or_else(closed))
            }
        }
    }

    fn is_up(&mut self) -> bool {
        self.runtime.turn(IDLE_TURN, &self.broken)
    }
}

fn connect_reason(error: &ConnectError, relay: &Relay) -> String {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "the server refuses the connection: check `username` and `password`, or `credentials_file`"
                .to_owned()
        }
        // The client knows only that the relay closed the connection.
        _ => cause(relay).unwrap_or_else(|| error.to_string()),
    }
}

fn publish_outcome(error: &PublishError, subject: &str) -> Outcome {
    let code = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<jetstream::Error>())
        .map(jetstream::Error::error_code);
    match (error.kind(), code) {
        (PublishErrorKind::MaxPayloadExceeded, _) | (_, Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)) => {
            Outcome::Refused(error.to_string())
        }
        (PublishErrorKind::StreamNotFound, _) => Outcome::Failed(format!(
            "no stream of JetStream takes the subject {subject}: add one, or set `jetstream = false`"
        )),
        _ => Outcome::Failed(error.to_string()),
    }
}
