//! Tests of sources, model heads and sinks, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod access;
mod archives;
#[path = "../../tests/shared/certificates.rs"]
mod certificates;
#[path = "../../tests/shared/chat_server.rs"]
mod chat_server;
mod common;
mod decode_levels;
mod describe;
mod features;
mod full_disk;
mod joined;
mod jumps;
mod media;
mod models;
#[cfg(feature = "nats")]
#[path = "../../tests/shared/nats_server.rs"]
mod nats_server;
mod network;
mod packet_gate;
mod packets;
#[cfg(feature = "parquet")]
mod parquet;
mod programs;
mod push;
mod recorded_shape;
mod recording;
mod recording_hours;
mod recordings;
mod reports;
mod retained;
mod shipped;
mod sinks;
#[path = "../../tests/shared/small_disk.rs"]
mod small_disk;
mod sound;
#[path = "../../tests/shared/sound_tracks.rs"]
mod sound_tracks;
mod tables;
#[path = "../../tests/shared/tiny_chat.rs"]
mod tiny_chat;
#[path = "../../tests/shared/tiny_encoders.rs"]
mod tiny_encoders;
#[path = "../../tests/shared/tiny_onnx.rs"]
mod tiny_onnx;
