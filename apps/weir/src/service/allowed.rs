//! Rules for the sources that clients may name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weir_graph::{EmulatedLoad, EmulatedStream, Graph, SourceNode, StreamPlaces};
use weir_serve::{ApiError, Refusal};

/// Addresses that clients may name: those of cameras and servers. Others lead FFmpeg to files of this machine.
const SCHEMES: [&str; 10] = [
    "rtsp", "rtsps", "rtmp", "rtmps", "http", "https", "rtp", "udp", "tcp", "srt",
];

const NAME_A_FILE: &str = "name a file in the folder of the graph, or add its folder to `stream_folders` of [app] in the graph's file; weir \
                           serve --allow-any-source allows any";
const NAME_A_CAMERA: &str = "name a camera or a server, or a file in the folder of the graph; weir serve --allow-any-source allows any";

/// Places that the graph in force allows for the sources of clients: the hosts of its own sources and of its `stream_hosts` (any
/// where it has no such key), the folder of its file and its `stream_folders`.
#[derive(Debug, Default)]
pub(super) struct AllowedPlaces {
    own_hosts: BTreeSet<String>,
    places: StreamPlaces,
    folder: PathBuf,
    password_files: BTreeSet<PathBuf>,
}

impl AllowedPlaces {
    /// Those of a graph and its file.
    pub(super) fn of(graph: &Graph, file: &Path) -> Self {
        let uris = graph.sources().iter().flat_map(SourceNode::uris);
        Self {
            own_hosts: uris.filter_map(weir_flow::host).collect(),
            places: graph.stream_places().clone(),
            folder: file.parent().map(Path::to_owned).unwrap_or_default(),
            password_files: graph.password_files().into_iter().map(Path::to_owned).collect(),
        }
    }

    /// Judges a file with a password that a client names: the graph must name it itself, since its contents are sent to the camera.
    ///
    /// # Errors
    /// The graph does not.
    pub(super) fn check_password_file(&self, file: &str) -> Result<(), ApiError> {
        let path = std::path::absolute(self.folder.join(file));
        if path.is_ok_and(|path| self.password_files.contains(&path)) {
            return Ok(());
        }
        let hint = "name a `password_file` of a source or of [defaults] in the graph's file; weir serve --allow-any-source allows any";
        let what = "`password_file` is not one that clients may name";
        Err(ApiError::new(Refusal::Forbidden, what).hint(hint))
    }

    /// Judges where a password of the graph would be sent.
    ///
    /// # Errors
    /// To a host that the graph does not name.
    fn check_login(&self, node: &SourceNode) -> Result<(), ApiError> {
        let login = node.connection.login.as_ref();
        if login.is_none_or(|login| login.password_file.is_none()) {
            return Ok(());
        }
        let mut hosts = node.contacted().filter_map(weir_flow::host);
        let Some(host) = hosts.find(|host| !self.own_hosts.contains(host) && !self.places.names_host(host))
        else {
            return Ok(());
        };
        let what = format!(
            "{} would have a password of the graph sent to \"{host}\", which the graph does not name",
            node.name
        );
        let hint = format!(
            "add \"{host}\", or the network of the cameras, to `stream_hosts` of [app] in the graph's file, or write another user and \
             password into the address"
        );
        Err(ApiError::new(Refusal::Forbidden, what).hint(hint))
    }

    /// Judges the source of a stream.
    ///
    /// # Errors
    /// Clients may not name it.
    pub(super) fn check_node(&self, node: &SourceNode) -> Result<(), ApiError> {
        let Some(refused) = node.contacted().find_map(|uri| self.check(uri).err()) else {
            return self.check_login(node);
        };
        let host = refused.host.map_or_else(String::new, |host| {
            format!(": the graph allows no streams of the host \"{host}\"")
        });
        let what = format!(
            "the source of {} is not one that clients may name{host}",
            node.name
        );
        Err(ApiError::new(Refusal::Forbidden, what).hint(refused.hint))
    }

    /// Judges a source that a client names: a camera or a server, or a file.
    ///
    /// # Errors
    /// A source that clients may not name, with the remedy.
    fn check(&self, uri: &str) -> Result<(), Refused> {
        let refused = |hint: &str| Refused {
            host: None,
            hint: hint.to_owned(),
        };
        if uri.starts_with(EmulatedStream::SCHEME) {
            return match EmulatedStream::parse(uri).map(|stream| stream.load) {
                Ok(EmulatedLoad::Constant { .. }) => Ok(()),
                Ok(EmulatedLoad::Trace { file, .. }) if self.has_file(&file) => Ok(()),
                _ => Err(refused(NAME_A_FILE)),
            };
        }
        let Some((scheme, rest)) = uri.split_once("://") else {
            let has_it = self.has_file(Path::new(uri));
            return has_it.then_some(()).ok_or_else(|| refused(NAME_A_FILE));
        };
        let is_known = SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
        if !is_known || listens(rest) {
            return Err(refused(NAME_A_CAMERA));
        }
        let host = weir_flow::host(uri).unwrap_or_default();
        if self.places.allows_host(&host) || self.own_hosts.contains(&host) {
            return Ok(());
        }
        Err(Refused {
            hint: format!(
                "add \"{host}\", or the network of the cameras, to `stream_hosts` of [app] in the graph's file; weir serve \
                 --allow-any-source allows any"
            ),
            host: Some(host),
        })
    }

    fn has_file(&self, file: &Path) -> bool {
        let mut folders =
            std::iter::once(self.folder.as_path()).chain(self.places.folders().iter().map(PathBuf::as_path));
        folders.any(|folder| is_in_folder(file, folder))
    }
}

/// The reason why a client may not name a source.
#[derive(Debug)]
struct Refused {
    /// A host that the graph does not allow.
    host: Option<String>,
    hint: String,
}

/// True if the query of an address asks FFmpeg to wait for connections rather than to connect.
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

/// True if a file, with all links followed, is in the folder or below it.
fn is_in_folder(file: &Path, folder: &Path) -> bool {
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => file.is_file() && file.starts_with(folder),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::zoo::Zoo;

    /// A graph with the folder of its file, and files in it and outside of it.
    struct Place {
        folder: tempfile::TempDir,
        file: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("graphs/graph.toml");
            for name in ["graphs", "videos", "other"] {
                std::fs::create_dir(folder.path().join(name)).unwrap();
                std::fs::write(folder.path().join(name).join("clip.mp4"), "").unwrap();
            }
            let link = folder.path().join("graphs/link.mp4");
            std::os::unix::fs::symlink(folder.path().join("other/clip.mp4"), link).unwrap();
            Self { folder, file }
        }

        fn path(&self, name: &str) -> String {
            self.folder.path().join(name).display().to_string()
        }

        fn graph(&self, app: &str) -> Graph {
            let text = format!(
                r#"
                [app]
                slo = "1s"
                {app}
                [sources.own]
                uri = "rtsp://u:p@Gate.lan:554/1"
                [models.m]
                device = "emulated:a"
                profile = {{ "1" = "1ms" }}
                [modules.one]
                operator = "emulate"
                model = "m"
                inputs = ["own"]
                [sinks.out]
                type = "null"
                inputs = ["one"]
                "#
            );
            let zoo = Zoo::new(&Settings::load(None, &mut std::iter::empty()).unwrap()).unwrap();
            weir_graph::parse(&text, &self.file, &crate::catalog::catalog(&zoo), &|_| None).unwrap()
        }

        fn is_allowed(&self, uri: &str, app: &str) -> bool {
            AllowedPlaces::of(&self.graph(app), &self.file).check(uri).is_ok()
        }
    }

    #[test]
    fn clients_name_files_of_the_folders_that_the_graph_allows() {
        let place = Place::new();
        let trace = |file: &str| format!("emulated:trace?file={file}");
        let videos = "stream_folders = [\"../videos\"]";
        for (uri, app, is_allowed) in [
            ("emulated:uniform?rate=10".to_owned(), "", true),
            (place.path("graphs/clip.mp4"), "", true),
            (trace(&place.path("graphs/clip.mp4")), "", true),
            (place.path("videos/clip.mp4"), "", false),
            (place.path("videos/clip.mp4"), videos, true),
            (trace(&place.path("videos/clip.mp4")), videos, true),
            (place.path("other/clip.mp4"), videos, false),
            (place.path("graphs/link.mp4"), "", false),
            (trace(&place.path("other/clip.mp4")), "", false),
            (place.path("graphs/../other/clip.mp4"), "", false),
            (place.path("graphs"), "", false),
            (format!("file://{}", place.path("graphs/clip.mp4")), "", false),
            ("/dev/video0".to_owned(), "", false),
        ] {
            assert_eq!(place.is_allowed(&uri, app), is_allowed, "{uri} with {app}");
        }
    }

    #[test]
    fn passwords_of_the_graph_go_only_to_hosts_that_it_names() {
        let place = Place::new();
        for name in ["graphs/password", "other/password"] {
            std::fs::write(place.path(name), "secret").unwrap();
        }
        let own =
            "stream_hosts = [\"10.0.7.0/24\"]\n[defaults]\nuser = \"admin\"\npassword_file = \"password\"";
        let anywhere = own.split_once('\n').unwrap().1;
        let judged = |uri: &str, app: &str| {
            let graph = place.graph(app);
            let text = format!("[sources.new]\nuri = \"{uri}\"");
            let zoo = Zoo::new(&Settings::load(None, &mut std::iter::empty()).unwrap()).unwrap();
            let nodes = graph
                .parse_streams(&text, &place.file, &crate::catalog::catalog(&zoo))
                .unwrap();
            AllowedPlaces::of(&graph, &place.file)
                .check_node(&nodes[0])
                .is_ok()
        };
        for (uri, app, is_allowed) in [
            ("rtsp://10.0.7.9/1", own, true),
            ("rtsp://gate.lan/2", anywhere, true),
            ("rtsp://elsewhere/1", anywhere, false),
            ("rtsp://u:p@elsewhere/1", anywhere, true),
            ("udp://elsewhere:5000", anywhere, true),
        ] {
            assert_eq!(judged(uri, app), is_allowed, "{uri} with {app}");
        }
        let places = AllowedPlaces::of(&place.graph(own), &place.file);
        for (file, is_allowed) in [
            ("password".to_owned(), true),
            (place.path("graphs/password"), true),
            (place.path("other/password"), false),
            ("../other/password".to_owned(), false),
            ("clip.mp4".to_owned(), false),
            ("missing".to_owned(), false),
        ] {
            assert_eq!(places.check_password_file(&file).is_ok(), is_allowed, "{file}");
        }
    }

    #[test]
    fn clients_name_cameras_of_the_hosts_that_the_graph_allows() {
        let place = Place::new();
        let (none, hosts) = (
            "stream_hosts = []",
            "stream_hosts = [\"10.0.7.0/24\", \"*.cameras.lan\"]",
        );
        for (uri, app, is_allowed) in [
            ("rtsp://anywhere/1", "", true),
            ("rtsp://gate.lan/2", none, true),
            ("RTSP://x:y@GATE.lan:8554/2?a=b", none, true),
            ("rtsp://10.0.7.9/1", hosts, true),
            ("HTTPS://a.cameras.lan/live.m3u8?mode=hd", hosts, true),
            ("srt://10.0.7.1:9000?mode=caller", hosts, true),
            ("rtsp://gate.lan/2", hosts, true),
            ("rtsp://10.0.7.9/1", none, false),
            ("http://169.254.169.254/latest", hosts, false),
            ("http://localhost:7400/api/state", hosts, false),
            ("rtsp://gate.lan@other/1", hosts, false),
            ("rtsp://other/x@gate.lan", hosts, false),
            ("rtsp://other?@gate.lan/1", hosts, false),
            ("rtsp://other#@gate.lan/1", hosts, false),
            ("http:///x", hosts, false),
            ("subfile,,start,0,end,0,,://gate.lan/x", hosts, false),
            ("concat://gate.lan|b", hosts, false),
            ("tcp://10.0.7.9:9000?listen=1", hosts, false),
            ("rtsp://10.0.7.9:9000/x?tcp&listen", hosts, false),
            ("srt://10.0.7.9:9000?mode=listener", hosts, false),
        ] {
            assert_eq!(place.is_allowed(uri, app), is_allowed, "{uri} with {app}");
        }
    }
}
