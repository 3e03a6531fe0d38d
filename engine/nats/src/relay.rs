//! A place on loopback that the client of NATS connects to, and the connections to a server behind it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsConnector;

use crate::framing::{Framing, Limits, MAX_LINE_BYTES, parse_info, plain_info};
use crate::tls::{self, TlsConfig};

/// Connections at a time: one, and others that are being made or end.
const MAX_CONNECTIONS: usize = 8;

/// Longest time until the client of a connection has shown itself.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for the greeting of a server that encrypts: some encrypt first.
const GREETING: Duration = Duration::from_millis(500);

/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// The name that the client gives to the server.
const CLIENT_NAME: &str = "weir";

/// A server, and how it is connected to.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name or address, that of IPv6 without brackets.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Encryption of the connection; `None` leaves the choice to the server.
    pub tls: Option<TlsConfig>,
}

/// Why there is no connection to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It is not reached, or sends what is not accepted.
    Server(String),
    /// It cannot be encrypted as it should be.
    Tls(String),
}

/// Connects the client of NATS to one server, until it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    secret: String,
    failure: Arc<Mutex<Option<Failure>>>,
    listening: AbortHandle,
}

struct Shared {
    server: Server,
    limits: Limits,
    secret: String,
    failure: Arc<Mutex<Option<Failure>>>,
    /// Number of the connection that the client uses: those before it are over.
    latest: watch::Sender<u64>,
}

impl Relay {
    /// Starts one on the runtime of the caller.
    ///
    /// # Errors
    /// There is no place on loopback.
    pub async fn start(server: Server, limits: Limits) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (secret, failure) = (secret(), Arc::<Mutex<Option<Failure>>>::default());
        let shared = Arc::new(Shared {
            server,
            limits,
            secret: secret.clone(),
            failure: Arc::clone(&failure),
            latest: watch::Sender::new(0),
        });
        let listening = tokio::spawn(listen(listener, shared)).abort_handle();
        Ok(Self {
            address,
            secret,
            failure,
            listening,
        })
    }

    /// The address for the client.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The name that the client has to give to the server.
    #[must_use]
    pub fn client_name(&self) -> &str {
        &self.secret
    }

    /// Why the latest connection ended or was not made, once.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Two random numbers of the standard library, which seeds them by the system.
fn secret() -> String {
    let number = || RandomState::new().hash_one(());
    format!("{CLIENT_NAME}-{:016x}{:016x}", number(), number())
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Connections end with the relay.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((client, _)) = listener.accept().await else {
            // Too many open files: it may be over soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            if let Err(failure) = connect(client, &shared).await {
                *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            }
            drop(place);
        });
    }
}

async fn connect(client: TcpStream, shared: &Shared) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Server(error.to_string());
    client.set_nodelay(true).map_err(failed)?;
    let meet = tokio::time::timeout(TIMEOUT, meet(client, shared));
    let silent = |_| Failure::Server("the server does not answer".to_owned());
    match meet.await.map_err(silent)?? {
        Some((client, server, framing)) => {
            let mut number = 0;
            shared.latest.send_modify(|latest| {
                *latest += 1;
                number = *latest;
            });
            let mut latest = shared.latest.subscribe();
            tokio::select! {
                ended = pass(client, server, framing) => ended,
                _ = latest.wait_for(|latest| *latest != number) => Ok(()),
            }
        }
        None => Ok(()),
    }
}

/// Either form of a connection to a server.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Met = (TcpStream, Box<dyn Stream>, Framing);

/// Connects to the server, and lets the client greet it; `None` for a client that is not ours.
async fn meet(mut client: TcpStream, shared: &Shared) -> Result<Option<Met>, Failure> {
    let failed = |error: std::io::Error| Failure::Server(error.to_string());
    let Server { host, port, tls } = &shared.server;
    let server = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
    server.set_nodelay(true).map_err(failed)?;
    let (mut server, info) = greeted(server, host, tls.as_ref()).await?;
    client.write_all(&plain_info(&info)).await.map_err(failed)?;
    let Some(connect) = read_line(&mut client)
        .await
        .ok()
        .and_then(|line| shown(&line, &shared.secret))
    else {
        return Ok(None);
    };
    server.write_all(&connect).await.map_err(failed)?;
    Ok(Some((client, server, Framing::new(shared.limits))))
}

/// The connection as it is used, and the greeting of the server.
async fn greeted(
    mut server: TcpStream,
    host: &str,
    tls: Option<&TlsConfig>,
) -> Result<(Box<dyn Stream>, Value), Failure> {
    if tls.is_some() {
        let mut first = [0];
        let greeting = tokio::time::timeout(GREETING, server.peek(&mut first));
        if greeting.await.is_err() {
            let mut server = encrypted(server, host, tls).await?;
            let line = read_line(&mut server).await.map_err(Failure::Server)?;
            return Ok((server, info(&line)?));
        }
    }
    // Byte by byte: nothing that came unencrypted is left behind it.
    let line = read_line(&mut server).await.map_err(Failure::Server)?;
    let info = info(&line)?;
    let asks = info.get("tls_required").and_then(Value::as_bool).unwrap_or(false);
    if tls.is_some() || asks {
        let server = encrypted(server, host, tls).await?;
        return Ok((server, info));
    }
    Ok((Box::new(server), info))
}

fn info(line: &[u8]) -> Result<Value, Failure> {
    let json = line.strip_prefix(b"INFO ").unwrap_or_default();
    parse_info(json).map_err(Failure::Server)
}

async fn encrypted(
    server: TcpStream,
    host: &str,
    tls: Option<&TlsConfig>,
) -> Result<Box<dyn Stream>, Failure> {
    let config = match tls {
        Some(config) => Arc::clone(config),
        None => tls::tls(None, None).map_err(Failure::Tls)?,
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|error| Failure::Tls(error.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, server).await;
    match stream {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(Failure::Tls(error.to_string())),
    }
}

/// A line without its end, which comes before anything else.
async fn read_line(from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() >= MAX_LINE_BYTES {
            return Err(format!(
                "the server sends a line of more than {} KiB",
                MAX_LINE_BYTES >> 10
            ));
        }
        line.push(from.read_u8().await.map_err(|error| error.to_string())?);
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

/// The `CONNECT` line of the client with its name in place of the secret; `None` for a client that does not know the secret.
fn shown(line: &[u8], secret: &str) -> Option<Vec<u8>> {
    let mut connect: Value = serde_json::from_slice(line.strip_prefix(b"CONNECT ")?).ok()?;
    let name = connect.get_mut("name")?;
    if name.as_str() != Some(secret) {
        return None;
    }
    *name = Value::String(CLIENT_NAME.to_owned());
    Some(format!("CONNECT {connect}\r\n").into_bytes())
}

/// Passes on what both send until one of them is gone.
async fn pass(client: TcpStream, server: Box<dyn Stream>, mut framing: Framing) -> Result<(), Failure> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let up = async {
        let mut piece = vec![0; PIECE];
        while let Ok(read @ 1..) = from_client.read(&mut piece).await {
            let sent = async {
                to_server.write_all(&piece[..read]).await?;
                to_server.flush().await
            };
            if let Err(error) = sent.await {
                // The server may have said why.
                tokio::time::sleep(GREETING).await;
                return Err(Failure::Server(error.to_string()));
            }
        }
        let _ = to_server.shutdown().await;
        Ok(())
    };
    let down = async {
        let (mut piece, mut out) = (vec![0; PIECE], Vec::new());
        loop {
            let read = from_server.read(&mut piece).await;
            let read = read.map_err(|error| Failure::Server(error.to_string()))?;
            if read == 0 {
                return Ok(());
            }
            out.clear();
            let judged = framing.push(&piece[..read], &mut out);
            // Lines before it reach the client: they may have the reason why a server refuses.
            if to_client.write_all(&out).await.is_err() {
                return Ok(());
            }
            judged.map_err(Failure::Server)?;
        }
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = b"INFO {\"server_id\":\"x\",\"connect_urls\":[\"b:1\"]}\r\n";

    fn block_on<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future)
    }

    async fn start(tls: Option<TlsConfig>) -> (TcpListener, Relay) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().unwrap().port(),
            tls,
        };
        let limits = Limits {
            max_message_bytes: 1_024,
        };
        (listener, Relay::start(server, limits).await.unwrap())
    }

    /// The server's side of the next connection, greeted.
    async fn greet(listener: &TcpListener) -> TcpStream {
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(INFO).await.unwrap();
        server
    }

    /// A client of that name, and its connection to the server.
    async fn meet(listener: &TcpListener, relay: &Relay, name: &str) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(relay.address()).await.unwrap();
        let server = greet(listener).await;
        let greeting = read_line(&mut client).await.unwrap();
        assert_eq!(greeting, b"INFO {\"server_id\":\"x\",\"tls_required\":false}");
        let connect = format!("CONNECT {{\"name\":\"{name}\",\"pass\":\"p\"}}\r\nPING\r\n");
        client.write_all(connect.as_bytes()).await.unwrap();
        (client, server)
    }

    async fn failure(relay: &Relay) -> Failure {
        loop {
            if let Some(failure) = relay.failure() {
                return failure;
            }
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn the_client_reaches_the_server_and_others_do_not() {
        block_on(async {
            let (listener, relay) = start(None).await;
            let (mut stranger, mut server) = meet(&listener, &relay, CLIENT_NAME).await;
            assert_eq!(
                server.read(&mut [0]).await.unwrap(),
                0,
                "nothing comes of a stranger"
            );
            assert_eq!(stranger.read(&mut [0]).await.unwrap_or(0), 0);

            let (mut client, mut server) = meet(&listener, &relay, relay.client_name()).await;
            let shown = read_line(&mut server).await.unwrap();
            assert_eq!(shown, b"CONNECT {\"name\":\"weir\",\"pass\":\"p\"}");
            assert_eq!(read_line(&mut server).await.unwrap(), b"PING");
            server.write_all(b"PONG\r\nMSG a 1 2\r\nhi\r\n").await.unwrap();
            for line in [&b"PONG"[..], b"MSG a 1 2", b"hi"] {
                assert_eq!(read_line(&mut client).await.unwrap(), line);
            }

            // The client connects again: its former connection is over on both sides.
            let (_again, _) = meet(&listener, &relay, relay.client_name()).await;
            assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
            assert_eq!(relay.failure(), None);
        });
    }

    #[test]
    fn a_server_that_is_cut_off_or_not_reached_has_its_reason() {
        block_on(async {
            let (listener, relay) = start(None).await;
            let (_client, mut server) = meet(&listener, &relay, relay.client_name()).await;
            server.write_all(b"MSG a 1 1025\r\n").await.unwrap();
            let Failure::Server(reason) = failure(&relay).await else {
                panic!("another failure")
            };
            assert!(reason.contains("a message of 1025 bytes"), "{reason}");

            let _client = TcpStream::connect(relay.address()).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            server.write_all(&vec![b'a'; MAX_LINE_BYTES + 1]).await.unwrap();
            let failed = failure(&relay).await;
            assert!(matches!(failed, Failure::Server(reason) if reason.contains("a line of more than")));

            drop(listener);
            let _client = TcpStream::connect(relay.address()).await.unwrap();
            let failed = failure(&relay).await;
            assert!(matches!(failed, Failure::Server(reason) if reason.contains("refused")));
        });
    }

    #[test]
    fn a_server_that_is_to_encrypt_and_does_not_gets_nothing() {
        block_on(async {
            let tls = tls::tls(None, None);
            let Ok(tls) = tls else { return };
            let (listener, relay) = start(Some(tls)).await;
            let mut client = TcpStream::connect(relay.address()).await.unwrap();
            let mut server = greet(&listener).await;
            // Bytes that came unencrypted behind the greeting are no part of the encrypted connection.
            server.write_all(b"MSG a 1 2\r\nhi\r\n").await.unwrap();
            assert!(matches!(failure(&relay).await, Failure::Tls(_)));
            assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
        });
    }
}
