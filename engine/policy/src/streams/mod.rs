//! Live streams: when a frame was taken, whether a source is silent, when it is called again, how it fares.

pub(crate) mod decode_load;
pub(crate) mod frame_sampler;
pub(crate) mod health;
pub(crate) mod media_clock;
pub(crate) mod reconnect;
pub(crate) mod silence;
