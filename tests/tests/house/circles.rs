//! No file of a crate of the engine uses another that, over however many, uses it: each can be read, and moved, with
//! what it stands on alone.
//!
//! A file uses what its paths lead to: those of `use`, and those that begin in its code with `crate`, `self`, `super` or
//! one of its own modules. An item that a module passes on by `pub use` counts as of the file that defines it, and as used
//! by the module only where its code names it. Modules of tests are left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{assert_none, code, files, read, root, without_texts};

/// A module's path within its crate.
type Module = Vec<String>;

/// Maximum length of a chain of re-exports.
const MAX_HOPS: usize = 8;

struct Source {
    file: String,
    code: String,
    imports: Vec<Import>,
}

/// `path` of a use declaration, and the name by which the file then knows it.
struct Import {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// The sources of one crate, by module.
struct Crate {
    sources: BTreeMap<Module, Source>,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The module that a file below `src` is; `None` for tests and programs.
fn module_of(file: &str) -> Option<Module> {
    let path = file.strip_suffix(".rs")?;
    let mut module: Module = path.split('/').map(str::to_owned).collect();
    if module.iter().any(|part| part == "tests" || part == "bin") || path == "main" {
        return None;
    }
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    Some(module)
}

/// The code up to the module of tests that ends a file.
fn without_tests(code: &str) -> &str {
    let test = "#[cfg(test)]\nmod ";
    let inline = code.match_indices(test).find(|(at, _)| {
        code[at + test.len()..]
            .split_once('\n')
            .is_some_and(|(line, _)| line.ends_with('{'))
    });
    inline.map_or(code, |(at, _)| &code[..at])
}

/// The paths of a tree such as `a::{b, c::{self, D as E}}`.
fn expand(prefix: &[String], tree: &str, is_public: bool, imports: &mut Vec<Import>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let mut prefix = prefix.to_vec();
        prefix.extend(
            head.split("::")
                .map(|part| part.trim().to_owned())
                .filter(|part| !part.is_empty()),
        );
        let group = group.strip_suffix('}').unwrap_or(group);
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&prefix, &group[begin..at], is_public, imports);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        return expand(&prefix, &group[begin..], is_public, imports);
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let mut whole = prefix.to_vec();
    whole.extend(
        path.split("::")
            .map(|part| part.trim().to_owned())
            .filter(|part| !part.is_empty()),
    );
    if whole.len() > prefix.len() && whole.last().is_some_and(|last| last == "self") && !prefix.is_empty() {
        whole.pop();
    }
    if let Some(last) = whole.last().filter(|_| !path.is_empty()) {
        let name = if alias.is_empty() {
            last.clone()
        } else {
            alias.trim().to_owned()
        };
        imports.push(Import {
            path: whole,
            name,
            is_public,
        });
    }
}

/// The use declarations of a file, and its code without them.
fn take_imports(code: &str) -> (Vec<Import>, String) {
    let (mut found, mut rest, mut taken) = (Vec::new(), String::new(), 0);
    for (at, _) in code.match_indices("use ") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let declares = line.is_empty() || (line.starts_with("pub") && !line.contains([';', '=']));
        if declares && let Some((tree, _)) = code[at + 4..].split_once(';') {
            expand(&[], tree, !line.is_empty(), &mut found);
            rest.push_str(code.get(taken..at).unwrap_or_default());
            taken = at + 4 + tree.len();
        }
    }
    rest.push_str(&code[taken..]);
    (found, rest)
}

/// Whether the code has this name as a whole word, other than as that of a module.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = &code[..at];
        !before.ends_with(is_word)
            && !before.ends_with("mod ")
            && !code[at + name.len()..].starts_with(is_word)
    })
}

/// Paths within expressions and types that begin with one of `heads`.
fn paths(code: &str, heads: &BTreeSet<&str>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    let end = |from: usize| {
        code[from..]
            .find(|c| !is_word(c))
            .map_or(code.len(), |length| from + length)
    };
    while let Some(skipped) = code[at..].find(is_word) {
        let begin = at + skipped;
        at = end(begin);
        let mut path = vec![code[begin..at].to_owned()];
        while code[at..]
            .strip_prefix("::")
            .is_some_and(|next| next.starts_with(is_word))
        {
            let next = at + 2;
            at = end(next);
            path.push(code[next..at].to_owned());
        }
        let before = &code[..begin];
        let continues = ["::", ".", "pub(in "].iter().any(|end| before.ends_with(end));
        if path.len() > 1 && heads.contains(path[0].as_str()) && !continues {
            found.push(path);
        }
    }
    found
}

impl Crate {
    fn new(texts: &BTreeMap<String, String>) -> Self {
        let sources = texts.iter().filter_map(|(file, text)| {
            let code = without_texts(&code(text));
            let (imports, code) = take_imports(without_tests(&code));
            let source = Source {
                file: file.clone(),
                code,
                imports,
            };
            Some((module_of(file)?, source))
        });
        Self {
            sources: sources.collect(),
        }
    }

    /// Whether the module's file has an item of this name of its own.
    fn defines(&self, module: &Module, name: &str) -> bool {
        let kinds = [
            "struct",
            "enum",
            "trait",
            "fn",
            "const",
            "static",
            "type",
            "union",
            "macro_rules!",
        ];
        let code = &self.sources[module].code;
        code.match_indices(name).any(|(at, _)| {
            let whole = !code[at + name.len()..].starts_with(is_word);
            let kind = code[..at].strip_suffix(' ').unwrap_or_default();
            whole && kinds.iter().any(|word| kind.ends_with(word))
        })
    }

    /// The module whose file defines what `path` names within `module`; `None` where it is of another crate.
    fn resolve(&self, module: &Module, path: &[String], hops: usize) -> Option<Module> {
        let mut path = path.iter().map(String::as_str).peekable();
        let mut at = match path.next()? {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => module.split_last()?.1.to_vec(),
            child => {
                let child: Module = module
                    .iter()
                    .map(String::as_str)
                    .chain([child])
                    .map(str::to_owned)
                    .collect();
                self.sources.contains_key(&child).then_some(child)?
            }
        };
        while path.next_if_eq(&"super").is_some() {
            at.pop()?;
        }
        while let Some(&next) = path.peek() {
            at.push(next.to_owned());
            if !self.sources.contains_key(&at) {
                at.pop();
                break;
            }
            path.next();
        }
        let source = self.sources.get(&at)?;
        if let Some(item) = path.next()
            && hops < MAX_HOPS
            && !self.defines(&at, item)
            && let Some(passed) = source.imports.iter().find(|import| import.name == item)
        {
            let defined = self.resolve(&at, &passed.path, hops + 1);
            return Some(defined.unwrap_or(at));
        }
        Some(at)
    }

    /// By module, those that its file uses.
    fn uses(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let children = |module: &Module| {
            let own = self
                .sources
                .keys()
                .filter(|other| other.split_last().is_some_and(|(_, up)| up == module));
            own.filter_map(|child| child.last().map(String::as_str))
                .collect::<Vec<_>>()
        };
        let of = |(module, source): (&Module, &Source)| {
            let heads: BTreeSet<&str> = ["crate", "self", "super"]
                .into_iter()
                .chain(children(module))
                .collect();
            let imports = source.imports.iter();
            let imported = imports.filter(|import| !import.is_public || names(&source.code, &import.name));
            let used = imported
                .map(|import| import.path.clone())
                .chain(paths(&source.code, &heads));
            used.filter_map(|path| self.resolve(module, &path, 0))
                .filter(|used| used != module)
                .collect::<BTreeSet<_>>()
        };
        let keys = |used: BTreeSet<Module>| {
            used.iter()
                .filter_map(|module| Some(self.sources.get_key_value(module)?.0))
                .collect()
        };
        self.sources
            .iter()
            .map(|entry| (entry.0, keys(of(entry))))
            .collect()
    }

    /// A shortest way from one module to another, with both; `None` where there is none. It has at least one step.
    fn path<'a>(
        uses: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
        from: &'a Module,
        to: &Module,
    ) -> Option<Vec<&'a Module>> {
        let mut paths = VecDeque::from([vec![from]]);
        let mut seen = BTreeSet::new();
        while let Some(path) = paths.pop_front() {
            for &next in &uses[path.last()?] {
                let longer = [path.as_slice(), &[next]].concat();
                if next == to {
                    return Some(longer);
                }
                if seen.insert(next) {
                    paths.push_back(longer);
                }
            }
        }
        None
    }

    /// Circles of files, each as the files in turn: of files that all use each other one of the shortest through the
    /// first of them.
    fn circles(&self) -> Vec<String> {
        let uses = self.uses();
        let file = |module: &&Module| self.sources[*module].file.as_str();
        let circle = |first: &&Module| {
            let before = uses.keys().take_while(|module| module < &first);
            let mut linked = before.filter(|module| {
                Self::path(&uses, first, module).is_some() && Self::path(&uses, module, first).is_some()
            });
            let path = Self::path(&uses, first, first)?;
            let files: Vec<&str> = path.iter().map(file).collect();
            linked.next().is_none().then(|| files.join(" -> "))
        };
        uses.keys().filter_map(circle).collect()
    }
}

#[test]
fn no_files_of_a_crate_of_the_engine_use_each_other_in_a_circle() {
    let mut broken = Vec::new();
    for folder in [
        "analytics",
        "config",
        "files",
        "flow",
        "graph",
        "partition",
        "planner",
        "policy",
        "runtime",
        "sim",
        "tunnel",
        "types",
    ] {
        let folder = root().join("engine").join(folder).join("src");
        let texts: BTreeMap<String, String> = files(&folder, &[".rs"])
            .into_iter()
            .map(|path| {
                let file = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
                (file, read(&path))
            })
            .collect();
        let krate = Crate::new(&texts);
        assert!(!krate.sources.is_empty(), "{} has no sources", folder.display());
        broken.extend(
            krate
                .circles()
                .into_iter()
                .map(|circle| format!("{}: {circle}", folder.display())),
        );
    }
    assert_none(&broken);
}

#[test]
fn circles_are_found_where_there_are_any() {
    let check = |files: &[(&str, &str)], circles: &[&str]| {
        let texts = files
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()));
        assert_eq!(Crate::new(&texts.collect()).circles(), circles, "{files:?}");
    };
    let straight = [
        ("lib.rs", "mod a;\nmod b;\npub use a::{A, f};"),
        ("a.rs", "use crate::b::B;\npub struct A;"),
        ("b.rs", "pub struct B;"),
    ];
    check(&straight, &[]);
    // What the parent passes on is of the file that defines it; what it defines is its own.
    for back in [
        "use crate::a::{self, A as Other};",
        "use super::A;",
        "use crate::{A, C};",
    ] {
        let texts = [straight[0], straight[1], ("b.rs", back)];
        check(&texts, &["a.rs -> b.rs -> a.rs"]);
    }
    let parent =
        |own: &'static str, child: &'static str| [("lib.rs", "mod m;"), ("m/mod.rs", own), ("m/c.rs", child)];
    check(&parent("mod c;\nuse c::C;\npub struct M;", "pub struct C;"), &[]);
    check(
        &parent("mod c;\npub struct M;", "use super::M;\npub struct C;"),
        &[],
    );
    check(
        &parent("mod c;\nuse c::C;\npub struct M;", "use super::M;\npub struct C;"),
        &["m/mod.rs -> m/c.rs -> m/mod.rs"],
    );
    check(
        &parent(
            "mod c;\npub use c::C;\npub struct M;",
            "use super::M;\npub struct C;",
        ),
        &[],
    );
    check(
        &parent(
            "mod c;\npub use c::C;\npub struct M(C);",
            "use super::M;\npub struct C;",
        ),
        &["m/mod.rs -> m/c.rs -> m/mod.rs"],
    );
    // Without a declaration, too; but not in comments, texts, visibilities and tests.
    check(
        &parent("mod c;\nfn f() { c::g(); }", "fn g() -> crate::m::M {}"),
        &["m/mod.rs -> m/c.rs -> m/mod.rs"],
    );
    let none = "// use super::M;\npub(in crate::m) fn g() { \"super::M\"; }\n#[cfg(test)]\nmod tests {\nuse super::super::M;\n}\n";
    check(&parent("mod c;\nuse c::g;\npub struct M;", none), &[]);
    let tests = [
        ("lib.rs", "mod a;\nmod tests;"),
        ("a.rs", "use crate::tests::T;"),
        ("tests.rs", "use crate::a::A;"),
    ];
    check(&tests, &[]);
}
