//! One TCP connection, with patience that ends: a message that was begun must come at some pace, and a write must move.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use weir_flow::StopFlag;
use weir_types::{Span, Timestamp};

use crate::receiving::Receiving;
use crate::silence::Silence;
use crate::time::Now;
use crate::wire::{Limits, Message, WireError, read_message, read_preamble, write_message, write_preamble};

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For a connection to be made.
    pub connect: Duration,
    /// For the first bytes of a connection; within a message, for the next; and for a write to move.
    pub stall: Duration,
    /// For anything at all of a peer that is pinged or pings; time in which one does not listen oneself does not count.
    pub silence: Duration,
    /// How often a quiet connection looks whether it is to end.
    pub look_up: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            stall: Duration::from_secs(2),
            silence: Duration::from_secs(1),
            look_up: Duration::from_millis(50),
        }
    }
}

/// A message must come at this pace, beyond the time for which it may stall.
const PACE_BYTES_PER_S: u64 = 128 << 10;

/// The side that reads.
pub(crate) struct Inlet {
    reader: BufReader<Paced>,
    limits: Limits,
}

/// The side that writes.
pub(crate) struct Outlet {
    stream: TcpStream,
    /// What the other side takes.
    limits: Limits,
}

/// A connection whose reads give up.
struct Paced {
    stream: TcpStream,
    now: Now,
    stop: StopFlag,
    patience: Patience,
    /// The message under reading.
    within: Option<Within>,
    /// What it counts against; a client's side has no such bound, as it asked for what comes.
    receiving: Option<Receiving>,
    /// Whether it was given up because too much was being received.
    crowded: bool,
}

/// A message under reading.
struct Within {
    began: Timestamp,
    bytes: u64,
    /// Since its last bytes.
    gap: Silence,
}

impl Read for Paced {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.stream.read(buffer);
            let waiting = match &read {
                Ok(_) => false,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A time-out is one or the other, by the system.
                Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            };
            let Some(within) = &mut self.within else {
                return read;
            };
            let came = *read.as_ref().unwrap_or(&0) as u64;
            within.bytes += came;
            let now = (self.now)();
            let paced = Span::from_micros(within.bytes * 1_000_000 / PACE_BYTES_PER_S);
            // What came fast in the beginning is no reason to wait long for the rest.
            let stalled = waiting && within.gap.heard_nothing(now);
            if stalled || now.since(within.began) > span(self.patience.stall) + paced {
                return Err(ErrorKind::TimedOut.into());
            }
            if !waiting {
                within.gap.broken(now);
                if self
                    .receiving
                    .as_mut()
                    .is_some_and(|receiving| !receiving.add(came))
                {
                    self.crowded = true;
                    return Err(ErrorKind::QuotaExceeded.into());
                }
                return read;
            }
            if self.stop.is_raised() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
        }
    }
}

/// Both sides of a connection.
pub(crate) fn split(
    stream: TcpStream,
    limits: Limits,
    patience: &Patience,
    now: &Now,
    stop: &StopFlag,
) -> Result<(Inlet, Outlet), WireError> {
    let prepare = || -> io::Result<TcpStream> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience.look_up))?;
        stream.set_write_timeout(Some(patience.stall))?;
        stream.try_clone()
    };
    let writing = prepare().map_err(WireError::Io)?;
    let paced = Paced {
        stream,
        now: now.clone(),
        stop: stop.clone(),
        patience: *patience,
        within: None,
        receiving: None,
        crowded: false,
    };
    let inlet = Inlet {
        reader: BufReader::with_capacity(64 << 10, paced),
        limits,
    };
    let outlet = Outlet {
        stream: writing,
        limits,
    };
    Ok((inlet, outlet))
}

/// Connects, and introduces itself with `first`; gives the answer.
pub(crate) fn call(
    to: SocketAddr,
    first: &Message,
    limits: Limits,
    patience: &Patience,
    now: &Now,
    stop: &StopFlag,
) -> Result<(Message, Inlet, Outlet), WireError> {
    let stream = TcpStream::connect_timeout(&to, patience.connect).map_err(WireError::Io)?;
    let (mut inlet, mut outlet) = split(stream, limits, patience, now, stop)?;
    outlet.greet()?;
    outlet.send(first)?;
    inlet.greeted()?;
    let answer = match inlet.at_once()? {
        Message::Refused { reason } => return Err(WireError::Refused(reason)),
        answer => answer,
    };
    if let Message::Welcome(welcome) = &answer {
        outlet.limits.message_most = welcome.message_most.min(limits.message_most);
    }
    Ok((answer, inlet, outlet))
}

impl Inlet {
    fn begin(&mut self) {
        let paced = self.reader.get_mut();
        let began = (paced.now)();
        paced.within = Some(Within {
            began,
            bytes: 0,
            gap: Silence::of(&paced.patience, paced.patience.stall, began),
        });
    }

    /// Bounds what comes together with what comes over other connections.
    pub(crate) fn count(&mut self, receiving: Receiving) {
        self.reader.get_mut().receiving = Some(receiving);
    }

    /// Bounds messages otherwise from now on.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Bounds otherwise how far what comes over all connections may go where it comes over this one.
    pub(crate) fn set_receiving_max(&mut self, receiving_max_bytes: u64) {
        if let Some(receiving) = &mut self.reader.get_mut().receiving {
            receiving.set_max(receiving_max_bytes);
        }
    }

    /// Magic and version, which must come now.
    pub(crate) fn greeted(&mut self) -> Result<(), WireError> {
        self.begin();
        read_preamble(&mut self.reader)
    }

    /// A message that must come now.
    pub(crate) fn at_once(&mut self) -> Result<Message, WireError> {
        self.begin();
        let message = read_message(&mut self.reader, self.limits);
        let paced = self.reader.get_mut();
        let Some(receiving) = &mut paced.receiving else {
            return message;
        };
        receiving.clear();
        if message.is_err() && paced.crowded {
            return Err(WireError::Crowded {
                max_bytes: receiving.max_bytes(),
            });
        }
        message
    }

    /// The next message; `None` where none has begun for a while.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, WireError> {
        self.reader.get_mut().within = None;
        match self.reader.fill_buf() {
            Ok([]) => return Err(WireError::Closed),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(WireError::Io(error)),
        }
        self.at_once().map(Some)
    }

    /// Whether the other side, which has nothing to say, is still there.
    pub(crate) fn alive(&self) -> bool {
        let stream = &self.reader.get_ref().stream;
        let quiet = stream.set_nonblocking(true).is_ok()
            && stream
                .peek(&mut [0])
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        stream.set_nonblocking(false).is_ok() && quiet
    }
}

impl Outlet {
    pub(crate) fn greet(&mut self) -> Result<(), WireError> {
        write_preamble(&mut self.stream)
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), WireError> {
        write_message(&mut self.stream, message, self.limits)
    }

    /// Ends the connection for both sides.
    pub(crate) fn close(&self) {
        // One that has ended already needs no end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub(crate) fn again(&self) -> Result<Self, WireError> {
        Ok(Self {
            stream: self.stream.try_clone().map_err(WireError::Io)?,
            limits: self.limits,
        })
    }
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_micros(span.micros())
}
