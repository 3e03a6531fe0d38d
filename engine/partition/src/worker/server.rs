//! The worker's connections over TCP.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::WorkerError;
use super::core::{Core, Served};
use super::desk::count;
use crate::line::{Inlet, Outlet, split};
use crate::silence::Silence;
use crate::wire::{Failure, Message, WireError};

/// How long a listener rests that cannot accept: the process is out of files.
const REST: Duration = Duration::from_millis(100);

/// Accepts connections on a thread of its own.
pub(super) struct Server {
    address: SocketAddr,
    core: Arc<Core>,
    thread: JoinHandle<()>,
}

/// One of the connections that may be open at a time.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
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

    /// Waits until no more connections are accepted; the worker has been told to stop.
    pub(super) fn join(self) {
        // A connection wakes it up. Where none can be made, it stays behind, asleep.
        let mut at = self.address;
        if at.ip().is_unspecified() {
            at.set_ip(match at {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        if TcpStream::connect_timeout(&at, self.core.options().patience.connect).is_ok() {
            let _ = self.thread.join();
        }
    }
}

fn accept(listener: &TcpListener, core: &Arc<Core>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if core.desk().stop.raised() {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(REST);
            continue;
        };
        let place = Place(Arc::clone(&open));
        if open.fetch_add(1, Ordering::Relaxed) >= core.options().connections_most {
            count(&core.desk().counts.refused);
            tracing::warn!("connection refused: too many are open");
            continue;
        }
        let serving = Arc::clone(core);
        let spawned = std::thread::Builder::new()
            .name("weir-connection".to_owned())
            .spawn(move || {
                let _place = place;
                connection(&serving, stream);
            });
        if let Err(error) = spawned {
            tracing::error!("connection refused: {error}");
        }
    }
}

fn connection(core: &Arc<Core>, stream: TcpStream) {
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "?".to_owned(), |peer| peer.to_string());
    let options = core.options();
    let desk = core.desk();
    let lines = split(
        stream,
        options.limits,
        &options.patience,
        desk.clock(),
        &desk.stop,
    );
    let ended = lines.and_then(|(mut inlet, mut outlet)| {
        let ended = introduced(core, &mut inlet, &mut outlet, &peer);
        if let Err(error) = &ended
            && error.is_foul()
            && !desk.stop.raised()
        {
            count(&desk.counts.foul);
            tracing::warn!(peer, "the peer broke the protocol: {error}");
            // It may be a Weir peer of another version, which can read this much.
            let _ = outlet.send(&Message::Refused {
                reason: error.to_string(),
            });
        }
        outlet.close();
        ended
    });
    if let Err(error) = ended {
        tracing::debug!(peer, "connection closed: {error}");
    }
}

fn introduced(core: &Core, inlet: &mut Inlet, outlet: &mut Outlet, peer: &str) -> Result<(), WireError> {
    let greeted = inlet.greeted();
    if !matches!(greeted, Err(WireError::Magic | WireError::Broken(_))) {
        outlet.greet()?;
    }
    greeted?;
    match inlet.at_once()? {
        Message::Hello { engine } => match core.open(engine) {
            Ok(served) => {
                tracing::info!(peer, "engine connected");
                let ended = serve(core, served, inlet, outlet);
                tracing::info!(peer, "engine gone: its batches are dropped, partitions kept");
                ended
            }
            Err(refusal) => {
                let reason = match &refusal {
                    WireError::Refused(reason) => reason.clone(),
                    other => other.to_string(),
                };
                outlet.send(&Message::Refused { reason })?;
                Err(refusal)
            }
        },
        Message::Peer => {
            outlet.send(&Message::Welcome(core.welcome(Vec::new())))?;
            features(core, inlet)
        }
        other => Err(WireError::Unexpected(other.name())),
    }
}

/// Serves an engine until it goes, falls silent, or the worker ends.
fn serve(core: &Core, served: Served, inlet: &mut Inlet, outlet: &mut Outlet) -> Result<(), WireError> {
    let Served {
        welcome,
        generation,
        reports,
    } = served;
    let begun = outlet
        .send(&Message::Welcome(welcome))
        .and_then(|()| outlet.again());
    let ended = begun.and_then(|mut reporting| {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for report in reports {
                    let told = match (reporting.send(&report), &report) {
                        // Outputs that are too large cost their batch, not the connection.
                        (Err(error @ WireError::TooLong { .. }), Message::Done { key, times, .. }) => {
                            reporting.send(&Message::Failed {
                                key: *key,
                                stage: (times.len() as u32).saturating_sub(1),
                                failure: Failure::Unreachable(error.to_string()),
                            })
                        }
                        (told, _) => told,
                    };
                    if let Err(error) = told {
                        tracing::warn!("the engine cannot be told: {error}");
                        break;
                    }
                }
                reporting.close();
            });
            let ended = listen(core, generation, inlet);
            core.close(generation);
            ended
        })
    });
    core.close(generation);
    ended
}

fn listen(core: &Core, generation: u64, inlet: &mut Inlet) -> Result<(), WireError> {
    let desk = core.desk();
    let patience = &core.options().patience;
    let mut silence = Silence::new(patience, desk.own_now());
    while desk.serves(generation) {
        match inlet.next()? {
            Some(message) => {
                core.take(generation, message)?;
                silence.broken(desk.own_now());
            }
            None if silence.heard_nothing(desk.own_now()) => return Err(WireError::Silent(patience.silence)),
            None => {}
        }
    }
    Ok(())
}

fn features(core: &Core, inlet: &mut Inlet) -> Result<(), WireError> {
    while !core.desk().stop.raised() {
        match inlet.next()? {
            Some(Message::Feature(leg)) => core.feature(leg),
            Some(other) => return Err(WireError::Unexpected(other.name())),
            None => {}
        }
    }
    Ok(())
}
