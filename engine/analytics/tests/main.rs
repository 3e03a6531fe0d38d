//! Tests of analytics, in one program.

mod alarms;
mod confirmed;
mod properties;
mod schedule;
