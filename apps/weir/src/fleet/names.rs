//! Names of engines and streams, and the numbers that decisions know them by.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use weir_policy::fleet::{EngineId, StreamKey};

/// The number of a name: the same on every machine.
fn number(name: &str) -> u64 {
    let digest = Sha256::digest(name.as_bytes());
    let first = digest.iter().take(8);
    first.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The number of an engine.
pub(super) fn engine_id(name: &str) -> EngineId {
    EngineId(number(name))
}

/// The number of a stream.
pub(super) fn stream_key(name: &str) -> StreamKey {
    StreamKey(number(name))
}

/// Names by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    engines: BTreeMap<EngineId, String>,
    streams: BTreeMap<StreamKey, String>,
}

impl Names {
    /// Two names of one number give `None`; that does not happen by chance.
    pub(super) fn new<'a>(
        engines: impl Iterator<Item = &'a str>,
        streams: impl Iterator<Item = &'a str>,
    ) -> Option<Self> {
        let mut names = Self::default();
        for engine in engines {
            let before = names.engines.insert(engine_id(engine), engine.to_owned());
            if before.is_some() {
                return None;
            }
        }
        for stream in streams {
            let before = names.streams.insert(stream_key(stream), stream.to_owned());
            if before.is_some() {
                return None;
            }
        }
        Some(names)
    }

    pub(super) fn engine(&self, id: EngineId) -> Option<&str> {
        self.engines.get(&id).map(String::as_str)
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = &str> {
        self.engines.values().map(String::as_str)
    }

    pub(super) fn stream(&self, key: StreamKey) -> Option<&str> {
        self.streams.get(&key).map(String::as_str)
    }

    /// The number of a stream that the fleet has.
    pub(super) fn known_stream(&self, name: &str) -> Option<StreamKey> {
        let key = stream_key(name);
        self.streams.contains_key(&key).then_some(key)
    }

    pub(super) fn has_engine(&self, name: &str) -> bool {
        self.engines.contains_key(&engine_id(name))
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = (StreamKey, &str)> {
        self.streams.iter().map(|(key, name)| (*key, name.as_str()))
    }
}
