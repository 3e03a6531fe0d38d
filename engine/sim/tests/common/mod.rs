//! Worlds drawn from a seed, of every shape that a world can have, and what their books must say in the end.

#![allow(missing_docs, unreachable_pub, reason = "tests alone use it")]

pub mod books;
pub mod drawn;
