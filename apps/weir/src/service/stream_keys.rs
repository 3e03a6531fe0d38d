//! Streams and changes of streams by the keys that clients send, which are those of `[sources.NAME]`.

use toml::Table;
use weir_config::ConfigError;
use weir_graph::SourceNode;
use weir_runtime::StreamChange;
use weir_serve::{ApiError, FrameRate, StreamPatch, StreamRequest};

use super::Service;
use super::refusals::{invalid, refused_text};
use crate::catalog;
use crate::lock::lock;

impl Service {
    /// A stream by the keys of `[sources.NAME]`, with those that the graph gives to all.
    pub(super) fn parse_added(&self, name: &str, keys: Table) -> Result<SourceNode, ApiError> {
        let text = sources_text(name, keys);
        let nodes = match lock(&self.loaded).as_ref() {
            Some(loaded) => {
                let catalog = catalog::catalog(&self.zoo);
                loaded.graph.parse_streams(&text, &self.graph, &catalog)
            }
            None => weir_graph::parse_streams(&text, &self.graph),
        };
        only_node(nodes)
    }

    /// The stream of a request, by the rules of a graph file, with the keys that the request has.
    pub(super) fn source_node(&self, request: &StreamRequest) -> Result<(SourceNode, Table), ApiError> {
        let mut keys = Table::try_from(request).map_err(|error| invalid(error.to_string()))?;
        keys.remove("name");
        keys.remove("like");
        if let Some(FrameRate::PerSecond(sample)) = request.sample {
            // A graph file has a rate with its unit.
            keys.insert("sample".to_owned(), format!("{sample}fps").into());
        }
        check_no_variables(&keys)?;
        if let Some(file) = &request.password_file {
            // Before the text is read, which would tell whether there is such a file.
            self.check_password_file(file)?;
        }
        let node = self.parse_added(&request.name, keys.clone())?;
        self.check_allowed(&node)?;
        Ok((node, keys))
    }

    /// The change of a stream that a client sent.
    pub(super) fn stream_change(&self, name: &str, patch: &StreamPatch) -> Result<StreamChange, ApiError> {
        // Read as in a graph file, in which a source has an address.
        let mut keys = Table::from_iter([("uri".to_owned(), "emulated:uniform?rate=1".into())]);
        let (slo, reserve) = (patch.slo.clone().flatten(), patch.reserve.flatten());
        keys.extend(slo.map(|slo| ("slo".to_owned(), slo.into())));
        keys.extend(patch.weight.map(|weight| ("weight".to_owned(), weight.into())));
        keys.extend(reserve.map(|reserve| ("reserve".to_owned(), reserve.into())));
        check_no_variables(&keys)?;
        let node = only_node(weir_graph::parse_streams(&sources_text(name, keys), &self.graph))?;
        Ok(StreamChange {
            slo: patch.slo.as_ref().map(|_| node.slo),
            weight: patch.weight.map(|_| node.share.weight),
            reserve: patch.reserve.map(|_| node.share.reserve),
            groups: None,
        })
    }
}

/// The first use of a variable in a text of a client.
fn variable_in(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('$') {
        if after.starts_with('{') {
            let end = after.find('}').map_or(after.len(), |at| at + 1);
            return after.get(..end);
        }
        rest = after.strip_prefix('$').unwrap_or(after);
    }
    None
}

/// Refuses texts with variables: they are those of the engine, and the graph's file would look them up.
///
/// # Errors
/// The first one.
pub(super) fn check_no_variables(keys: &Table) -> Result<(), ApiError> {
    let texts = keys
        .iter()
        .filter_map(|(key, value)| Some((key, value.as_str()?)));
    let mut variables = texts.filter_map(|(key, text)| Some((key, variable_in(text)?)));
    let Some((key, variable)) = variables.next() else {
        return Ok(());
    };
    let what = format!("`{key}` has the variable ${variable}, and none is looked up in what clients send");
    Err(invalid(what).hint("write $$ for a dollar sign, and variables in the graph's file"))
}

/// A text with the table of one stream.
fn sources_text(name: &str, keys: Table) -> String {
    let sources = Table::from_iter([(name.to_owned(), keys.into())]);
    Table::from_iter([("sources".to_owned(), sources.into())]).to_string()
}

/// The stream of a text with one.
fn only_node(nodes: Result<Vec<SourceNode>, ConfigError>) -> Result<SourceNode, ApiError> {
    let nodes = nodes.map_err(|problems| refused_text(&problems))?;
    let node = nodes.into_iter().next();
    node.ok_or_else(|| invalid("the body describes no stream"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::Zoo;

    #[test]
    fn keys_of_requests_are_read_by_the_rules_of_a_graph() {
        let folder = tempfile::tempdir().unwrap();
        let zoo = Zoo::in_folder(folder.path()).unwrap();
        let service = Service::new(&folder.path().join("graph.toml"), false, zoo).unwrap();
        let request = r#"{"name": "gate", "uri": "rtsp://camera/stream", "fps": 25, "sample": 5}"#;
        let node = service.source_node(&serde_json::from_str(request).unwrap());
        let Ok((node, _)) = node else {
            panic!("it is refused")
        };
        assert_eq!((node.fps, node.sample), (Some(25.0), Some(5.0)));
        let request = r#"{"name": "gate", "uri": "RTSP://camera/stream", "sample": "5fps", "transport": "udp", "decoder": "cpu"}"#;
        let node = service.source_node(&serde_json::from_str(request).unwrap());
        let Ok((node, _)) = node else {
            panic!("it is refused")
        };
        assert_eq!((node.sample, &*node.uri), (Some(5.0), "rtsp://camera/stream"));
        for name in [".", "..", "...", "", "a/b", "%2e"] {
            let request = serde_json::json!({ "name": name, "uri": "rtsp://camera/stream" });
            let refused = service.source_node(&serde_json::from_value(request).unwrap());
            assert!(refused.is_err(), "{name}");
        }
        // Files that the graph does not name are refused, whether they are there or not.
        let with_file = |file: Option<&str>| {
            let request = serde_json::json!({ "name": "gate", "uri": "rtsp://camera/stream", "user": "admin", "password_file": file });
            service.source_node(&serde_json::from_value(request).unwrap())
        };
        std::fs::write(folder.path().join("secret.txt"), "x").unwrap();
        for file in ["secret.txt", "/etc/passwd", "missing.txt"] {
            assert!(with_file(Some(file)).is_err(), "{file}");
        }
        let Ok((node, _)) = with_file(None) else {
            panic!("it is refused")
        };
        assert_eq!(node.connection.login.unwrap().user, "admin");
    }

    #[test]
    fn variables_in_texts_of_clients_are_found() {
        for (text, expected) in [
            ("rtsp://camera/1", None),
            ("rtsp://u:p$$x@camera/$1", None),
            ("$${HOME}", None),
            ("rtsp://${HOME}/1", Some("{HOME}")),
            ("a$$${HOME:-x}b", Some("{HOME:-x}")),
            ("${HOME", Some("{HOME")),
        ] {
            assert_eq!(variable_in(text), expected, "{text}");
        }
    }
}
