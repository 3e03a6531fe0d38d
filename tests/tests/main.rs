//! Tests of the whole engine, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod bad_input;
mod breakage;
mod camera_gate;
mod cameras;
mod cascade_swaps;
mod cascades;
#[path = "../shared/certificates.rs"]
mod certificates;
mod changes;
#[path = "../shared/chat_server.rs"]
mod chat_server;
mod common;
mod counted_clips;
mod descriptions;
mod emulated;
mod faults;
mod gear_sessions;
mod gear_shares;
mod generating;
mod generating_faults;
mod house;
mod modes;
mod motion_gate;
mod not_decoded;
mod overlap;
mod partitioned;
mod predicted_lengths;
mod programs;
mod queued_models;
mod real_video;
mod regions;
mod request_traces;
mod residency;
mod rtsp_cameras;
mod same_control;
mod scaling;
mod service;
mod several_devices;
mod sink_changes;
#[path = "../shared/sound_tracks.rs"]
mod sound_tracks;
mod tiles;
mod tracked_clips;
mod tracks;
mod transforms;
mod unequal;
