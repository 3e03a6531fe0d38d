//! The thread of a sink that records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_flow::{Packet, PacketFormat, SinkError};

use super::books::Books;
use super::free_space::space;
use super::queue::{Message, Queue};

/// Time between two calls of [`Writer::on_tick`].
const TICK: Duration = Duration::from_secs(1);

/// Processes the messages of a recorder, on one thread.
pub(super) trait Writer: Send + 'static {
    /// Type of messages from the sink other than packets.
    type Other: Send + 'static;

    fn on_format(&mut self, stream: &Arc<str>, format: &Arc<PacketFormat>);
    fn on_packet(&mut self, stream: &Arc<str>, packet: &Packet);
    /// Schedules of the stream are read in this time zone, by its name in the IANA database.
    fn on_time_zone(&mut self, stream: &Arc<str>, zone: &str);
    /// The clock of the camera jumped before the next packet, which is a key frame and whose time continues.
    fn on_jump(&mut self, _stream: &Arc<str>) {}
    fn on_other(&mut self, other: Self::Other);
    /// A second has passed, with or without packets.
    fn on_tick(&mut self);
    /// Completes what is open.
    fn finish(&mut self);
    /// The folder that its files are in.
    fn folder(&self) -> PathBuf;
}

/// Time from one look at the free space to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The file system that recordings are on.
struct Disk {
    folder: PathBuf,
    /// The last look at it, and the bytes that were free.
    seen: Mutex<Option<(Instant, Option<u64>)>>,
}

impl Disk {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            seen: Mutex::default(),
        }
    }

    /// Bytes that are free for this user, as of the last second.
    fn free_bytes(&self) -> Option<u64> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, free)) = *seen
            && at.elapsed() < LOOK_INTERVAL
        {
            return free;
        }
        let free = space(&self.folder).map(|space| space.free);
        *seen = Some((now(), free));
        free
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "retention runs, and the disk is looked at, at intervals of real time"
)]
fn now() -> Instant {
    Instant::now()
}

/// See the module.
pub(super) struct Recorder<T> {
    pub(super) queue: Arc<Queue<T>>,
    pub(super) books: Arc<Books>,
    disk: Disk,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Recorder<T> {
    /// Starts the thread. With `sound`, it gets the sound of streams, too.
    pub(super) fn start(
        mut writer: impl Writer<Other = T>,
        books: Arc<Books>,
        sound: bool,
    ) -> Result<Self, SinkError> {
        let queue = Queue::new(sound);
        let messages = Arc::clone(&queue);
        let disk = Disk::new(writer.folder());
        let record = move || {
            let mut ticked = now();
            while let Some(message) = messages.take(TICK) {
                match message {
                    Message::Format(stream, format) => writer.on_format(&stream, &format),
                    Message::Packet(stream, packet) => writer.on_packet(&stream, &packet),
                    Message::TimeZone(stream, zone) => writer.on_time_zone(&stream, &zone),
                    Message::Jump(stream) => writer.on_jump(&stream),
                    Message::Refused(stream, reason) => {
                        tracing::error!(%stream, "it is not recorded: {reason}");
                    }
                    Message::Other(other) => writer.on_other(other),
                    Message::Idle => {}
                }
                if ticked.elapsed() >= TICK {
                    ticked = now();
                    writer.on_tick();
                }
            }
            writer.finish();
        };
        let thread = std::thread::Builder::new().name("weir-record".to_owned());
        let thread = thread.spawn(record).map_err(|error| SinkError {
            target: "recordings".to_owned(),
            reason: format!("cannot start a thread: {error}"),
        })?;
        Ok(Self {
            queue,
            books,
            disk,
            thread: Some(thread),
        })
    }

    /// Packets that were not recorded, by stream: neither written nor, on a slow disk, taken.
    pub(super) fn packets_lost(&self) -> BTreeMap<Arc<str>, u64> {
        let mut lost = self.queue.lost();
        for (stream, count) in self.books.failed() {
            *lost.entry(stream).or_default() += count;
        }
        lost
    }

    /// Bytes that are free where it records.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }

    /// Waits until what was handed over is written, and completes what is open.
    pub(super) fn finish(&mut self) -> Result<(), SinkError> {
        self.queue.close();
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) {
            return Err(SinkError {
                target: "recordings".to_owned(),
                reason: "the thread that records panicked".to_owned(),
            });
        }
        self.books.take_error().map_or(Ok(()), Err)
    }
}

impl<T> Drop for Recorder<T> {
    fn drop(&mut self) {
        // The thread completes its files by itself.
        self.queue.close();
    }
}
