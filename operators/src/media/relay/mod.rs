//! Relay between FFmpeg and a camera, for what FFmpeg does not do itself: certificates of `rtsps` are verified, and challenges
//! are answered by SHA-256. FFmpeg is given an address on loopback, which one connection is taken at, and no credentials.
//!
//! Used for `rtsps`, and for `rtsp` over TCP where the address has a user and a password. With other cameras, and with UDP,
//! whose datagrams would have to be relayed as well, FFmpeg speaks by itself.

mod camera;
mod certificates;
mod challenge;
mod messages;
mod question;
mod session;

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use weir_flow::{StopFlag, Transport};

use super::access::scheme;
use super::{SourceOptions, userinfo};
use camera::{Camera, Limit, STOP_CHECK_INTERVAL};
pub(super) use certificates::{Trust, random};
pub(super) use challenge::{Challenge, choose};
pub(super) use question::unknown_to_ffmpeg;
use session::{Outbox, Session, Target};

/// Bytes that may wait for a slow receiver, besides those in the sockets' own buffers.
const MAX_UNSENT: usize = 256 << 10;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Looks at the stop flag for which the last bytes of an end that has closed may take.
const MAX_LAST_LOOKS: u32 = 5;

/// Whether a source is read through a relay.
pub(super) fn is_wanted(uri: &str, options: &SourceOptions) -> bool {
    match scheme(uri).as_deref() {
        Some("rtsps") => true,
        Some("rtsp") => options.connection.transport == Transport::Tcp && userinfo::of(uri).is_some(),
        _ => false,
    }
}

/// A camera that is connected, for FFmpeg to connect to. The relay ends with FFmpeg's connection, with that of the camera, and by
/// the stop flag.
#[derive(Debug)]
pub(super) struct Relay {
    address: String,
    reason: Arc<Mutex<Option<String>>>,
}

impl Relay {
    /// Connects to the camera at `uri`.
    ///
    /// # Errors
    /// The reason in one sentence.
    pub(super) fn start(
        uri: &str,
        options: &SourceOptions,
        wait: Duration,
        stop: &StopFlag,
    ) -> Result<Self, String> {
        let failed = |error: Error| format!("no relay to the camera: {error}");
        let (target, user) = Target::of(uri).ok_or(
            "it is no address of a camera: its host is missing, or it holds a space, which has to be \
             written as `%20`",
        )?;
        let trust = Trust::of(&scheme(uri).unwrap_or_default(), &options.connection.options)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        // Other programs of this machine can connect, too: only FFmpeg knows the path.
        let local = format!("rtsp://127.0.0.1:{port}/{}", random()?);
        let reason = Arc::new(Mutex::new(None));
        let address = format!("{local}{}", target.path);
        let session = Session::new(local, target, user, || random().unwrap_or_default());
        let link = Link {
            session,
            trust,
            wait,
            stop: stop.clone(),
            outbox: Outbox::default(),
            reason: Arc::clone(&reason),
        };
        let (connected, connecting) = mpsc::sync_channel(1);
        let limit = Limit::new(wait, stop);
        let given_up = limit.clone();
        let thread = std::thread::Builder::new().name("weir-relay".to_owned());
        thread
            .spawn(move || {
                let camera = Camera::connect(link.session.target(), &link.trust, &limit);
                match camera {
                    // The receiver may have stopped.
                    Ok(camera) if connected.send(Ok(())).is_ok() => link.run(listener, camera),
                    Ok(_) => {}
                    Err(reason) => drop(connected.send(Err(reason))),
                }
            })
            .map_err(failed)?;
        // A resolver of names may block for longer.
        loop {
            match connecting.recv_timeout(Duration::from_millis(50)) {
                Ok(connected) => return connected.map(|()| Self { address, reason }),
                Err(RecvTimeoutError::Timeout) => drop(given_up.left()?),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the relay to the camera ended".to_owned());
                }
            }
        }
    }

    /// The address for FFmpeg.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Why the camera refuses, once it does.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// State of a relay, on its own thread.
struct Link {
    session: Session,
    trust: Trust,
    wait: Duration,
    stop: StopFlag,
    outbox: Outbox,
    reason: Arc<Mutex<Option<String>>>,
}

impl Link {
    fn run(mut self, listener: TcpListener, camera: Camera) {
        let ffmpeg = accept(&listener, &Limit::new(self.wait, &self.stop));
        drop(listener);
        let Ok(ffmpeg) = ffmpeg else { return };
        let mut camera = Some(camera);
        let ended = self.relay(&ffmpeg, &mut camera);
        if let Err(reason) = ended {
            self.keep(reason);
        }
        if let Some(camera) = camera {
            camera.close();
        }
    }

    /// Keeps the first reason: it is the cause of later ones.
    fn keep(&self, reason: String) {
        tracing::debug!("relay to a camera: {reason}");
        self.reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(reason);
    }

    /// Relays until one side ends, and its last bytes are sent.
    ///
    /// # Errors
    /// The reason, where it ends by one.
    fn relay(&mut self, ffmpeg: &TcpStream, camera: &mut Option<Camera>) -> Result<(), String> {
        let mut buffer = vec![0; READ_BYTES];
        let (mut ffmpeg_ended, mut camera_ended, mut last_looks) = (false, false, 0);
        loop {
            let Some(open) = camera else { return Ok(()) };
            // Reading comes first: what is encrypted may wait in the library, which no poll shows.
            if !ffmpeg_ended && self.outbox.to_camera.len() < MAX_UNSENT {
                match some(read(&mut (&*ffmpeg), &mut buffer)) {
                    Ok(Some(0)) | Err(_) => {
                        ffmpeg_ended = true;
                        self.outbox.to_ffmpeg.clear();
                    }
                    Ok(Some(length)) => self.session.on_ffmpeg(&buffer[..length], &mut self.outbox)?,
                    Ok(None) => {}
                }
            }
            let mut has_more = false;
            if !camera_ended && !ffmpeg_ended && self.outbox.to_ffmpeg.len() < MAX_UNSENT {
                match some(read(open, &mut buffer)) {
                    Ok(Some(0)) | Err(_) => camera_ended = true,
                    Ok(Some(length)) => {
                        has_more = true;
                        let moved = self.session.on_camera(&buffer[..length], &mut self.outbox)?;
                        if let Some(reason) = self.session.reason() {
                            self.keep(reason.to_owned());
                        }
                        if moved {
                            if let Some(camera) = camera.take() {
                                camera.close();
                            }
                            let limit = Limit::new(self.wait, &self.stop);
                            *camera = Some(Camera::connect(self.session.target(), &self.trust, &limit)?);
                            self.session.on_moved(&mut self.outbox);
                            continue;
                        }
                    }
                    Ok(None) => {}
                }
            }
            let to_ffmpeg = send(&mut (&*ffmpeg), &mut self.outbox.to_ffmpeg);
            let to_camera = send(open, &mut self.outbox.to_camera);
            let is_flushed = open.flush().is_ok();
            if to_ffmpeg.is_err() || camera_ended && self.outbox.to_ffmpeg.is_empty() {
                return Ok(());
            }
            if ffmpeg_ended {
                let is_sent = self.outbox.to_camera.is_empty() && !open.has_unsent();
                last_looks += 1;
                if is_sent || to_camera.is_err() || !is_flushed || last_looks > MAX_LAST_LOOKS {
                    return Ok(());
                }
            }
            if to_camera.is_err() || !is_flushed {
                camera_ended = true;
                self.outbox.to_camera.clear();
            }
            if self.stop.is_raised() {
                return Ok(());
            }
            if !has_more {
                self.wait_for(ffmpeg, open, ffmpeg_ended, camera_ended);
            }
        }
    }

    /// Waits until a side can be read or written.
    fn wait_for(&self, ffmpeg: &TcpStream, camera: &Camera, ffmpeg_ended: bool, camera_ended: bool) {
        let flags = |is_read: bool, is_written: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, is_read);
            flags.set(PollFlags::OUT, is_written);
            flags
        };
        let Outbox { to_ffmpeg, to_camera } = &self.outbox;
        let of_ffmpeg = flags(
            !ffmpeg_ended && to_camera.len() < MAX_UNSENT,
            !to_ffmpeg.is_empty(),
        );
        let of_camera = flags(
            !camera_ended && !ffmpeg_ended && to_ffmpeg.len() < MAX_UNSENT,
            !camera_ended && (!to_camera.is_empty() || camera.has_unsent()),
        );
        // A side that has hung up is always ready: it is looked at only for what is wanted of it.
        let mut polled = Vec::with_capacity(2);
        if !of_ffmpeg.is_empty() {
            polled.push(PollFd::new(ffmpeg, of_ffmpeg));
        }
        if !of_camera.is_empty() {
            polled.push(PollFd::new(camera.socket(), of_camera));
        }
        // An interrupted wait is one that was short.
        let _ = poll(&mut polled, Some(&STOP_CHECK_INTERVAL));
    }
}

/// The connection of FFmpeg, which comes at once.
fn accept(listener: &TcpListener, limit: &Limit) -> Result<TcpStream, String> {
    loop {
        limit.left()?;
        match listener.accept() {
            Ok((socket, _)) => {
                let prepared = socket
                    .set_nonblocking(true)
                    .and_then(|()| socket.set_nodelay(true));
                prepared.map_err(|error| error.to_string())?;
                return Ok(socket);
            }
            Err(error) if is_try_again(&error) => {
                let mut polled = [PollFd::new(listener, PollFlags::IN)];
                let _ = poll(&mut polled, Some(&STOP_CHECK_INTERVAL));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn is_try_again(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn read(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Error> {
    from.read(buffer)
}

/// `None` where nothing can be read or written now.
fn some(result: Result<usize, Error>) -> Result<Option<usize>, Error> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if is_try_again(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends of `bytes` what can be sent now.
fn send(to: &mut impl Write, bytes: &mut Vec<u8>) -> Result<(), Error> {
    let mut sent = 0;
    while sent < bytes.len() {
        match some(to.write(&bytes[sent..]))? {
            Some(length) if length > 0 => sent += length,
            _ => break,
        }
    }
    bytes.drain(..sent);
    Ok(())
}
