//! TOML that pages show. A graph passes `weir check --quick` and fits the schema. A fragment is added to the complete graph that
//! stands before it on its page, as its reader does, or else to a graph that has what fragments take from.

use serde_json::Value as Json;
use tempfile::TempDir;
use toml::{Table, Value};
use weir::graph::Sources;

use super::pages::{Block, Page, root};
use crate::common::json_schema;

/// Tables that a fragment takes from without a graph on its page, by their names. Each is added where a fragment names it.
const HEADER: &str = r#"
[app]
slo = "10s"

[sources.camera]
uri = "rtsp://10.0.0.7/live"

[sources.north]
uri = "rtsp://10.0.0.8/live"

[sources.south]
uri = "rtsp://10.0.0.9/live"

[models.detector]
model = "embedded:street-detector"

[models.reader]
model = "embedded:plate-reader"

[models.plate-reader]
model = "embedded:plate-reader"

[models.reader-small]
model = "embedded:plate-reader-small"

[models.face-embedder]
model = "embedded:street-faces"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["camera"]

[modules.detect]
operator = "detect"
model = "detector"
inputs = ["camera"]

[modules.plates]
operator = "read-text"
model = "reader"
inputs = ["objects"]
regions = ["plate"]
attribute = "plate"

[modules.identities]
operator = "embed"
model = "face-embedder"
inputs = ["objects"]
regions = ["face"]
attribute = "identity"
vector = true

[modules.tracks]
operator = "track"
inputs = ["objects"]

[transforms.gate]
type = "line"
inputs = ["tracks"]
points = [[0.1, 0.5], [0.9, 0.5]]
"#;

/// Folders of the reader that examples read from.
const FOLDERS: [&str; 4] = ["plates", "gallery", "recordings", "smolvlm"];

/// Files of other kinds, by a key that each must have.
const OTHERS: [(&str, Kind); 8] = [
    ("experiment", Kind::Experiment),
    ("world", Kind::World),
    ("nodes", Kind::Text),
    ("gears", Kind::Text),
    ("layers", Kind::Text),
    ("frame_memory", Kind::Text),
    ("problem", Kind::Text),
    ("tokens", Kind::Text),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Graph,
    Experiment,
    /// A world of experiments, which has sections of the same names as a graph.
    World,
    /// A file that is read as TOML alone.
    Text,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Graphs that are complete by themselves.
    pub(super) graphs: usize,
    /// Fragments of graphs.
    pub(super) fragments: usize,
    /// Experiments and worlds, with their fragments.
    pub(super) experiments: usize,
    /// Files of other kinds.
    pub(super) others: usize,
}

/// Problems of all TOML on a page.
pub(super) fn problems(page: &Page, counts: &mut Counts) -> Vec<String> {
    let mut problems = Vec::new();
    // The complete file before a block, and the same with the fragments between.
    let (mut base, mut added) = (None, Table::new());
    for block in page.blocks().iter().filter(|block| block.language == "toml") {
        let table = match block.text.parse::<Table>() {
            Ok(table) => table,
            Err(error) => {
                problems.push(page.at(block.line, error));
                continue;
            }
        };
        let other = OTHERS.iter().find(|(key, _)| table.contains_key(*key));
        let has_all = ["app", "sources", "sinks"]
            .iter()
            .all(|section| table.contains_key(*section));
        let whole = match other {
            Some((_, kind)) => Some(*kind),
            None => has_all.then_some(Kind::Graph),
        };
        let kind = whole.or(base.as_ref().map(|(kind, _)| *kind));
        *match (kind, whole) {
            (Some(Kind::Text), _) => &mut counts.others,
            (Some(Kind::Experiment | Kind::World), _) => &mut counts.experiments,
            (Some(Kind::Graph), Some(_)) => &mut counts.graphs,
            _ => &mut counts.fragments,
        } += 1;
        let checked = match (whole, &base) {
            (Some(Kind::Text), _) => Ok(()),
            (Some(kind), _) => {
                base = Some((kind, table.clone()));
                added = table;
                check(kind, &added)
            }
            // Fragments of a page may build upon each other, or show alternatives.
            (None, Some((kind, base))) => {
                let alone = check(*kind, &with(base, &table));
                added = with(&added, &table);
                alone.or_else(|alone| check(*kind, &added).map_err(|_| alone))
            }
            (None, None) => {
                let alone = check(Kind::Graph, &complete(&table));
                added = with(&added, &table);
                alone.or_else(|alone| check(Kind::Graph, &complete(&added)).map_err(|_| alone))
            }
        };
        problems.extend(checked.err().map(|problem| page.at(block.line, problem)));
    }
    problems
}

/// A graph with the tables of a fragment, each in the place of the one of its name.
fn with(base: &Table, fragment: &Table) -> Table {
    let mut graph = base.clone();
    for (section, tables) in fragment {
        match (
            graph.get_mut(section).and_then(Value::as_table_mut),
            tables.as_table(),
        ) {
            (Some(section), Some(tables)) => section.extend(tables.clone()),
            _ => {
                graph.insert(section.clone(), tables.clone());
            }
        }
    }
    graph
}

/// A graph with the tables of the header that it names and does not have, and with what every graph must have.
fn complete(table: &Table) -> Table {
    let header: Table = HEADER.parse().unwrap();
    let mut graph = table.clone();
    let mut wanted = Vec::new();
    let has = |graph: &Table, section: &str| {
        let tables = graph.get(section).and_then(Value::as_table);
        tables.is_some_and(|tables| !tables.is_empty())
    };
    for (section, name) in [("app", "slo"), ("sources", "camera"), ("modules", "detect")] {
        if section == "app" || !has(&graph, section) {
            wanted.push((section.to_owned(), name.to_owned()));
        }
    }
    loop {
        let mut named = Vec::new();
        texts(&Value::Table(graph.clone()), &mut named);
        for (section, tables) in &header {
            let names = tables.as_table().unwrap().keys();
            // By its name, or by the attribute that it gives, as in "plate=WR 123".
            let names = names.filter(|name| {
                let attribute = tables
                    .get(name.as_str())
                    .and_then(|table| table.get("attribute"))
                    .and_then(Value::as_str);
                let is_given = |text: &String| {
                    let rest = attribute.and_then(|attribute| text.strip_prefix(attribute));
                    rest.is_some_and(|rest| rest.starts_with(['=', '!']))
                };
                named.contains(name) || named.iter().any(is_given)
            });
            wanted.extend(names.map(|name| (section.clone(), name.clone())));
        }
        let before = graph.clone();
        for (section, name) in wanted.drain(..) {
            // Sources, modules and transforms share their names.
            let is_shared = |section: &str| ["sources", "modules", "transforms"].contains(&section);
            let is_taken = graph.iter().any(|(other, tables)| {
                let tables = tables.as_table().is_some_and(|tables| tables.contains_key(&name));
                tables && (*other == section || is_shared(other) && is_shared(&section))
            });
            if !is_taken {
                let tables = graph
                    .entry(&section)
                    .or_insert_with(|| Value::Table(Table::new()));
                let table = header[section.as_str()][name.as_str()].clone();
                tables.as_table_mut().unwrap().insert(name, table);
            }
        }
        if graph == before {
            return graph;
        }
    }
}

/// All texts of a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Table(table) => table.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

fn check(kind: Kind, table: &Table) -> Result<(), String> {
    let folder = folder_of(table);
    let path = folder.path().join("page/file.toml");
    let text = toml::to_string(table).unwrap();
    std::fs::write(&path, &text).unwrap();
    let zoo = weir::Zoo::in_folder(folder.path()).unwrap();
    let zoo = zoo.with_python(path.parent()).unwrap();
    let catalog = weir::catalog(&zoo);
    // Variables without a default are set. Without the asset pack, traces of experiments are generated.
    let environment = |name: &str| {
        let is_set = name != "WEIR_ASSETS" && !text.contains(&format!("${{{name}:-"));
        is_set.then(|| "value".to_owned())
    };
    let graph = match kind {
        Kind::Graph => weir::graph::load_for(Sources::Own, &path, &catalog, &environment).map(drop),
        Kind::Text => Ok(()),
        Kind::Experiment | Kind::World => {
            let experiment = folder.path().join("page/experiment.toml");
            let by_itself = "[experiment]\nworld = \"file.toml\"\n[arrivals]\nrate = 10\nlength = \"1s\"\n";
            std::fs::write(&experiment, by_itself).unwrap();
            let file = if kind == Kind::World { &experiment } else { &path };
            weir_sim::experiment::load(file, &catalog, &environment, None).map(drop)
        }
    };
    graph.map_err(|error| error.to_string().replace(path.to_str().unwrap(), "graph"))?;
    if kind == Kind::Graph {
        let graph: Json = toml::from_str(&text).unwrap();
        let schema = std::fs::read_to_string(root().join("docs/graph.schema.json")).unwrap();
        let schema: Json = serde_json::from_str(&schema).unwrap();
        json_schema::check(&schema, &schema, &graph)
            .map_err(|reason| format!("the schema refuses it: {reason}"))?;
    }
    Ok(())
}

/// A folder in which the folders of the repository are, and in place of the files and folders of the reader, which have names
/// without a folder, empty ones.
fn folder_of(table: &Table) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("page");
    std::fs::create_dir(&here).unwrap();
    for name in ["apps", "config", "models", "videos", "deploy"] {
        std::os::unix::fs::symlink(root().join(name), here.join(name)).unwrap();
    }
    for name in ["worlds", "profiles"] {
        std::os::unix::fs::symlink(root().join("config").join(name), folder.path().join(name)).unwrap();
    }
    let mut named = Vec::new();
    texts(&Value::Table(table.clone()), &mut named);
    for text in named {
        let text = text
            .rsplit_once(":-")
            .map_or(&*text, |(_, default)| default.trim_end_matches('}'));
        let is_file = text.rsplit_once('.').is_some_and(|(_, extension)| {
            ["onnx", "mp4", "pem", "key", "txt", "jpg", "json"].contains(&extension)
        });
        if is_file && !text.contains(['/', '$', '{']) {
            std::fs::write(here.join(text), "").unwrap();
        }
        if let Some(module) = text
            .strip_prefix("python:")
            .and_then(|name| name.split('.').next())
        {
            std::fs::write(here.join(module).with_extension("py"), "").unwrap();
        }
        if text.ends_with("bin/python3") {
            std::fs::create_dir_all(here.join(text).parent().unwrap()).unwrap();
            std::fs::write(here.join(text), "").unwrap();
        }
        if FOLDERS.contains(&text) {
            std::fs::create_dir_all(here.join(text)).unwrap();
        }
        if text == "plan.toml" {
            std::fs::copy(
                root().join("config/emulated-partitioned.plan.toml"),
                here.join(text),
            )
            .unwrap();
        }
    }
    folder
}

/// Tables of all TOML blocks of a page.
pub(super) fn tables(page: &Page) -> Vec<Table> {
    let blocks = page.blocks();
    let toml = blocks.iter().filter(|block: &&Block| block.language == "toml");
    toml.map(|block| block.text.parse().unwrap()).collect()
}
