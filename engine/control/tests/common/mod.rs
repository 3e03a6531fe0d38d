//! Shared by the tests of this folder.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test uses a part of the world"
)]

pub mod results;
pub mod scenario;
pub mod site;
pub mod world;
