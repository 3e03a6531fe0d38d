//! Versions and encoders of the FFmpeg in use, for diagnostics. Opens nothing.

use ffmpeg_next::{codec, encoder, format};

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
