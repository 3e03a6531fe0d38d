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
use crate::receiving::Receiving;
use crate::silence::Silence;
use crate::wire::{Failure, Limits, Message, WireError};

/// How long a listener rests that cannot accept: the process is out of files.
const REST: Duration = Duration::from_millis(100);

/// Accepts connections on a thread of its own.
pub(super) struct Server {
    address: SocketAddr,
    core: Arc<Core>,
    thread: JoinHandle<()>,
}

/// Connections that are open, of each kind.
#[derive(Default)]
struct Open {
    engines: Arc<AtomicUsize>,
    peers: Arc<AtomicUsize>,
    unidentified: Arc<AtomicUsize>,
}

/// One of the connections of a kind that may be open at a time.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// `None` where all are taken.
    fn take(of: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(of));
        (of.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

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
    let open = Arc::new(Open::default());
    let mut accepts = true;
    for stream in listener.incoming() {
        if core.desk().stop.is_raised() {
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
                std::thread::sleep(REST);
                continue;
            }
        };
        accepts = true;
        let Some(place) = Place::take(&open.unidentified, core.options().max_connections.unidentified) else {
            count(&core.desk().counts.refused);
            tracing::warn!("connection refused: too many have not said what they are");
            continue;
        };
        let (serving, open) = (Arc::clone(core), Arc::clone(&open));
        let spawned = std::thread::Builder::new()
            .name("weir-connection".to_owned())
            .spawn(move || {
                connection(&serving, stream, &open, place);
            });
        if let Err(error) = spawned {
            tracing::error!("connection refused: {error}");
        }
    }
}

fn connection(core: &Arc<Core>, stream: TcpStream, open: &Open, place: Place) {
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "?".to_owned(), |peer| peer.to_string());
    let options = core.options();
    let desk = core.desk();
    let small = Limits {
        message_most: options.limits.small_most.min(options.limits.message_most),
        ..options.limits
    };
    let lines = split(
        stream,
        options.limits,
        &options.patience,
        desk.clock(),
        &desk.stop,
    );
    let ended = lines.and_then(|(mut inlet, mut outlet)| {
        // Whoever has not said what it is has little to say.
        inlet.set_limits(small);
        inlet.count(Receiving::new(
            &desk.counts.receiving_bytes,
            options.max_receiving_bytes / 2,
        ));
        let ended = introduced(core, &mut inlet, &mut outlet, &peer, open, place);
        let crowded = matches!(ended, Err(WireError::Crowded { .. }));
        if let Err(error) = &ended
            && (error.is_foul() || crowded)
            && !desk.stop.is_raised()
        {
            if crowded {
                count(&desk.counts.refused);
                tracing::warn!(peer, "connection closed: {error}");
            } else {
                count(&desk.counts.foul);
                tracing::warn!(peer, "the peer broke the protocol: {error}");
            }
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

fn introduced(
    core: &Core,
    inlet: &mut Inlet,
    outlet: &mut Outlet,
    peer: &str,
    open: &Open,
    unidentified: Place,
) -> Result<(), WireError> {
    let options = core.options();
    let (quota, bytes) = (options.max_connections, options.max_receiving_bytes);
    let taken = |of, most, outlet: &mut Outlet| match Place::take(of, most) {
        Some(place) => Ok(place),
        None => {
            count(&core.desk().counts.refused);
            let reason = "too many connections of its kind are open".to_owned();
            outlet.send(&Message::Refused {
                reason: reason.clone(),
            })?;
            Err(WireError::Refused(reason))
        }
    };
    let greeted = inlet.greeted();
    if !matches!(greeted, Err(WireError::Magic | WireError::Broken(_))) {
        outlet.greet()?;
    }
    greeted?;
    let first = inlet.at_once()?;
    let (kind, most, bytes) = match &first {
        Message::Hello { .. } => (&open.engines, quota.engines, bytes),
        _ => (&open.peers, quota.peers, bytes / 2),
    };
    let _place = match &first {
        Message::Hello { .. } | Message::Peer => taken(kind, most, outlet)?,
        other => return Err(WireError::Unexpected(other.name())),
    };
    drop(unidentified);
    inlet.set_limits(options.limits);
    inlet.set_receiving_max(bytes);
    match first {
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
    let (desk, options) = (core.desk(), core.options());
    let mut silence = Silence::of(&options.patience, options.peer_silence, desk.own_now());
    while !desk.stop.is_raised() {
        match inlet.next()? {
            Some(Message::Feature(leg)) => {
                core.feature(leg);
                silence.broken(desk.own_now());
            }
            Some(other) => return Err(WireError::Unexpected(other.name())),
            None if silence.heard_nothing(desk.own_now()) => {
                return Err(WireError::Silent(options.peer_silence));
            }
            None => {}
        }
    }
    Ok(())
}
