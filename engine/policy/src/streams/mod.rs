//! Streams: media clocks, sampling, silence detection, reconnection, health, decoding load and levels, motion gates.

pub(crate) mod catch_up;
pub(crate) mod decode_level;
pub(crate) mod decode_load;
pub(crate) mod frame_sampler;
pub(crate) mod frozen;
pub(crate) mod health;
pub(crate) mod media_clock;
pub(crate) mod motion;
pub(crate) mod reconnect;
pub(crate) mod silence;
