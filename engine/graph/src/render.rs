//! Drawings of a graph, as Mermaid and as Graphviz source, from left to right.

use std::fmt::Write;

use weir_flow::mask_credentials;

use crate::emulated::{self, EmulatedLoad, EmulatedStream};
use crate::graph::{
    Escalate, Graph, ModelNode, ModuleNode, SinkNode, TRACK, TrackerNode, TransformNode, Vertex,
};
use crate::source_node::{SourceMode, SourceNode};

impl Graph {
    /// The graph as a Mermaid flowchart.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        let mut out = String::from("flowchart LR\n");
        let label = |lines: Vec<String>| {
            let lines: Vec<String> = lines.iter().map(|line| escape_mermaid(line)).collect();
            format!("\"<b>{}</b><br/>{}\"", lines[0], lines[1..].join("<br/>"))
        };
        let mut line = |text: String| {
            out.push_str("    ");
            out.push_str(&text);
            out.push('\n');
        };
        for (index, lines) in self.source_lines().enumerate() {
            line(format!("s{index}([{}]):::source", label(lines)));
        }
        for (index, module) in self.modules.iter().enumerate() {
            line(format!("m{index}[{}]:::module", label(self.module_lines(module))));
        }
        for (index, tracker) in self.trackers.iter().enumerate() {
            line(format!("t{index}[{}]:::module", label(tracker_lines(tracker))));
        }
        for (index, transform) in self.transforms.iter().enumerate() {
            line(format!(
                "x{index}[{}]:::module",
                label(transform_lines(transform))
            ));
        }
        for (index, sink) in self.sinks.iter().enumerate() {
            line(format!("k{index}[/{}/]:::sink", label(sink_lines(sink))));
        }
        for (from, to) in self.edges() {
            line(format!("{from} --> {to}"));
        }
        line("classDef source fill:#e3f2fd,stroke:#1565c0,color:#0d2f4f".to_owned());
        line("classDef module fill:#fff8e1,stroke:#ef6c00,color:#4a2a00".to_owned());
        line("classDef sink fill:#e8f5e9,stroke:#2e7d32,color:#12351a".to_owned());
        out
    }

    /// The graph as Graphviz source.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut out = String::new();
        let label = |lines: Vec<String>| {
            let lines: Vec<String> = lines.iter().map(|line| escape_dot(line)).collect();
            lines.join("\\n")
        };
        let mut vertex = |id: String, lines: Vec<String>, style: &str| {
            // Writing to a String does not fail.
            let _ = writeln!(out, "    {id} [label=\"{}\", {style}];", label(lines));
        };
        for (index, lines) in self.source_lines().enumerate() {
            let style = "shape=ellipse, fillcolor=\"#e3f2fd\", color=\"#1565c0\"";
            vertex(format!("s{index}"), lines, style);
        }
        for (index, module) in self.modules.iter().enumerate() {
            let style = "shape=box, fillcolor=\"#fff8e1\", color=\"#ef6c00\"";
            vertex(format!("m{index}"), self.module_lines(module), style);
        }
        for (index, tracker) in self.trackers.iter().enumerate() {
            let style = "shape=box, fillcolor=\"#fff8e1\", color=\"#ef6c00\"";
            vertex(format!("t{index}"), tracker_lines(tracker), style);
        }
        for (index, transform) in self.transforms.iter().enumerate() {
            let style = "shape=box, fillcolor=\"#fff8e1\", color=\"#ef6c00\"";
            vertex(format!("x{index}"), transform_lines(transform), style);
        }
        for (index, sink) in self.sinks.iter().enumerate() {
            let style = "shape=parallelogram, fillcolor=\"#e8f5e9\", color=\"#2e7d32\"";
            vertex(format!("k{index}"), sink_lines(sink), style);
        }
        for (from, to) in self.edges() {
            let _ = writeln!(out, "    {from} -> {to};");
        }
        let head = format!("digraph \"{}\" {{\n    rankdir=LR;\n", escape_dot(&self.name));
        let style = "    node [style=\"filled,rounded\", fontname=\"Helvetica\"];\n";
        format!("{head}{style}{out}}}\n")
    }

    /// Edges by the ids of their ends, in the order of their targets.
    fn edges(&self) -> Vec<(String, String)> {
        let id = |vertex: &Vertex| match vertex {
            Vertex::Source(index) => format!("s{index}"),
            Vertex::Module(index) => format!("m{index}"),
        };
        let modules = self
            .modules
            .iter()
            .enumerate()
            .map(|(index, module)| (format!("m{index}"), &module.inputs));
        let sinks = self
            .sinks
            .iter()
            .enumerate()
            .map(|(index, sink)| (format!("k{index}"), &sink.inputs));
        let arrows = |(to, inputs): (String, &Vec<Vertex>)| -> Vec<(String, String)> {
            inputs.iter().map(|input| (id(input), to.clone())).collect()
        };
        let mut edges: Vec<(String, String)> = modules.chain(sinks).flat_map(arrows).collect();
        for (index, tracker) in self.trackers.iter().enumerate() {
            let followed = tracker.modules.iter().map(|module| format!("m{module}"));
            edges.extend(followed.map(|module| (module, format!("t{index}"))));
            let shown = self.sinks.iter().enumerate();
            let shown = shown.filter(|(_, sink)| sink.trackers.contains(&index));
            edges.extend(shown.map(|(sink, _)| (format!("t{index}"), format!("k{sink}"))));
        }
        for (index, transform) in self.transforms.iter().enumerate() {
            let trackers = transform.trackers.iter().map(|tracker| format!("t{tracker}"));
            let is_followed = |module: &&usize| {
                let mut trackers = transform.trackers.iter();
                trackers.any(|tracker| self.trackers[*tracker].modules.contains(module))
            };
            let modules = transform.modules.iter().filter(|module| !is_followed(module));
            let inputs = trackers.chain(modules.map(|module| format!("m{module}")));
            edges.extend(inputs.map(|input| (input, format!("x{index}"))));
            let given = self.sinks.iter().enumerate();
            let given = given.filter(|(_, sink)| sink.transforms.contains(&index));
            edges.extend(given.map(|(sink, _)| (format!("x{index}"), format!("k{sink}"))));
        }
        edges
    }

    /// Returns the text in the box of each source and template, as lines.
    fn source_lines(&self) -> impl Iterator<Item = Vec<String>> {
        let template = |name: &String| vec![name.clone(), "streams that are added".to_owned()];
        let sources = self.sources.iter().map(source_lines);
        sources.chain(self.templates.iter().map(template))
    }

    fn module_lines(&self, module: &ModuleNode) -> Vec<String> {
        let model: &ModelNode = &self.models[module.model];
        let sizes: Vec<String> = model.batch.iter().map(u32::to_string).collect();
        let mut lines = vec![
            module.name.clone(),
            format!("{}: {}", module.operator, model.name),
        ];
        if let Some(stage) = module.stage.as_ref().filter(|stage| !stage.is_last()) {
            lines.push(format!("certain from {}", stage.certainty));
            if stage.index == 0 && stage.escalate == Escalate::Regions {
                lines.push("hands on regions".to_owned());
            }
        }
        if !module.regions.is_empty() {
            lines.push(format!("of {}", module.regions.join(", ")));
        }
        if let Some(tiling) = module.tiling() {
            lines.push(format!("in {} tiles", tiling.grid));
        }
        let devices: Vec<&str> = model
            .ends()
            .map(|(device, _)| &*self.devices[device].name)
            .collect();
        lines.push(format!("{}, batch {}", devices.join(" "), sizes.join("/")));
        lines
    }
}

fn source_lines(source: &SourceNode) -> Vec<String> {
    let mode = match source.mode {
        SourceMode::Live => "live",
        SourceMode::Lossless => "lossless",
    };
    let sample = source
        .sample
        .map(|fps| format!(", {fps} fps"))
        .unwrap_or_default();
    let detect = source.detect_uri.as_deref().map(display_uri);
    let mut lines = vec![source.name.clone(), display_uri(&source.uri)];
    lines.extend(detect.map(|uri| format!("detects in {uri}")));
    lines.push(format!("{mode}{sample}"));
    lines
}

fn tracker_lines(tracker: &TrackerNode) -> Vec<String> {
    vec![tracker.name.clone(), TRACK.to_owned()]
}

fn transform_lines(transform: &TransformNode) -> Vec<String> {
    vec![transform.name.clone(), transform.spec.kind.name().to_owned()]
}

fn sink_lines(sink: &SinkNode) -> Vec<String> {
    let path = sink.settings.text("path").map(display_uri);
    [Some(sink.name.clone()), Some(sink.kind.clone()), path]
        .into_iter()
        .flatten()
        .collect()
}

/// A short form of a URI, without passwords: files by their names, URLs without user and query.
fn display_uri(uri: &str) -> String {
    let uri = &*mask_credentials(uri);
    if let Some((scheme, rest)) = uri.split_once("://") {
        let rest = rest.split(['?', '#']).next().unwrap_or(rest);
        let host_end = rest.find('/').unwrap_or(rest.len());
        let host_start = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
        return format!("{scheme}://{}", &rest[host_start..]);
    }
    if let Ok(EmulatedStream {
        load: EmulatedLoad::Trace { file, .. },
        ..
    }) = EmulatedStream::parse(uri)
    {
        let name = file.file_name().map(|name| name.to_string_lossy());
        return emulated::with_file(uri, &name.unwrap_or_default());
    }
    if uri.starts_with("emulated:") || uri.starts_with("/dev/") {
        return uri.to_owned();
    }
    uri.rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(uri)
        .to_owned()
}

fn escape_mermaid(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '&' => out.push_str("#amp;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '`' => out.push_str("#96;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn escape_dot(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
