//! Shared libraries that ONNX Runtime's CUDA provider and the video decoder of a GPU load, where the loader finds them, and which
//! package brings each.

use std::path::{Path, PathBuf};

/// Beside `libonnxruntime.so` in the GPU build.
pub(crate) const PROVIDER: &str = "libonnxruntime_providers_cuda.so";
/// Of the driver.
pub(crate) const DRIVER: &str = "libcuda.so.1";
/// The driver's decoder, which FFmpeg loads.
pub(crate) const DECODER: &str = "libnvcuvid.so.1";
/// Prefix of the library that shows the CUDA release of a provider: its suffix is the number of the release.
const RUNTIME: &str = "libcudart.so.";

/// Libraries of CUDA and cuDNN that the provider names, as far as the end of their names.
const NAMED: [&str; 6] = [
    RUNTIME,
    "libcublas.so.",
    "libcublasLt.so.",
    "libcudnn.so.",
    "libcufft.so.",
    "libcurand.so.",
];

/// Largest provider that is read: it is some hundred megabytes.
const MAX_PROVIDER_BYTES: u64 = 2 << 30;

/// Folders that the loader searches by itself.
const SYSTEM: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// cuDNN, as newer providers load it when they are opened: they put its name together, and the file has no more of it than
/// [`CUDNN_STEM`].
const CUDNN: &str = "libcudnn.so.9";
const CUDNN_STEM: &[u8] = b"libcudnn";

/// Names of the libraries in `binary`, such as `libcudnn.so.9`, in the order of [`NAMED`]. Of a library that is named in several
/// versions the newest: providers also name older ones, to take where the process has them already.
pub(crate) fn named(binary: &[u8]) -> Vec<String> {
    let version = |stem: &str, at: usize| -> Option<u32> {
        let rest = &binary[at + stem.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let ends = rest.get(digits) == Some(&0);
        let text = std::str::from_utf8(&rest[..digits]).ok()?;
        text.parse().ok().filter(|_| ends)
    };
    let newest = |stem: &&str| -> Option<String> {
        let versions = memchr_all(binary, stem.as_bytes()).filter_map(|at| version(stem, at));
        versions.max().map(|version| format!("{stem}{version}"))
    };
    let mut names: Vec<String> = NAMED.iter().filter_map(newest).collect();
    let has_cudnn = names.iter().any(|name| name.as_bytes().starts_with(CUDNN_STEM));
    if !has_cudnn && memchr_all(binary, CUDNN_STEM).next().is_some() {
        names.push(CUDNN.to_owned());
    }
    names
}

/// Places of `wanted` in `bytes`.
fn memchr_all<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == wanted[0]);
    starts
        .map(|(at, _)| at)
        .filter(move |&at| bytes[at..].starts_with(wanted))
}

/// The number of the CUDA release in a library's name.
pub(crate) fn cuda_major(names: &[String]) -> Option<u32> {
    let runtime = names.iter().find_map(|name| name.strip_prefix(RUNTIME));
    // cuBLAS has the number of its release, too; a provider may have the runtime linked in.
    let blas = || names.iter().find_map(|name| name.strip_prefix("libcublas.so."));
    runtime.or_else(blas)?.parse().ok()
}

/// Libraries that the provider at `path` names.
///
/// # Errors
/// It cannot be read.
pub(crate) fn of_provider(path: &Path) -> Result<Vec<String>, String> {
    let binary = weir_files::read(path, MAX_PROVIDER_BYTES).map_err(|error| error.to_string())?;
    Ok(named(&binary))
}

/// Result of the search for a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The loader finds it at this path.
    Loadable(PathBuf),
    /// In a folder that the loader does not search.
    Elsewhere(PathBuf),
    /// Nowhere that was looked at.
    Nowhere,
}

/// Folders in which libraries are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchPath {
    /// Those of the loader: `LD_LIBRARY_PATH`, beside the provider, the system's.
    pub(crate) searched: Vec<PathBuf>,
    /// Names in the loader's cache, as one text.
    pub(crate) cache: Vec<u8>,
    /// Folders in which CUDA is often installed, and which the loader does not search.
    pub(crate) usual: Vec<PathBuf>,
}

impl SearchPath {
    /// That of this process, for a provider in `beside`.
    pub(crate) fn of_process(beside: Option<&Path>) -> Self {
        let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let searched = std::env::split_paths(&given)
            .chain(beside.map(Path::to_owned))
            .chain(SYSTEM.map(PathBuf::from));
        Self {
            searched: searched.collect(),
            cache: weir_files::read(Path::new("/etc/ld.so.cache"), 64 << 20).unwrap_or_default(),
            usual: usual_folders(Path::new("/usr/local")),
        }
    }

    /// Searches for the library `name`.
    pub(crate) fn find(&self, name: &str) -> Found {
        let file = |folder: &PathBuf| Some(folder.join(name)).filter(|path| path.exists());
        if let Some(path) = self.searched.iter().find_map(file) {
            return Found::Loadable(path);
        }
        let in_cache = [b"/", name.as_bytes(), b"\0"].concat();
        if memchr_all(&self.cache, &in_cache).next().is_some() {
            return Found::Loadable(PathBuf::from(name));
        }
        self.usual
            .iter()
            .find_map(file)
            .map_or(Found::Nowhere, Found::Elsewhere)
    }
}

/// `cuda*/lib64` in `root`.
fn usual_folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("cuda"))
        .flat_map(|entry| {
            let root = entry.path();
            [root.join("lib64"), root.join("targets/x86_64-linux/lib")]
        })
        .filter(|folder| folder.is_dir())
        .collect();
    folders.sort();
    folders
}

/// The packages that bring `library` for a CUDA release: of the distribution or NVIDIA's repository, and of PyPI.
pub(crate) fn package(library: &str, cuda: Option<u32>) -> String {
    let major = cuda.unwrap_or(13);
    // From 13 on, the wheels of CUDA have no release in their names.
    let wheel = |name: &str| match major {
        13.. => format!("nvidia-{name}"),
        _ => format!("nvidia-{name}-cu{major}"),
    };
    match library {
        DRIVER => "the NVIDIA driver (Debian: nvidia-driver, or libcuda1 in a container)".to_owned(),
        DECODER => "the video part of the NVIDIA driver (Debian: libnvcuvid1; a container needs the driver capability \"video\")".to_owned(),
        _ if library.starts_with("libcudnn") => {
            format!("cuDNN for CUDA {major} (NVIDIA's repository: cudnn9-cuda-{major}; PyPI: nvidia-cudnn-cu{major})")
        }
        _ => {
            let name = match library.split('.').next().unwrap_or_default() {
                "libcudart" => "cuda-runtime",
                "libcufft" => "cufft",
                "libcurand" => "curand",
                _ => "cublas",
            };
            format!(
                "the libraries of CUDA {major} (NVIDIA's repository: cuda-libraries-{major}-0 or newer; PyPI: {})",
                wheel(name)
            )
        }
    }
}

/// The oldest driver that runs programs of a CUDA release, by NVIDIA's table.
pub(crate) fn oldest_driver(cuda: u32) -> Option<u32> {
    match cuda {
        11 => Some(450),
        12 => Some(525),
        13 => Some(580),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_the_names_in_a_provider() {
        let binary =
            b"\x7fELF\0libcublas.so.13\0libcudnn.so.9\0x libcudart.so.\0libcudnn.so.9\0libcufft.so.12a\0";
        assert_eq!(named(binary), ["libcublas.so.13", "libcudnn.so.9"]);
        assert_eq!(cuda_major(&named(binary)), Some(13));
        assert_eq!(
            cuda_major(&named(b"libcudart.so.12\0libcublas.so.13\0")),
            Some(12)
        );
        let loading = b"libcudart.so.12\0libcudart.so.13\0libcublas.so.13\0\x90libcudnnH\x89";
        assert_eq!(
            named(loading),
            ["libcudart.so.13", "libcublas.so.13", "libcudnn.so.9"],
            "the newest of those that it tries, and what it loads by a name of pieces"
        );
        assert_eq!((named(b""), cuda_major(&[])), (vec![], None));
    }

    #[test]
    fn a_library_is_found_where_the_loader_looks_or_said_to_be_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for file in ["searched/liba.so.1", "usual/liba.so.1", "usual/libb.so.1"] {
            std::fs::create_dir_all(at(file).parent().expect("a parent")).expect("made");
            std::fs::write(at(file), b"").expect("written");
        }
        let path = SearchPath {
            searched: vec![at("none"), at("searched")],
            cache: b"\0/opt/lib/libc.so.1\0/opt/lib/libd.so.12\0".to_vec(),
            usual: vec![at("usual")],
        };
        assert_eq!(path.find("liba.so.1"), Found::Loadable(at("searched/liba.so.1")));
        assert_eq!(path.find("libb.so.1"), Found::Elsewhere(at("usual/libb.so.1")));
        assert_eq!(path.find("libc.so.1"), Found::Loadable("libc.so.1".into()));
        assert_eq!(path.find("libd.so.1"), Found::Nowhere);
    }

    #[test]
    fn packages_are_named_by_release() {
        assert!(package("libcudnn.so.9", Some(13)).contains("cudnn9-cuda-13"));
        assert!(package("libcublasLt.so.12", Some(12)).contains("nvidia-cublas-cu12"));
        assert!(package("libcudart.so.13", Some(13)).ends_with("nvidia-cuda-runtime)"));
        assert!(package(DRIVER, None).contains("driver"));
    }
}
