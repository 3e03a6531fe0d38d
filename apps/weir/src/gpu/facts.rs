//! Facts about the GPU and its libraries, and the problems that keep CUDA from working, with the packages to
//! install. Facts are gathered once; problems are a function of the facts.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use super::libraries::{self, DECODER, DRIVER, Found, PROVIDER, SearchPath};

/// Facts about the GPU, its driver and the libraries on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct GpuFacts {
    /// True if this build has the CUDA provider compiled in.
    pub(crate) in_build: bool,
    /// True if the kernel has the driver's devices.
    pub(crate) has_device: bool,
    /// One line a GPU: index, name, memory, as `nvidia-smi` says; empty where it does not answer.
    pub(crate) gpus: Vec<String>,
    /// Version of the driver: `580.65.06`.
    pub(crate) driver: Option<String>,
    /// The library of ONNX Runtime; `None` where there is none.
    pub(crate) runtime: Option<PathBuf>,
    /// Version of ONNX Runtime, by the name of its file.
    pub(crate) runtime_version: Option<String>,
    /// True if the CUDA provider is beside the library of ONNX Runtime.
    pub(crate) has_provider: bool,
    /// The CUDA release that the provider was built for.
    pub(crate) cuda: Option<u32>,
    /// Libraries that the provider, the driver and the decoder need, by name, and whether the loader finds
    /// them.
    pub(crate) libraries: Vec<(String, LibraryState)>,
}

/// Result of the search for a library, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(crate) enum LibraryState {
    /// The loader finds it.
    Loadable,
    /// It is where the loader does not look.
    Elsewhere {
        /// Folder that has the library.
        folder: PathBuf,
    },
    /// It was not found.
    Missing,
}

impl GpuFacts {
    /// Those of this machine and build.
    pub(crate) fn gather() -> Self {
        let runtime = weir_operators::find_runtime().ok();
        let real = runtime
            .as_deref()
            .map(|path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
        let folder = real.as_deref().and_then(Path::parent);
        let provider = folder
            .map(|folder| folder.join(PROVIDER))
            .filter(|path| path.is_file());
        let mut needed = provider
            .as_deref()
            .and_then(|path| libraries::of_provider(path).ok())
            .unwrap_or_default();
        let cuda = libraries::cuda_major(&needed);
        needed.extend([DRIVER, DECODER].map(str::to_owned));
        let search = SearchPath::of_process(folder);
        let state = |name: String| {
            let state = match search.find(&name) {
                Found::Loadable(_) => LibraryState::Loadable,
                Found::Elsewhere(path) => LibraryState::Elsewhere {
                    folder: path.parent().unwrap_or(Path::new("/")).to_owned(),
                },
                Found::Nowhere => LibraryState::Missing,
            };
            (name, state)
        };
        Self {
            in_build: cfg!(feature = "cuda"),
            has_device: ["/proc/driver/nvidia", "/dev/nvidiactl"]
                .iter()
                .any(|path| Path::new(path).exists()),
            gpus: nvidia_smi("index,name,memory.total"),
            driver: nvidia_smi("driver_version").into_iter().next(),
            runtime_version: real.as_deref().and_then(version),
            runtime,
            has_provider: provider.is_some(),
            cuda,
            libraries: needed.into_iter().map(state).collect(),
        }
    }

    /// Problems that keep models from running on the GPU, each with its remedy; empty if there are none.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.has_device {
            problems.push(
                "no NVIDIA driver; only needed for device \"cuda:N\". Where there is a GPU, install the driver \
                 (Debian: nvidia-driver), or give it to the container (--gpus all)"
                    .to_owned(),
            );
            // Nothing else matters before that.
            return problems;
        }
        if self.gpus.is_empty() {
            problems.push(
                "the driver is there, but nvidia-smi does not answer: its program and its kernel module are of two \
                 versions (restart the machine), or it is not installed (Debian: nvidia-smi)"
                    .to_owned(),
            );
        }
        if !self.in_build {
            problems.push(
                "this build has no CUDA provider: run `WEIR_CUDA=1 make setup` and build with --features cuda"
                    .to_owned(),
            );
        }
        if let Some(runtime) = self.runtime.as_deref().filter(|_| !self.has_provider) {
            problems.push(format!(
                "{} is the CPU build of ONNX Runtime: there is no {PROVIDER} beside it; run `WEIR_CUDA=1 make setup`, \
                 or let ORT_DYLIB_PATH name the library of the wheel onnxruntime-gpu",
                runtime.display()
            ));
        }
        if let (Some(cuda), Some(driver)) = (self.cuda, &self.driver)
            && let Some(oldest) = libraries::oldest_driver(cuda)
            && major(driver).is_some_and(|major| major < oldest)
        {
            problems.push(format!(
                "ONNX Runtime {} is built for CUDA {cuda}, which needs driver {oldest} or newer, and this is {driver}: \
                 update the driver, or take an onnxruntime-gpu that is built for an older CUDA",
                self.runtime_version.as_deref().unwrap_or("of unknown version"),
            ));
        }
        problems.extend(self.libraries.iter().filter(|(name, _)| name != DECODER).filter_map(|(name, state)| {
            let package = libraries::package(name, self.cuda);
            match state {
                LibraryState::Loadable => None,
                LibraryState::Missing => Some(format!("{name} is not found: install {package}")),
                LibraryState::Elsewhere { folder } => Some(format!(
                    "{name} is in {}, where the loader does not look: add that folder to LD_LIBRARY_PATH",
                    folder.display()
                )),
            }
        }));
        problems
    }

    /// Summary in a line: GPUs, driver, CUDA release of ONNX Runtime, video decoder.
    pub(crate) fn summary(&self) -> String {
        let gpus = if self.gpus.is_empty() {
            "no GPU".to_owned()
        } else {
            self.gpus.join("; ")
        };
        let driver = self.driver.as_deref().unwrap_or("unknown");
        let cuda = self.cuda.map_or("unknown".to_owned(), |cuda| cuda.to_string());
        let video = match self.video_problem() {
            None => "video decoder",
            Some(_) => "no video decoder",
        };
        format!("{gpus}; driver {driver}, ONNX Runtime for CUDA {cuda}, {video}")
    }

    /// The problem that keeps the GPU from decoding video, if any; frames are then decoded on the CPU.
    pub(crate) fn video_problem(&self) -> Option<String> {
        let (name, state) = self.libraries.iter().find(|(name, _)| name == DECODER)?;
        (*state != LibraryState::Loadable).then(|| {
            format!(
                "{name} is not found: install {}",
                libraries::package(name, self.cuda)
            )
        })
    }
}

/// Answers of the driver's own program, a line for each GPU.
fn nvidia_smi(query: &str) -> Vec<String> {
    let output = Command::new("nvidia-smi")
        .args([&format!("--query-gpu={query}"), "--format=csv,noheader"])
        .output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let lines = text.iter().flat_map(|text| text.lines());
    lines
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// `1.31.1` of `libonnxruntime.so.1.31.1`.
fn version(library: &Path) -> Option<String> {
    let name = library.file_name()?.to_str()?;
    Some(name.strip_prefix("libonnxruntime.so.")?.to_owned())
}

fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which all is well, changed by `change`, has these problems: a part of the text of each.
    fn check(change: impl FnOnce(&mut GpuFacts), expected: &[&str]) {
        let loadable = |name: &str| (name.to_owned(), LibraryState::Loadable);
        let mut facts = GpuFacts {
            in_build: true,
            has_device: true,
            gpus: vec!["0, H100, 81559 MiB".to_owned()],
            driver: Some("580.65.06".to_owned()),
            runtime: Some("/opt/libonnxruntime.so".into()),
            runtime_version: Some("1.31.1".to_owned()),
            has_provider: true,
            cuda: Some(13),
            libraries: ["libcublas.so.13", "libcudnn.so.9", DRIVER, DECODER]
                .map(loadable)
                .to_vec(),
        };
        change(&mut facts);
        let problems = facts.problems();
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{part:?} is not in {problem:?}");
        }
    }

    #[test]
    fn each_thing_that_is_missing_is_named_with_what_to_install() {
        check(|_| (), &[]);
        check(|facts| *facts = GpuFacts::default(), &["no NVIDIA driver"]);
        check(|facts| facts.gpus.clear(), &["nvidia-smi does not answer"]);
        check(|facts| facts.in_build = false, &["build with --features cuda"]);
        check(|facts| facts.has_provider = false, &["CPU build of ONNX Runtime"]);
        check(
            |facts| facts.driver = Some("550.90.07".to_owned()),
            &["1.31.1 is built for CUDA 13, which needs driver 580 or newer, and this is 550.90.07"],
        );
        check(
            |facts| facts.libraries[1].1 = LibraryState::Missing,
            &["libcudnn.so.9 is not found: install cuDNN for CUDA 13"],
        );
        check(
            |facts| {
                facts.libraries[0].1 = LibraryState::Elsewhere {
                    folder: "/usr/local/cuda/lib64".into(),
                };
            },
            &["libcublas.so.13 is in /usr/local/cuda/lib64, where the loader does not look"],
        );
        check(
            |facts| facts.libraries[2].1 = LibraryState::Missing,
            &["libcuda.so.1 is not found"],
        );
    }

    #[test]
    fn a_gpu_without_a_decoder_runs_models() {
        check(
            |facts| {
                facts.libraries[3].1 = LibraryState::Missing;
                assert!(facts.video_problem().expect("one").contains("libnvcuvid1"));
                assert!(facts.summary().ends_with("no video decoder"));
            },
            &[],
        );
    }
}
