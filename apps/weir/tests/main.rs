//! Tests of the program, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod access;
mod accuracy;
mod api_fuzz;
mod archive;
#[cfg(feature = "nats")]
mod archive_fleet;
mod archive_jobs;
mod bad_cameras;
mod bad_input;
mod best_shots;
mod browser;
mod cascades;
#[path = "../../../tests/shared/chat_server.rs"]
mod chat_server;
mod check;
mod cli;
mod common;
mod described_answers;
mod descriptions;
mod descriptions_local;
mod detect;
mod detectors;
mod discover;
mod documents;
mod event_kinds;
mod events;
mod examples;
#[cfg(feature = "fleet")]
mod fleet;
#[cfg(feature = "fleet")]
mod fleet_workers;
mod frames;
mod frigate;
mod full_disk;
mod fuzz;
mod gears;
mod gears_plan;
mod gears_watch;
mod gpu_check;
mod graph_file;
mod graph_schema;
mod infer;
mod init;
mod kept_streams;
mod kserve;
mod limits;
mod live_codecs;
mod manual;
mod metrics;
mod models_inspect;
#[cfg(feature = "nats")]
#[path = "../../../tests/shared/nats_server.rs"]
mod nats_server;
mod outputs;
mod page;
mod page_edit;
mod page_incidents;
mod page_pictures;
mod page_search;
mod page_sound;
mod page_tour;
mod plan;
mod playback;
mod privacy;
mod probe;
mod python_functions;
mod python_operators;
mod recording;
mod recordings;
mod reload;
#[path = "../../../tests/tests/rtsp_cameras/camera.rs"]
mod rtsp_camera;
mod scenes;
mod score;
mod search;
mod second_stream;
mod serve;
mod shipped;
mod simulate;
mod sinks;
mod site;
#[path = "../../../tests/shared/small_disk.rs"]
mod small_disk;
#[path = "../../../tests/shared/soap_server.rs"]
mod soap_server;
#[path = "../../../tests/shared/sound_tracks.rs"]
mod sound_tracks;
mod sources;
mod stall;
mod terminal;
#[path = "../../../tests/shared/tiny_chat.rs"]
mod tiny_chat;
#[path = "../../../tests/shared/tiny_encoders.rs"]
mod tiny_encoders;
#[path = "../../../tests/shared/tiny_onnx.rs"]
mod tiny_onnx;
#[cfg(feature = "otlp")]
mod traces;
#[path = "../../../tests/shared/web_socket.rs"]
mod web_socket;
mod worker;
