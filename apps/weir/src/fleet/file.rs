//! The file of a fleet: its nodes, the same on all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_config::{ConfigError, Diagnostics, Entry, Fields, absolute, parse, read_text, spelling};
use weir_fabric::{Endpoint, Kind, MAX_NAME_BYTES, is_name};
use weir_policy::fleet::FleetSpec;

const TABLES: [&str; 3] = ["fleet", "nodes", "spread"];
const FLEET_KEYS: [&str; 2] = ["certificates", "name"];
const NODE_KEYS: [&str; 3] = ["address", "capacity", "kind"];
const SPREAD_KEYS: [&str; 7] = [
    "calm",
    "dwell",
    "overloaded",
    "patience",
    "redirect",
    "room",
    "settle",
];
/// Nodes of a fleet at most: each is connected to each.
const MAX_NODES: usize = 1_000;

/// Contents of a fleet file, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FleetFile {
    pub(super) name: String,
    /// Folder with the certificates of the authority and the nodes.
    pub(super) certificates: Option<PathBuf>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) spread: FleetSpec,
}

/// A node of a fleet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Engine or worker; [`Kind::Engine`] by default.
    pub(super) kind: Kind,
    pub(super) address: Endpoint,
    /// Frames a second that it can serve in time; `None`: measured.
    pub(super) capacity: Option<f64>,
}

impl FleetFile {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// All that is wrong with it, each with its line.
    pub(super) fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path).map_err(|reason| {
            let hint = "give a TOML file with the tables [fleet] and [nodes.NAME]".to_owned();
            ConfigError::for_file(path, format!("cannot be read: {reason}"), Some(hint))
        })?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut diagnostics = Diagnostics::new(path, text);
        let environment = |name: &str| std::env::var(name).ok();
        let document = parse(text, &environment, &mut diagnostics);
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = whole.parent().unwrap_or(&whole);
        let mut file = Self {
            name: String::new(),
            certificates: None,
            nodes: BTreeMap::new(),
            spread: FleetSpec::default(),
        };
        let mut has_fleet = false;
        for entry in &document {
            match entry.name.as_str() {
                "fleet" => {
                    has_fleet = true;
                    file.read_fleet(entry, folder, &mut diagnostics);
                }
                "nodes" => file.read_nodes(entry, &mut diagnostics),
                "spread" => file.read_spread(entry, &mut diagnostics),
                other => {
                    let hint = spelling::hint(other, "tables", TABLES);
                    diagnostics.add(entry.at, format!("a fleet has no table \"{other}\""), hint);
                }
            }
        }
        if !has_fleet {
            let hint = "add [fleet] with name = \"...\"".to_owned();
            diagnostics.add_if_parsed(0, "the fleet has no name", Some(hint));
        }
        if file.nodes.is_empty() {
            let hint = "add [nodes.NAME] with address = \"HOST:PORT\" for each engine".to_owned();
            diagnostics.add_if_parsed(0, "the fleet has no nodes", Some(hint));
        }
        diagnostics.finish()?;
        Ok(file)
    }

    fn read_fleet(&mut self, entry: &Entry, folder: &Path, diagnostics: &mut Diagnostics) {
        let Some(mut fields) = Fields::open("[fleet]".to_owned(), entry, diagnostics) else {
            return;
        };
        fields.expect(&FLEET_KEYS, false, diagnostics);
        let name = fields.text("name", diagnostics);
        if name.is_absent() {
            diagnostics.add_if_parsed(fields.at, "[fleet] has no `name`", None);
        }
        if let Some(name) = name.given() {
            check_name(&name.value, name.at, diagnostics);
            self.name.clone_from(&name.value);
        }
        let certificates = fields.text("certificates", diagnostics).into_value();
        self.certificates = certificates.map(|path| absolute(folder, &path));
    }

    fn read_nodes(&mut self, entry: &Entry, diagnostics: &mut Diagnostics) {
        let weir_config::Content::Table(nodes) = &entry.node.content else {
            diagnostics.add(entry.at, "`nodes` must be tables [nodes.NAME]", None);
            return;
        };
        for entry in nodes {
            check_name(&entry.name, entry.at, diagnostics);
            let owner = format!("node \"{}\"", entry.name);
            let Some(mut fields) = Fields::open(owner.clone(), entry, diagnostics) else {
                continue;
            };
            fields.expect(&NODE_KEYS, false, diagnostics);
            let kind = kind(&fields, diagnostics);
            let capacity = fields.positive("capacity", diagnostics).into_value();
            let address = fields.text("address", diagnostics);
            if address.is_absent() {
                diagnostics.add_if_parsed(entry.at, format!("{owner} has no `address`"), None);
            }
            let Some(address) = address.given() else { continue };
            match address.value.parse::<Endpoint>() {
                Ok(address) => {
                    let node = Node {
                        kind,
                        address,
                        capacity,
                    };
                    self.nodes.insert(entry.name.clone(), node);
                }
                Err(error) => diagnostics.add(address.at, error.to_string(), None),
            }
        }
        if self.nodes.len() > MAX_NODES {
            let message = format!("{} nodes are more than {MAX_NODES}", self.nodes.len());
            diagnostics.add(entry.at, message, Some("make several fleets".to_owned()));
        }
    }

    fn read_spread(&mut self, entry: &Entry, diagnostics: &mut Diagnostics) {
        let Some(mut fields) = Fields::open("[spread]".to_owned(), entry, diagnostics) else {
            return;
        };
        fields.expect(&SPREAD_KEYS, false, diagnostics);
        let spread = &mut self.spread;
        for (name, value) in [
            ("settle", &mut spread.settle),
            ("patience", &mut spread.patience),
            ("dwell", &mut spread.dwell),
        ] {
            if let Some(given) = fields.span(name, diagnostics).into_value() {
                *value = given;
            }
        }
        for (name, value) in [
            ("overloaded", &mut spread.overloaded),
            ("room", &mut spread.room),
            ("calm", &mut spread.calm),
        ] {
            let given = fields.positive(name, diagnostics);
            let Some(given) = given.given() else { continue };
            if given.value <= 1.0 {
                *value = given.value;
            } else {
                diagnostics.add(given.at, format!("`{name}` is a part, 1 at most"), None);
            }
        }
        if let Some(redirect) = fields.flag("redirect", diagnostics).into_value() {
            spread.redirect = redirect;
        }
    }
}

/// Reads the kind of a node: an engine, unless `kind` is `"worker"`.
fn kind(fields: &Fields<'_>, diagnostics: &mut Diagnostics) -> Kind {
    match fields.text("kind", diagnostics).given() {
        None => Kind::Engine,
        Some(given) => match given.value.as_str() {
            "engine" => Kind::Engine,
            "worker" => Kind::Worker,
            other => {
                let message = format!("`kind`: \"{other}\" is neither \"engine\" nor \"worker\"");
                diagnostics.add(given.at, message, None);
                Kind::Engine
            }
        },
    }
}

fn check_name(name: &str, at: usize, diagnostics: &mut Diagnostics) {
    if !is_name(name) {
        let hint = format!(
            "take up to {MAX_NAME_BYTES} letters, digits, \"-\", \"_\" and \".\", with a letter or digit first"
        );
        diagnostics.add(
            at,
            format!("\"{name}\" cannot be a name of a fleet or a node"),
            Some(hint),
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use weir_types::Span;

    use super::*;

    const TEXT: &str = r#"
[fleet]
name = "site"
certificates = "keys"

[nodes.north]
address = "10.0.0.1:7447"
capacity = 120

[nodes.south]
address = "south.example:7447"

[nodes.gpu-1]
kind = "worker"
address = "10.0.0.3:7447"

[spread]
settle = "1s"
redirect = false
"#;

    fn parse(text: &str) -> Result<FleetFile, ConfigError> {
        FleetFile::parse(text, Path::new("/etc/weir/fleet.toml"))
    }

    #[test]
    fn a_fleet_is_read() {
        let file = parse(TEXT).unwrap();
        assert_eq!(file.name, "site");
        assert_eq!(file.certificates, Some("/etc/weir/keys".into()));
        assert_eq!(file.nodes["north"].capacity, Some(120.0));
        let kinds = ["north", "gpu-1"].map(|name| file.nodes[name].kind);
        assert_eq!(kinds, [Kind::Engine, Kind::Worker]);
        assert_eq!(file.nodes["south"].address.to_string(), "south.example:7447");
        let spread = FleetSpec {
            settle: Span::from_secs(1),
            redirect: false,
            ..FleetSpec::default()
        };
        assert_eq!(file.spread, spread);
    }

    #[test]
    fn all_that_is_wrong_is_said_with_its_line() {
        let text = TEXT
            .replace("name = \"site\"", "nam = \"site\"")
            .replace("10.0.0.1:7447", "10.0.0.1")
            .replace("settle = \"1s\"", "room = 1.5\nsetle = \"1s\"")
            .replace("[nodes.south]", "[nodes.\"so uth\"]")
            .replace("\"worker\"", "\"cook\"")
            + "[others]\n";
        let error = parse(&text).unwrap_err();
        let said = error.to_string();
        for part in [
            "fleet.toml:3: [fleet] has no key \"nam\"",
            "10.0.0.1",
            "HOST:PORT",
            "\"so uth\" cannot be a name",
            "\"cook\" is neither",
            "`room` is a part",
            "did you mean \"settle\"?",
            "no table \"others\"",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let error = parse("").unwrap_err().to_string();
        assert!(error.contains("no name") && error.contains("no nodes"), "{error}");
    }
}
