//! How TOML is read throughout: graphs, worlds, experiments and planning problems share it, and it knows none of them.
//!
//! A reader [parses](parse) its text into a tree with positions, opens each table as [`Fields`], says which keys it
//! [expects](Fields::expect), takes its values and adds to the [`Reports`] what is wrong; [`Reports::finish`] gives the
//! verdict: all problems at once, each with its line and a hint.

mod bandwidth;
mod bytes;
mod diagnostics;
mod document;
mod durations;
mod fields;
mod paths;
pub mod spelling;
mod text;
mod variables;

pub use bandwidth::bits;
pub use bytes::bytes;
pub use diagnostics::{Problem, Problems, Reports};
pub use document::{Content, Entry, Node, parse, parse_by_key};
pub use durations::durations;
pub use fields::{Field, Fields, Spot, texts};
pub use paths::{absolute, meant_beside, missing};
pub use text::read_text;
pub use variables::Environment;
