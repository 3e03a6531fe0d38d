//! Tests of analytics, in one program.

mod alarms;
mod confirmed;
mod program_incidents;
mod properties;
mod schedule;
