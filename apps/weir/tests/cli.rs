//! The program as its caller sees it: what it prints where, and its exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that skips says so"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::{refuses, stderr, stdout};

/// Runs the program in an empty folder, with no settings of this machine.
fn weir(folder: &Path, arguments: &[&str]) -> Output {
    weir_with(folder, arguments, &[])
}

fn weir_with(folder: &Path, arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", folder.join("cache"));
    for name in [
        "WEIR_FRAME_MEMORY",
        "WEIR_MODEL_CACHE",
        "WEIR_MODEL_MIRROR",
        "WEIR_SINK_EVENTS",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    command
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts")
}

/// A folder with a graph on an emulated device, which needs neither models nor videos.
fn emulated() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let graph = folder.path().join("graph.toml");
    let text = r#"
[app]
name = "chain"
slo = "400ms"

[sources.north]
uri = "emulated:uniform?rate=30"

[models.detector]
device = "emulated:t4"
profile = { "1" = "8ms", "4" = "30ms" }

[modules.detect]
operator = "emulate"
model = "detector"
inputs = ["north"]

[sinks.nowhere]
type = "null"
inputs = ["detect"]
"#;
    std::fs::write(&graph, text).expect("written");
    (folder, graph)
}

#[test]
fn help_and_version_are_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    assert!(weir(folder.path(), &["--version"]).status.success());
    let help = weir(folder.path(), &["replay", "--help"]);
    assert!(help.status.success());
    for option in [
        "--streams",
        "--speed",
        "--loop",
        "--out",
        "--report",
        "--record",
        "--strict",
        "--dump-inputs",
        "--drop",
    ] {
        assert!(stdout(&help).contains(option), "{option}");
    }
}

#[test]
fn a_mistake_on_the_command_line_is_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    refuses(&weir(folder.path(), &["fly"]), &["fly"]);
    refuses(
        &weir(folder.path(), &["replay", "g.toml", "--speed", "fast"]),
        &["write max, or a factor"],
    );
    refuses(
        &weir(folder.path(), &["replay", "g.toml", "--drop", "prd"]),
        &["unknown variant `prd`"],
    );
    refuses(
        &weir(folder.path(), &["run", "g.toml", "--duration", "60"]),
        &["is not a duration"],
    );
}

#[test]
fn a_command_that_moved_is_answered_with_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["render", "street", "--out", "street.mp4"][..],
        &["render", "--help"],
        &["help", "render"],
    ] {
        let said = refuses(
            &weir(folder.path(), arguments),
            &[
                "error: rendering is a program of its own",
                "-p weir-videos --bin render",
            ],
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_graph_that_is_not_there_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["run", "replay", "check", "graph"] {
        let output = weir(folder.path(), &[command, "nowhere.toml"]);
        refuses(&output, &["error: ", "nowhere.toml"]);
        assert!(stdout(&output).is_empty());
    }
}

#[test]
fn check_says_all_that_is_wrong() {
    let (folder, graph) = emulated();
    let good = weir(folder.path(), &["check", "graph.toml"]);
    assert!(good.status.success(), "{}", stderr(&good));
    assert!(stdout(&good).contains("chain: 1 source, 1 module, 1 model, 1 sink, SLO 400ms: no problems"));

    let text = std::fs::read_to_string(&graph).unwrap();
    let text = text
        .replace("\"400ms\"", "\"soon\"")
        .replace("[\"detect\"]", "[\"detekt\"]");
    std::fs::write(&graph, text).unwrap();
    refuses(
        &weir(folder.path(), &["check", "graph.toml"]),
        &["graph.toml:4:", "soon", "detekt", "detect"],
    );
}

#[test]
fn a_graph_is_drawn() {
    let (folder, _) = emulated();
    let mermaid = weir(folder.path(), &["graph", "graph.toml"]);
    assert!(
        stdout(&mermaid).starts_with("flowchart LR\n"),
        "{}",
        stderr(&mermaid)
    );
    let dot = weir(folder.path(), &["graph", "graph.toml", "--format", "dot"]);
    assert!(stdout(&dot).starts_with("digraph \"chain\" {"));
}

#[test]
fn a_video_that_is_not_there_is_named() {
    let (folder, _) = emulated();
    refuses(
        &weir(folder.path(), &["replay", "graph.toml", "nothing.mp4"]),
        &["there is no video nothing.mp4"],
    );
}

#[test]
fn models_are_pulled_from_a_mirror() {
    let folder = tempfile::tempdir().unwrap();
    let mirror = folder.path().join("mirror");
    std::fs::create_dir(&mirror).unwrap();
    std::fs::write(mirror.join("yolox_nano_416.onnx"), b"no model").unwrap();
    let variables = [("WEIR_MODEL_MIRROR", mirror.as_path())];
    let output = weir_with(folder.path(), &["models", "pull", "yolox-nano"], &variables);
    refuses(&output, &["zoo:yolox-nano", "is not the model", "8 bytes"]);
    refuses(
        &weir(folder.path(), &["models", "pull", "yolox-giga"]),
        &["no model \"yolox-giga\""],
    );
    refuses(
        &weir(folder.path(), &["models", "pull", "lprnet"]),
        &["published as weights only", "WEIR_MODEL_MIRROR"],
    );

    let listed = weir(folder.path(), &["models", "list"]);
    assert!(listed.status.success());
    assert!(
        stdout(&listed)
            .lines()
            .any(|line| line.contains("yolox-nano") && line.contains("Apache-2.0"))
    );
    let found = weir(folder.path(), &["models", "search", "PLATE", "ctc"]);
    let found = stdout(&found);
    let rows: Vec<&str> = found.lines().skip(1).collect();
    assert!(
        !rows.is_empty()
            && rows
                .iter()
                .all(|row| row.to_lowercase().contains("plate") && row.contains("ctc")),
        "{found}"
    );
    refuses(
        &weir(folder.path(), &["models", "search", "plate", "pasta"]),
        &["no model has \"plate pasta\"", "weir models list"],
    );

    let Some(assets) = std::env::var_os("WEIR_ASSETS") else {
        eprintln!("skipped: WEIR_ASSETS is not set");
        return;
    };
    let models = Path::new(&assets).join("models");
    let variables = [("WEIR_MODEL_MIRROR", models.as_path())];
    let pulled = weir_with(
        folder.path(),
        &["models", "pull", "yolox-nano", "yunet-320"],
        &variables,
    );
    assert!(pulled.status.success(), "{}", stderr(&pulled));
    assert!(stderr(&pulled).is_empty(), "quiet in a pipe");
    let pulled = weir(folder.path(), &["models", "pull", "yolox-nano"]);
    assert!(stdout(&pulled).contains("yolox-nano: is here"));
}

#[test]
fn settings_are_checked_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weir.toml"), "frame_memory = \"much\"\n").unwrap();
    refuses(
        &weir(folder.path(), &["models", "list"]),
        &["settings:", "\"much\" is not an amount of memory"],
    );
    std::fs::write(folder.path().join("weir.toml"), "frame_memory = \"64MiB\"\n").unwrap();
    assert!(weir(folder.path(), &["models", "list"]).status.success());
    refuses(
        &weir(folder.path(), &["--settings", "none.toml", "models", "list"]),
        &["none.toml"],
    );
}

#[test]
fn a_settings_file_that_was_not_named_does_not_say_where_models_come_from() {
    let folder = tempfile::tempdir().unwrap();
    for key in ["model_cache", "model_mirror"] {
        std::fs::write(folder.path().join("weir.toml"), format!("{key} = \"evil\"\n")).unwrap();
        let variable = format!("WEIR_{}", key.to_uppercase());
        refuses(
            &weir(folder.path(), &["models", "list"]),
            &["settings:", key, "--settings weir.toml", &variable],
        );
        let named = weir(folder.path(), &["--settings", "weir.toml", "models", "list"]);
        assert!(named.status.success(), "{}", stderr(&named));
        let variables = [(variable.as_str(), folder.path())];
        let said = weir_with(folder.path(), &["models", "list"], &variables);
        assert!(said.status.success(), "{}", stderr(&said));
    }
}

#[test]
fn a_zoo_model_that_is_not_what_it_is_called_is_refused() {
    let (folder, graph) = emulated();
    let text = std::fs::read_to_string(&graph).unwrap();
    let text = text
        .replace(
            "device = \"emulated:t4\"\nprofile = { \"1\" = \"8ms\", \"4\" = \"30ms\" }",
            "model = \"zoo:yolox-nano\"",
        )
        .replace("operator = \"emulate\"", "operator = \"detect\"");
    std::fs::write(&graph, text).unwrap();
    let mirror = folder.path().join("mirror");
    std::fs::create_dir(&mirror).unwrap();
    let model = mirror.join("yolox_nano_416.onnx");
    let variables = [("WEIR_MODEL_MIRROR", mirror.as_path())];
    let refused = |word: &str| {
        for command in ["run", "check"] {
            let output = weir_with(folder.path(), &[command, "graph.toml"], &variables);
            refuses(
                &output,
                &["yolox_nano_416.onnx is not the model zoo:yolox-nano", word],
            );
        }
    };
    std::fs::write(&model, "no model").unwrap();
    refused("it has 8 bytes where 3660092 are expected");
    // Of the size that it should have, and nothing in it.
    let whole = std::fs::File::options().write(true).open(&model).unwrap();
    whole.set_len(3_660_092).unwrap();
    refused("its sha256 is");
}

#[test]
fn the_applications_are_well_formed_and_name_what_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    for (app, model) in [
        ("traffic-monitoring", "hyperlpr-y5fu"),
        ("live-video", "fsanet-var"),
    ] {
        let graph = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(app)
            .join("graph.toml");
        let graph = graph.to_str().unwrap();
        refuses(
            &weir(folder.path(), &["check", graph]),
            &["models are not here", model, "weir models pull"],
        );
        let checked = weir(folder.path(), &["check", "--quick", graph]);
        assert!(checked.status.success(), "{}", stderr(&checked));
        assert!(stdout(&checked).contains("no problems"));
        assert!(!stderr(&checked).contains("warning"), "{}", stderr(&checked));
        refuses(
            &weir(folder.path(), &["run", graph]),
            &["models are not here", model, "weir models pull"],
        );
    }
}

#[test]
fn a_measured_profile_is_what_a_graph_reads() {
    let Some(assets) = std::env::var_os("WEIR_ASSETS").map(PathBuf::from) else {
        eprintln!("skipped: WEIR_ASSETS is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let models = assets.join("models");
    let file = models.join("fer_mini_xception_48.onnx");
    let measured = weir(
        folder.path(),
        &[
            "profile",
            file.to_str().unwrap(),
            "--batches",
            "2,1",
            "--out",
            "made/fer.toml",
        ],
    );
    assert!(measured.status.success(), "{}", stderr(&measured));
    let table = stdout(&measured);
    let durations = table.lines().take_while(|line| !line.trim().is_empty());
    assert!(table.contains("items/s") && durations.count() == 3, "{table}");
    assert!(
        table.contains("open warm ms") && table.contains("session MiB"),
        "{table}"
    );

    let text = r#"
[app]
name = "faces"
slo = "5s"

[sources.north]
uri = "emulated:uniform?rate=30"

[models.finder]
model = "zoo:yunet-320"
profile = "made/fer.toml"
batch = [1, 2]

[modules.faces]
operator = "detect"
model = "finder"
inputs = ["north"]

[sinks.nowhere]
type = "null"
inputs = ["faces"]
"#;
    let graph = folder.path().join("graph.toml");
    std::fs::write(&graph, text).unwrap();
    let check = weir(folder.path(), &["check", "--quick", "graph.toml"]);
    assert!(check.status.success(), "{}", stderr(&check));

    let arguments = ["profile", "graph.toml", "--out", "made"];
    let of_graph = weir_with(folder.path(), &arguments, &[("WEIR_MODEL_MIRROR", &models)]);
    assert!(of_graph.status.success(), "{}", stderr(&of_graph));
    let written = std::fs::read_to_string(folder.path().join("made/finder.toml")).unwrap();
    assert!(written.contains("[durations]\n1 = \""), "{written}");
}

#[test]
fn a_model_of_its_own_needs_a_head_to_be_measured() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.onnx"), b"").unwrap();
    refuses(&weir(folder.path(), &["profile", "mine.onnx"]), &["--head"]);
    refuses(
        &weir(folder.path(), &["profile", "mine.onnx", "--head", "yolox"]),
        &["mine", "the file is empty"],
    );
}

/// A field of a protobuf message that holds bytes, shorter than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

#[test]
fn a_model_that_cannot_be_cut_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let attribute = field(5, &field(6, b""));
    let node = [
        field(1, b"x"),
        field(2, b"y"),
        field(3, b"choice"),
        field(4, b"If"),
        attribute,
    ];
    let graph = [
        field(1, &node.concat()),
        field(11, &field(1, b"x")),
        field(12, &field(1, b"y")),
    ];
    std::fs::write(folder.path().join("flow.onnx"), field(7, &graph.concat())).unwrap();
    std::fs::write(folder.path().join("none.onnx"), b"this is text, not a model").unwrap();
    let profile = |more: &[&str]| {
        let arguments: Vec<&str> = ["profile"].iter().chain(more).copied().collect();
        weir(folder.path(), &arguments)
    };
    let flow = profile(&["flow.onnx", "--blocks", "2"]);
    refuses(&flow, &["node choice (If)", "control flow cannot be cut"]);
    refuses(&profile(&["none.onnx", "--blocks", "2"]), &["no ONNX file"]);
    refuses(&profile(&["flow.onnx", "--class", "slow"]), &["--blocks"]);
    refuses(&profile(&["flow.onnx", "--blocks", "0"]), &["0"]);
}

#[test]
fn a_profile_of_blocks_is_added_to() {
    let Some(assets) = std::env::var_os("WEIR_ASSETS").map(PathBuf::from) else {
        eprintln!("skipped: WEIR_ASSETS is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = assets.join("models/fer_mini_xception_48.onnx");
    let profile = |more: &[&str]| {
        let first = ["profile", file.to_str().unwrap(), "--batches", "1,2", "--blocks"];
        let arguments: Vec<&str> = first.iter().chain(more).copied().collect();
        weir(folder.path(), &arguments)
    };
    for class in [&["--class", "fast"][..], &["--class", "slow", "--slower", "3"]] {
        let said = profile(&[&["3", "--out", "made/fer.toml"], class].concat());
        assert!(said.status.success(), "{}", stderr(&said));
        let table = stdout(&said);
        assert!(table.contains("whole") && table.lines().count() == 6, "{table}");
    }
    let text = std::fs::read_to_string(folder.path().join("made/fer.toml")).unwrap();
    let blocks: weir_planner::Blocks = toml::from_str(&text).unwrap();
    assert_eq!((blocks.layers.len(), blocks.boundary_bytes.len()), (3, 2));
    let classes: Vec<&str> = blocks.times.iter().map(|times| times.class.as_str()).collect();
    assert_eq!(classes, ["fast", "slow"]);
    for times in &blocks.times {
        assert_eq!(times.batch, [1, 2]);
        assert!(times.us.len() == 3 && times.us.iter().all(|us| us.len() == 2));
    }
    refuses(
        &profile(&["4", "--out", "made/fer.toml"]),
        &["it has 3 blocks", "another file"],
    );
    refuses(
        &profile(&["3", "--out", "made/fer.toml", "--full-precision"]),
        &["the precision"],
    );
    let mut bent = blocks.clone();
    bent.layers[1] = 0;
    std::fs::write(folder.path().join("bent.toml"), toml::to_string(&bent).unwrap()).unwrap();
    refuses(
        &profile(&["3", "--out", "bent.toml"]),
        &["bent.toml", "do not ascend from 0", "another file"],
    );
    refuses(&profile(&["4000"]), &["at most", "lower --blocks"]);
}
