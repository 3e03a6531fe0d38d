//! Connection to a camera, plain or encrypted. Once it is open, no call blocks.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use weir_flow::StopFlag;

use super::certificates::{Trust, Verifier};
use super::session::Target;

/// Longest wait between two looks at the stop flag.
pub(super) const STOP_CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// The end of an attempt: by time, or by the stop flag.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    since: Instant,
    wait: Duration,
    stop: StopFlag,
}

impl Limit {
    pub(super) fn new(wait: Duration, stop: &StopFlag) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "silence of the other side is measured, whatever the engine's clock is"
        )]
        let since = Instant::now();
        Self {
            since,
            wait,
            stop: stop.clone(),
        }
    }

    /// The time that is left.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn left(&self) -> Result<Duration, String> {
        if self.stop.is_raised() {
            return Err("stopped while opening".to_owned());
        }
        let left = self.wait.saturating_sub(self.since.elapsed());
        if left.is_zero() {
            let seconds = self.wait.as_secs_f64();
            return Err(format!(
                "the camera does not answer within {seconds} s: check the address and the network"
            ));
        }
        Ok(left)
    }
}

/// A connection that is open.
#[derive(Debug)]
pub(super) struct Camera {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Camera {
    /// Connects to `target`, and verifies its certificate.
    ///
    /// # Errors
    /// The reason in one sentence.
    pub(super) fn connect(target: &Target, trust: &Trust, limit: &Limit) -> Result<Self, String> {
        let (host, port) = target.place();
        // A file that cannot be used is said before the camera is called.
        let verifier = target.is_encrypted().then(|| Verifier::new(trust)).transpose()?;
        let socket = socket(host, port, limit)?;
        let mut camera = Self { socket, tls: None };
        if let Some(verifier) = verifier {
            // Certificates know nothing of the zone of an IPv6 address.
            let name = host.split('%').next().unwrap_or(host).to_owned();
            let name = ServerName::try_from(name).map_err(|_| {
                format!("{host} is not a name that a certificate could be for: check the address")
            })?;
            let broken = |error: &rustls::Error| verifier.reason(error, host);
            let config = verifier.config().map_err(|error| broken(&error))?;
            let mut tls = ClientConnection::new(config, name).map_err(|error| broken(&error))?;
            while tls.is_handshaking() {
                limit.left()?;
                camera.step(&mut tls).map_err(|error| {
                    match error.get_ref().and_then(|error| error.downcast_ref()) {
                        Some(error) => broken(error),
                        None => format!(
                            "the camera ended the connection before it was encrypted ({error}): check the \
                             port, or use rtsp:// if the camera does not encrypt"
                        ),
                    }
                })?;
            }
            camera.tls = Some(Box::new(tls));
        }
        Ok(camera)
    }

    /// Does a step of a handshake, or waits for it.
    fn step(&mut self, tls: &mut ClientConnection) -> Result<(), Error> {
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                written => written?,
            };
        }
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        if matches!(poll(&mut polled, Some(&STOP_CHECK_INTERVAL)), Ok(0) | Err(_)) {
            return Ok(());
        }
        match tls.read_tls(&mut self.socket) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            read => read?,
        };
        let processed = tls.process_new_packets();
        if processed.is_err() {
            // The other side learns of it.
            let _ = tls.write_tls(&mut self.socket);
        }
        processed
            .map(drop)
            .map_err(|error| Error::new(ErrorKind::InvalidData, error))
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether bytes are left that the socket did not take yet.
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Passes on what was written.
    fn flush_tls(&mut self) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                written => written?,
            };
        }
        Ok(())
    }

    /// Says goodbye, as far as the socket takes it.
    pub(super) fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _ = self.flush_tls();
    }
}

impl Read for Camera {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let Some(tls) = &mut self.tls else {
            return self.socket.read(buffer);
        };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Cameras hang up without a word.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            let processed = tls.process_new_packets();
            processed.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        }
    }
}

impl Write for Camera {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let Some(tls) = &mut self.tls else {
            return self.socket.write(bytes);
        };
        let taken = tls.writer().write(bytes)?;
        self.flush_tls()?;
        if taken == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.flush_tls()
    }
}

/// Connects to the first address of `host` that answers. The time that is left is shared between its addresses.
fn socket(host: &str, port: u16, limit: &Limit) -> Result<TcpStream, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| {
        format!("Failed to resolve hostname {host} ({error}): check the address and the network")
    })?;
    let addresses: Vec<_> = addresses.collect();
    let mut failed = None;
    for (at, address) in addresses.iter().enumerate() {
        let to_come = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, limit.left()? / to_come) {
            Ok(socket) => {
                let _ = socket.set_nodelay(true);
                return match socket.set_nonblocking(true) {
                    Ok(()) => Ok(socket),
                    Err(error) => Err(error.to_string()),
                };
            }
            Err(error) => failed = Some(error),
        }
    }
    limit.left()?;
    Err(match failed {
        Some(error) if error.kind() == ErrorKind::ConnectionRefused => {
            format!("{error}: nothing listens at port {port}: check it, and that the camera is on")
        }
        Some(error) => format!("{error}: check the address and the network, and that the camera is on"),
        None => format!("{host} has no address: check the name"),
    })
}
