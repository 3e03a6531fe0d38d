//! Streams that clients added, kept for the next start: tables in the file of the graph, or a file of the engine.

pub(crate) mod graph_file;
pub(crate) mod state;
pub(crate) mod table;
