//! Tests of analytics, in one program.

mod confirmed;
mod properties;
mod schedule;
