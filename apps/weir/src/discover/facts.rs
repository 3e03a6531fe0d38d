//! Facts about devices, their cameras and their streams.

use serde::Serialize;

use super::brands::Hint;

/// Least height in pixels of a second stream: detectors find people in it.
const MIN_HEIGHT: u32 = 240;

/// Result of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) devices: Vec<Device>,
    pub(crate) warnings: Vec<String>,
}

/// Facts about a device. Its texts are clean: they have no control characters.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Device {
    /// Host and port that were asked.
    pub(crate) address: String,
    /// True if it speaks ONVIF.
    pub(crate) answered: bool,
    /// Address of its device service, if it speaks ONVIF.
    pub(crate) service: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) manufacturer: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) firmware: Option<String>,
    pub(crate) serial: Option<String>,
    /// Seconds by which its clock is ahead of that of this machine.
    pub(crate) clock_difference_s: Option<i64>,
    pub(crate) cameras: Vec<Camera>,
    pub(crate) warnings: Vec<String>,
    /// Usual addresses, which were not tried.
    pub(crate) hints: Vec<Hint>,
}

/// The streams of one picture, the largest first.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Camera {
    /// Name for a table of a graph; unique in one search.
    pub(crate) name: String,
    pub(crate) streams: Vec<Stream>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Stream {
    /// Name of its profile in the device.
    pub(crate) profile: String,
    pub(crate) codec: Option<String>,
    pub(crate) width: Option<u32>,
    pub(crate) height: Option<u32>,
    /// Frames per second.
    pub(crate) fps: Option<f64>,
    /// Address without user and password.
    pub(crate) uri: String,
}

impl Stream {
    pub(super) fn pixels(&self) -> u64 {
        u64::from(self.width.unwrap_or(0)) * u64::from(self.height.unwrap_or(0))
    }
}

impl Camera {
    /// Main stream, and a smaller one for detectors if there is one.
    pub(super) fn main_and_second(&self) -> Option<(&Stream, Option<&Stream>)> {
        let main = self.streams.first()?;
        let is_second = |stream: &&Stream| {
            stream.pixels() > 0
                && stream.pixels() < main.pixels()
                && stream.height >= Some(MIN_HEIGHT)
                && stream.uri != main.uri
                && stream.codec.as_deref() != Some("mjpeg")
        };
        let second = self.streams.iter().rev().find(is_second);
        Some((main, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_stream_is_the_smallest_that_detectors_can_use() {
        let stream = |width, height, codec: &str| Stream {
            width: Some(width),
            height: Some(height),
            codec: Some(codec.to_owned()),
            uri: format!("rtsp://h/{width}{codec}"),
            ..Stream::default()
        };
        let mut camera = Camera {
            streams: vec![
                stream(1_920, 1_080, "h264"),
                stream(1_280, 720, "h264"),
                stream(640, 360, "mjpeg"),
                stream(320, 180, "h264"),
            ],
            ..Camera::default()
        };
        let (main, second) = camera.main_and_second().unwrap();
        assert_eq!((main.width, second.unwrap().width), (Some(1_920), Some(1_280)));
        camera.streams.truncate(1);
        assert!(camera.main_and_second().unwrap().1.is_none());
        assert!(Camera::default().main_and_second().is_none());
    }
}
