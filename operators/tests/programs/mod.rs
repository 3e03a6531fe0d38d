//! Sinks that deliver to other programs, against ones that fail: every event is delivered at least once or in the file of dead
//! letters, in order by stream. `WEIR_EVENTS` says how many events; CI takes few.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

mod alarms;
mod delivered;
mod describe;
mod describe_local;
mod floods;
mod home_assistant;
#[cfg(feature = "mail")]
mod mail;
mod mqtt;
mod mqtt_tls;
#[cfg(feature = "nats")]
mod nats;
mod webhook;
