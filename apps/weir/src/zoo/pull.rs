//! Brings a model into the cache: from the mirror where there is one, else from its publisher. What comes is held
//! against size and sha256 before it gets its name.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_files::io_reason;

use super::verified::{wrong_size, wrong_sum};
use super::{Entry, Origin, Zoo, sha256};
use crate::error::{UserError, request_reason, write_error};

/// Tries of one download: a network that fails three times running will not mend by itself.
const MAX_TRIES: u32 = 3;
/// For the connection, and for the first byte of an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// For a whole file: 4 MiB at 14 kB/s.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Result of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pulled {
    pub(crate) path: PathBuf,
    pub(crate) source: PullSource,
}

/// Way in which a model came into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullSource {
    /// It was there.
    Kept,
    Copied,
    Fetched,
}

impl Zoo {
    /// Brings a model into the cache, unless a good copy is there.
    ///
    /// # Errors
    /// [`UserError`] where the name, the mirror or the cache is at fault; other errors where the network is.
    pub(crate) fn pull(&self, name: &str) -> anyhow::Result<Pulled> {
        let entry = self.entry(name)?;
        let path = self.cache.join(&entry.file);
        if let Ok(bytes) = weir_files::read(&path, entry.bytes)
            && mismatch(&bytes, entry).is_none()
        {
            return Ok(Pulled {
                path,
                source: PullSource::Kept,
            });
        }
        let (bytes, source) = match &self.mirror {
            Some(mirror) => (copy(name, entry, mirror)?, PullSource::Copied),
            None => (fetch(name, entry)?, PullSource::Fetched),
        };
        write_whole(&bytes, &path)?;
        Ok(Pulled { path, source })
    }
}

/// The reason why the bytes are not the model; `None` if they are.
fn mismatch(bytes: &[u8], entry: &Entry) -> Option<String> {
    if bytes.len() as u64 != entry.bytes {
        return Some(wrong_size(bytes.len() as u64, entry));
    }
    let sum = sha256(bytes);
    (sum != entry.sha256).then(|| wrong_sum(&sum, entry))
}

fn copy(name: &str, entry: &Entry, mirror: &Path) -> anyhow::Result<Vec<u8>> {
    let file = mirror.join(&entry.file);
    let no = |reason: &str| UserError::new(format!("zoo:{name}: the mirror's {} {reason}", file.display()));
    let length = std::fs::metadata(&file)
        .map_err(|error| no(&format!("cannot be read: {}", io_reason(&error))))?
        .len();
    if length > entry.bytes {
        return Err(no(&format!("is not the model: {}", wrong_size(length, entry))).into());
    }
    let bytes =
        weir_files::read(&file, entry.bytes).map_err(|error| no(&format!("cannot be read: {error}")))?;
    match mismatch(&bytes, entry) {
        Some(mismatch) => Err(no(&format!("is not the model: {mismatch}")).into()),
        None => Ok(bytes),
    }
}

fn fetch(name: &str, entry: &Entry) -> anyhow::Result<Vec<u8>> {
    let url = match &entry.origin {
        Origin::Url(url) => url,
        Origin::Weights(origin) => {
            let what = format!("zoo:{name} is published as weights only ({origin})");
            let file = &entry.file;
            return Err(
                UserError::new(format!("{what}; set WEIR_MODEL_MIRROR to a folder with {file}")).into(),
            );
        }
    };
    let mut tries = 1;
    let bytes = loop {
        match download(name, url, entry.bytes) {
            Ok(bytes) => break bytes,
            Err(error) if tries < MAX_TRIES && is_transient(&error) => {
                tracing::warn!(%error, tries, "download of zoo:{name} failed, trying again");
                tries += 1;
            }
            Err(error) => {
                let hint = "set WEIR_MODEL_MIRROR to a folder that has it if this machine is offline";
                let reason = request_reason(&error);
                anyhow::bail!("cannot fetch zoo:{name} from {url}: {reason}; {hint}");
            }
        }
    };
    match mismatch(&bytes, entry) {
        Some(mismatch) => anyhow::bail!("{url} is not the model zoo:{name} any more: {mismatch}"),
        None => Ok(bytes),
    }
}

/// One download, of at most one byte more than expected.
fn download(name: &str, url: &str, expected: u64) -> Result<Vec<u8>, ureq::Error> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(DOWNLOAD_TIMEOUT))
        .build()
        .into();
    let mut response = agent.get(url).call()?;
    let bar = weir_terminal::progress::bytes(name, expected);
    let mut bytes = Vec::new();
    let body = response.body_mut().with_config().limit(u64::MAX).reader();
    bar.wrap_read(body.take(expected + 1)).read_to_end(&mut bytes)?;
    bar.finish_and_clear();
    Ok(bytes)
}

/// True if another try may succeed: the network failed, or the server answered 429 or 5xx.
fn is_transient(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::StatusCode(code) => *code >= 500 || *code == 429,
        ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed => true,
        _ => false,
    }
}

/// Writes the file under another name first: what has the name is whole. The process is in the name, so that two pulls
/// at a time do not write into each other.
fn write_whole(bytes: &[u8], path: &Path) -> anyhow::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&part, bytes))
        .and_then(|()| std::fs::rename(&part, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&part);
        write_error(path.display(), &error).into()
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    const MODEL: &[u8] = b"not much of a model";

    /// A zoo of one model, whose publisher is `url`.
    fn zoo(url: &str, cache: &Path, mirror: Option<&Path>) -> Zoo {
        let sum = sha256(MODEL);
        let text = format!(
            "[tiny]\nabout = \"tiny\"\nurl = \"{url}\"\nfile = \"tiny.onnx\"\nbytes = {}\nsha256 = \"{sum}\"\n\
             licence = \"MIT\"\n\
             [rare]\nabout = \"rare\"\nsource = \"mirror\"\norigin = \"https://example.org/rare.pth\"\n\
             file = \"rare.onnx\"\nbytes = 1\nsha256 = \"{sum}\"\nlicence = \"MIT\"\n",
            MODEL.len()
        );
        Zoo::parse(&text, cache.to_owned(), mirror.map(Path::to_owned)).unwrap()
    }

    /// Answers as many connections as there are answers, each with a whole response.
    fn serve(answers: Vec<(&'static str, Vec<u8>)>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/tiny.onnx", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
                while request
                    .next()
                    .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
                {}
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(&body))
                    .ok();
            }
        });
        url
    }

    #[test]
    fn a_mirror_is_copied_from_and_then_not_read_again() {
        let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(mirror.path().join("tiny.onnx"), MODEL).unwrap();
        let zoo = zoo(
            "https://example.org",
            &cache.path().join("deep"),
            Some(mirror.path()),
        );
        assert_eq!(zoo.resolve("tiny").unwrap(), mirror.path().join("tiny.onnx"));
        assert_eq!(zoo.pull("tiny").unwrap().source, PullSource::Copied);
        assert_eq!(zoo.pull("tiny").unwrap().source, PullSource::Kept);
        assert_eq!(zoo.resolve("tiny").unwrap(), cache.path().join("deep/tiny.onnx"));
        let files: Vec<_> = std::fs::read_dir(cache.path().join("deep")).unwrap().collect();
        assert_eq!(
            files.len(),
            2,
            "nothing but the model and the list of what was verified is left"
        );
    }

    #[test]
    fn what_is_not_the_model_is_refused() {
        let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let zoo = zoo("https://example.org", cache.path(), Some(mirror.path()));
        let check = |content: Option<&[u8]>, part: &str| {
            if let Some(content) = content {
                std::fs::write(mirror.path().join("tiny.onnx"), content).unwrap();
            }
            let error = zoo.pull("tiny").unwrap_err();
            assert!(error.is::<UserError>());
            assert!(error.to_string().contains(part), "{error}");
            assert!(!cache.path().join("tiny.onnx").exists());
        };
        check(None, "cannot be read");
        check(Some(b"NOT much of a model"), "its sha256 is");
        check(Some(b"short"), "it has 5 bytes where 19 are expected");
        check(Some(b"much too long to be the model"), "is not the model");
    }

    #[test]
    fn a_damaged_copy_in_the_cache_is_pulled_again() {
        let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(mirror.path().join("tiny.onnx"), MODEL).unwrap();
        std::fs::write(cache.path().join("tiny.onnx"), b"NOT much of a model").unwrap();
        let zoo = zoo("https://example.org", cache.path(), Some(mirror.path()));
        assert_eq!(zoo.pull("tiny").unwrap().source, PullSource::Copied);
        assert_eq!(std::fs::read(cache.path().join("tiny.onnx")).unwrap(), MODEL);
    }

    #[test]
    fn a_download_is_tried_again_and_verified() {
        let cache = tempfile::tempdir().unwrap();
        let url = serve(vec![("503 Busy", Vec::new()), ("200 OK", MODEL.to_vec())]);
        assert_eq!(
            zoo(&url, cache.path(), None).pull("tiny").unwrap().source,
            PullSource::Fetched
        );
        assert_eq!(std::fs::read(cache.path().join("tiny.onnx")).unwrap(), MODEL);

        let other = tempfile::tempdir().unwrap();
        let check = |answer, part: &str| {
            let zoo = zoo(&serve(vec![answer]), other.path(), None);
            let error = format!("{:#}", zoo.pull("tiny").unwrap_err());
            assert!(error.contains(part), "{error}");
            assert!(!other.path().join("tiny.onnx").exists());
        };
        check(("404 Gone", Vec::new()), "404");
        check(("200 OK", b"NOT much of a model".to_vec()), "its sha256 is");
        check(
            ("200 OK", vec![0; 1 << 20]),
            "it has 20 bytes where 19 are expected",
        );
    }

    #[test]
    fn weights_only_need_a_mirror() {
        let cache = tempfile::tempdir().unwrap();
        let error = zoo("https://example.org", cache.path(), None)
            .pull("rare")
            .unwrap_err();
        assert!(error.is::<UserError>());
        assert!(
            error
                .to_string()
                .contains("set WEIR_MODEL_MIRROR to a folder with rare.onnx"),
            "{error}"
        );
    }
}
