//! A TCP connection with timeouts: a message must arrive at a minimum pace once it has begun, and a write
//! must make progress.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};

use weir_flow::StopFlag;
use weir_types::{Span, Timestamp};

use crate::liveness::Liveness;
use crate::receive_budget::ReceiveBudget;
use crate::time::Now;
use crate::timeouts::{Timeouts, span};
use crate::wire::{Limits, Message, WireError, read_message, read_preamble, write_message, write_preamble};

/// A message must come at this pace, beyond the time for which it may stall.
const MIN_BYTES_PER_S: u64 = 128 << 10;

/// The side that reads.
pub(crate) struct MessageReader {
    reader: BufReader<PacedStream>,
    limits: Limits,
}

/// The side that writes.
pub(crate) struct MessageWriter {
    stream: TcpStream,
    /// Upper limits of message sizes that the peer accepts.
    limits: Limits,
}

/// Stream whose reads time out.
struct PacedStream {
    stream: TcpStream,
    now: Now,
    stop: StopFlag,
    timeouts: Timeouts,
    /// Message that has been received in part.
    progress: Option<MessageProgress>,
    /// Budget to which received bytes count. The client's side has none, since it receives only replies that
    /// it asked for.
    budget: Option<ReceiveBudget>,
    /// True if receiving stopped because the budget was exceeded.
    over_budget: bool,
}

/// A message under reading.
struct MessageProgress {
    began: Timestamp,
    bytes: u64,
    /// Since its last bytes.
    gap: Liveness,
}

impl Read for PacedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.stream.read(buffer);
            let waiting = match &read {
                Ok(_) => false,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A time-out is one or the other, by the system.
                Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            };
            let Some(progress) = &mut self.progress else {
                return read;
            };
            let received = *read.as_ref().unwrap_or(&0) as u64;
            progress.bytes += received;
            let now = (self.now)();
            let paced = Span::from_micros(progress.bytes * 1_000_000 / MIN_BYTES_PER_S);
            // What came fast in the beginning is no reason to wait long for the rest.
            let stalled = waiting && progress.gap.on_idle(now);
            if stalled || now.since(progress.began) > span(self.timeouts.stall) + paced {
                return Err(ErrorKind::TimedOut.into());
            }
            if !waiting {
                progress.gap.on_activity(now);
                if self.budget.as_mut().is_some_and(|budget| !budget.add(received)) {
                    self.over_budget = true;
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
    timeouts: &Timeouts,
    now: &Now,
    stop: &StopFlag,
) -> Result<(MessageReader, MessageWriter), WireError> {
    let prepare = || -> io::Result<TcpStream> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeouts.poll_interval))?;
        stream.set_write_timeout(Some(timeouts.stall))?;
        stream.try_clone()
    };
    let writing = prepare().map_err(WireError::Io)?;
    let paced = PacedStream {
        stream,
        now: now.clone(),
        stop: stop.clone(),
        timeouts: *timeouts,
        progress: None,
        budget: None,
        over_budget: false,
    };
    let reader = MessageReader {
        reader: BufReader::with_capacity(64 << 10, paced),
        limits,
    };
    let writer = MessageWriter {
        stream: writing,
        limits,
    };
    Ok((reader, writer))
}

/// Connects, and introduces itself with `first`; gives the answer.
pub(crate) fn connect(
    to: SocketAddr,
    first: &Message,
    limits: Limits,
    timeouts: &Timeouts,
    now: &Now,
    stop: &StopFlag,
) -> Result<(Message, MessageReader, MessageWriter), WireError> {
    let stream = TcpStream::connect_timeout(&to, timeouts.connect).map_err(WireError::Io)?;
    let (mut reader, mut writer) = split(stream, limits, timeouts, now, stop)?;
    writer.write_greeting()?;
    writer.send(first)?;
    reader.read_greeting()?;
    let answer = match reader.read_now()? {
        Message::Refused { reason } => return Err(WireError::Refused(reason)),
        answer => answer,
    };
    if let Message::Welcome(welcome) = &answer {
        writer.limits.max_message_bytes = welcome.max_message_bytes.min(limits.max_message_bytes);
    }
    Ok((answer, reader, writer))
}

impl MessageReader {
    fn begin(&mut self) {
        let paced = self.reader.get_mut();
        let began = (paced.now)();
        paced.progress = Some(MessageProgress {
            began,
            bytes: 0,
            gap: Liveness::with_timeout(&paced.timeouts, paced.timeouts.stall, began),
        });
    }

    /// Bounds what comes together with what comes over other connections.
    pub(crate) fn set_budget(&mut self, budget: ReceiveBudget) {
        self.reader.get_mut().budget = Some(budget);
    }

    /// Bounds messages otherwise from now on.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets the limit of bytes being received over all connections that applies while this connection
    /// receives.
    pub(crate) fn set_receiving_max(&mut self, receiving_max_bytes: u64) {
        if let Some(budget) = &mut self.reader.get_mut().budget {
            budget.set_max(receiving_max_bytes);
        }
    }

    /// Magic and version, which must come now.
    pub(crate) fn read_greeting(&mut self) -> Result<(), WireError> {
        self.begin();
        read_preamble(&mut self.reader)
    }

    /// A message that must come now.
    pub(crate) fn read_now(&mut self) -> Result<Message, WireError> {
        self.begin();
        let message = read_message(&mut self.reader, self.limits);
        let paced = self.reader.get_mut();
        let Some(budget) = &mut paced.budget else {
            return message;
        };
        budget.clear();
        if message.is_err() && paced.over_budget {
            return Err(WireError::OverBudget {
                max_bytes: budget.max_bytes(),
            });
        }
        message
    }

    /// Returns the next message, or `None` if none has begun within the poll interval.
    pub(crate) fn poll(&mut self) -> Result<Option<Message>, WireError> {
        self.reader.get_mut().progress = None;
        match self.reader.fill_buf() {
            Ok([]) => return Err(WireError::Closed),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(WireError::Io(error)),
        }
        self.read_now().map(Some)
    }

    /// True if the peer, which sends nothing on this connection, has not closed it.
    pub(crate) fn is_alive(&self) -> bool {
        let stream = &self.reader.get_ref().stream;
        let quiet = stream.set_nonblocking(true).is_ok()
            && stream
                .peek(&mut [0])
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        stream.set_nonblocking(false).is_ok() && quiet
    }
}

impl MessageWriter {
    pub(crate) fn write_greeting(&mut self) -> Result<(), WireError> {
        write_preamble(&mut self.stream)
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), WireError> {
        write_message(&mut self.stream, message, self.limits)
    }

    /// Ends the connection for both sides.
    pub(crate) fn close(&self) {
        // A connection that has already ended cannot be shut down.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub(crate) fn try_clone_writer(&self) -> Result<Self, WireError> {
        Ok(Self {
            stream: self.stream.try_clone().map_err(WireError::Io)?,
            limits: self.limits,
        })
    }
}
