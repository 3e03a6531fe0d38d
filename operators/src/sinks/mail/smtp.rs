//! Delivery to a mail server by SMTP: a connection for each mail, bounded in time and in what the server may send.

use std::cell::Cell;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, AsyncTokioStream, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use weir_flow::{Settings, Sink, SinkError, SinkFactory};

use super::super::event_sink::EventSink;
use super::super::local_runtime::{LocalRuntime, Signal, Waited};
use super::super::outbox::{Message, Outbox, Outcome, Transport};
use super::super::outbox_keys::{self, outbox_options};
use super::super::renewed::Renewed;
use super::super::secret::{Hidden, secret};
use super::super::tls::{self, TlsFiles};
use super::super::webhook::shortened;
use super::connect::connect;
use super::letter::{Letter, without_controls};

/// Bytes that a server may send within one connection; answers have some hundred.
const MAX_ANSWERS: usize = 256 << 10;

/// Characters of an answer that messages show.
const MAX_REASON: usize = 200;

/// Time without mails after the server has rejected the user: more attempts may lock the account.
const REJECTED: Duration = Duration::from_secs(120);

/// Time for the end of a connection whose mail was accepted or refused.
const QUIT: Duration = Duration::from_secs(1);

pub(super) struct MailFactory(pub(super) Settings);

impl MailFactory {
    /// The sender of mails. It contacts nothing before the first event.
    pub(super) fn transport(&self) -> Result<MailTransport, SinkError> {
        let settings = &self.0;
        let renewed = Renewed::new(settings, |settings| Server::read(settings).map(Arc::new))?;
        Ok(MailTransport {
            server: renewed.get(),
            renewed,
            letter: Letter::read(settings)?,
            timeout: Duration::from_secs_f64(settings.number("timeout", 10.0)),
        })
    }
}

impl SinkFactory for MailFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let transport = self.transport()?;
        let has_picture = transport.letter.has_picture();
        let outbox = Outbox::start("mail", transport, outbox_options(settings)?)?;
        let sink = EventSink::new(outbox, settings, |_, _| String::new())?;
        Ok(Box::new(sink.with(settings.flag("updates", false), has_picture)))
    }

    fn targets(&self) -> Vec<PathBuf> {
        outbox_keys::path(&self.0).into_iter().collect()
    }
}

/// Encryption of connections.
enum Security {
    Tls(Arc<ClientConfig>),
    StartTls(TlsParameters),
    None,
}

struct Server {
    host: String,
    port: u16,
    security: Security,
    credentials: Option<Credentials>,
    hidden: Hidden,
}

impl Server {
    fn read(settings: &Settings) -> Result<Self, SinkError> {
        let text = |key: &str| settings.text(key).filter(|text| !text.is_empty());
        let host = text("server").unwrap_or_default().to_owned();
        let files = TlsFiles {
            ca: text("ca_file").map(std::path::Path::new),
            client: None,
        };
        let (security, port) = match text("security") {
            Some("starttls") => (Security::StartTls(parameters(&host, files)?), 587.0),
            Some("none") => (Security::None, 25.0),
            _ => (Security::Tls(tls::client_config(files)?), 465.0),
        };
        let (mut credentials, mut hidden) = (None, Vec::new());
        if let Some(user) = text("user") {
            let password = secret(settings, "password", "password_file")?.unwrap_or_default();
            let encoded = |text: &str| BASE64_STANDARD.encode(text);
            hidden = vec![
                encoded(&format!("\0{user}\0{password}")),
                encoded(&password),
                password.clone(),
            ];
            credentials = Some(Credentials::new(user.to_owned(), password));
        }
        Ok(Self {
            host,
            port: settings.number("port", port) as u16,
            security,
            credentials,
            hidden: Hidden::new(hidden),
        })
    }

    /// A reason in the words of the server or of the system, behind the name of the server and without secrets.
    fn said(&self, reason: &str) -> String {
        let reason = without_controls(&self.hidden.hide(reason));
        format!("{}:{}: {}", self.host, self.port, shortened(&reason, MAX_REASON))
    }

    /// Connects and logs in.
    async fn connect(&self) -> Result<AsyncSmtpConnection, Fault> {
        let unreached = |error: &dyn std::fmt::Display| Fault::unreached(tls::explained(&error.to_string()));
        let stream = connect(&self.host, self.port).await;
        let stream = stream.map_err(|error| unreached(&error))?;
        let (local, peer) = (stream.local_addr(), stream.peer_addr());
        let (local, peer) = local
            .and_then(|local| Ok((local, peer?)))
            .map_err(|error| unreached(&error))?;
        let hello = match local {
            SocketAddr::V4(local) => ClientId::Ipv4(*local.ip()),
            SocketAddr::V6(local) => ClientId::Ipv6(*local.ip()),
        };
        let mut connection = match &self.security {
            Security::Tls(config) => {
                let name = ServerName::try_from(self.host.clone()).map_err(|error| unreached(&error))?;
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name, stream).await;
                let stream = Bounded::new(stream.map_err(|error| unreached(&error))?, peer);
                AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await
            }
            Security::StartTls(_) | Security::None => {
                let stream = Bounded::new(stream, peer);
                AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await
            }
        }
        .map_err(|error| Fault::of_session(&error))?;
        if let Security::StartTls(parameters) = &self.security {
            let encrypted = connection.starttls(parameters.clone(), &hello).await;
            encrypted.map_err(|error| Fault::of_session(&error))?;
        }
        if let Some(credentials) = &self.credentials {
            let accepted = connection.auth(DEFAULT_MECHANISMS, credentials).await;
            accepted.map_err(|error| Fault::of_login(&error))?;
        }
        Ok(connection)
    }
}

/// Encryption for STARTTLS.
fn parameters(host: &str, files: TlsFiles<'_>) -> Result<TlsParameters, SinkError> {
    let failed = |error: Error| SinkError {
        target: "by mail".to_owned(),
        reason: error.to_string(),
    };
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(ca) = files.ca {
        builder = builder.certificate_store(CertificateStore::None);
        for authority in tls::authorities(ca)? {
            let authority = Certificate::from_der(authority.to_vec()).map_err(failed)?;
            builder = builder.add_root_certificate(authority);
        }
    }
    builder.build().map_err(failed)
}

/// Reason for which a mail was not accepted.
#[derive(Debug)]
struct Fault {
    outcome: fn(String) -> Outcome,
    reason: String,
}

impl Fault {
    fn unreached(reason: String) -> Self {
        Self {
            outcome: Outcome::Unreached,
            reason,
        }
    }

    /// A fault before the mail: the server takes none now.
    fn of_session(error: &Error) -> Self {
        Self::unreached(tls::explained(&error.to_string()))
    }

    /// A fault of the user or the password.
    fn of_login(error: &Error) -> Self {
        if !error.is_permanent() {
            return Self::of_session(error);
        }
        Self {
            outcome: |reason| Outcome::Limited(reason, REJECTED),
            reason: format!("{error}; check `user` and the password"),
        }
    }

    /// A fault of a command about the mail.
    fn of_mail(error: &Error) -> Self {
        let is_closing = error.status().is_some_and(|code| u16::from(code) == 421);
        let outcome = if is_closing {
            Outcome::Unreached
        } else if error.is_permanent() {
            Outcome::Refused
        } else {
            Outcome::Failed
        };
        Self {
            outcome,
            reason: error.to_string(),
        }
    }
}

pub(super) struct MailTransport {
    server: Arc<Server>,
    /// The server with the password and the certificates that their files have now.
    renewed: Renewed<Arc<Server>>,
    letter: Letter,
    timeout: Duration,
}

impl MailTransport {
    /// Sends a mail; `has_begun` is set once the server has let the client in.
    async fn send(&self, mail: &[u8], has_begun: &Cell<bool>) -> Result<(), Fault> {
        let mut connection = self.server.connect().await?;
        has_begun.set(true);
        let sent = self.hand_over(&mut connection, mail).await;
        // The mail is accepted or not, however the connection ends.
        let _ = tokio::time::timeout(QUIT, connection.quit()).await;
        sent
    }

    /// Hands a mail over, to the recipients whom the server accepts.
    async fn hand_over(&self, connection: &mut AsyncSmtpConnection, mail: &[u8]) -> Result<(), Fault> {
        let from = self.letter.from.email.clone();
        let began = connection.command(Mail::new(Some(from), Vec::new())).await;
        began.map_err(|error| Fault::of_mail(&error))?;
        let (mut accepted, mut refused) = (0, None);
        for (index, to) in self.letter.to.iter().enumerate() {
            match connection.command(Rcpt::new(to.email.clone(), Vec::new())).await {
                Ok(_) => accepted += 1,
                Err(error) if error.is_permanent() => {
                    let reason = self.server.said(&error.to_string());
                    tracing::warn!("mail: entry {} of `to` is refused: {reason}", index + 1);
                    refused = Some(Fault::of_mail(&error));
                }
                // Later for all of them, so that no recipient gets it twice.
                Err(error) => return Err(Fault::of_mail(&error)),
            }
        }
        if let (0, Some(refused)) = (accepted, refused) {
            return Err(refused);
        }
        let ready = connection.command(Data).await;
        ready.map_err(|error| Fault::of_mail(&error))?;
        let taken = connection.message(mail).await;
        taken.map(drop).map_err(|error| Fault::of_mail(&error))
    }
}

impl Transport for MailTransport {
    fn attempt(&mut self, message: &Message) -> Outcome {
        self.server = self.renewed.get();
        let said = |reason: &str| self.server.said(reason);
        let mail = match self.letter.compose(message) {
            Ok(mail) => mail,
            // It would be the same again.
            Err(reason) => return Outcome::Refused(said(&reason)),
        };
        let runtime = match LocalRuntime::new() {
            Ok(runtime) => runtime,
            Err(reason) => return Outcome::Unreached(said(&reason)),
        };
        let has_begun = Cell::new(false);
        match runtime.run(self.timeout, &Signal::default(), self.send(&mail, &has_begun)) {
            Waited::Done(Ok(())) => Outcome::Delivered,
            Waited::Done(Err(fault)) => (fault.outcome)(said(&fault.reason)),
            Waited::TimedOut | Waited::Stopped => {
                let reason = format!("it does not answer within {:.1} s", self.timeout.as_secs_f64());
                if has_begun.get() {
                    Outcome::Failed(said(&reason))
                } else {
                    Outcome::Unreached(said(&reason))
                }
            }
        }
    }
}

/// A connection of which a bounded number of bytes is read.
#[derive(Debug)]
struct Bounded<S> {
    stream: S,
    peer: SocketAddr,
    left: usize,
}

impl<S> Bounded<S> {
    const fn new(stream: S, peer: SocketAddr) -> Self {
        Self {
            stream,
            peer,
            left: MAX_ANSWERS,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + Debug> AsyncTokioStream for Bounded<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            let reason = "it sends more than an answer has";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.left = self.left.saturating_sub(buffer.filled().len() - before);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
