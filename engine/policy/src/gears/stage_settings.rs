//! Settings of a module that gears set, by stream.

use std::collections::BTreeMap;

use weir_types::StreamId;

use super::StageSetting;

/// The setting of a stage for all streams, and the settings of streams that have their own.
#[derive(Debug, Clone)]
pub struct StageSettings {
    common: StageSetting,
    streams: BTreeMap<StreamId, StageSetting>,
}

impl StageSettings {
    /// The same setting for all streams.
    #[must_use]
    pub fn new(common: StageSetting) -> Self {
        Self {
            common,
            streams: BTreeMap::new(),
        }
    }

    /// Sets it for a stream, or for all that have no setting of their own.
    pub fn set(&mut self, stream: Option<StreamId>, setting: StageSetting) {
        match stream {
            Some(stream) => _ = self.streams.insert(stream, setting),
            None => self.common = setting,
        }
    }

    /// A stream has no setting of its own any more, or none has.
    pub fn unset(&mut self, stream: Option<StreamId>) {
        match stream {
            Some(stream) => _ = self.streams.remove(&stream),
            None => self.streams.clear(),
        }
    }

    /// The setting for items of a stream.
    #[must_use]
    pub fn of(&self, stream: StreamId) -> StageSetting {
        self.streams.get(&stream).copied().unwrap_or(self.common)
    }
}
