//! Packets into an MP4 file as they came, without being encoded again, through a `.part` file beside it.
//!
//! The file is fragmented: a killed process leaves a `.part` file that plays up to its last complete fragment, and nothing has
//! to be read again to complete it. A fragment is a group of pictures, or a part of one that is long: a camera without further
//! key frames is neither held in memory nor lost.

use std::path::{Path, PathBuf};

use ffmpeg_next::codec::{self, Id};
use ffmpeg_next::format::context::Output;
use ffmpeg_next::{ChannelLayout, Codec, Dictionary, Error, Rational, format};
use weir_flow::{PacketCodec, PacketFormat, SinkError, SoundCodec, SoundFormat};

use super::packet_clock::{PacketClock, TICKS};
use super::video_place::{Played, VideoPlace};
use super::{ffi, init_ffmpeg};
use crate::sinks::target::{disk_full, failed, io_failed};

/// Length of a fragment in ticks, and its bytes, beyond which it ends without a key frame.
const MAX_FRAGMENT: i64 = 2 * TICKS as i64;
const MAX_FRAGMENT_BYTES: u64 = 4 << 20;

/// A file that packets are written to.
pub(crate) struct PacketFile {
    place: VideoPlace,
    output: Output,
    clock: PacketClock,
    /// Decoding time of the first packet of the fragment, and bytes of its packets, as the muxer counts them.
    fragment: (i64, u64),
    written: Written,
    /// Time at which the last packet was read, in milliseconds since 1970 (UTC).
    read_ms: u64,
}

/// Packets, bytes and times in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Written {
    /// Packets written so far.
    pub(crate) packets: u64,
    /// Those of them that are in the file for sure: in fragments after which another one began.
    pub(crate) whole_packets: u64,
    /// Bytes of packets.
    pub(crate) bytes: u64,
    /// Least and greatest presentation time in milliseconds.
    pub(crate) first_pts_ms: f64,
    pub(crate) last_pts_ms: f64,
}

/// Why a file takes no more packets.
#[derive(Debug)]
pub(crate) struct WriteError {
    /// Whether there is no room on the disk.
    pub(crate) is_disk_full: bool,
    pub(crate) error: SinkError,
}

impl WriteError {
    /// Of a place that cannot be claimed.
    pub(crate) fn of_place(error: SinkError) -> Self {
        let full = weir_files::io_reason(&std::io::ErrorKind::StorageFull.into());
        Self {
            is_disk_full: error.reason == full,
            error,
        }
    }

    /// Of another file.
    pub(crate) fn of_file(path: &Path, error: &std::io::Error) -> Self {
        Self {
            is_disk_full: error.kind() == std::io::ErrorKind::StorageFull,
            error: io_failed(path, error),
        }
    }
}

impl PacketFile {
    /// Starts a file at a claimed place, for packets of that format.
    pub(crate) fn begin(mut place: VideoPlace, packets: &PacketFormat) -> Result<Self, WriteError> {
        let path = place.path().to_owned();
        let fail = |error: Error| write_error(&path, error);
        init_ffmpeg().map_err(fail)?;
        let mut output = format::output_as(place.part_path(), "mp4").map_err(fail)?;
        place.begin();
        // Without this tag, Apple's players do not play H.265.
        let tag = (packets.codec == PacketCodec::H265).then_some(*b"hvc1");
        let parameters = parameters(packets, tag).ok_or_else(|| fail(Error::InvalidData))?;
        let mut stream = output.add_stream(None::<Codec>).map_err(fail)?;
        stream.set_parameters(parameters);
        stream.set_time_base(Rational::new(1, TICKS));
        if let Some(matrix) = packets.turn {
            let bytes = matrix.map(i32::to_ne_bytes);
            if let Ok(bytes) = bytes.as_flattened().try_into() {
                ffi::set_display_matrix(&mut stream, bytes);
            }
        }
        if let Some(sound) = &packets.sound {
            add_sound(&mut output, sound).map_err(fail)?;
        }
        let begun = output
            .write_header_with(muxer_options(packets.sound.is_some()))
            .map(drop);
        if let Err(error) = begun {
            drop(output);
            place.discard();
            return Err(write_error(&path, error));
        }
        Ok(Self {
            place,
            clock: PacketClock::new(&output),
            output,
            fragment: (0, 0),
            written: Written::default(),
            read_ms: 0,
        })
    }

    pub(crate) fn written(&self) -> Written {
        self.written
    }

    /// Appends a packet; the first has to be a key frame. Sound before it is left out, as is all sound of a file without it.
    pub(crate) fn write(&mut self, packet: &weir_flow::Packet) -> Result<(), WriteError> {
        let Some(stamped) = self.clock.stamp(packet) else {
            return Ok(());
        };
        let dts = self.clock.last_dts();
        // Packets come in the order of time.
        stamped
            .write(&mut self.output)
            .map_err(|error| write_error(self.place.path(), error))?;
        self.read_ms = packet.time_ms;
        let written = &mut self.written;
        let bytes = packet.data.len() as u64;
        let (began, held) = self.fragment;
        self.fragment = if packet.key || dts - began >= MAX_FRAGMENT || held + bytes >= MAX_FRAGMENT_BYTES {
            written.whole_packets = written.packets;
            (dts, bytes)
        } else {
            (began, held + bytes)
        };
        if written.packets == 0 {
            (written.first_pts_ms, written.last_pts_ms) = (packet.pts_ms, packet.pts_ms);
        }
        written.packets += 1;
        written.bytes += packet.data.len() as u64;
        if !packet.sound {
            written.first_pts_ms = written.first_pts_ms.min(packet.pts_ms);
            written.last_pts_ms = written.last_pts_ms.max(packet.pts_ms);
        }
        Ok(())
    }

    /// Completes the file, gives it its name and the time of its last packet, and returns the name. Where its end cannot be
    /// written, it is kept under its name as far as it plays, or removed.
    pub(crate) fn finish(mut self) -> (Option<PathBuf>, Result<(), WriteError>) {
        let closed = self.output.write_trailer();
        drop(self.output);
        let path = self.place.path().to_owned();
        let closed = closed.map_err(|error| write_error(&path, error));
        // FFmpeg does not always say that the last fragment found no room.
        let (played, closed) = match self.place.settle_fragments() {
            Ok(Played::All) => (Played::All, closed),
            Ok(played) => (played, closed.and(Err(torn(&path)))),
            Err(error) => (
                Played::Nothing,
                closed.and(Err(WriteError::of_file(&path, &error))),
            ),
        };
        if played == Played::Nothing {
            self.place.discard();
            return (None, closed);
        }
        self.place.set_modified(self.read_ms);
        match self.place.finish() {
            Ok(path) => (Some(path), closed),
            Err(error) => (None, closed.and(Err(WriteError::of_file(&path, &error)))),
        }
    }
}

/// Of a file whose last fragment is not whole.
fn torn(path: &Path) -> WriteError {
    WriteError {
        is_disk_full: true,
        error: failed(path, "its end could not be written: the disk is full"),
    }
}

/// Adds the stream of sound to an output whose first stream is that of the pictures.
pub(super) fn add_sound(output: &mut Output, sound: &SoundFormat) -> Result<(), Error> {
    let mut described = codec::Context::new().encoder().audio()?;
    described.set_rate(sound.rate.cast_signed());
    described.set_channel_layout(ChannelLayout::default(i32::from(sound.channels)));
    let mut parameters = codec::Parameters::from(&described);
    parameters.set_id(match sound.codec {
        SoundCodec::Aac => Id::AAC,
        SoundCodec::Opus => Id::OPUS,
    });
    if !ffi::set_extradata(&mut parameters, &sound.extradata) {
        return Err(Error::InvalidData);
    }
    let mut stream = output.add_stream(None::<Codec>)?;
    stream.set_parameters(parameters);
    stream.set_time_base(Rational::new(1, sound.rate.cast_signed().max(1)));
    Ok(())
}

/// Parameters of a stream for a muxer, with the tag of the codec in its container; `None`: the muxer's own tag.
pub(super) fn parameters(packets: &PacketFormat, tag: Option<[u8; 4]>) -> Option<codec::Parameters> {
    let mut parameters = codec::Parameters::new();
    parameters.set_medium(ffmpeg_next::media::Type::Video);
    parameters.set_id(match packets.codec {
        PacketCodec::H264 => Id::H264,
        PacketCodec::H265 => Id::HEVC,
    });
    let size = (packets.width, packets.height);
    let tag = tag.map_or(0, u32::from_le_bytes);
    ffi::set_video_parameters(
        &mut parameters,
        size,
        packets.sample_aspect,
        &packets.extradata,
        tag,
    )
    .then_some(parameters)
}

fn muxer_options(has_sound: bool) -> Dictionary<'static> {
    let mut options = Dictionary::new();
    // A fragment is in the file when it is complete, not when a buffer happens to be full.
    options.set("flush_packets", "1");
    let mut flags = "frag_keyframe+empty_moov+default_base_moof".to_owned();
    if has_sound {
        // Sound that begins after the first picture stays there: FFmpeg would move it to the beginning.
        flags += "+frag_discont";
        options.set("use_editlist", "0");
        options.set("avoid_negative_ts", "make_non_negative");
    }
    options.set("movflags", &flags);
    let microseconds = MAX_FRAGMENT * 1_000_000 / i64::from(TICKS);
    options.set("frag_duration", &microseconds.to_string());
    options.set("frag_size", &MAX_FRAGMENT_BYTES.to_string());
    options
}

fn write_error(path: &Path, error: Error) -> WriteError {
    match error {
        Error::Other {
            errno: ffmpeg_next::error::ENOSPC,
        } => WriteError {
            is_disk_full: true,
            error: disk_full(path),
        },
        other => WriteError {
            is_disk_full: false,
            error: failed(path, other),
        },
    }
}
