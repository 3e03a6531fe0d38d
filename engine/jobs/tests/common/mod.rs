//! Jobs, and how their videos are cut.

use weir_jobs::{FileIdentity, Segment, Submission};

/// A job with this many videos.
pub(crate) fn submission(videos: usize) -> Submission {
    Submission {
        graph: "/graph.toml".to_owned(),
        digest: "d".to_owned(),
        source: "archive".to_owned(),
        videos: (0..videos).map(|video| format!("/{video}.mp4")).collect(),
        within_ms: Some(60_000),
    }
}

/// The queue `jobs` on the server of that port.
#[cfg(feature = "nats")]
pub(crate) fn queue_on(port: u16) -> weir_jobs::QueuePlace {
    let url = format!("nats://127.0.0.1:{port}/jobs");
    weir_jobs::QueuePlace::of(std::path::Path::new(&url)).unwrap()
}

/// The file of each video.
pub(crate) const FILE: FileIdentity = FileIdentity {
    bytes: 1,
    modified_ms: 1,
};

/// Segments of ten frames.
pub(crate) fn segments(count: u32) -> Vec<Segment> {
    let segment = |index: u32| Segment {
        first_frame: u64::from(index) * 10,
        pts_ms: f64::from(index),
    };
    (0..count).map(segment).collect()
}
