//! Keys of the graph file that clients may change. Other keys can name any file, address or program of the machine, and need
//! `--allow-any-source`.

use toml::de::DeTable;
use toml::{Table, Value};
use weir_graph::keys::{APP, CAMERA, MODULE, Mark, SINK, SOURCE, is_marked};

/// A change that a client may not make.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Byte offset into the new text.
    pub(super) at: usize,
    pub(super) message: String,
}

/// Tables and keys that clients may change, with all that is in them. Other keys are open by the marks of their rows.
const OPEN: [&[&str]; 5] = [
    &["transforms"],
    &["policy"],
    &["defaults", "schedule"],
    &["defaults", "timezone"],
    &["defaults", "tracker"],
];

/// Tables of streams.
const STREAMS: [&str; 2] = ["cameras", "sources"];

/// Difference of two texts at one key.
struct Difference {
    path: Vec<String>,
    new: Option<Value>,
}

/// Changes between two texts that a client may not make; `None` where one of them is not TOML. `may_name` judges files with
/// passwords.
pub(super) fn refused(before: &str, after: &str, may_name: &dyn Fn(&str) -> bool) -> Option<Vec<Refused>> {
    let old: Table = before.parse().ok()?;
    let new: Table = after.parse().ok()?;
    let mut found = Vec::new();
    differences(&old, &new, &mut Vec::new(), &mut found);
    let refused = found.iter().filter_map(|difference| {
        let reason = judge(difference, (&old, &new), may_name).err()?;
        let path = difference.path.as_slice();
        let table: Vec<&str> = path.iter().take(2).map(String::as_str).collect();
        // A table that is new is named once.
        let is_new = table_at(&old, &table).is_none() && table_at(&new, &table).is_some();
        let path = if is_new { &path[..table.len()] } else { path };
        Some(Refused {
            at: position(after, path),
            message: format!("`{}` {reason}", path.join(".")),
        })
    });
    let mut refused: Vec<Refused> = refused.collect();
    refused.dedup();
    Some(refused)
}

fn judge(
    Difference { path, new }: &Difference,
    (before, after): (&Table, &Table),
    may_name: &dyn Fn(&str) -> bool,
) -> Result<(), &'static str> {
    const CLOSED: &str = "can name any file, address or program, so clients of this engine may not change it";
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if !is_open(&path, before, after) {
        return Err(CLOSED);
    }
    let Some(new) = new else { return Ok(()) };
    if new.to_string().contains("${") {
        return Err("has a variable, which only the file's owner may write");
    }
    match path.as_slice() {
        [_, _, "password_file"] if !new.as_str().is_some_and(may_name) => {
            Err("is not a file that clients may name")
        }
        [table, name, "uri" | "detect_uri"] if STREAMS.contains(table) => {
            let is_bound = [before, after]
                .iter()
                .any(|text| table_at(text, &[table, name]).is_some_and(|keys| keys.contains_key("options")));
            if is_bound {
                Err(
                    "cannot be changed by clients beside `options`, which may hold a secret for the old address",
                )
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

fn is_open(path: &[&str], before: &Table, after: &Table) -> bool {
    if OPEN.iter().any(|open| path.starts_with(open)) {
        return true;
    }
    let is_track = |text: &Table, name: &str| {
        table_at(text, &["modules", name])
            .map(|keys| keys.get("operator").and_then(Value::as_str) == Some("track"))
    };
    match path {
        ["app", key, ..] => is_marked(APP, key, Mark::Clients),
        // A stream may be removed as a whole. Its addresses are judged as those of streams that clients add.
        [table, name, key, ..] if STREAMS.contains(table) => {
            let is_of_clients = [SOURCE, CAMERA]
                .iter()
                .any(|keys| is_marked(keys, key, Mark::Clients));
            is_of_clients || table_at(after, &[table, name]).is_none()
        }
        [table, _] if STREAMS.contains(table) => true,
        ["modules", name, ..] if is_track(after, name).or(is_track(before, name)) == Some(true) => {
            is_track(before, name) != Some(false)
        }
        [table @ ("modules" | "sinks"), name, key, ..] => {
            let keys = if *table == "sinks" { SINK } else { MODULE };
            is_marked(keys, key, Mark::Clients) && table_at(before, &[table, name]).is_some()
        }
        _ => false,
    }
}

fn table_at<'t>(text: &'t Table, path: &[&str]) -> Option<&'t Table> {
    path.iter()
        .try_fold(text, |table, name| table.get(*name)?.as_table())
}

/// Keys whose values differ. A table that only one text has differs in each of its keys.
fn differences(old: &Table, new: &Table, path: &mut Vec<String>, found: &mut Vec<Difference>) {
    let nothing = Table::new();
    let added = new.keys().filter(|key| !old.contains_key(*key));
    for key in old.keys().chain(added) {
        path.push(key.clone());
        let (before, after) = (old.get(key), new.get(key));
        let is_table = |value: Option<&Value>| value.is_none_or(Value::is_table);
        if is_table(before) && is_table(after) {
            let inner = |value: Option<&'_ Value>| value.and_then(Value::as_table).cloned();
            let (before, after) = (inner(before), inner(after));
            let is_empty = |table: &Option<Table>| table.as_ref().is_none_or(Table::is_empty);
            if before != after && is_empty(&before) && is_empty(&after) {
                let new = after.clone().map(Value::Table);
                found.push(Difference {
                    path: path.clone(),
                    new,
                });
            }
            let (before, after) = (before.as_ref(), after.as_ref());
            differences(before.unwrap_or(&nothing), after.unwrap_or(&nothing), path, found);
        } else if before != after {
            let new = after.cloned();
            found.push(Difference {
                path: path.clone(),
                new,
            });
        }
        path.pop();
    }
}

/// Byte offset of a key, or of the table around it that the text has.
pub(super) fn position(text: &str, path: &[impl AsRef<str>]) -> usize {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut at = 0;
    let mut table = Some(document.get_ref());
    for name in path {
        let Some((key, value)) = table.and_then(|table| table.get_key_value(name.as_ref())) else {
            break;
        };
        at = key.span().start;
        table = value.get_ref().as_table();
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = r#"
        [app]
        slo = "1s"
        [cameras.door]
        uri = "rtsp://10.0.0.7/1"
        privacy = { blur = ["person"] }
        [cameras.yard]
        uri = "rtsp://10.0.0.8/1"
        options = { headers = "secret" }
        [models.m]
        model = "m.onnx"
        [modules.detect]
        operator = "detect"
        inputs = ["*"]
        [sinks.hook]
        type = "webhook"
        url = "https://hook/"
        inputs = ["detect"]
    "#;

    fn refused_by(from: &str, to: &str) -> Vec<Refused> {
        let edited = GRAPH.replacen(from, to, 1);
        assert_ne!(edited, GRAPH, "{from}");
        refused(GRAPH, &edited, &|file| file == "known").unwrap()
    }

    #[test]
    fn clients_change_zones_rules_addresses_and_connections() {
        for (from, to) in [
            (
                "[cameras.yard]",
                "zones.porch = [[0, 0], [1, 0], [1, 1]]\n[cameras.yard]",
            ),
            (
                "[models.m]",
                "[cameras.new]\nuri = \"rtsp://10.0.0.9/1\"\nignore = [[0, 0], [1, 0], [1, 1]]\n[models.m]",
            ),
            ("10.0.0.7", "10.0.0.9"),
            (
                "slo = \"1s\"",
                "slo = \"2s\"\n[transforms.gate]\ntype = \"line\"\npoints = [[0, 0], [1, 1]]",
            ),
            ("inputs = [\"detect\"]", "inputs = [\"detect\", \"door.porch\"]"),
            (
                "[modules.detect]",
                "[modules.tracks]\noperator = \"track\"\ninputs = [\"detect\"]\n[modules.detect]",
            ),
            (
                "privacy =",
                "user = \"admin\"\npassword_file = \"known\"\nprivacy =",
            ),
            (
                "[cameras.door]\n        uri = \"rtsp://10.0.0.7/1\"\n        privacy = { blur = [\"person\"] }",
                "",
            ),
        ] {
            assert_eq!(refused_by(from, to), [], "{from} by {to}");
        }
    }

    #[test]
    fn clients_change_nothing_that_names_files_addresses_or_programs() {
        for (from, to) in [
            ("m.onnx", "/etc/passwd"),
            ("https://hook/", "https://elsewhere/"),
            (
                "[models.m]",
                "[sinks.new]\ntype = \"jsonl\"\npath = \"x.jsonl\"\ninputs = [\"detect\"]\n[models.m]",
            ),
            ("[models.m]", "[sinks.new]\n[models.m]"),
            ("operator = \"detect\"", "operator = \"python:mine.py\""),
            ("operator = \"detect\"", "operator = \"track\""),
            ("slo = \"1s\"", "slo = \"1s\"\nstream_hosts = [\"*\"]"),
            ("slo = \"1s\"", "slo = \"1s\"\nname = \"${HOME}\""),
            ("10.0.0.7", "${HOME}"),
            ("10.0.0.8", "elsewhere"),
            ("privacy = { blur = [\"person\"] }", ""),
            ("blur = [\"person\"]", "blur = []"),
            ("privacy =", "password_file = \"/etc/passwd\"\nprivacy ="),
            ("privacy =", "options = { x = \"y\" }\nprivacy ="),
        ] {
            assert!(!refused_by(from, to).is_empty(), "{from} by {to}");
        }
        assert_eq!(refused(GRAPH, "[", &|_| true), None);
    }

    #[test]
    fn refusals_are_at_the_line_of_the_key() {
        let refused = refused_by("https://hook/", "https://elsewhere/");
        let edited = GRAPH.replace("https://hook/", "https://elsewhere/");
        assert!(edited[refused[0].at..].starts_with("url ="));
        assert!(
            refused[0].message.starts_with("`sinks.hook.url` can name"),
            "{refused:?}"
        );
    }
}
