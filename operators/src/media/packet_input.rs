//! The origin of the packets of a source: its input, or the thread of the driver of a capture device.

use ffmpeg_next::format::context::Input;
use ffmpeg_next::{Error, Packet};
use weir_flow::StopFlag;

use super::driver_thread::{DriverThread, Given};

/// The reader of packets.
pub(super) enum Packets {
    /// By who wants them.
    Here(Input),
    /// On the thread of a capture device.
    OfDriver(Given<Result<Packet, Error>>),
}

impl Packets {
    /// The next; `None` once `stop` is raised while a driver does not answer.
    pub(super) fn next(&mut self, stop: &StopFlag) -> Option<Result<Packet, Error>> {
        match self {
            Self::Here(input) => Some(read(input)),
            Self::OfDriver(given) => given.next(stop),
        }
    }
}

fn read(input: &mut Input) -> Result<Packet, Error> {
    let mut packet = Packet::empty();
    packet.read(input)?;
    Ok(packet)
}

/// Reads the packets of a capture device on the thread of its driver. They are copies: its own buffers are gone when it is closed,
/// which may be while pictures are made of them.
pub(super) fn read_on(
    driver: &DriverThread,
    mut input: Input,
    stop: &StopFlag,
) -> std::io::Result<Given<Result<Packet, Error>>> {
    let mut copied = move || {
        let packet = read(&mut input)?;
        let mut own = Packet::empty();
        own.clone_from(&packet);
        Ok(own)
    };
    driver.start(stop, move || Some(copied()))
}
