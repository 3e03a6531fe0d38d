//! Worlds drawn from a seed, of every shape that a world can have, and what their books must say in the end.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test uses a part of the drawing"
)]

pub mod books;
pub mod drawn;
