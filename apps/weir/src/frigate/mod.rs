//! Graphs from the configuration of Frigate, versions 0.13 to 0.16 (docs/how-to/from-frigate.md).
//!
//! The file becomes a tree, and what is read of it is marked. Whatever is unmarked in the end is listed with the nearest thing in
//! Weir: nothing is lost unseen, also of keys that this does not know.

mod address;
mod camera;
mod graph;
mod layer;
mod left_out;
mod objects;
mod points;
mod recording;
mod rules;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::BTreeSet;
use std::fmt;

pub(crate) use graph::Files;

use crate::printable::line;
use address::Secrets;
use camera::Camera;
use yaml::Node;

/// Largest configuration in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// A line about a setting of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Remark {
    line: usize,
    /// Lines of other cameras with the same.
    more_lines: Vec<usize>,
    path: Vec<String>,
    text: String,
}

impl Remark {
    fn new(line: usize, path: &[String], text: String) -> Self {
        Self {
            line,
            more_lines: Vec::new(),
            path: path.to_vec(),
            text,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.join(".").replace(".[", "[");
        write!(f, "{}: {}: {}", self.line, line(&path), self.text)?;
        match self.more_lines.as_slice() {
            [] => Ok(()),
            [line] => write!(f, " (also line {line})"),
            lines => {
                let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
                write!(f, " (also lines {})", lines.join(", "))
            }
        }
    }
}

/// A configuration as a graph.
pub(crate) struct Imported {
    /// The text of the graph.
    pub(crate) graph: String,
    /// Contents of the files with passwords, in the order of [`Files::passwords`].
    pub(crate) passwords: Vec<String>,
    /// Password of the broker, for [`Files::mqtt`].
    pub(crate) mqtt_password: Option<String>,
    /// Variables with secrets and their values.
    pub(crate) variables: Vec<(String, String)>,
    /// Names of variables that the graph takes from the environment, as Frigate does.
    pub(crate) environment: Vec<String>,
    /// Names that are others in the graph.
    pub(crate) renamed: Vec<Remark>,
    /// Settings that were not taken over.
    pub(crate) left_out: Vec<Remark>,
    pub(crate) cameras: usize,
    pub(crate) zones: usize,
    pub(crate) rules: usize,
}

/// State that cameras share while they are read.
#[derive(Default)]
struct Site {
    /// Names of the graph that are taken.
    names: BTreeSet<String>,
    secrets: Secrets,
    renamed: Vec<Remark>,
}

/// Turns a configuration into a graph. `files` are the names of the files beside it.
///
/// # Errors
/// The text is no YAML, or has no camera that could be taken over; with the line.
pub(crate) fn import(text: &str, files: &Files<'_>) -> Result<Imported, String> {
    let root = yaml::parse(text)?;
    let cameras = root.get("cameras").ok_or("it has no cameras")?;
    if let Some(version) = root.get("version") {
        version.take();
    }
    let mut site = Site::default();
    let mut taken: Vec<Camera> = Vec::new();
    for entry in cameras.entries() {
        taken.extend(camera::camera(entry, &root, &mut site));
    }
    if taken.is_empty() {
        let mut reasons = left_out::left_out(&root).into_iter();
        let reason = reasons.find(|remark| remark.path.first().is_some_and(|first| first == "cameras"));
        let reason = reason.map_or_else(String::new, |remark| format!(": line {remark}"));
        return Err(format!("none of its cameras can be taken over{reason}"));
    }
    groups(&root, &mut taken);
    let mut mqtt_password = None;
    let graph = graph::text(&root, &taken, files, &mut mqtt_password);
    let mut environment = variables(&graph);
    environment.retain(|name| !site.secrets.variables.contains_key(name));
    Ok(Imported {
        graph,
        passwords: site.secrets.passwords,
        mqtt_password,
        variables: site.secrets.variables.into_iter().collect(),
        environment: environment.into_iter().collect(),
        renamed: site.renamed,
        left_out: left_out::left_out(&root),
        cameras: taken.len(),
        zones: taken.iter().map(|camera| camera.zones).sum(),
        rules: taken.iter().map(|camera| camera.rules.len()).sum(),
    })
}

/// Names of the variables of a graph.
fn variables(graph: &str) -> BTreeSet<String> {
    let (mut names, mut rest) = (BTreeSet::new(), graph);
    while let Some((_, after)) = rest.split_once('$') {
        let name = after.strip_prefix('{').and_then(|inside| inside.split_once(":-"));
        if let Some((name, _)) = name.filter(|(name, _)| !name.contains(['}', '\n'])) {
            names.insert(name.to_owned());
        }
        // A doubled dollar sign is one.
        rest = after.strip_prefix('$').unwrap_or(after);
    }
    names
}

/// Gives cameras the groups of `camera_groups`.
fn groups(root: &Node, cameras: &mut [Camera]) {
    const MAX_GROUPS: usize = 8;
    let Some(groups) = root.get("camera_groups") else {
        return;
    };
    for group in groups.entries() {
        let (name, members) = (group.name.trim(), group.node.get("cameras"));
        let is_name = !name.is_empty() && name.chars().count() <= 64 && !name.chars().any(char::is_control);
        let members = members.filter(|_| is_name).map(Node::texts).unwrap_or_default();
        for member in members {
            let named = cameras
                .iter_mut()
                .find(|camera| Some(camera.frigate_name.as_str()) == member.scalar());
            match named {
                Some(camera) if camera.groups.len() < MAX_GROUPS => {
                    member.take();
                    camera.groups.push(name.to_owned());
                }
                Some(_) => member.refuse(format!("a camera has at most {MAX_GROUPS} groups")),
                None => {}
            }
        }
    }
}
