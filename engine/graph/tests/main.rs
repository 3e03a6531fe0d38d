//! Tests of graphs, in one program.

mod added_streams;
mod cameras;
mod cascades;
mod clients;
mod common;
mod devices;
mod diagnostics;
#[path = "../../../tests/shared/edited.rs"]
mod edited;
mod frames;
mod fuzz;
mod garbled;
mod gears;
mod graphs;
mod keys;
mod large;
mod lengths;
mod model_servers;
mod objectives;
mod onvif;
mod planning;
mod privacy;
mod python;
mod scaling;
mod schedules;
mod search;
mod sources;
mod text_edit;
mod tiles;
mod trackers;
mod transforms;
mod workers;
