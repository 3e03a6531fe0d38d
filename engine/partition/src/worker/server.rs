//! The worker's connections over TCP.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::core::Core;
use super::generating;
use super::options::WorkerError;
use super::state::count;
use crate::connection::{MessageReader, MessageWriter, split};
use crate::liveness::Liveness;
use crate::local_workers::{EngineSession, LocalWorker};
use crate::receive_budget::ReceiveBudget;
use crate::wire::{BatchFailure, Limits, Message, WireError};

/// Pause after a failed accept, for example while the process has no free file descriptors.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Accept loop of the worker, on a thread of its own.
pub(super) struct Server {
    address: SocketAddr,
    core: Arc<Core>,
    thread: JoinHandle<()>,
}

/// Connections that are open, of each kind.
#[derive(Default)]
struct OpenConnections {
    engines: Arc<AtomicUsize>,
    peers: Arc<AtomicUsize>,
    generators: Arc<AtomicUsize>,
    unidentified: Arc<AtomicUsize>,
}

/// Place among the limited number of connections of a kind.
struct ConnectionSlot(Arc<AtomicUsize>);

impl ConnectionSlot {
    /// Takes a place; `None` if all are taken.
    fn acquire(of: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let slot = Self(Arc::clone(of));
        (of.fetch_add(1, Ordering::Relaxed) < most).then_some(slot)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    pub(super) fn start(at: SocketAddr, core: &Arc<Core>) -> Result<Self, WorkerError> {
        let refused = |error: std::io::Error| WorkerError::Listen {
            at,
            reason: match error.kind() {
                ErrorKind::AddrInUse => "the address is in use; choose another port, or 0 for any".to_owned(),
                _ => error.to_string(),
            },
        };
        let listener = TcpListener::bind(at).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let accepting = Arc::clone(core);
        let thread = std::thread::Builder::new()
            .name("weir-accept".to_owned())
            .spawn(move || accept(&listener, &accepting))
            .map_err(WorkerError::Thread)?;
        Ok(Self {
            address,
            core: Arc::clone(core),
            thread,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until no more connections are accepted; the worker was asked to stop.
    pub(super) fn join(self) {
        // A connection wakes the thread. If none can be made, the thread is left behind, asleep.
        let mut at = self.address;
        if at.ip().is_unspecified() {
            at.set_ip(match at {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        if TcpStream::connect_timeout(&at, self.core.options().timeouts.connect).is_ok() {
            let _ = self.thread.join();
        }
    }
}

fn accept(listener: &TcpListener, core: &Arc<Core>) {
    let open = Arc::new(OpenConnections::default());
    let mut accepts = true;
    for stream in listener.incoming() {
        if core.state().stop.is_raised() {
            return;
        }
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                if accepts {
                    tracing::error!(
                        "no connection can be accepted: {error}; raise the limit of open files (ulimit -n)"
                    );
                }
                accepts = false;
                std::thread::sleep(ACCEPT_RETRY_INTERVAL);
                continue;
            }
        };
        accepts = true;
        let Some(slot) =
            ConnectionSlot::acquire(&open.unidentified, core.options().max_connections.unidentified)
        else {
            count(&core.state().counters.refused);
            tracing::warn!("connection refused: too many have not said what they are");
            continue;
        };
        let (serving, open) = (Arc::clone(core), Arc::clone(&open));
        let spawned = std::thread::Builder::new()
            .name("weir-connection".to_owned())
            .spawn(move || {
                connection(&serving, stream, &open, slot);
            });
        if let Err(error) = spawned {
            tracing::error!("connection refused: {error}");
        }
    }
}

fn connection(core: &Arc<Core>, stream: TcpStream, open: &OpenConnections, slot: ConnectionSlot) {
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "?".to_owned(), |peer| peer.to_string());
    let options = core.options();
    let state = core.state();
    let small = Limits {
        max_message_bytes: options
            .limits
            .max_small_bytes
            .min(options.limits.max_message_bytes),
        ..options.limits
    };
    let lines = split(
        stream,
        options.limits,
        &options.timeouts,
        state.clock(),
        &state.stop,
    );
    let ended = lines.and_then(|(mut reader, mut writer)| {
        // A peer that is not identified yet has only short messages to send.
        reader.set_limits(small);
        reader.set_budget(ReceiveBudget::new(
            &state.counters.receiving_bytes,
            options.max_receiving_bytes / 2,
        ));
        let ended = handshake(core, &mut reader, &mut writer, &peer, open, slot);
        let over_budget = matches!(ended, Err(WireError::OverBudget { .. }));
        if let Err(error) = &ended
            && (error.is_protocol_error() || over_budget)
            && !state.stop.is_raised()
        {
            if over_budget {
                count(&state.counters.refused);
                tracing::warn!(peer, "connection closed: {error}");
            } else {
                count(&state.counters.protocol_errors);
                tracing::warn!(peer, "the peer broke the protocol: {error}");
            }
            // The peer may speak another version of the protocol, which still understands this message.
            let _ = writer.send(&Message::Refused {
                reason: error.to_string(),
            });
        }
        writer.close();
        ended
    });
    if let Err(error) = ended {
        tracing::debug!(peer, "connection closed: {error}");
    }
}

fn handshake(
    core: &Core,
    reader: &mut MessageReader,
    writer: &mut MessageWriter,
    peer: &str,
    open: &OpenConnections,
    unidentified: ConnectionSlot,
) -> Result<(), WireError> {
    let options = core.options();
    let (quota, bytes) = (options.max_connections, options.max_receiving_bytes);
    let taken = |of, most, writer: &mut MessageWriter| match ConnectionSlot::acquire(of, most) {
        Some(slot) => Ok(slot),
        None => {
            count(&core.state().counters.refused);
            let reason = "too many connections of its kind are open".to_owned();
            writer.send(&Message::Refused {
                reason: reason.clone(),
            })?;
            Err(WireError::Refused(reason))
        }
    };
    let greeted = reader.read_greeting();
    if !matches!(greeted, Err(WireError::Magic | WireError::Broken(_))) {
        writer.write_greeting()?;
    }
    greeted?;
    let first = reader.read_now()?;
    let (kind, most, bytes) = match &first {
        Message::Hello { .. } => (&open.engines, quota.engines, bytes),
        Message::Generate => (&open.generators, quota.generators, bytes),
        _ => (&open.peers, quota.peers, bytes / 2),
    };
    let _slot = match &first {
        Message::Hello { .. } | Message::Peer | Message::Generate => taken(kind, most, writer)?,
        other => return Err(WireError::Unexpected(other.name())),
    };
    drop(unidentified);
    reader.set_limits(options.limits);
    reader.set_receiving_max(bytes);
    match first {
        Message::Hello { engine } => match core.open(engine) {
            Ok(session) => {
                tracing::info!(peer, "engine connected");
                let ended = serve(core, session, reader, writer);
                tracing::info!(peer, "engine gone: its batches are dropped, partitions kept");
                ended
            }
            Err(refusal) => {
                let reason = match &refusal {
                    WireError::Refused(reason) => reason.clone(),
                    other => other.to_string(),
                };
                writer.send(&Message::Refused { reason })?;
                Err(refusal)
            }
        },
        Message::Peer => {
            writer.send(&Message::Welcome(core.welcome(Vec::new())))?;
            read_features(core, reader)
        }
        Message::Generate => generating::serve(core, reader, writer),
        other => Err(WireError::Unexpected(other.name())),
    }
}

/// Serves an engine until it goes, falls silent, or the worker ends.
fn serve(
    core: &Core,
    session: EngineSession,
    reader: &mut MessageReader,
    writer: &mut MessageWriter,
) -> Result<(), WireError> {
    let EngineSession {
        welcome,
        generation,
        reports,
    } = session;
    let begun = writer
        .send(&Message::Welcome(welcome))
        .and_then(|()| writer.try_clone_writer());
    let ended = begun.and_then(|mut reporting| {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for report in reports {
                    let sent = match (reporting.send(&report), &report) {
                        // Outputs that are too large cost their batch, not the connection.
                        (Err(error @ WireError::TooLong { .. }), Message::Done { key, times, .. }) => {
                            reporting.send(&Message::Failed {
                                key: *key,
                                stage: (times.len() as u32).saturating_sub(1),
                                failure: BatchFailure::Unreachable(error.to_string()),
                            })
                        }
                        (sent, _) => sent,
                    };
                    if let Err(error) = sent {
                        tracing::warn!("the engine cannot be reached: {error}");
                        break;
                    }
                }
                reporting.close();
            });
            let ended = read_engine(core, generation, reader);
            core.close(generation);
            ended
        })
    });
    core.close(generation);
    ended
}

fn read_engine(core: &Core, generation: u64, reader: &mut MessageReader) -> Result<(), WireError> {
    let state = core.state();
    let timeouts = &core.options().timeouts;
    let mut liveness = Liveness::new(timeouts, state.own_now());
    while state.is_serving(generation) {
        match reader.poll()? {
            Some(message) => {
                core.on_message(generation, message)?;
                liveness.on_activity(state.own_now());
            }
            None if liveness.on_idle(state.own_now()) => return Err(WireError::Silent(timeouts.liveness)),
            None => {}
        }
    }
    Ok(())
}

fn read_features(core: &Core, reader: &mut MessageReader) -> Result<(), WireError> {
    let (state, options) = (core.state(), core.options());
    let mut liveness = Liveness::with_timeout(&options.timeouts, options.peer_timeout, state.own_now());
    while !state.stop.is_raised() {
        match reader.poll()? {
            Some(Message::Feature(input)) => {
                core.on_feature(input);
                liveness.on_activity(state.own_now());
            }
            Some(other) => return Err(WireError::Unexpected(other.name())),
            None if liveness.on_idle(state.own_now()) => {
                return Err(WireError::Silent(options.peer_timeout));
            }
            None => {}
        }
    }
    Ok(())
}
