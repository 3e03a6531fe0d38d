//! A network between a camera and its reader, over which connections can be cut, and what the camera sends can be stalled,
//! slowed and garbled. It reads RTSP as far as that takes: packets stand between the answers as `$`, channel, length
//! (RFC 2326, 10.12).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time that a read waits before it checks whether its connection was cut.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes that a slow link forwards in one [`POLL_INTERVAL`]: 15 KB/s.
const SLOW_BYTES: usize = 300;

/// The channel of the pictures of a camera, which are its first stream.
const PICTURES: u8 = 0;

/// Bytes of a packet that stay when its content is garbled, else it would be lost: the header of RTP, and that of a fragment
/// of H.264 (RFC 6184, 5.8).
const HEADER: usize = 12 + 2;

/// Fault of the link, applied to the data from the camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault: all bytes are forwarded.
    None,
    /// Nothing is forwarded, and the connections stay.
    Stall,
    /// It is forwarded slowly.
    Slow,
    /// Every byte is replaced by another one.
    Garbage,
    /// The contents of packets with pictures are replaced: there are pictures, of which none can be decoded.
    Scrambled,
    /// Packets with pictures are left out.
    NoPictures,
}

#[derive(Debug)]
struct Control {
    upstream: u16,
    fault: Fault,
    /// Connections of an earlier generation are cut.
    generation: u64,
    ended: bool,
}

#[derive(Debug)]
struct Shared {
    control: Mutex<Control>,
    changed: Condvar,
}

/// A proxy on loopback; ends when it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cut(&self, generation: u64) -> bool {
        let control = self.lock();
        control.ended || control.generation != generation
    }

    /// The fault, once it is not to stall; `None` where the connection is cut.
    fn fault(&self, generation: u64) -> Option<Fault> {
        let stalls = |control: &mut Control| {
            control.fault == Fault::Stall && !control.ended && control.generation == generation
        };
        let control = self.changed.wait_while(self.lock(), stalls);
        let control = control.unwrap_or_else(PoisonError::into_inner);
        (!control.ended && control.generation == generation).then_some(control.fault)
    }

    /// Waits for a [`POLL_INTERVAL`], or less.
    fn pause(&self) {
        let _ = self.changed.wait_timeout(self.lock(), POLL_INTERVAL);
    }
}

impl Proxy {
    /// A proxy before the camera on port `upstream`.
    pub(crate) fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let control = Control {
            upstream,
            fault: Fault::None,
            generation: 0,
            ended: false,
        };
        let shared = Arc::new(Shared {
            control: Mutex::new(control),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (upstream, generation) = {
                    let control = accepting.lock();
                    if control.ended {
                        return;
                    }
                    (control.upstream, control.generation)
                };
                let Ok(client) = client else { continue };
                // Without a camera the connection is closed: to its reader it is one that answers nothing.
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream)) else {
                    continue;
                };
                forward(client, server, &accepting, generation);
            }
        });
        Self { port, shared }
    }

    /// Sets what happens to what the camera sends, on all connections.
    pub(crate) fn set(&self, fault: Fault) {
        self.shared.lock().fault = fault;
        self.shared.changed.notify_all();
    }

    /// Cuts all connections; new ones go to the camera on port `upstream`.
    pub(crate) fn switch(&self, upstream: u16) {
        {
            let mut control = self.shared.lock();
            control.upstream = upstream;
            control.generation += 1;
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        // Its accepting thread looks up once more.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Starts a thread for each direction.
fn forward(client: TcpStream, server: TcpStream, shared: &Arc<Shared>, generation: u64) {
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    let (requests_from, requests_to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let shared_requests = Arc::clone(shared);
    std::thread::spawn(move || {
        copy(requests_from, requests_to, &shared_requests, generation, None);
    });
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        copy(server, client, &shared, generation, Some(Interleaved::default()));
    });
}

/// Copies until one end closes or the connection is cut; with `packets` through the fault.
fn copy(
    mut from: TcpStream,
    mut to: TcpStream,
    shared: &Shared,
    generation: u64,
    mut packets: Option<Interleaved>,
) {
    let mut buffer = [0; 16 * 1024];
    while !shared.is_cut(generation) {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                continue;
            }
            Err(_) => break,
        };
        let Some(packets) = &mut packets else {
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
            continue;
        };
        let Some(fault) = shared.fault(generation) else {
            break;
        };
        let sent = packets.apply(&buffer[..read], fault);
        let pace = if fault == Fault::Slow {
            SLOW_BYTES
        } else {
            sent.len().max(1)
        };
        let is_sent = sent.chunks(pace).all(|chunk| {
            if fault == Fault::Slow {
                shared.pause();
            }
            to.write_all(chunk).is_ok()
        });
        if !is_sent {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Position in the answers and packets of a camera.
#[derive(Debug, Default)]
struct Interleaved {
    /// Header and content of the packet that is being read; empty between packets.
    packet: Vec<u8>,
    /// Whether it stands within a line of an answer.
    in_line: bool,
    random: u32,
}

impl Interleaved {
    /// Applies `fault` to `bytes` and returns the bytes to forward. Packets are forwarded whole.
    fn apply(&mut self, bytes: &[u8], fault: Fault) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if self.packet.is_empty() && (self.in_line || *byte != b'$') {
                self.in_line = *byte != b'\n';
                out.push(*byte);
                continue;
            }
            self.packet.push(*byte);
            let [_, channel, high, low, ..] = self.packet[..] else {
                continue;
            };
            let length = usize::from(u16::from_be_bytes([high, low]));
            if self.packet.len() < 4 + length {
                continue;
            }
            let mut packet = std::mem::take(&mut self.packet);
            let is_picture = channel == PICTURES;
            if fault == Fault::Scrambled && is_picture {
                let content = packet.iter_mut().skip(4 + HEADER);
                content.for_each(|byte| *byte = self.noise());
            }
            if fault != Fault::NoPictures || !is_picture {
                out.extend(packet);
            }
        }
        if fault == Fault::Garbage {
            out.iter_mut().for_each(|byte| *byte = self.noise());
        }
        out
    }

    /// The next of a sequence that repeats with each connection (Numerical Recipes' generator).
    fn noise(&mut self) -> u8 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.random >> 24) as u8
    }
}

#[test]
fn packets_are_found_between_answers() {
    let sent = [
        &b"RTSP/1.0 200 $\x00\r\n\r\n"[..],
        b"$\x00\x00\x10HEADER--------ab",
        b"$\x02\x00\x01s",
    ]
    .concat();
    // In pieces of any size.
    for size in 1..sent.len() {
        let apply = |fault| {
            let mut packets = Interleaved::default();
            sent.chunks(size)
                .flat_map(|piece| packets.apply(piece, fault))
                .collect::<Vec<u8>>()
        };
        assert_eq!(apply(Fault::None), sent);
        assert_eq!(
            apply(Fault::NoPictures),
            b"RTSP/1.0 200 $\x00\r\n\r\n$\x02\x00\x01s"
        );
        let scrambled = apply(Fault::Scrambled);
        let changed: Vec<usize> = (0..sent.len()).filter(|at| scrambled[*at] != sent[*at]).collect();
        assert!(
            changed.iter().all(|at| (37..39).contains(at)) && !changed.is_empty(),
            "{changed:?}"
        );
        let garbage = apply(Fault::Garbage);
        assert!(garbage.len() == sent.len() && garbage != sent);
    }
}
