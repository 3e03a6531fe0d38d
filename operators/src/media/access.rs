//! Rules for the addresses and formats that FFmpeg may open on behalf of a source: protocols and demuxers by scheme, further
//! addresses that content names (playlists), and redirects. Everything that is not listed is refused.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::{Settings, mask_credentials};

use super::redirect::{self, MAX_REDIRECTS};

/// Schemes of addresses on other machines.
const REMOTE: [&str; 11] = [
    "rtsp", "rtsps", "http", "https", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt", "mmsh",
];

/// Demuxers that refer to nothing outside of their own bytes; those of sound alone, so that the error can say it.
const CONTAINERS: &str = "mov,matroska,avi,mpegts,mpeg,flv,live_flv,asf,asf_o,ogg,nut,h264,hevc,vvc,m4v,mpegvideo,mjpeg,mpjpeg,\
                          ivf,av1,obu,vc1,dirac,dhav,wav,mp3,aac,flac";
/// Rarer ones, of files.
const FILES: &str = "mxf,gxf,wtv,rm,dv,nsv,nuv,pva,h261,h263,mjpeg_2000,smjpeg,dnxhd,avs2,avs3,cavsvideo,vc1test,yuv4mpegpipe,\
                     mpegtsraw";
/// Demuxers of compressed images, each a whole picture.
const IMAGES: &str = "jpeg_pipe,png_pipe,bmp_pipe,webp_pipe,tiff_pipe,j2k_pipe,gif,gif_pipe";
/// Playlists, with the formats of sound and subtitles that their parts may have. Parts are opened under the same list.
const PLAYLISTS: &str = "hls,dash,ac3,eac3,webvtt";

/// Scheme of an address in small letters, if it has one.
pub(super) fn scheme(uri: &str) -> Option<String> {
    uri.split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase())
}

/// True if the scheme of the address is one of sources on other machines.
#[must_use]
pub fn is_remote(uri: &str) -> bool {
    scheme(uri).is_some_and(|scheme| REMOTE.contains(&scheme.as_str()))
}

/// Addresses that content may name.
#[derive(Debug, PartialEq)]
enum Nested {
    Nothing,
    /// Files in this folder and below it.
    Below(PathBuf),
    /// Addresses of web servers.
    Web,
}

/// Addresses that are opened before a source is open: that of the source, and of playlists with some variants their first parts.
const MAX_OPENED: u32 = 128;

/// Rules of one source, and the reason why one of them stopped it.
#[derive(Debug)]
pub(super) struct Access {
    /// The address that is opened first.
    address: String,
    /// FFmpeg's names of protocols, with commas.
    pub(super) protocols: &'static str,
    /// FFmpeg's names of demuxers, with commas.
    pub(super) demuxers: String,
    nested: Nested,
    /// Options of connections to web servers.
    verify: bool,
    ca_file: Option<String>,
    timeout: Duration,
    met: Mutex<Met>,
}

/// Observations while the source is opened.
#[derive(Debug, Default)]
struct Met {
    refusal: Option<String>,
    /// Redirects of a session.
    redirects: u32,
    /// Addresses that were opened.
    opened: u32,
}

impl Access {
    /// Rules of `address`, which FFmpeg is going to open; `local` is the path of a file.
    ///
    /// # Errors
    /// The scheme is none that may be opened.
    pub(super) fn new(
        address: &str,
        local: Option<&Path>,
        options: &Settings,
        timeout: Duration,
    ) -> Result<Self, String> {
        let (protocols, mut demuxers, nested) = if let Some(path) = local {
            local_rules(address, path)?
        } else {
            let scheme = scheme(address).unwrap_or_default();
            remote_rules(&scheme).ok_or_else(|| {
                let known = REMOTE.join("://, ");
                format!(
                    "Weir opens no `{scheme}` addresses, which is not a kind of address for videos: known are files, {known}://"
                )
            })?
        };
        // FFmpeg tells a JPEG by its name first.
        let name = address.rsplit('.').next().unwrap_or_default();
        if nested != Nested::Nothing
            && (name.eq_ignore_ascii_case("jpg") || name.eq_ignore_ascii_case("jpeg"))
        {
            demuxers.push_str(",image2");
        }
        Ok(Self {
            address: address.to_owned(),
            protocols,
            demuxers,
            nested,
            verify: options.flag("tls_verify", true),
            ca_file: options.text("ca_file").map(str::to_owned),
            timeout,
            met: Mutex::default(),
        })
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a rule stopped the source.
    pub(super) fn refusal(&self) -> Option<String> {
        self.met().refusal.clone()
    }

    /// Keeps the reason; the first is the cause of later ones.
    pub(super) fn refuse(&self, reason: String) {
        self.met().refusal.get_or_insert(reason);
    }

    /// Counts an address that FFmpeg opens before the source is open.
    ///
    /// # Errors
    /// The reason, if there are too many: FFmpeg follows playlists that name each other in a circle without an end.
    pub(super) fn count_opening(&self) -> Result<(), String> {
        let mut met = self.met();
        met.opened += 1;
        if met.opened > MAX_OPENED {
            return Err(format!(
                "its playlists name each other in a circle, or more than {MAX_OPENED} addresses before the first picture: name one \
                 that has pictures"
            ));
        }
        Ok(())
    }

    /// Judges an address before it is opened: that of the source, or one that its content names.
    ///
    /// # Errors
    /// The reason, if content names an address that it may not.
    pub(super) fn check(&self, url: &str) -> Result<(), String> {
        if url == self.address {
            return Ok(());
        }
        // Encrypted parts of playlists.
        let inner = url
            .strip_prefix("crypto+")
            .or_else(|| url.strip_prefix("crypto:"))
            .unwrap_or(url);
        let is_allowed = match &self.nested {
            _ if inner.starts_with("data:") && self.nested != Nested::Nothing => true,
            Nested::Nothing => false,
            Nested::Web => matches!(scheme(inner).as_deref(), Some("http" | "https")),
            Nested::Below(folder) => {
                let path = inner.strip_prefix("file:").unwrap_or(inner);
                std::fs::canonicalize(path).is_ok_and(|path| path.starts_with(folder))
            }
        };
        if is_allowed {
            return Ok(());
        }
        let (shown, rule) = (
            mask_credentials(url),
            match self.nested {
                Nested::Nothing => "no further addresses are opened for it",
                Nested::Below(_) => "only files of its own folder are opened for it",
                Nested::Web => "only http:// and https:// are opened for it",
            },
        );
        Err(format!("its content names {shown}, which is not opened: {rule}"))
    }

    /// Whether redirects of the session show in the address of FFmpeg's context.
    pub(super) fn is_session(&self) -> bool {
        matches!(scheme(&self.address).as_deref(), Some("rtsp" | "rtsps"))
    }

    /// Judges a redirect of a session. Returns whether the source is refused.
    pub(super) fn on_session_redirect(&self, url: &str) -> bool {
        let mut met = self.met();
        met.redirects += 1;
        if met.refusal.is_none() {
            let checked = if met.redirects > MAX_REDIRECTS {
                Err(redirect::too_many())
            } else {
                redirect::check(&self.address, url)
            };
            met.refusal = checked.err();
        }
        met.refusal.is_some()
    }

    /// Options of a connection that is about to be opened: FFmpeg follows no redirects by itself, and verifies certificates.
    pub(super) fn options_of(&self, url: &str) -> Vec<(&'static str, String)> {
        let inner = url.strip_prefix("crypto+").unwrap_or(url);
        let mut options = Vec::new();
        if matches!(scheme(inner).as_deref(), Some("http" | "https")) {
            options.push(("max_redirects", "0".to_owned()));
            options.push(("tls_verify", u8::from(self.verify).to_string()));
            if let Some(ca_file) = &self.ca_file {
                options.push(("ca_file", ca_file.clone()));
            }
        }
        options
    }

    /// Why content of the address is no video, by what its web server calls it; `None` where that says nothing.
    pub(super) fn content_problem(&self) -> Option<String> {
        if !matches!(scheme(&self.address).as_deref(), Some("http" | "https")) {
            return None;
        }
        let kind = redirect::content_type(&self.address, self.verify, self.ca_file.as_deref(), self.timeout)?;
        content_problem(&kind)
    }

    /// Value of the header `Authorization` for an address whose web server refused FFmpeg; `None` if FFmpeg knows the answer itself, or
    /// there is none.
    pub(super) fn authorization(&self, url: &str) -> Option<String> {
        match redirect::login(url, self.verify, self.ca_file.as_deref(), self.timeout) {
            Ok(login) => login
                .filter(|login| login.is_unknown_to_ffmpeg)
                .map(|login| login.authorization),
            Err(names) => {
                if !names.is_empty() {
                    self.refuse(format!(
                        "401 Unauthorized: its server offers {names} to log in, and Weir knows Digest by SHA-256 or MD5, and Basic: \
                         choose one of them in its settings"
                    ));
                }
                None
            }
        }
    }

    /// The address that a web server sends `url` on to; `None` where it does not. `redirects` counts those before.
    ///
    /// # Errors
    /// The reason, if that redirect is not followed.
    pub(super) fn redirected(&self, url: &str, redirects: u32) -> Result<Option<String>, String> {
        let Some(next) = redirect::location(url, self.verify, self.ca_file.as_deref(), self.timeout) else {
            return Ok(None);
        };
        if redirects >= MAX_REDIRECTS {
            return Err(redirect::too_many());
        }
        redirect::check(url, &next)?;
        Ok(Some(redirect::with_credentials(url, next)))
    }
}

fn content_problem(kind: &str) -> Option<String> {
    let is_text = kind.starts_with("text/") || kind.ends_with("json") || kind.ends_with("xml");
    if kind.starts_with("multipart/") {
        Some(format!(
            "its server announces pictures one after the other ({kind}) and sends something else: check the path, the user and \
             the password"
        ))
    } else if is_text && !kind.contains("mpegurl") && !kind.contains("dash") {
        Some(format!(
            "its server sends {kind}, which is no video and may be a page to log in at: check the path, the user and the password"
        ))
    } else {
        None
    }
}

/// Protocols, demuxers and nested addresses of a scheme.
fn remote_rules(scheme: &str) -> Option<(&'static str, String, Nested)> {
    let plain = |protocols| Some((protocols, CONTAINERS.to_owned(), Nested::Nothing));
    match scheme {
        "rtsp" => Some(("tcp,udp,rtp,srtp", "rtsp".to_owned(), Nested::Nothing)),
        "rtsps" => Some(("tls,tcp,udp,rtp,srtp", "rtsp".to_owned(), Nested::Nothing)),
        "rtp" => Some(("rtp,udp,srtp", "rtp".to_owned(), Nested::Nothing)),
        "http" | "https" => Some((
            "http,https,tls,tcp,httpproxy,crypto,data",
            format!("{CONTAINERS},{IMAGES},{PLAYLISTS}"),
            Nested::Web,
        )),
        "rtmp" => plain("rtmp,tcp"),
        "rtmps" => plain("rtmps,tls,tcp"),
        "udp" => plain("udp"),
        "tcp" => plain("tcp"),
        "srt" => plain("srt"),
        "mmsh" => plain("mmsh,http,tcp"),
        _ => None,
    }
}

fn local_rules(address: &str, path: &Path) -> Result<(&'static str, String, Nested), String> {
    if address.starts_with("pipe:") {
        return Ok(("pipe,fd", CONTAINERS.to_owned(), Nested::Nothing));
    }
    if !path.exists() {
        return Err(
            "there is no such file, and Weir opens no such kind of address: check the path".to_owned(),
        );
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = std::fs::canonicalize(folder.unwrap_or(Path::new(".")));
    let demuxers = format!("{CONTAINERS},{FILES},{IMAGES},{PLAYLISTS}");
    let nested = folder.map_or(Nested::Nothing, Nested::Below);
    Ok(("file,crypto,data", demuxers, nested))
}

/// Demuxers of a named pipe, whose content names no further addresses.
pub(super) fn pipe_demuxers() -> String {
    format!("{CONTAINERS},{FILES},{IMAGES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: &str, local: Option<&Path>) -> Result<Access, String> {
        Access::new(address, local, &Settings::default(), Duration::from_secs(1))
    }

    #[test]
    fn content_names_only_addresses_that_its_scheme_allows() {
        let web = access("http://cam/live.m3u8", None).unwrap();
        for url in [
            "http://cam/live.m3u8",
            "https://cdn/1.ts",
            "HTTP://cdn/1.ts",
            "crypto+http://cam/1.ts",
            "data:text/plain,x",
        ] {
            assert_eq!(web.check(url), Ok(()), "{url}");
        }
        for url in [
            "file:///etc/passwd",
            "/etc/passwd",
            "crypto:/etc/passwd",
            "crypto+file:///etc/passwd",
            "concat:http://a/1|http://a/2",
            "tcp://10.0.0.1:22",
            "subfile,,start,0,end,9,,:http://cam/1",
            "hls+http://cam/1.m3u8",
            "ftp://cam/1",
            "",
        ] {
            let refused = web.check(url).unwrap_err();
            assert!(refused.contains("not opened"), "{refused}");
        }
        let raw = access("tcp://cam:1", None).unwrap();
        for url in ["tcp://cam:2", "data:x", "http://cam/1", "/etc/passwd"] {
            assert!(raw.check(url).is_err(), "{url}");
        }
    }

    #[test]
    fn playlists_on_disk_name_only_files_of_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("list/parts")).unwrap();
        for name in ["secret.ts", "list/a.m3u8", "list/parts/1.ts"] {
            std::fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(at("secret.ts"), at("list/link.ts")).unwrap();
        let list = at("list/a.m3u8");
        let access = access(&format!("file:{}", list.display()), Some(&list)).unwrap();
        assert_eq!(access.check(at("list/parts/1.ts").to_str().unwrap()), Ok(()));
        let by_scheme = format!("crypto:file:{}", at("list/parts/1.ts").display());
        assert_eq!(access.check(&by_scheme), Ok(()));
        for name in ["list/../secret.ts", "secret.ts", "list/link.ts", "list/none.ts"] {
            assert!(access.check(at(name).to_str().unwrap()).is_err(), "{name}");
        }
        assert!(access.check("http://host/1.ts").is_err());
    }

    #[test]
    fn formats_that_draw_or_name_anything_are_on_no_list() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let addresses =
            REMOTE.map(|scheme| access(&format!("{scheme}://host/x.txt"), None).unwrap().demuxers);
        let local = access("file:x", Some(file.path())).unwrap().demuxers;
        for list in addresses.into_iter().chain([local, pipe_demuxers()]) {
            for name in [
                "tty", "ansi", "bin", "xbin", "adf", "idf", "rawvideo", "concat", "sdp", "image2", "lavfi",
                "svg_pipe",
            ] {
                assert!(list.split(',').all(|listed| listed != name), "{name}");
            }
        }
        for scheme in ["tcp", "udp", "srt", "rtsp", "rtp"] {
            let list = access(&format!("{scheme}://host/x.jpg"), None).unwrap().demuxers;
            assert!(!list.contains("hls") && !list.contains("dash") && !list.contains("image2"));
        }
    }

    #[test]
    fn content_that_is_no_video_is_named() {
        for (kind, part) in [
            ("text/html", "log in"),
            ("application/json", "log in"),
            ("multipart/x-mixed-replace", "announces pictures"),
        ] {
            assert!(content_problem(kind).unwrap().contains(part), "{kind}");
        }
        for kind in [
            "video/mp2t",
            "application/vnd.apple.mpegurl",
            "application/dash+xml",
            "application/octet-stream",
        ] {
            assert_eq!(content_problem(kind), None, "{kind}");
        }
    }

    #[test]
    fn other_schemes_are_refused() {
        for uri in [
            "ftp://h/x",
            "sftp://h/x",
            "gopher://h/x",
            "concat://a|b",
            "crypto+file:///x",
            "async:file:///x",
            "hls+http://x",
            "unix:///run/x",
            "tls://h:1",
            "cache:http://h/x",
            "nonsense://camera",
            "://",
        ] {
            assert!(access(uri, None).is_err(), "{uri}");
        }
        let missing = Path::new("concat:a.ts|b.ts");
        assert!(access("concat:a.ts|b.ts", Some(missing)).is_err());
        assert!(is_remote("RTSP://camera/1") && is_remote("Http://h"));
    }

    #[test]
    fn sessions_move_within_their_host_at_most_five_times() {
        let moved = |urls: &[&str]| {
            let access = access("rtsp://u:p@cam/1", None).unwrap();
            for url in urls {
                access.on_session_redirect(url);
            }
            access.refusal()
        };
        assert_eq!(moved(&["rtsp://CAM:8554/2", "rtsps://cam/3"]), None);
        for url in ["rtsp://other/1", "rtsp://cam@other/1", "/1", "http://cam/1"] {
            assert!(moved(&[url]).is_some(), "{url}");
        }
        assert_eq!(moved(&["rtsp://cam/1"; 5]), None);
        assert!(moved(&["rtsp://cam/1"; 6]).unwrap().contains("more than 5"));
    }
}
