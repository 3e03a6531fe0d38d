//! Says which FFmpeg is built against, where its interface differs: from 8 on, streams have no side data of their own.
#![allow(clippy::print_stdout, reason = "this is how a build script speaks")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(ffmpeg_8)");
    if std::env::var("DEP_FFMPEG_FFMPEG_8_0").is_ok_and(|there| there == "true") {
        println!("cargo::rustc-cfg=ffmpeg_8");
    }
}
