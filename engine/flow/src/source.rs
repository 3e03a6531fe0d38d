//! Sources of frames: the source, its factory, and its counts.

use std::sync::Arc;

use weir_types::DecodeLevel;

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
    /// What its pictures are encoded as, as FFmpeg names it (`h264`); `None` where nothing is encoded.
    pub codec: Option<&'static str>,
    /// Total number of frames, if known.
    pub frames: Option<u64>,
    /// Whether frames arrive in real time (a camera), so that no pacing may be added.
    pub live: bool,
    /// Whether timestamps come from the source's own clock, so that they show a frame's age; otherwise they are counted
    /// from a frame rate.
    pub stamped: bool,
}

/// What a packet of a source holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// A coded picture; `key`: it is decoded without earlier ones.
    Picture {
        /// Whether it begins a group of pictures.
        key: bool,
    },
    /// Something else, such as sound.
    Other,
}

/// How an RTSP source sends its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Over its connection: nothing is lost, and a slow link delays.
    #[default]
    Tcp,
    /// As datagrams: a slow link loses some, and pictures with them.
    Udp,
}

/// How a source is connected to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Connection {
    /// Of RTSP.
    pub transport: Transport,
    /// Options of FFmpeg; the catalog lists those that there are.
    pub options: Settings,
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
    /// The next frame in presentation order; `None` at the end or once the stop flag is raised. Damaged data is
    /// skipped and counted, not an error.
    ///
    /// # Errors
    /// [`SourceError::Broken`] where no more frames can be read.
    fn next(&mut self) -> Result<Option<Frame>, SourceError>;
    /// Sets the limit to decode under; called once, before the first frame. A source whose decoding costs next to nothing
    /// may ignore it.
    fn limit_decoding(&mut self, _limit: Arc<dyn DecodeLimit>) {}
    /// Joins a recording while it is played, as a camera is joined: what comes before `fraction` (0 to 1) of its first minutes is
    /// passed over, and what follows up to the next key frame cannot be decoded. Called once, before the first frame. `None`:
    /// it begins at its start.
    fn join_at(&mut self, _fraction: f64) -> Option<Joined> {
        None
    }
    /// Ends after so many frames of the recording: those that follow were given by the opening that joined it there. Called
    /// once, before the first frame.
    fn end_at(&mut self, _frames: u64) {}
    /// From now on, packets of the video are handed to the tap as they are read, before decoding and also where they are not
    /// decoded, while it is observed. Called once, before the first frame. A source that reads no packets refuses.
    fn tap_packets(&mut self, tap: Arc<PacketTap>) {
        tap.on_open(Err("its source reads no video packets".to_owned()));
    }
    /// Sets how much is decoded of what is read from now on. What is left out is missing in the indices of frames, counted,
    /// and damages no picture that comes out: groups of pictures that were cut off go on with their next key frame. A source
    /// that has no groups of pictures, or cannot know which frames it leaves out, ignores it.
    fn set_decode_level(&mut self, _level: DecodeLevel) {}
    /// Leaves out the rest of the group of pictures, as a level of decoding does: decoding goes on with the next key frame.
    fn skip_group(&mut self) {}
    /// Asks the gate of each packet whether it is decoded. Called once, before the first frame. A source whose frames cost next to
    /// nothing to decode, or without time stamps, asks nothing.
    fn gate_packets(&mut self, _gate: Arc<dyn PacketGate>) {}
    /// What it is made of and what became of it; `None` of a source that ignores levels.
    fn group_counts(&self) -> Option<GroupCounts> {
        None
    }
    /// Whether frames come in segments of seconds, with nothing between them, as those of HLS.
    fn comes_in_segments(&self) -> bool {
        false
    }
    /// Whether its frames and their times go on where the opening before ended: known with the first frame.
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
    /// Frames before the first one that comes; all where no key frame follows.
    pub passed: u64,
    /// Those of them that follow the place: their time passes until a frame comes.
    pub waited: u64,
}

/// Groups of pictures of a source, and what was left out of them, counted since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Frames that were read, decoded or not.
    pub frames: u64,
    /// Pictures that came out while every frame was decoded.
    pub full_pictures: u64,
    /// Those of them that are predicted from both directions.
    pub bidirectional: u64,
    /// Frames given to the decoder while it left out those that no other frame refers to.
    pub offered: u64,
    /// Those of them that no picture came of.
    pub left_out: u64,
    /// Frames that were not given to the decoder, as the rest of a group.
    pub cut: u64,
    /// Mean frames of recent groups; 0 while that is not known.
    pub group: u32,
    /// Frames of the longest of the recent groups, including the one being read.
    pub longest_group: u32,
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
    /// Frames that were held back because nothing moves in them, counted as those that are not decoded.
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
    /// Whether the source has no end, as a camera: then every end is a disconnection, and it is reopened. `None` if that is
    /// known only once it is open.
    fn is_endless(&self) -> Option<bool> {
        Some(false)
    }
    /// Checks before a run whether it can be opened, where that is quick and consumes nothing: a file or a folder. Remote
    /// sources and those that can be read only once are not checked.
    ///
    /// # Errors
    /// As [`SourceFactory::open`].
    fn check(&self, _stop: &StopFlag) -> Result<(), SourceError> {
        Ok(())
    }
}
