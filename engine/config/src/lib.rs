//! Reading TOML: what graphs, worlds, experiments and planning problems have in common. It knows none of them.
//!
//! A reader [parses](parse) its text into a tree with positions, opens each table as [`Fields`], lists the keys it
//! [expects](Fields::expect), reads their values and adds problems to the [`Diagnostics`]; [`Diagnostics::finish`] returns
//! all of them at once, each with its line and a hint.

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

pub use bandwidth::parse_bandwidth_bps;
pub use bytes::parse_bytes;
pub use diagnostics::{ConfigError, Diagnostic, Diagnostics};
pub use document::{Content, Entry, Node, parse, parse_by_key};
pub use durations::durations;
pub use fields::{Field, Fields, Spanned, texts};
pub use paths::{absolute, nearest_sibling, report_missing};
pub use text::{read_text, toml_error};
pub use variables::Environment;
