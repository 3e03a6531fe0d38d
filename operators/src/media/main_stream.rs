//! The main stream of a camera whose frames come from a smaller one: its packets for those who observe them. It is opened while
//! they are wanted, and never decoded.
//!
//! Both streams have clocks of their own. A camera's are aligned once, by what of either arrives at the same moment; those of
//! recordings begin together, and packets are read as far as the frames are.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ffmpeg_next::{Error, Packet, media};
use weir_flow::{
    CameraEvents, DecodeLevel, DecodeLimit, Frame, GroupCounts, PacketGate, PacketTap, Source, SourceCounts,
    SourceError, SourceFactory, SourceInfo, StopFlag,
};

use super::driver_thread::DriverThread;
use super::packet_reader::{PacketReader, packet_format};
use super::packet_times::{PacketTimes, tick_ms};
use super::{SourceOptions, open};

/// Longest wait between two polls of the stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Waits before the main stream is opened again.
const MIN_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Maximum time by which packets of a recording are read ahead of its frames, in milliseconds.
const MAX_AHEAD_MS: f64 = 500.0;
/// Consecutive read errors after which the stream is opened again.
const MAX_ERRORS_IN_A_ROW: u32 = 1_000;

/// Opens a source of frames, with another address for packets.
pub(super) struct TwoStreams {
    pub(super) frames: Box<dyn SourceFactory>,
    pub(super) uri: String,
    pub(super) options: SourceOptions,
}

impl SourceFactory for TwoStreams {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(WithMain {
            frames: self.frames.open(stop)?,
            uri: self.uri.clone(),
            options: self.options.clone(),
            run: stop.clone(),
            closed: StopFlag::default(),
            shared: Arc::default(),
            tap: None,
            thread: None,
        }))
    }

    fn is_endless(&self) -> Option<bool> {
        self.frames.is_endless()
    }

    fn check(&self, stop: &StopFlag) -> Result<(), SourceError> {
        self.frames.check(stop)
    }

    fn camera_events(&self) -> Option<Box<dyn CameraEvents>> {
        self.frames.camera_events()
    }
}

struct WithMain {
    frames: Box<dyn Source>,
    uri: String,
    options: SourceOptions,
    /// That of the run.
    run: StopFlag,
    /// Raised when this source is closed.
    closed: StopFlag,
    shared: Arc<Shared>,
    tap: Option<Arc<PacketTap>>,
    thread: Option<JoinHandle<()>>,
}

/// Positions of the two streams, shared by the thread of packets and the source of frames.
#[derive(Default)]
struct Shared {
    times: Mutex<Times>,
    changed: Condvar,
}

/// Times of the containers, in milliseconds.
#[derive(Default)]
struct Times {
    is_recording: bool,
    first_frame_ms: Option<f64>,
    newest_frame_ms: f64,
    have_frames_ended: bool,
    have_packets_ended: bool,
    first_packet_ms: Option<f64>,
    newest_packet_ms: Option<f64>,
    /// Offset in milliseconds that turns times of frames into times of packets.
    offset_ms: Option<f64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_open(&self, is_recording: bool) {
        let mut times = self.lock();
        times.is_recording = is_recording;
        (times.first_packet_ms, times.newest_packet_ms, times.offset_ms) = (None, None, None);
    }

    fn on_packet(&self, stamp_ms: f64) {
        let mut times = self.lock();
        times.first_packet_ms.get_or_insert(stamp_ms);
        times.newest_packet_ms = Some(stamp_ms);
        drop(times);
        self.changed.notify_all();
    }

    /// The time of a frame on the clock of the packets; `None` until that is known.
    fn on_frame(&self, stamp_ms: f64) -> Option<f64> {
        let mut times = self.lock();
        let first_ms = *times.first_frame_ms.get_or_insert(stamp_ms);
        times.newest_frame_ms = stamp_ms;
        if times.offset_ms.is_none() {
            let (packet_ms, frame_ms) = if times.is_recording {
                (times.first_packet_ms, first_ms)
            } else {
                (times.newest_packet_ms, stamp_ms)
            };
            times.offset_ms = packet_ms.map(|packet_ms| packet_ms - frame_ms);
        }
        let aligned = times.offset_ms.map(|offset_ms| stamp_ms + offset_ms);
        drop(times);
        self.changed.notify_all();
        aligned
    }

    /// Waits until the packets of a recording begin, which they may do after its frames.
    fn wait_for_packets(&self, stop: &StopFlag, tap: &PacketTap) {
        let mut times = self.lock();
        while times.is_recording && times.first_packet_ms.is_none() && !times.have_packets_ended {
            if stop.is_raised() || !tap.is_observed() {
                return;
            }
            let waited = self.changed.wait_timeout(times, STOP_CHECK_INTERVAL);
            (times, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the frames of a recording are about as far as a packet; says whether it is wanted.
    fn wait_for_frames(&self, packet_ms: f64, stop: &StopFlag) -> bool {
        let mut times = self.lock();
        while times.is_recording && !stop.is_raised() {
            let frames_ms = times.offset_ms.map(|offset_ms| times.newest_frame_ms + offset_ms);
            if frames_ms.is_some_and(|frames_ms| packet_ms <= frames_ms + MAX_AHEAD_MS) {
                return true;
            }
            if times.have_frames_ended {
                return false;
            }
            let waited = self.changed.wait_timeout(times, STOP_CHECK_INTERVAL);
            (times, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        !stop.is_raised()
    }
}

impl WithMain {
    /// Packets of a recording are read as far as its frames were.
    fn on_frames_ended(&mut self) {
        let is_recording = {
            let mut times = self.shared.lock();
            times.have_frames_ended = true;
            times.is_recording
        };
        self.shared.changed.notify_all();
        if is_recording && let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Source for WithMain {
    fn info(&self) -> SourceInfo {
        self.frames.info()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let next = self.frames.next();
        match next {
            Ok(Some(mut frame)) => {
                if let Some(tap) = &self.tap {
                    self.shared.wait_for_packets(&self.run, tap);
                    frame.stamp_ms = frame.stamp_ms.and_then(|stamp_ms| self.shared.on_frame(stamp_ms));
                }
                Ok(Some(frame))
            }
            ended => {
                self.on_frames_ended();
                ended
            }
        }
    }

    fn limit_decoding(&mut self, limit: Arc<dyn DecodeLimit>) {
        self.frames.limit_decoding(limit);
    }

    fn tap_packets(&mut self, tap: Arc<PacketTap>) {
        let run = self.run.clone();
        self.shared.lock().is_recording = open::is_endless(&self.uri) == Some(false);
        let reader = MainReader {
            uri: self.uri.clone(),
            options: self.options.clone(),
            stop: self.closed.or_until(move || run.is_raised()),
            tap: Arc::clone(&tap),
            shared: Arc::clone(&self.shared),
        };
        let thread = std::thread::Builder::new().name("weir-main-stream".to_owned());
        match thread.spawn(move || {
            reader.run();
            reader.shared.lock().have_packets_ended = true;
            reader.shared.changed.notify_all();
        }) {
            Ok(thread) => (self.thread, self.tap) = (Some(thread), Some(tap)),
            Err(error) => tap.on_open(Err(format!("cannot start a thread: {error}"))),
        }
    }

    fn set_decode_level(&mut self, level: DecodeLevel) {
        self.frames.set_decode_level(level);
    }

    fn skip_group(&mut self) {
        self.frames.skip_group();
    }

    fn gate_packets(&mut self, gate: Arc<dyn PacketGate>) {
        self.frames.gate_packets(gate);
    }

    fn comes_in_segments(&self) -> bool {
        self.frames.comes_in_segments()
    }

    fn goes_on(&self) -> bool {
        self.frames.goes_on()
    }

    fn group_counts(&self) -> Option<GroupCounts> {
        self.frames.group_counts()
    }

    fn counts(&self) -> SourceCounts {
        self.frames.counts()
    }
}

impl Drop for WithMain {
    fn drop(&mut self) {
        self.closed.raise();
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads packets on a thread of its own.
struct MainReader {
    uri: String,
    options: SourceOptions,
    stop: StopFlag,
    tap: Arc<PacketTap>,
    shared: Arc<Shared>,
}

impl MainReader {
    fn run(&self) {
        let mut wait = MIN_WAIT;
        while !self.stop.is_raised() {
            if !self.tap.is_observed() {
                if self.shared.lock().have_frames_ended {
                    return;
                }
                std::thread::sleep(STOP_CHECK_INTERVAL);
                continue;
            }
            if let Err(reason) = self.read() {
                tracing::warn!("its packets cannot be read: {reason}");
                self.tap.on_open(Err(reason));
            }
            if self.shared.lock().is_recording {
                return;
            }
            let has_played = self.shared.lock().offset_ms.take().is_some();
            wait = if has_played {
                MIN_WAIT
            } else {
                (wait * 2).min(MAX_WAIT)
            };
            for _ in 0..wait.as_millis() / STOP_CHECK_INTERVAL.as_millis() {
                if self.stop.is_raised() {
                    return;
                }
                std::thread::sleep(STOP_CHECK_INTERVAL);
            }
        }
    }

    /// Reads packets until the stream ends or no observer is left.
    fn read(&self) -> Result<(), String> {
        if open::is_capture(&self.uri) {
            return Err(format!("{}: a capture device has no packets to record", self.uri));
        }
        let input = open::open(&DriverThread::default(), &self.uri, &self.options, &self.stop);
        let mut input = input.map_err(|error| error.to_string())?;
        let shown = weir_flow::mask_credentials(&self.uri).into_owned();
        let Some(stream) = input.streams().best(media::Type::Video) else {
            return Err(format!("{shown}: {}", open::no_video_reason(&self.uri, &input)));
        };
        let (index, tick_ms) = (stream.index(), tick_ms(stream.time_base()));
        let is_live = open::is_live(&self.uri, &input);
        let sound = open::sound_of(&input, &self.uri, &self.options, is_live);
        let format = packet_format(&stream, !open::lacks_timestamps(&input), sound.as_ref())
            .map_err(|reason| format!("{shown}: {reason}"))?;
        let mut times = PacketTimes::new(tick_ms, f64::from(stream.avg_frame_rate()), is_live);
        self.shared.on_open(!is_live);
        self.tap.on_open(Ok(format.clone()));
        let mut reader = PacketReader::new(Arc::clone(&self.tap), format, tick_ms, sound);
        #[expect(
            clippy::disallowed_methods,
            reason = "silence of the other side is measured, whatever the engine's clock is"
        )]
        let began = Instant::now();
        let mut errors = 0;
        while !self.stop.is_raised() && self.tap.is_observed() {
            let mut packet = Packet::empty();
            match packet.read(&mut input) {
                Ok(()) if packet.stream() == index => {
                    errors = 0;
                    times.correct(&mut packet, None, began.elapsed().as_secs_f64() * 1e3);
                    let stamp = packet.dts().or(packet.pts());
                    if let Some(stamp_ms) = stamp.map(|ticks| ticks as f64 * tick_ms) {
                        self.shared.on_packet(stamp_ms);
                        if !self.shared.wait_for_frames(stamp_ms, &self.stop) {
                            return Ok(());
                        }
                    }
                    reader.on_packet(&packet, &mut times);
                }
                Ok(()) => reader.on_other(&packet, times.offset_ms()),
                Err(Error::Eof | Error::Exit) => return Ok(()),
                Err(error) if may_read_on(error) && errors < MAX_ERRORS_IN_A_ROW => {
                    errors += 1;
                    std::thread::yield_now();
                }
                Err(error) => return Err(format!("{shown}: {}", open::broken_reason(error, &self.options))),
            }
        }
        Ok(())
    }
}

/// Whether more of a stream may follow an error. After a timeout or a lost connection each further read would only wait for as long again.
fn may_read_on(error: Error) -> bool {
    matches!(
        error,
        Error::InvalidData
            | Error::Other {
                errno: ffmpeg_next::error::EAGAIN
            }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_stream_is_opened_again_after_a_timeout_and_not_after_a_damaged_packet() {
        let other = |errno| Error::Other { errno };
        assert!(may_read_on(Error::InvalidData) && may_read_on(other(libc::EAGAIN)));
        for errno in [libc::ETIMEDOUT, libc::ECONNRESET, libc::EIO, libc::EPERM] {
            assert!(!may_read_on(other(errno)), "{errno}");
        }
    }
}
