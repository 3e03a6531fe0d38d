//! The video of a job as a source: it leaves out the frames that are committed, and says when it has ended.

use std::path::Path;
use std::sync::Arc;

use weir_flow::{DecodeLimit, Frame, Source, SourceCounts, SourceError, SourceFactory, SourceInfo, StopFlag};
use weir_operators::media::{SourceOptions, source};

use super::progress::JobStream;

/// Opens the video of a stream. Frames before `from` are decoded and left out.
pub(super) struct VideoFactory {
    pub(super) stream: Arc<JobStream>,
    pub(super) from: u64,
    /// True if the file is known to be cut off.
    pub(super) is_truncated: bool,
}

impl SourceFactory for VideoFactory {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let path = Path::new(&self.stream.spec.path);
        let opened = source(&path.to_string_lossy(), SourceOptions::default()).open(stop);
        let inner = opened.inspect_err(|error| self.stream.on_source_end(Err(error.to_string())))?;
        Ok(Box::new(VideoSource {
            inner,
            stream: Arc::clone(&self.stream),
            from: self.from,
            until: self.stream.end_frame(),
            is_truncated: self.is_truncated,
            stop: stop.clone(),
        }))
    }
}

struct VideoSource {
    inner: Box<dyn Source>,
    stream: Arc<JobStream>,
    from: u64,
    /// Index of the first frame that is not given.
    until: Option<u64>,
    is_truncated: bool,
    stop: StopFlag,
}

impl Source for VideoSource {
    fn info(&self) -> SourceInfo {
        self.inner.info()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        loop {
            match self.inner.next() {
                Ok(Some(frame)) if frame.index < self.from => {}
                Ok(Some(frame)) if self.until.is_some_and(|until| frame.index >= until) => {
                    self.stream.on_source_end(Ok(()));
                    return Ok(None);
                }
                Ok(Some(mut frame)) => {
                    // The media clock of a stream begins with its first frame, which may be one in the middle.
                    frame.stamp_ms = Some(frame.pts_ms);
                    self.stream.on_given();
                    return Ok(Some(frame));
                }
                Ok(None) => {
                    let stopped = || Err("the run was stopped".to_owned());
                    let ended = if self.stop.is_raised() { stopped() } else { Ok(()) };
                    self.stream.on_source_end(ended);
                    return Ok(None);
                }
                // What is there of it was processed.
                Err(SourceError::Broken { .. }) if self.is_truncated => {
                    self.stream.on_source_end(Ok(()));
                    return Ok(None);
                }
                Err(error) => {
                    self.stream.on_source_end(Err(error.to_string()));
                    return Err(error);
                }
            }
        }
    }

    fn limit_decoding(&mut self, limit: Arc<dyn DecodeLimit>) {
        self.inner.limit_decoding(limit);
    }

    fn counts(&self) -> SourceCounts {
        self.inner.counts()
    }
}

impl Drop for VideoSource {
    fn drop(&mut self) {
        // Nothing happens where it has ended before.
        self.stream
            .on_source_end(Err("its source was closed before its end".to_owned()));
    }
}
