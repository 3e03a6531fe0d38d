//! Models that are cut: the partition workers, which part goes where, and the threads at a model's two ends.
//!
//! ```text
//! module actor ──Dispatch──► reservation actor ──► front: prepare ──► client ──► workers
//!      ▲                          ▲   │                                             │
//!      └────────── back: decode ◄─┼───┘◄──────────── Used, Done, Failed ────────────┘
//! ```

mod back;
mod front;
mod layout;
mod parts;
mod post;
mod start;

pub(crate) use back::{Back, Through};
pub(crate) use front::{Front, Going};
pub(crate) use layout::Lanes;
pub(crate) use post::Post;
pub(crate) use start::{Fleet, Planned};
