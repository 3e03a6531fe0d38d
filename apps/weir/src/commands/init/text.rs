//! The text of the graph that `weir init` writes.

use std::path::{Path, PathBuf};

use weir_flow::{SourceInfo, SourceLogin, mask_credentials};
use weir_graph::keys::{APP, MODEL, SOURCE, SectionKey};

use crate::error::UserError;
use crate::graph_text::{one_line, quoted};

/// The graph, with `@NAMES@` in the place of what depends on the source.
const GRAPH: &str = include_str!("graph.toml");
/// A detector of the zoo for pictures of any kind, which is taken where it was pulled.
pub(super) const PUBLIC_MODEL: &str = "yolox-nano";
/// Names that the graph has beside that of the stream.
const TAKEN: [&str; 8] = [
    "objects", "tracks", "area", "events", "video", "home", "alarm", "clips",
];
/// Name of a stream that is called after nothing.
const STREAM: &str = "camera";

/// Inputs for the text of the graph.
pub(super) struct Setup<'a> {
    /// Address of the source, where one was named.
    pub(super) uri: Option<&'a str>,
    /// User of the source, and the file with the password.
    pub(super) login: Option<&'a SourceLogin>,
    /// Properties of the source, from its first picture; `None` without a source.
    pub(super) seen: Option<&'a SourceInfo>,
    /// A detector of the user's own.
    pub(super) model: Option<&'a Path>,
    /// Path that the graph will be written to; relative paths in the graph start from its folder.
    pub(super) out: &'a Path,
    /// Folder for files of sinks; `None`: that of the graph.
    pub(super) data: Option<&'a Path>,
    /// True if [`PUBLIC_MODEL`] is on this machine.
    pub(super) has_public_model: bool,
}

/// The text of the graph, with comments and with suggestions that are commented out.
///
/// # Errors
/// A [`UserError`] where the folder of the source cannot be found out.
pub(super) fn graph(setup: &Setup<'_>) -> Result<String, UserError> {
    let stream = stream_name(setup);
    let (model, remark) = if let Some(file) = setup.model {
        let remark = "Its head and class names are read from the file. If the file has no class names, add\n# labels = [\"a\", \"b\"], \
                      or labels = [\"coco\"] for the 80 classes of COCO."
            .to_owned();
        (quoted(&address(&file.display().to_string(), setup.out)?), remark)
    } else if setup.has_public_model {
        let remark = "Of the zoo, for pictures of any kind; `weir models list` shows others.".to_owned();
        (quoted(&format!("zoo:{PUBLIC_MODEL}")), remark)
    } else {
        let remark = format!(
            "This one ships with the program and was trained on rendered streets: for real pictures\n# run \
             `weir models pull {PUBLIC_MODEL}`, and set model = \"zoo:{PUBLIC_MODEL}\"."
        );
        (quoted("embedded:street-detector"), remark)
    };
    let file = if setup.out.as_os_str() == "-" {
        "graph.toml".to_owned()
    } else {
        one_line(&setup.out.display().to_string())
    };
    let clip = setup
        .uri
        .map_or("CLIP".to_owned(), |uri| one_line(&mask_credentials(uri)));
    let places = [
        ("@SEEN@", one_line(&seen(setup))),
        ("@FILE@", file),
        ("@SLO@", slo(setup.seen).to_owned()),
        ("@SOURCE@", source_table(setup, &stream)?),
        ("@ABOUT_SLO@", sentence(APP, "slo")),
        ("@ABOUT_BATCH@", sentence(MODEL, "batch")),
        ("@MODEL_REMARK@", remark),
        ("@MODEL@", model),
        ("@STREAM@", stream),
        ("@CLIP@", clip),
        ("@DATA@", data_prefix(setup.data)?),
    ];
    // One after the other, so that what is put in is not looked at again.
    let mut text = String::new();
    let mut rest = GRAPH;
    while let Some(at) = rest.find('@') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = places.iter().find(|(name, _)| rest.starts_with(*name));
        let (name, value) = named.map_or(("@", "@"), |(name, value)| (*name, value.as_str()));
        text.push_str(value);
        rest = &rest[name.len()..];
    }
    Ok(text + rest)
}

/// Properties of the source in a line: `street.mp4, 640 x 360, h264, 25 frames a second`.
pub(super) fn seen(setup: &Setup<'_>) -> String {
    let (Some(uri), Some(info)) = (setup.uri, setup.seen) else {
        return "streams are added while `weir serve` runs".to_owned();
    };
    let mut parts = vec![
        mask_credentials(uri).into_owned(),
        format!("{} x {}", info.width, info.height),
    ];
    parts.extend(info.codec.map(str::to_owned));
    match info.fps {
        Some(fps) if info.codec.is_some() => parts.push(format!("{} frames a second", rounded(fps))),
        Some(_) | None => {}
    }
    parts.extend(info.frames.map(|frames| format!("{frames} frames")));
    parts.join(", ")
}

/// At ten frames a second or less there is time enough for the next.
fn slo(seen: Option<&SourceInfo>) -> &'static str {
    match seen.and_then(|info| info.fps) {
        Some(fps) if fps <= 10.0 => "1s",
        _ => "400ms",
    }
}

fn source_table(setup: &Setup<'_>, stream: &str) -> Result<String, UserError> {
    let (Some(uri), Some(info)) = (setup.uri, setup.seen) else {
        return Ok(format!(
            "# Stands for streams that are added to `weir serve`: weir streams add NAME rtsp://camera/live\n\
             [sources.{stream}]\ntemplate = true\n"
        ));
    };
    let scheme = uri
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_rtsp = matches!(scheme.as_deref(), Some("rtsp" | "rtsps"));
    let uri_text = if has_variables(uri) {
        toml::Value::String(uri.to_owned()).to_string()
    } else {
        quoted(&address(uri, setup.out)?)
    };
    let mut lines = vec![format!("[sources.{stream}]"), format!("uri = {uri_text}")];
    if let Some(SourceLogin { user, password_file }) = setup.login {
        lines.push(format!("user = {}", quoted(user)));
        if let Some(file) = password_file {
            let file = address(&file.display().to_string(), setup.out)?;
            lines.push(format!("password_file = {}", quoted(&file)));
        }
    }
    let mut suggest = |key: &str, value: &str, remark: &str| {
        let about = sentence(SOURCE, key);
        lines.extend([format!("# {about}{remark}"), format!("#{key} = {value}")]);
    };
    if is_rtsp {
        let remark = " Most cameras have one: its frames cost less to decode.";
        suggest("detect_uri", "\"rtsp://camera/second\"", remark);
        let remark = " Pictures come sooner by udp, and are lost on a bad link.";
        suggest("transport", "\"udp\"", remark);
    }
    if !info.live && info.codec.is_some() {
        suggest("mode", "\"lossless\"", "");
        suggest("loop", "true", "");
    }
    if info.codec.is_some() && info.fps.is_none_or(|fps| fps > 5.0) {
        let remark = " Five a second are enough to follow people.";
        suggest("sample", "\"5fps\"", remark);
    }
    Ok(lines.join("\n") + "\n")
}

/// Meaning and default of a key by its row, as the reference has them.
fn sentence(section: &[SectionKey], name: &str) -> String {
    let key = section.iter().find(|key| key.name == name);
    key.map(SectionKey::sentence).unwrap_or_default()
}

/// True if an address contains variables: `rtsp://${CAMERA_USER}:${CAMERA_PASSWORD}@camera/stream`.
pub(super) fn has_variables(uri: &str) -> bool {
    uri.contains("://") && uri.contains("${")
}

/// True if an address has credentials other than those in variables.
pub(super) fn is_secret(uri: &str) -> bool {
    let mut plain = String::new();
    let mut rest = uri;
    while let Some((before, after)) = rest.split_once("${") {
        plain.push_str(before);
        match after.split_once('}') {
            // A default stands in the text.
            Some((name, more)) if !name.contains(':') => rest = more,
            _ => return true,
        }
    }
    plain.push_str(rest);
    let plain = plain.replace("://:@", "://").replace("://@", "://");
    mask_credentials(&plain) != plain
}

/// The folder as it stands before names of files, within a TOML string.
fn data_prefix(folder: Option<&Path>) -> Result<String, UserError> {
    let Some(folder) = folder else {
        return Ok(String::new());
    };
    let absolute = std::path::absolute(folder);
    let absolute = absolute.map_err(|error| UserError::new(format!("{}: {error}", folder.display())))?;
    let text = absolute.join("").display().to_string();
    let is_plain = |c: char| !c.is_control() && !"\"\\$@{}".contains(c);
    if text.chars().all(is_plain) {
        return Ok(text);
    }
    let reason =
        "a folder for data has no control characters, quotes, backslashes, dollar or at signs, nor braces";
    Err(UserError::new(format!("{}: {reason}", folder.display())))
}

/// The address as it is found from the folder of the graph.
fn address(uri: &str, out: &Path) -> Result<String, UserError> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if uri.contains("://") || Path::new(uri).is_absolute() || folder.is_none() {
        return Ok(uri.to_owned());
    }
    let (scheme, path) = match uri.strip_prefix("file:") {
        Some(path) => ("file:", path),
        None => ("", uri),
    };
    let absolute: PathBuf =
        std::path::absolute(path).map_err(|error| UserError::new(format!("{uri}: {error}")))?;
    Ok(format!("{scheme}{}", absolute.display()))
}

/// A name for the stream, after its file; letters, digits, `-` and `_`.
fn stream_name(setup: &Setup<'_>) -> String {
    let local = setup
        .uri
        .filter(|uri| !uri.contains("://") && !uri.starts_with("/dev/"));
    let stem = local.and_then(|uri| Path::new(uri).file_stem()?.to_str());
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = stem.unwrap_or(STREAM).chars().map(plain).take(60).collect();
    if TAKEN.contains(&name.as_str()) || !name.contains(|c: char| c.is_ascii_alphanumeric()) {
        return STREAM.to_owned();
    }
    name
}

/// To a hundredth, without what says nothing.
fn rounded(fps: f64) -> f64 {
    (fps * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_names_the_file_of_the_password() {
        let login = SourceLogin {
            user: "ad$min".to_owned(),
            password_file: Some(PathBuf::from("secret.txt")),
        };
        let setup = Setup {
            uri: Some("rtsp://camera/live"),
            login: Some(&login),
            seen: Some(&SourceInfo::default()),
            model: None,
            out: Path::new("graph.toml"),
            data: None,
            has_public_model: false,
        };
        let text = graph(&setup).unwrap();
        let read: toml::Table = text.parse().unwrap();
        let source = &read["sources"][STREAM];
        assert_eq!(source["user"].as_str(), Some("ad$$min"));
        assert_eq!(source["password_file"].as_str(), Some("secret.txt"));
        assert!(text.contains("uri = \"rtsp://camera/live\"\nuser"), "{text}");
    }

    #[test]
    fn comments_of_keys_are_those_of_their_rows() {
        let seen = SourceInfo {
            live: false,
            codec: Some("h264"),
            ..SourceInfo::default()
        };
        let setup = Setup {
            uri: Some("street.mp4"),
            login: None,
            seen: Some(&seen),
            model: None,
            out: Path::new("graph.toml"),
            data: None,
            has_public_model: false,
        };
        let text = graph(&setup).unwrap();
        for (section, key, line) in [
            (APP, "slo", "\nslo = "),
            (MODEL, "batch", "\nbatch = "),
            (SOURCE, "mode", "\n#mode = "),
            (SOURCE, "loop", "\n#loop = "),
            (SOURCE, "sample", "\n#sample = "),
        ] {
            let (before, _) = text.split_once(line).unwrap();
            let comment = before.rsplit('\n').next().unwrap();
            let about = sentence(section, key);
            assert!(comment.starts_with(&format!("# {about}")), "{key}: {comment}");
        }
    }

    #[test]
    fn credentials_from_variables_are_no_secret_of_the_file() {
        let secrets = [
            ("rtsp://camera/live", false),
            ("rtsp://${USER}:${PASSWORD}@camera/live", false),
            ("rtsp://${USER}@camera/live", false),
            ("rtsp://ada:${PASSWORD}@camera/live", true),
            ("rtsp://ada:secret@camera/live", true),
            ("rtsp://${USER:-ada}:${PASSWORD:-secret}@camera/live", true),
            ("rtsp://${USER@camera/live", true),
        ];
        for (uri, expected) in secrets {
            assert_eq!(is_secret(uri), expected, "{uri}");
        }
        assert!(has_variables(secrets[1].0) && !has_variables("a ${b}.mp4"));
    }
}
