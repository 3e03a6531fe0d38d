//! Modules that read frames in tiles: their keys, what these do not go with, and gears that set other tiles.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_config::ConfigError;
use weir_flow::{Catalog, KeyKind, KeySpec, Tiling};
use weir_graph::{Graph, ModuleNode, cascade_stages, parse};
use weir_types::TileGrid;

use crate::common::{self, folder};

const fn key(name: &'static str, kind: KeyKind) -> KeySpec {
    KeySpec {
        name,
        kind,
        about: "",
    }
}

/// The catalog with a detector that reads tiles.
fn catalog() -> Catalog {
    let mut catalog = common::catalog();
    let detect = catalog
        .operators
        .iter_mut()
        .find(|spec| spec.name == "detect")
        .unwrap();
    detect.keys.to_mut().extend([
        key("tiles", KeyKind::Pair { min: 1, max: 8 }),
        key("overlap", KeyKind::Number { min: 0.0, max: 0.5 }),
        key("whole", KeyKind::Flag),
        key("items", KeyKind::OneOf(&["frame"])),
    ]);
    catalog
}

/// Two detectors, one before the other, and a cascade; `first`, `second` and `third` are keys of theirs.
fn text(first: &str, second: &str, third: &str) -> String {
    format!(
        r#"[app]
name = "yard"
slo = "400ms"
gears = "gears.toml"
[sources.camera]
uri = "emulated:uniform?rate=10"
[devices."emulated:a"]
slots = 2
[models.small]
device = "emulated:a"
profile = {{ "1" = "2ms" }}
[models.large]
device = "emulated:a"
profile = {{ "1" = "7ms" }}
[modules.look]
operator = "detect"
model = "small"
inputs = ["camera"]
{first}
[modules.near]
operator = "detect"
model = "large"
inputs = ["look"]
{second}
[modules.far]
operator = "detect"
cascade = [{{ model = "small", certainty = 0.5 }}, {{ model = "large" }}]
inputs = ["look"]
{third}
"#
    )
}

const NO_GEARS: &str = "graph = \"yard\"\nnumber = 1\n[[gears]]\nup_to = 10\n[gears.cascades]\n";

fn read(text: &str, gears: &str) -> Result<Graph, ConfigError> {
    let folder = folder();
    std::fs::write(folder.path().join("gears.toml"), gears).unwrap();
    parse(text, &folder.path().join("graph.toml"), &catalog(), &|_| None)
}

fn problems(read: Result<Graph, ConfigError>) -> Vec<String> {
    match read {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|problem| problem.message.clone()).collect(),
    }
}

fn grid(columns: u32, rows: u32) -> TileGrid {
    TileGrid::new([columns, rows]).unwrap()
}

#[test]
fn module_with_tiles_brings_an_item_for_each() {
    let graph = read(
        &text("tiles = [3, 2]", "", "tiles = [2, 2]\nwhole = false"),
        NO_GEARS,
    )
    .unwrap();
    let tilings: Vec<Option<Tiling>> = graph.modules().iter().map(ModuleNode::tiling).collect();
    let [look, near, first, second] = tilings[..] else {
        panic!("{tilings:?}")
    };
    let look = look.unwrap();
    assert_eq!((look.grid, look.items(), look.overlap), (grid(3, 2), 7, 0.2));
    assert_eq!((near, first), (None, second), "stages read the same tiles");
    assert_eq!(second.unwrap().items(), 4);
    let items: Vec<u32> = (0..4).map(|module| graph.least_items(module)).collect();
    assert_eq!(items, [7, 1, 4, 4]);
    assert!(graph.to_mermaid().contains("<br/>in 3 x 2 tiles<br/>"));
    let named = cascade_stages(&graph);
    let named: Vec<(&str, bool)> = named
        .iter()
        .map(|stage| (&*stage.cascade, stage.reads_tiles))
        .collect();
    assert_eq!(named, [("look", true), ("far", true), ("far", true)]);
}

#[test]
fn tiles_go_with_whole_frames_only_and_their_keys_with_them() {
    let with = |keys: &str| problems(read(&text(keys, "", ""), NO_GEARS));
    let two = "`tiles` must be two whole numbers, each from 1 to 8";
    for (keys, expected) in [
        ("tiles = [0, 2]", two),
        ("tiles = [9, 2]", two),
        ("tiles = [2]", two),
        ("tiles = [2, 2, 2]", two),
        ("tiles = [1.5, 2]", two),
        (
            "tiles = 3",
            "`tiles` must be two whole numbers, such as [3, 2], not",
        ),
        (
            "overlap = 0.3",
            "`overlap` is about tiles, and module \"look\" has no `tiles`",
        ),
        (
            "tiles = [2, 2]\noverlap = 0.6",
            "`overlap` must lie between 0 and 0.5",
        ),
        (
            "tiles = [2, 2]\nitems = \"frame\"",
            "module \"look\" has both `tiles` and `items`",
        ),
        ("tiles = [9, 2]\noverlap = 0.3", two),
    ] {
        let found = with(keys);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{keys}: {found:?}"
        );
    }
    let of_regions = problems(read(
        &text("", "tiles = [2, 2]\nregions = [\"car\"]", ""),
        NO_GEARS,
    ));
    assert!(
        of_regions
            .iter()
            .any(|problem| problem == "module \"near\" has both `tiles` and `regions`"),
        "{of_regions:?}"
    );
    let escalates = problems(read(
        &text("", "", "tiles = [2, 2]\nescalate = \"regions\""),
        NO_GEARS,
    ));
    assert_eq!(
        escalates,
        ["module \"far\" has both `tiles` and `escalate = \"regions\"`"]
    );
}

const GEARS: &str = r#"graph = "yard"
number = 2
[[gears]]
up_to = 10
[gears.cascades]
look = [{ model = "small", tiles = [4, 3] }]
far = [{ model = "large", tiles = [2, 1] }]
[[gears]]
up_to = 40
[gears.cascades]
look = [{ model = "small", tiles = [1, 1] }]
"#;

#[test]
fn gear_sets_the_tiles_of_a_module_and_of_the_first_stage() {
    let graph = read(&text("tiles = [3, 2]", "", "tiles = [2, 2]"), GEARS).unwrap();
    let gears = graph.gears().unwrap();
    let tiles = |gear: usize, module: usize| gears.gears[gear].stages.get(&module).map(|set| set.tiles);
    assert_eq!(tiles(0, 0), Some(Some(grid(4, 3))));
    // The first stage makes the items, also where it is not asked.
    assert_eq!((tiles(0, 2), tiles(0, 3)), (Some(Some(grid(2, 1))), Some(None)));
    assert!(!gears.gears[0].stages[&2].is_used && gears.gears[0].stages[&3].is_used);
    assert_eq!((tiles(1, 0), tiles(1, 2)), (Some(Some(grid(1, 1))), None));
    assert_eq!(graph.least_items(0), 1, "in the gear for the highest load");
    assert_eq!(graph.least_items(2), 3, "as the graph has it, or one tile less");
}

#[test]
fn wrong_tiles_of_a_gear_are_reported() {
    let with = |from: &str, to: &str| {
        let gears = GEARS.replacen(from, to, 1);
        assert_ne!(gears, GEARS);
        problems(read(&text("tiles = [3, 2]", "", "tiles = [2, 2]"), &gears))
    };
    for (from, to, expected) in [
        (
            "[4, 3]",
            "[4, 9]",
            "`tiles` are [columns, rows], each from 1 to 8",
        ),
        (
            "far = [{ model = \"large\", tiles = [2, 1] }]",
            "far = [{ model = \"small\", certainty = 0.5 }, { model = \"large\", tiles = [2, 1] }]",
            "\"large\" has `tiles` and is not its first stage",
        ),
        (
            "look =",
            "near =",
            "no cascade \"near\", and no module of that name with `tiles`",
        ),
    ] {
        let found = with(from, to);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
    let without = problems(read(&text("tiles = [3, 2]", "", ""), GEARS));
    assert!(
        without.len() == 1 && without[0].contains("its frames are not read in tiles"),
        "{without:?}"
    );
}
