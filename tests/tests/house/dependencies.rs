//! The rules of `deny.toml` on dependencies, checked in the graph that Cargo resolves, with all features. `cargo deny
//! check` reads the same file, and asks for advisories besides.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::{assert_none, read, root};

pub(super) fn rules() -> toml::Table {
    toml::from_str(&read(&root().join("deny.toml"))).expect("deny.toml is TOML")
}

fn texts(of: &toml::Table, key: &str) -> BTreeSet<String> {
    let list = of.get(key).and_then(toml::Value::as_array);
    let texts = list.into_iter().flatten().filter_map(toml::Value::as_str);
    texts.map(str::to_owned).collect()
}

/// By guarded crate: the crates that alone may depend on it.
pub(super) fn doors(rules: &toml::Table) -> BTreeMap<String, BTreeSet<String>> {
    let denied = rules["bans"]["deny"].as_array().expect("`deny` is a list");
    let entries = denied.iter().filter_map(toml::Value::as_table);
    entries
        .map(|entry| {
            (
                entry["crate"].as_str().unwrap_or_default().to_owned(),
                texts(entry, "wrappers"),
            )
        })
        .collect()
}

/// A package of the resolved graph.
struct Package {
    name: String,
    license: String,
    source: Option<String>,
    dependencies: Vec<String>,
}

fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--all-features",
        ])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let text = |of: &Value| of.as_str().map(str::to_owned);
    let names: BTreeMap<String, String> = list(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((text(&package["id"])?, text(&package["name"])?)))
        .collect();
    let dependencies: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| {
            let of = list(&node["dependencies"]);
            let of = of.iter().filter_map(|id| names.get(id.as_str()?).cloned());
            Some((text(&node["id"])?, of.collect()))
        })
        .collect();
    let packages = list(&metadata["packages"]);
    let resolved = packages.iter().filter_map(|package| {
        Some(Package {
            name: text(&package["name"])?,
            license: text(&package["license"]).unwrap_or_default(),
            source: text(&package["source"]),
            dependencies: dependencies.get(package["id"].as_str()?)?.clone(),
        })
    });
    resolved.collect()
}

/// Whether an expression of licences can be satisfied: `AND` binds more tightly than `OR`.
fn holds(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.trim();
    // The parts between words outside of parentheses.
    let parts = |word: &str| -> Vec<String> {
        let (mut depth, mut parts) = (0_i32, vec![Vec::new()]);
        for token in expression.split(' ') {
            if depth == 0 && token == word {
                parts.push(Vec::new());
                continue;
            }
            depth += token.matches('(').count() as i32 - token.matches(')').count() as i32;
            parts.last_mut().expect("there is one").push(token);
        }
        parts.iter().map(|tokens| tokens.join(" ")).collect()
    };
    let (any, all) = (parts("OR"), parts("AND"));
    if any.len() > 1 {
        return any.iter().any(|part| holds(part, is_allowed));
    }
    if all.len() > 1 {
        return all.iter().all(|part| holds(part, is_allowed));
    }
    match expression
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
    {
        Some(inner) => holds(inner, is_allowed),
        None => is_allowed(expression),
    }
}

/// The rules that packages break, as text.
fn broken(packages: &[Package], rules: &toml::Table) -> Vec<String> {
    let doors = doors(rules);
    let licenses = rules["licenses"].as_table().expect("`licenses` is a table");
    let allowed = texts(licenses, "allow");
    let exceptions = licenses.get("exceptions").and_then(toml::Value::as_array);
    let exceptions: BTreeMap<&str, BTreeSet<String>> = exceptions
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_table)
        .filter_map(|entry| Some((entry["crate"].as_str()?, texts(entry, "allow"))))
        .collect();
    let mut broken = Vec::new();
    for package in packages {
        let name = package.name.as_str();
        for dependency in &package.dependencies {
            let through = doors.get(dependency).filter(|doors| !doors.contains(name));
            broken.extend(through.map(|doors| format!("{name} depends on {dependency}, only {doors:?} may")));
        }
        let is_allowed = |license: &str| {
            let of_crate = exceptions.get(name).is_some_and(|own| own.contains(license));
            of_crate || allowed.contains(license)
        };
        if !holds(&package.license.replace('/', " OR "), &is_allowed) {
            broken.push(format!("{name} has the licence \"{}\"", package.license));
        }
        let registry = package
            .source
            .as_deref()
            .is_none_or(|source| source.starts_with("registry+"));
        if !registry {
            broken.push(format!("{name} comes from {:?}", package.source));
        }
    }
    broken
}

#[test]
fn what_is_depended_on_is_allowed_by_deny_toml() {
    let (packages, rules) = (packages(), rules());
    assert!(
        packages.len() > 300,
        "the graph was not resolved: {}",
        packages.len()
    );
    assert_none(&broken(&packages, &rules));
    let used: BTreeSet<(&str, &str)> = packages
        .iter()
        .flat_map(|package| {
            package
                .dependencies
                .iter()
                .map(|of| (of.as_str(), package.name.as_str()))
        })
        .collect();
    let doors = doors(&rules);
    let pairs = doors
        .iter()
        .flat_map(|(of, by)| by.iter().map(move |by| (of.as_str(), by.as_str())));
    let unused: Vec<_> = pairs.filter(|pair| !used.contains(pair)).collect();
    assert!(unused.is_empty(), "doors that nothing goes through: {unused:?}");
}

#[test]
fn a_dependency_that_breaks_a_rule_is_found() {
    let package = |name: &str, license: &str, source: &str, dependency: &str| Package {
        name: name.to_owned(),
        license: license.to_owned(),
        source: Some(source.to_owned()),
        dependencies: vec![dependency.to_owned()],
    };
    let found = |package: Package| broken(&[package], &rules()).len();
    let registry = "registry+https://registry.example";
    assert_eq!(
        found(package("weir-sim", "MIT", registry, "actix")),
        1,
        "an actor in the simulator"
    );
    assert_eq!(found(package("weir-runtime", "MIT", registry, "actix")), 0);
    assert_eq!(found(package("other", "GPL-3.0", registry, "serde")), 1);
    assert_eq!(found(package("other", "GPL-3.0 OR MIT", registry, "serde")), 0);
    assert_eq!(
        found(package("other", "(MIT OR GPL-3.0) AND ISC", registry, "serde")),
        0
    );
    assert_eq!(
        found(package("other", "(MIT OR ISC) AND GPL-3.0", registry, "serde")),
        1
    );
    assert_eq!(found(package("other", "MIT AND GPL-3.0", registry, "serde")), 1);
    assert_eq!(
        found(package("other", "MIT", "git+https://git.example/other", "serde")),
        1
    );
}
