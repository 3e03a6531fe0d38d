//! Which sources clients may name.

use std::path::Path;

use weir_graph::{EmulatedLoad, EmulatedStream};

/// Addresses that clients may name: those of cameras and servers. Others lead FFmpeg to files of this machine.
const SCHEMES: [&str; 10] = [
    "rtsp", "rtsps", "rtmp", "rtmps", "http", "https", "rtp", "udp", "tcp", "srt",
];

/// Whether a client may name that source: a camera or a server, or a file in the folder of the graph.
pub(super) fn is_allowed(uri: &str, graph: &Path) -> bool {
    if uri.starts_with(EmulatedStream::SCHEME) {
        let stream = EmulatedStream::parse(uri).map(|stream| stream.load);
        return match stream {
            Ok(EmulatedLoad::Constant { .. }) => true,
            Ok(EmulatedLoad::Trace { file, .. }) => is_in_folder(&file, graph),
            Err(_) => false,
        };
    }
    match uri.split_once("://") {
        Some((scheme, rest)) => {
            SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) && !listens(rest)
        }
        None => is_in_folder(Path::new(uri), graph),
    }
}

/// Whether the query of an address asks FFmpeg to wait for connections rather than to connect.
fn listens(address: &str) -> bool {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    query.split(['&', '?', '#']).any(|option| {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        key.eq_ignore_ascii_case("listen")
            || key.eq_ignore_ascii_case("mode")
                && ["listener", "rendezvous"]
                    .iter()
                    .any(|mode| value.eq_ignore_ascii_case(mode))
    })
}

/// Whether a file, with all links followed, is in the folder of the graph or below it.
fn is_in_folder(file: &Path, graph: &Path) -> bool {
    let folder = graph.parent().and_then(|folder| folder.canonicalize().ok());
    match (file.canonicalize(), folder) {
        (Ok(file), Some(folder)) => file.is_file() && file.starts_with(folder),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_name_cameras_and_files_of_the_graph_s_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (graph, outside) = (
            folder.path().join("graphs/graph.toml"),
            folder.path().join("secret.mp4"),
        );
        let inside = folder.path().join("graphs/clip.mp4");
        let link = folder.path().join("graphs/link.mp4");
        std::fs::create_dir(folder.path().join("graphs")).unwrap();
        std::fs::write(&inside, "").unwrap();
        std::fs::write(&outside, "").unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let trace = |file: &Path| format!("emulated:trace?file={}", file.display());
        let text = |path: &Path| path.display().to_string();
        for allowed in [
            "rtsp://camera/stream".to_owned(),
            "HTTPS://server/live.m3u8?mode=hd".to_owned(),
            "srt://server:9000?mode=caller".to_owned(),
            "emulated:uniform?rate=10".to_owned(),
            text(&inside),
            trace(&inside),
        ] {
            assert!(is_allowed(&allowed, &graph), "{allowed}");
        }
        for other in [
            text(&outside),
            text(&link),
            trace(&outside),
            text(&folder.path().join("graphs/../secret.mp4")),
            format!("file://{}", text(&inside)),
            "subfile,,start,0,end,0,,://x".to_owned(),
            "concat://a|b".to_owned(),
            "tcp://0.0.0.0:9000?listen=1".to_owned(),
            "rtsp://0.0.0.0:9000/x?tcp&listen".to_owned(),
            "srt://:9000?mode=listener".to_owned(),
            "/dev/video0".to_owned(),
            text(folder.path()),
        ] {
            assert!(!is_allowed(&other, &graph), "{other}");
        }
    }
}
