//! `weir doctor`: what this machine has, what is missing, and what to do about it.

use crate::gpu::facts::GpuFacts;
use crate::output;
use crate::process::cores;
use crate::settings::Settings;
use crate::zoo::Zoo;

/// One thing that was looked at.
struct ModuleOutput {
    what: &'static str,
    state: Result<String, String>,
    /// True if no graph runs without it.
    needed: bool,
}

/// Prints what is here and what is not.
///
/// # Errors
/// A [`crate::error::UserError`] where something is missing without which nothing runs.
pub(crate) fn doctor(settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let findings = [
        ModuleOutput {
            what: "FFmpeg",
            state: Ok(weir_operators::ffmpeg_versions()),
            needed: true,
        },
        ModuleOutput {
            what: "H.264 encoder",
            state: encoder(),
            needed: false,
        },
        ModuleOutput {
            what: "ONNX Runtime",
            state: onnxruntime(),
            needed: true,
        },
        ModuleOutput {
            what: "CPU",
            state: Ok(cpu(settings)),
            needed: true,
        },
        ModuleOutput {
            what: "CUDA",
            state: cuda(),
            needed: false,
        },
        ModuleOutput {
            what: "video decoders",
            state: video_decoders(),
            needed: false,
        },
        ModuleOutput {
            what: "models",
            state: Ok(models(zoo)),
            needed: false,
        },
    ];
    for finding in &findings {
        let (mark, text) = match &finding.state {
            Ok(text) => ("ok", text),
            Err(text) if finding.needed => ("MISSING", text),
            Err(text) => ("none", text),
        };
        output::say(&format!("{mark:8}{:16}{text}", finding.what))?;
    }
    let missing = findings
        .iter()
        .filter(|finding| finding.needed && finding.state.is_err());
    let missing: Vec<&str> = missing.map(|finding| finding.what).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(crate::error::UserError::new(format!("missing: {}; see above", missing.join(", "))).into())
}

fn cpu(settings: &Settings) -> String {
    let cores = cores();
    let memory = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| memory(&text));
    let memory = memory.map_or_else(
        || "memory unknown".to_owned(),
        |bytes| format!("{bytes} of memory"),
    );
    format!(
        "{}: device \"cpu\"; {memory}, {} of it for decoded frames",
        super::counted(cores, "core"),
        settings.frame_memory
    )
}

/// `MemTotal` of `/proc/meminfo`.
fn memory(meminfo: &str) -> Option<crate::settings::Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(crate::settings::Bytes(kibibytes.checked_mul(1024)?))
}

/// A summary of the GPUs and their driver; an error lists everything that keeps models from running on a GPU.
fn cuda() -> Result<String, String> {
    let facts = GpuFacts::gather();
    let problems = facts.problems();
    if !problems.is_empty() {
        return Err(problems.join(&format!("\n{:24}", "")));
    }
    let video = facts.video_problem();
    let video = video.map_or(String::new(), |problem| {
        format!("; frames are decoded on the CPU: {problem}")
    });
    Ok(facts.summary() + &video)
}

/// The devices of `decoder`, and why others are not used.
fn video_decoders() -> Result<String, String> {
    let found = weir_operators::video_devices();
    let usable: Vec<&str> = found
        .devices
        .iter()
        .filter(|(_, state)| state.is_ok())
        .map(|(name, _)| *name)
        .collect();
    let listed = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let facts = format!(
        "render nodes: {}; FFmpeg's devices: {}",
        listed(&found.nodes),
        listed(&found.types)
    );
    let reasons = found
        .devices
        .iter()
        .filter_map(|(name, state)| Some(format!("{name}: {}", state.as_ref().err()?)));
    let lines = |first: String| {
        std::iter::once(first)
            .chain(reasons)
            .collect::<Vec<_>>()
            .join(&format!("\n{:24}", ""))
    };
    if usable.is_empty() {
        Err(lines(format!("the CPU decodes; {facts}")))
    } else {
        Ok(lines(format!("{}; {facts}", usable.join(", "))))
    }
}

fn models(zoo: &Zoo) -> String {
    let known = zoo.entries().count();
    let here = zoo
        .entries()
        .filter(|(_, entry)| zoo.find(entry).is_some())
        .count();
    let cache = format!("{here} of {known} here; cache {}", zoo.cache().display());
    let mirror = zoo
        .mirror()
        .map(|mirror| format!(", mirror {}", mirror.display()))
        .unwrap_or_default();
    let hint = if here < known {
        "; `weir models pull` downloads the others"
    } else {
        ""
    };
    format!("{cache}{mirror}{hint}")
}

/// ONNX Runtime, loaded to see that it can be; the version is in the name that the link leads to.
fn onnxruntime() -> Result<String, String> {
    let path = weir_operators::load_runtime().map_err(|error| error.to_string())?;
    let file = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let version = name
        .strip_prefix("libonnxruntime.so.")
        .unwrap_or("of unknown version")
        .to_owned();
    Ok(format!("{version}, {}", path.display()))
}

fn encoder() -> Result<String, String> {
    let hint = "no H.264 encoder in this FFmpeg; the mp4 sink needs one: install a build with libx264";
    weir_operators::h264_encoder().ok_or_else(|| hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_own_words() {
        let check = |text: &str, bytes: Option<u64>| assert_eq!(memory(text).map(|bytes| bytes.0), bytes);
        check(
            "MemFree: 5 kB\nMemTotal:       16384256 kB\n",
            Some(16_384_256 * 1024),
        );
        check("MemTotal: lots", None);
        check("", None);
    }
}
