//! Pages hold with the program: their graphs and commands are accepted, their links lead somewhere, and every key of trackers and
//! transforms is shown.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "the counts are a result")]

mod commands;
mod graphs;
mod links;
mod pages;
mod shell;

use std::collections::{BTreeMap, BTreeSet};

use pages::Page;
use toml::{Table, Value};

/// The reference of operators, as the program prints it.
fn operators() -> String {
    let all = pages::pages();
    let page = all.iter().find(|page| page.name.ends_with("/operators.md"));
    page.unwrap().text()
}

#[derive(Debug, Default)]
struct Counts {
    toml: graphs::Counts,
    commands: commands::Counts,
    links: links::Counts,
}

/// Every problem of a page.
fn problems(page: &Page, counts: &mut Counts) -> Vec<String> {
    let mut problems = graphs::problems(page, &mut counts.toml);
    problems.extend(commands::problems(page, &mut counts.commands, &mut counts.links));
    problems.extend(links::problems(page, &mut counts.links));
    problems
}

#[test]
fn graphs_commands_and_links_of_all_pages_hold() {
    let mut counts = Counts::default();
    let pages = pages::pages();
    let problems: Vec<String> = pages
        .iter()
        .flat_map(|page| problems(page, &mut counts))
        .collect();
    println!("{} pages: {counts:?}", pages.len());
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
    let toml = &counts.toml;
    assert!(
        toml.graphs + toml.fragments > 30 && counts.commands.weir > 40 && counts.links.links > 200,
        "{counts:?}"
    );
}

/// The table of contents of the site has every page. Pages are short enough to be read at once, except those that programs write.
#[test]
fn pages_are_in_the_contents_and_short() {
    let pages = pages::pages();
    let contents = pages.iter().find(|page| page.name == "docs/SUMMARY.md").unwrap();
    let links = contents.links().into_iter();
    let listed: BTreeSet<String> = links.map(|(_, link)| format!("docs/{link}")).collect();
    for page in &pages {
        let is_listed = page.name == contents.name || listed.contains(&page.name);
        assert!(
            is_listed || !page.name.starts_with("docs/"),
            "docs/SUMMARY.md has no {}",
            page.name
        );
        let is_generated = page.name.starts_with("docs/reproduction/")
            || ["docs/reference/operators.md", "docs/reference/keys.md"].contains(&&*page.name);
        let most = match &*page.name {
            "README.md" => 150,
            _ if is_generated => usize::MAX,
            _ => 250,
        };
        let lines = page.text().lines().count();
        assert!(lines <= most, "{} has {lines} lines of at most {most}", page.name);
    }
}

#[test]
fn broken_snippets_are_found() {
    let complete = "```toml\n[app]\nslo = \"1s\"\n[sources.camera]\nuri = \"videos/street-day.mp4\"\n[models.detector]\n\
                    model = \"embedded:street-detector\"\n[modules.detect]\noperator = \"detect\"\nmodel = \"detector\"\n\
                    inputs = [\"camera\"]\n[sinks.events]\ntype = \"jsonl\"\npath = \"-\"\ninputs = [\"detect\"]\n```\n";
    let found = |text: &str| problems(&Page::new("docs/reference/page.md", text), &mut Counts::default());
    assert_eq!(found(complete), Vec::<String>::new());
    for (text, words) in [
        (complete.replace("slo = \"1s\"", "slow = \"1s\""), "slow"),
        (complete.replace("street-day.mp4", "street-noon.mp4"), "street-noon.mp4"),
        ("```toml\n[sinks.events]\ntype = \"jsonl\"\npath = \"-\"\ninputs = [\"detect\"]\nrotate = true\n```".to_owned(), "rotate"),
        ("```toml\n[sinks.events\n```".to_owned(), "docs/reference/page.md:2"),
        ("```toml\n[transforms.a]\ntype = \"zone\"\ninputs = [\"nothing\"]\npoints = [[0, 0], [1, 0], [1, 1]]\n```".to_owned(), "nothing"),
        ("text\n```sh\nweir check\n```".to_owned(), "docs/reference/page.md:3"),
        ("```sh\nweir run graph.toml --quickly\n```".to_owned(), "--quickly"),
        ("```sh\nmake tea\n```".to_owned(), "no target tea"),
        ("```sh\ncargo run -p weird\n```".to_owned(), "no package weird"),
        ("```sh\nweir run \"graph.toml\n```".to_owned(), "docs/reference/page.md:2"),
        ("```sh\ncat videos/street-noon.mp4\n```".to_owned(), "videos/street-noon.mp4 is not in the repository"),
        ("`weir stream list`".to_owned(), "no command stream"),
        ("`weir run --quickly`".to_owned(), "no option --quickly"),
        ("see `docs/nothing.md`".to_owned(), "docs/nothing.md is not in the repository"),
        ("# A heading\n[a](#a-heading) [b](#another)".to_owned(), "#another leads to no heading"),
        ("[`code` and\ntext](nothing.md)".to_owned(), "docs/reference/page.md:2: the link nothing.md"),
    ] {
        let found = found(&text);
        assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}\n{text}");
    }
}

/// Keys of the table below a heading of the reference, and the next cell of each: the types that a shared key is of.
fn reference(heading: &str) -> BTreeMap<String, String> {
    reference_in(&operators(), heading)
}

/// As [`reference`], in a part of the text.
fn reference_in(text: &str, heading: &str) -> BTreeMap<String, String> {
    let section = text.split(&format!("\n{heading}\n")).nth(1).unwrap();
    let section = section.split("\n##").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let key = cells[0].split('`').nth(1).unwrap();
        (key.to_owned(), cells[1].to_owned())
    })
    .collect()
}

/// True if the cell of a shared key, such as "all", "`zone`, `line`" or "all but `line`", includes the type.
fn is_of(cell: &str, kind: &str) -> bool {
    let is_named = cell.contains(&format!("`{kind}`"));
    cell.starts_with("all") != is_named
}

/// Tables of a section, of all pages.
fn shown_tables(section: &str) -> Vec<Table> {
    let pages = pages::pages();
    let documents = pages.iter().flat_map(graphs::tables);
    let tables = documents.filter_map(|document| document.get(section).and_then(Value::as_table).cloned());
    let tables = tables.flat_map(|tables| tables.into_iter().map(|(_, table)| table));
    tables.filter_map(|table| table.as_table().cloned()).collect()
}

#[test]
fn examples_of_trackers_show_every_key() {
    let (mut shown, mut per_track) = (BTreeSet::new(), BTreeSet::new());
    for module in shown_tables("modules") {
        if module.get("operator").and_then(Value::as_str) == Some("track") {
            shown.extend(module.keys().cloned());
        }
        let rule = module.get("per_track").and_then(Value::as_table);
        per_track.extend(rule.into_iter().flat_map(|rule| rule.keys().cloned()));
    }
    let keys = reference("## Trackers");
    assert!(keys.len() > 10, "{keys:?}");
    for key in keys.keys() {
        assert!(shown.contains(key), "no page shows {key} of a tracker");
    }
    assert_eq!(per_track, ["every", "once", "until"].map(str::to_owned).into());
}

#[test]
fn examples_of_transforms_show_every_key_of_every_type() {
    let mut shown = BTreeMap::<String, BTreeSet<String>>::new();
    for transform in shown_tables("transforms") {
        let kind = weir::flow::catalog_name(transform["type"].as_str().unwrap()).to_owned();
        shown.entry(kind).or_default().extend(transform.keys().cloned());
    }
    let shared = reference("## Transforms");
    assert!(shared.len() > 3, "{shared:?}");
    for kind in weir_analytics::transforms::TRANSFORM_TYPES {
        assert!(shown.contains_key(kind.name), "no page shows {}", kind.name);
    }
    let text = operators();
    let chapter = text.split("\n## Transforms\n").nth(1).unwrap();
    for (kind, keys) in &shown {
        for key in reference_in(chapter, &format!("### `{kind}`")).keys() {
            assert!(keys.contains(key), "no page shows {key} of {kind}");
        }
        for (key, _) in shared.iter().filter(|(_, kinds)| is_of(kinds, kind)) {
            assert!(keys.contains(key), "no page shows {key} of {kind}");
        }
    }
}
