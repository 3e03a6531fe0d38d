//! Sources of frames: the source, its factory, and its counts.

use std::path::PathBuf;
use std::sync::Arc;

use weir_types::DecodeLevel;

use crate::camera_events::CameraEvents;
use crate::catalog::Settings;
use crate::error::SourceError;
use crate::frame::Frame;
use crate::packet_tap::PacketTap;
use crate::stop::StopFlag;

/// Properties of an open source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceInfo {
    /// Width of the first picture in pixels; 0 if unknown.
    pub width: u32,
    /// Height of the first picture in pixels; 0 if unknown.
    pub height: u32,
    /// Mean frames per second, if known.
    pub fps: Option<f64>,
    /// Codec of its pictures by FFmpeg's name (`h264`); `None` if they are not encoded.
    pub codec: Option<&'static str>,
    /// Total number of frames, if known.
    pub frames: Option<u64>,
    /// True if frames arrive in real time (a camera), so that no pacing may be added.
    pub live: bool,
    /// True if timestamps come from the source's own clock, so that they show a frame's age; otherwise they
    /// are counted from a frame rate.
    pub stamped: bool,
}

/// Content of a packet of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// Coded picture of the video.
    Picture {
        /// True for a key frame, which is decoded without earlier pictures.
        key: bool,
    },
    /// Other data, such as audio.
    Other,
}

/// Transport of an RTSP source's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// TCP, over the RTSP connection: nothing is lost, but a slow link delays.
    #[default]
    Tcp,
    /// UDP datagrams: a slow link loses some of them, and pictures with them.
    Udp,
}

/// Connection settings of a source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Connection {
    /// Transport of RTSP sources.
    pub transport: Transport,
    /// Options for FFmpeg; the catalog lists the ones that are supported.
    pub options: Settings,
    /// User and password of the server; `None`: those of the address, if it has some.
    pub login: Option<SourceLogin>,
    /// True if the source is asked for its sound; otherwise its sound is neither asked for nor read.
    pub sound: bool,
    /// Device service of a camera that speaks ONVIF; `None`: its own events are not asked for.
    pub onvif: Option<CameraService>,
}

/// Device service of a camera that speaks ONVIF. Its login is that of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameraService {
    /// Address, such as `http://10.0.0.7/onvif/device_service`.
    pub address: String,
    /// Token of the video source whose events count, of a device with several; `None`: all.
    pub channel: Option<String>,
}

/// User of a camera or a server, and the file with the password. The password itself is read only when the source is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLogin {
    /// Name of the user, not encoded.
    pub user: String,
    /// File with the password; a line break at its end is not a part of it. `None`: the password is empty.
    pub password_file: Option<PathBuf>,
}

/// Limits how many sources decode concurrently, so that decoding leaves cores to the rest of the engine.
pub trait DecodeLimit: Send + Sync {
    /// Runs `work` once a permit is free. `work` must not block on data, since other sources wait for the permit.
    fn decode(&self, work: &mut dyn FnMut());
    /// A frame was read and is left out, not decoded: data arrives although no picture does.
    fn on_left_out(&self) {}
    /// A packet was read: whether a source that sends data sends pictures is seen by this.
    fn on_packet(&self, _packet: PacketKind) {}
}

/// Says of packets, before they are decoded, whether anything moves in them.
pub trait PacketGate: Send + Sync {
    /// Whether the packet of `bytes`, with its time in the container in milliseconds, is decoded now. One that is not is held back
    /// until its group of pictures ends: it is decoded once a later packet of the group is. `key`: it begins a group.
    fn wants(&self, bytes: u64, key: bool, at_ms: f64) -> bool;
}

/// A stream of decoded frames, read by one thread.
pub trait Source: Send {
    /// Properties as known now.
    fn info(&self) -> SourceInfo;
    /// Returns the next frame in presentation order; `None` at the end or once the stop flag is raised.
    /// Damaged data is skipped and counted; it is not an error.
    ///
    /// # Errors
    /// [`SourceError::Broken`] where no more frames can be read.
    fn next(&mut self) -> Result<Option<Frame>, SourceError>;
    /// Sets the limit on concurrent decoding; called once, before the first frame. A source with negligible
    /// decoding costs may ignore it.
    fn limit_decoding(&mut self, _limit: Arc<dyn DecodeLimit>) {}
    /// Joins a recording in the middle, as one joins a camera. Frames before `fraction` (0 to 1) of its first
    /// minutes are skipped, and frames up to the next key frame cannot be decoded. Called once, before the
    /// first frame. `None`: it begins at the start.
    fn join_at(&mut self, _fraction: f64) -> Option<Joined> {
        None
    }
    /// Ends the recording after this many frames; the opening that joined it there delivered the rest. Called
    /// once, before the first frame.
    fn end_at(&mut self, _frames: u64) {}
    /// Sets the tap that receives the video's packets as they are read, while it is observed: before
    /// decoding, and including packets that are not decoded. Called once, before the first frame. A source
    /// that reads no packets refuses.
    fn tap_packets(&mut self, tap: Arc<PacketTap>) {
        tap.on_open(Err("its source reads no video packets".to_owned()));
    }
    /// Sets the share of the stream that is decoded from now on. Frames that are left out are missing in the
    /// indices of frames and counted. They never damage a decoded picture: after a group of pictures was cut
    /// off, decoding resumes at the next key frame. A source without groups of pictures, or one that cannot
    /// know which frames it leaves out, ignores the level.
    fn set_decode_level(&mut self, _level: DecodeLevel) {}
    /// Leaves out the rest of the current group of pictures, as a decode level does; decoding resumes at the
    /// next key frame.
    fn skip_group(&mut self) {}
    /// Sets the gate that decides for each packet whether it is decoded. Called once, before the first frame. A
    /// source without timestamps, or with negligible decoding costs, ignores it.
    fn gate_packets(&mut self, _gate: Arc<dyn PacketGate>) {}
    /// Counters of groups of pictures; `None` for a source that ignores decode levels.
    fn group_counts(&self) -> Option<GroupCounts> {
        None
    }
    /// True if frames arrive in segments of several seconds without frames in between, as with HLS.
    fn comes_in_segments(&self) -> bool {
        false
    }
    /// True if frames and times continue those of the opening before; known with the first frame.
    fn goes_on(&self) -> bool {
        false
    }
    /// Counts since it was opened.
    fn counts(&self) -> SourceCounts {
        SourceCounts::default()
    }
}

/// The place at which a recording was joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// Number of frames before the first delivered one; all frames if no key frame follows.
    pub passed: u64,
    /// Number of these after the place of the join, whose time passes until the first frame is delivered.
    pub waited: u64,
}

/// Counters of a source's groups of pictures and of the frames left out of them, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Frames read, decoded or not.
    pub frames: u64,
    /// Pictures that came out while every frame was decoded.
    pub full_pictures: u64,
    /// Bidirectionally predicted pictures among `full_pictures`.
    pub bidirectional: u64,
    /// Frames given to the decoder while it skipped non-reference frames.
    pub offered: u64,
    /// Frames among `offered` that yielded no picture.
    pub left_out: u64,
    /// Frames not given to the decoder, as the rest of a group.
    pub cut: u64,
    /// Mean frames of recent groups; 0 while that is not known.
    pub group: u32,
    /// Frames of the longest of the recent groups, including the one being read.
    pub longest_group: u32,
    /// Groups that have begun since the source was opened.
    pub groups: u64,
    /// Frames read of the last of them.
    pub in_group: u32,
}

/// Irregularities of a source, counted since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// Packets that could not be read or decoded.
    pub damaged: u64,
    /// Frames delivered in which the decoder concealed errors.
    pub concealed: u64,
    /// Jumps of the media clock, after which it was rebased.
    pub discontinuities: u64,
    /// Frames skipped by sampling.
    pub not_sampled: u64,
    /// Files of a folder that could not be read.
    pub unreadable: u64,
    /// Frames that were left out by the level of decoding: those before the last frame that was delivered, at the end all.
    pub not_decoded: u64,
    /// Frames that the gate of packets held back, counted as those that are not decoded: nothing moves in them, or they came
    /// outside the times at which the source is analysed.
    pub still: u64,
    /// Frames that the CPU decoded although a GPU was to.
    pub cpu_decoded: u64,
}

impl std::ops::Add for SourceCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            damaged: self.damaged + other.damaged,
            concealed: self.concealed + other.concealed,
            discontinuities: self.discontinuities + other.discontinuities,
            not_sampled: self.not_sampled + other.not_sampled,
            unreadable: self.unreadable + other.unreadable,
            not_decoded: self.not_decoded + other.not_decoded,
            still: self.still + other.still,
            cpu_decoded: self.cpu_decoded + other.cpu_decoded,
        }
    }
}

/// Opens a source, and reopens it (a loop, a camera that disconnected).
pub trait SourceFactory: Send + Sync {
    /// Opens the source. Once `stop` is raised, this and [`Source::next`] return.
    ///
    /// # Errors
    /// [`SourceError::Open`] with the reason.
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError>;
    /// True if the source has no end, such as a camera: every end is then a disconnection, and the source is
    /// reopened. `None` if this is known only after opening.
    fn is_endless(&self) -> Option<bool> {
        Some(false)
    }
    /// Checks before a run that the source can be opened, if the check is quick and consumes nothing: a file
    /// or a folder. Remote sources, and sources that can be read only once, are not checked.
    ///
    /// # Errors
    /// As [`SourceFactory::open`].
    fn check(&self, _stop: &StopFlag) -> Result<(), SourceError> {
        Ok(())
    }
    /// The events that the camera reports itself; `None` if the source names no service for them.
    fn camera_events(&self) -> Option<Box<dyn CameraEvents>> {
        None
    }
}
