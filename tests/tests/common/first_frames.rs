//! A source that ends early.

use weir_flow::{Frame, Source, SourceError, SourceFactory, SourceInfo, StopFlag};

/// The first frames of another source.
pub(crate) struct FirstFrames {
    pub(crate) count: u64,
    pub(crate) source: Box<dyn SourceFactory>,
}

struct FirstFramesStream {
    left: u64,
    source: Box<dyn Source>,
}

impl SourceFactory for FirstFrames {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let source = self.source.open(stop)?;
        Ok(Box::new(FirstFramesStream {
            left: self.count,
            source,
        }))
    }
}

impl Source for FirstFramesStream {
    fn info(&self) -> SourceInfo {
        self.source.info()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.source.next()
            }
            None => Ok(None),
        }
    }
}
