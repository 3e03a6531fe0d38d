//! ONVIF: questions to cameras by SOAP, their events by pull point, and moves to presets.
//!
//! Devices are not trusted: their answers are bounded in bytes, depth and time, requests go to the host that was named, and the
//! password leaves this machine as a digest only.

mod deadline;
mod device;
mod events;
mod notification;
mod place;
pub(crate) mod ptz;
mod soap;
#[cfg(test)]
mod tests;
mod text;
mod xml;

pub use deadline::{Deadline, wall_time};
pub use device::{DEVICE, MEDIA, MEDIA_2, SCHEMA, Services, capability, clock, services};
pub(crate) use events::PullPoint;
pub(crate) use place::Camera;
pub use soap::{Client, Login, Problem};
pub use text::{clean, path, service, xml_escaped};
pub use xml::{Element, parse};
