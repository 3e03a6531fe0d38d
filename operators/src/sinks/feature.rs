//! Sinks whose crates are heavy are behind features of the build. Their names and keys are always there, so that a graph's schema
//! is the same in every build.

use weir_flow::SinkError;

/// The error of a sink of `kind` in a build without the feature of that name.
#[cfg_attr(
    all(feature = "kafka", feature = "mail", feature = "nats", feature = "parquet"),
    expect(dead_code, reason = "this build has all of them")
)]
pub(super) fn missing(kind: &str) -> SinkError {
    SinkError {
        target: format!("a sink of type {kind}"),
        reason: format!(
            "this build has no such sinks: use a release, or build weir with `--features {kind}`"
        ),
    }
}
