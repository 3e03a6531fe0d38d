//! Where frames come from: a source, its factory, and what is counted while it is read.

use std::sync::Arc;

use crate::error::SourceError;
use crate::frame::Frame;
use crate::stop::StopFlag;

/// What is known of a source once it is open.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceInfo {
    /// Pixels across of the first picture, where known.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Mean frames a second, where known.
    pub fps: Option<f64>,
    /// Frames in all, where known.
    pub frames: Option<u64>,
    /// True where frames arrive on their own time (a camera) and pacing must not be added.
    pub live: bool,
    /// True where time stamps are the source's own clock, so that a frame's age shows in them; false where they are
    /// counted from a rate.
    pub stamped: bool,
}

/// Bounds how many sources decode at once, so that decoding leaves room for what has to go on beside it.
pub trait DecodeLimit: Send + Sync {
    /// Runs `work` when it is its turn. It must not wait for data: others wait for it.
    fn decode(&self, work: &mut dyn FnMut());
}

/// A stream of decoded frames, read by one thread.
pub trait Source: Send {
    /// What it is.
    fn info(&self) -> SourceInfo;
    /// The next frame in presentation order; `None` at the end or once the stop flag is raised. Damaged data is
    /// passed over and counted, not an error.
    ///
    /// # Errors
    /// [`SourceError::Broken`] where nothing more can come.
    fn next(&mut self) -> Result<Option<Frame>, SourceError>;
    /// Takes the bound that it is to decode under; called once, before the first frame. A source that takes next to no
    /// time to decode need not keep to it.
    fn limit_decoding(&mut self, _limit: Arc<dyn DecodeLimit>) {}
    /// What went wrong, or was left out on purpose, since it was opened.
    fn counts(&self) -> SourceCounts {
        SourceCounts::default()
    }
}

/// What a source met beside frames, each counted since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// Packets that could not be read or decoded.
    pub damaged: u64,
    /// Frames that were delivered although the decoder had to make up parts of them.
    pub concealed: u64,
    /// Times at which the media clock jumped and was rebased.
    pub discontinuities: u64,
    /// Frames left out because the source is sampled.
    pub not_sampled: u64,
    /// Files of a folder that could not be read.
    pub unreadable: u64,
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
        }
    }
}

/// Opens a source, and opens it again (a loop, a camera that went away).
pub trait SourceFactory: Send + Sync {
    /// Opens it. While `stop` is raised, this and [`Source::next`] come to an end.
    ///
    /// # Errors
    /// [`SourceError::Open`] with the reason.
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError>;
    /// Whether it has no end of its own, as a camera: then every end is a loss, and it is tried again. `None` where that
    /// is known only once it is open.
    fn is_endless(&self) -> Option<bool> {
        Some(false)
    }
    /// Looks before a run whether it can be opened, where that is quick and takes nothing from it: a file or a folder.
    /// What has to be reached first, and what can be read once only, is taken at its word.
    ///
    /// # Errors
    /// As [`SourceFactory::open`].
    fn check(&self, _stop: &StopFlag) -> Result<(), SourceError> {
        Ok(())
    }
}
