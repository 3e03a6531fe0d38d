//! Versions, encoders and decoding devices of the FFmpeg in use, for diagnostics.

use ffmpeg_next::{codec, encoder, format};

use crate::media::{Accelerator, device_types, render_nodes};

/// Versions of the FFmpeg libraries in use, such as `libavcodec 59.37.100, libavformat 59.27.100`.
#[must_use]
pub fn ffmpeg_versions() -> String {
    let dotted = |version: u32| format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
    format!(
        "libavcodec {}, libavformat {}",
        dotted(codec::version()),
        dotted(format::version())
    )
}

/// Name of the encoder for annotated H.264 videos: `libx264` where available, else any other; `None` without one.
#[must_use]
pub fn h264_encoder() -> Option<String> {
    let x264 = encoder::find_by_name("libx264");
    x264.or_else(|| encoder::find(codec::Id::H264))
        .map(|found| found.name().to_owned())
}

/// Devices of this machine that may decode video beside the CPU.
#[derive(Debug, Clone)]
pub struct VideoDevices {
    /// Types of devices that this FFmpeg was built with.
    pub types: Vec<String>,
    /// Render nodes, each with the vendor of its GPU, such as `/dev/dri/renderD128 (0x8086)`.
    pub nodes: Vec<String>,
    /// The devices in the order in which `decoder = "auto"` tries them: name, and why it is not used.
    pub devices: Vec<(&'static str, Result<(), String>)>,
}

/// Devices that decode video, each opened to see that it does.
#[must_use]
pub fn video_devices() -> VideoDevices {
    let nodes = render_nodes();
    VideoDevices {
        types: device_types(),
        nodes: nodes
            .iter()
            .map(|node| format!("{} ({})", node.path.display(), node.vendor))
            .collect(),
        devices: Accelerator::AUTO
            .map(|device| (device.name(), device.probe()))
            .to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_three_parts() {
        let versions = ffmpeg_versions();
        let codec = versions
            .split([' ', ','])
            .nth(1)
            .expect("a version after the name");
        assert_eq!(codec.split('.').count(), 3, "{versions}");
    }
}
