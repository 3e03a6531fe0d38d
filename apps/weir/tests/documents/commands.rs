//! Commands that pages show: those of this program are parsed by its command line, targets of make and packages of Cargo exist.

use std::io::Write;
use std::process::{Command, Stdio};

use super::links::{self, missing_path};
use super::pages::{Block, Page, root};
use super::shell;

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Blocks of shell commands.
    pub(super) blocks: usize,
    /// Commands of this program in them.
    pub(super) weir: usize,
    /// Commands of make and Cargo in them.
    pub(super) builds: usize,
    /// All other commands in them.
    pub(super) others: usize,
    /// Commands of this program in prose.
    pub(super) inline: usize,
}

pub(super) fn problems(page: &Page, counts: &mut Counts, paths: &mut links::Counts) -> Vec<String> {
    let mut problems = Vec::new();
    for block in page.blocks() {
        match block.language.as_str() {
            "sh" => problems.extend(of_block(page, &block, counts, paths)),
            "bash" | "shell" | "console" => {
                problems.push(page.at(block.line, "blocks of commands are marked as sh"));
            }
            _ => {}
        }
    }
    for (line, code) in page.inline_code() {
        // In other spans `weir` is the rule of a policy.
        let is_command = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-');
        let Some(rest) = code.strip_prefix("weir ").filter(is_command) else {
            continue;
        };
        counts.inline += 1;
        problems.extend(partial(rest).map(|problem| page.at(line, format!("`{code}`: {problem}"))));
    }
    problems
}

fn of_block(page: &Page, block: &Block, counts: &mut Counts, paths: &mut links::Counts) -> Vec<String> {
    counts.blocks += 1;
    let mut problems = Vec::new();
    if let Err(problem) = shell_accepts(&block.text) {
        problems.push(page.at(block.line, problem));
    }
    for command in shell::commands(&block.text) {
        let line = block.line + command.line;
        let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
        let problem = match program(&words) {
            Some(Program::Weir(arguments)) => {
                counts.weir += 1;
                whole(arguments)
            }
            Some(Program::Make(arguments)) => {
                counts.builds += 1;
                make(arguments)
            }
            Some(Program::Cargo(arguments)) => {
                counts.builds += 1;
                cargo(arguments)
            }
            None => {
                counts.others += 1;
                None
            }
        };
        problems.extend(problem.map(|problem| page.at(line, format!("{}: {problem}", words.join(" ")))));
        let missing = words.iter().filter_map(|word| missing_path(word, paths));
        problems.extend(missing.map(|problem| page.at(line, problem)));
    }
    problems
}

enum Program<'a> {
    Weir(&'a [&'a str]),
    Make(&'a [&'a str]),
    Cargo(&'a [&'a str]),
}

/// The program that a command starts, directly or within a container after `--`.
fn program<'a>(words: &'a [&'a str]) -> Option<Program<'a>> {
    let name = |word: &str| word.rsplit('/').next().map(str::to_owned);
    let (first, arguments) = words.split_first()?;
    match name(first)?.as_str() {
        "weir" => return Some(Program::Weir(arguments)),
        "make" => return Some(Program::Make(arguments)),
        "cargo" => return Some(Program::Cargo(arguments)),
        _ => {}
    }
    let separator = words.iter().position(|word| *word == "--")?;
    let (first, arguments) = words[separator + 1..].split_first()?;
    (name(first)? == "weir").then_some(Program::Weir(arguments))
}

/// Parses a whole command line of this program.
fn whole(arguments: &[&str]) -> Option<String> {
    let words = std::iter::once(&"weir").chain(arguments);
    let parsed = weir::command_line().try_get_matches_from(words);
    let error = parsed.err()?;
    let shows_text = matches!(
        error.kind(),
        clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion
    );
    (!shows_text).then(|| error.to_string())
}

/// Checks commands and options of a command line that may stand for several, such as `weir streams list|add [--at HOST:PORT]`.
fn partial(text: &str) -> Option<String> {
    let mut command = weir::command_line();
    // Options that hold below the command that declares them.
    let mut global = Vec::new();
    let mut is_command = true;
    for word in text.split_whitespace() {
        let word = word.trim_matches(['[', ']', '(', ')', ',', '…']);
        if let Some(option) = word.strip_prefix("--") {
            is_command = false;
            let option = option.split(['=', '[', ']', '|']).next().unwrap_or(option);
            let mut own = command.get_arguments();
            let is_known = ["", "help", "version", "settings"].contains(&option)
                || own.any(|argument| argument.get_long() == Some(option))
                || global.iter().any(|name| name == option);
            if !is_known {
                return Some(format!("there is no option --{option}"));
            }
        } else if is_command && command.has_subcommands() {
            let names = word.split('|');
            let mut next = None;
            for name in names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')) {
                match command.find_subcommand(name) {
                    Some(found) => next = Some(found.clone()),
                    None => return Some(format!("there is no command {name}")),
                }
            }
            match next {
                Some(next) => {
                    let above = command
                        .get_arguments()
                        .filter(|argument| argument.is_global_set());
                    global.extend(
                        above
                            .filter_map(|argument| argument.get_long())
                            .map(str::to_owned),
                    );
                    command = next;
                }
                None => is_command = false,
            }
        }
    }
    None
}

fn make(arguments: &[&str]) -> Option<String> {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let targets = arguments
        .iter()
        .filter(|word| !word.contains('=') && !word.starts_with('-'));
    let mut missing = targets.filter(|target| {
        let rule = format!("{target}:");
        !makefile.lines().any(|line| line.starts_with(&rule))
    });
    missing
        .next()
        .map(|target| format!("the Makefile has no target {target}"))
}

fn cargo(arguments: &[&str]) -> Option<String> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let own = arguments.split(|word| *word == "--").next().unwrap_or_default();
    own.windows(2).find_map(|pair| match *pair {
        ["-p" | "--package", package] => {
            let line = format!("name = \"{package}\"\n");
            (!lock.contains(&line)).then(|| format!("there is no package {package}"))
        }
        ["--example", example] => {
            let file = format!("examples/{example}.rs");
            let folders = ["apps/weir", "videos"];
            let is_there = folders
                .iter()
                .any(|folder| root().join(folder).join(&file).is_file());
            (!is_there).then(|| format!("there is no example {example}"))
        }
        _ => None,
    })
}

/// A shell must be able to read the block.
fn shell_accepts(text: &str) -> Result<(), String> {
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
