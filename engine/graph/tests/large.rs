//! Files with very many keys, tables or names: read in bounded time, and reported in a page. Without the bounds each of
//! these took minutes, since work grew with the square of the file's size.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fmt::Write;
use std::path::Path;

use weir_config::ConfigError;
use weir_graph::{Graph, parse};

use crate::common;

/// Keys, or whatever a case repeats.
const MANY: usize = 250_000;

const HEAD: &str = "[app]\nname = \"x\"\nslo = \"1s\"\n";
const REST: &str = r#"
[sources.a]
uri = "emulated:uniform?rate=30"
[models.m]
device = "emulated:t4"
profile = { "1" = "8ms" }
[sinks.n]
type = "null"
inputs = ["d"]
"#;
const MODULE: &str = "[modules.d]\noperator = \"emulate\"\nmodel = \"m\"\ninputs = [\"a\"]\n";

fn read(text: &str) -> Result<Graph, ConfigError> {
    let catalog = common::catalog();
    parse(text, Path::new("large.toml"), &catalog, &|_| None)
}

fn repeat(count: usize, each: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, index| {
        let _ = write!(text, "{}", each(index));
        text
    })
}

/// Modules one behind the other.
fn chain(modules: usize) -> String {
    repeat(modules, |index| {
        let before = index
            .checked_sub(1)
            .map_or("a".to_owned(), |before| format!("k{before}"));
        format!("[modules.k{index}]\noperator = \"emulate\"\nmodel = \"m\"\ninputs = [\"{before}\"]\n")
    })
}

/// The text is refused, with a page of problems that has `word` in it.
fn refused(what: &str, text: &str, word: &str) {
    let problems = read(text).unwrap_err();
    assert!(
        problems.iter().count() <= 200,
        "{what}: {} are kept",
        problems.iter().count()
    );
    let said = problems.to_string();
    assert!(
        said.lines().count() <= 101,
        "{what}: {} lines",
        said.lines().count()
    );
    assert!(said.len() < 250_000, "{what}: {} bytes", said.len());
    assert!(said.contains(word), "{what}: {word} is not in\n{said}");
}

#[test]
fn very_many_problems_are_reported_in_a_page() {
    let keys = repeat(MANY, |index| format!("k{index} = 1\n"));
    let more = "more: fix these first";
    refused("keys of a table", &format!("{HEAD}{keys}{REST}{MODULE}"), more);
    refused(
        "keys outside of tables",
        &format!("{keys}{HEAD}{REST}{MODULE}"),
        more,
    );
    let names = repeat(MANY, |index| format!("\"k{index}\","));
    let module = MODULE.replace("\"a\"", &names);
    refused(
        "inputs that there are not",
        &format!("{HEAD}{REST}{module}"),
        more,
    );
    let headers = repeat(MANY, |index| format!("[k{index}]\n"));
    refused("sections", &format!("{HEAD}{REST}{MODULE}{headers}"), more);
    refused(
        "one key over and over",
        &format!("{HEAD}{}", "slo = 1\n".repeat(MANY)),
        more,
    );
    refused(
        "one table over and over",
        &format!("{HEAD}{}", "[x]\n".repeat(MANY)),
        more,
    );
    refused(
        "lines that are no TOML",
        &format!("{HEAD}{REST}{}", "k = = 1\n".repeat(MANY)),
        more,
    );
    let variables = repeat(MANY, |_| "${X}".to_owned());
    refused(
        "variables",
        &format!("{HEAD}[sources.b]\nuri = \"{variables}\"\n"),
        "the environment variable X is not set",
    );
}

#[test]
fn more_tables_than_a_process_could_run_are_one_problem() {
    let modules = chain(20_000);
    refused(
        "a chain of modules",
        &format!("{HEAD}{REST}{MODULE}{modules}"),
        "[modules] holds 20001 tables; 512 are the most",
    );
    let sources = repeat(20_000, |index| {
        format!("[sources.k{index}]\nuri = \"emulated:uniform?rate=1\"\n")
    });
    refused(
        "sources",
        &format!("{HEAD}{REST}{MODULE}{sources}"),
        "[sources] holds 20001 tables; 4096 are the most",
    );
}

#[test]
fn names_of_megabytes_are_clipped_and_not_compared() {
    let (a, b) = ("x".repeat(1 << 20), "y".repeat(1 << 20));
    let module = MODULE.replace("\"a\"", &format!("\"{a}\""));
    refused(
        "long names",
        &format!("{HEAD}[sources.{b}]\nuri = \"emulated:uniform?rate=1\"\n{REST}{module}"),
        "there is no source or module \"xxx",
    );
}

#[test]
fn as_many_tables_as_are_allowed_make_a_graph() {
    let modules = chain(511);
    let head = HEAD.replace("1s", "1m");
    let graph = read(&format!("{head}{REST}{MODULE}{modules}")).unwrap();
    assert_eq!(graph.modules().len(), 512);
}

#[test]
fn a_variable_may_be_long_and_be_named_often_but_not_both() {
    let catalog = common::catalog();
    let long = "x".repeat(1 << 16);
    let text = format!(
        "{HEAD}[sources.b]\nuri = \"{}\"\n{REST}{MODULE}",
        "${X}".repeat(100_000)
    );
    let read = parse(&text, Path::new("large.toml"), &catalog, &|_| Some(long.clone()));
    assert!(read.unwrap_err().to_string().contains("longer than 1024 KiB"));
}
