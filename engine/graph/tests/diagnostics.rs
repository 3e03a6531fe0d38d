//! Every kind of mistake: its line and message, and no other.

use weir_graph::load;

use crate::common::{self, VALID, catalog, check, check_with, environment};

#[test]
fn a_valid_graph_has_no_problems() {
    check(VALID, &[]);
}

#[test]
fn five_mistakes_are_five_problems() {
    let toml = VALID
        .replace("slo = \"400ms\"", "slo = \"400\"")
        .replace("uri = \"crossing.mp4\"", "uri = \"crosing.mp4\"")
        .replace("operator = \"detect\"", "operator = \"detct\"")
        .replace("inputs = [\"detect\"]", "inputs = [\"detection\"]")
        .replace("path = \"out/events.jsonl\"", "pth = \"out/events.jsonl\"");
    check(
        &toml,
        &[
            "3: \"400\" is not a duration",
            "10: did you mean \"crossing.mp4\"",
            "30: there is no operator \"detct\" | did you mean \"detect\"?",
            "37: there is no source or module \"detection\"",
            "42: sink \"events\" has no key \"pth\" | did you mean \"path\"?",
        ],
    );
}

#[test]
fn text_that_is_not_toml_is_reported() {
    check_with(
        "slo = \"400ms\"",
        "slo = 400ms",
        &["3: texts and durations stand in quotes: \"400ms\""],
    );
    check_with("mode = \"live\"", "mode = \"live", &["11: not TOML"]);
    let two = VALID
        .replace("slo = \"400ms\"", "slo = 400ms")
        .replace("slots = 2", "slots = ");
    check(&two, &["3: not TOML", "18: not TOML"]);
    let with_more = two.replace("mode = \"live\"", "mode = \"alive\"");
    check(
        &with_more,
        &[
            "3: not TOML",
            "11: `mode` cannot be \"alive\" | did you mean \"live\"?",
            "18: not TOML",
        ],
    );
    check_with("[sources.north]", "[sources.north", &["9: not TOML"]);
}

#[test]
fn duplicate_keys_and_tables_are_reported() {
    check_with(
        "mode = \"live\"",
        "mode = \"live\"\nuri = \"x\"",
        &["12: `uri` is given twice"],
    );
    let toml = format!("{VALID}\n[models.reader]\nmodel = \"reader.onnx\"\nhead = \"ctc\"\n");
    check(&toml, &["45: [models.reader] is given twice"]);
}

#[test]
fn unknown_sections_and_keys_are_reported() {
    check_with(
        "[policy]",
        "[polcy]",
        &["5: no section \"polcy\" | did you mean \"policy\"?"],
    );
    check_with(
        "[models.detector]",
        "[model.detector]",
        &["20: no section \"model\" | did you mean \"models\"?"],
    );
    check_with(
        "[devices.cpu]",
        "[cluster]",
        &["17: no section \"cluster\" | sections: app"],
    );
    check(
        &format!("title = 1\n{VALID}"),
        &["1: no key outside a section \"title\""],
    );
    check_with(
        "operator = \"detect\"",
        "operater = \"detect\"",
        &["30: module \"detect\" has no key \"operater\""],
    );
    check_with(
        "slots = 2",
        "slots = 2\ncores = 1",
        &["19: device \"cpu\" has no key \"cores\" | keys: slots"],
    );
    check_with(
        "head = \"ctc\"",
        "head = \"ctc\"\nthreshhold = 1",
        &["28: did you mean \"threshold\""],
    );
}

#[test]
fn values_of_the_wrong_kind_are_reported() {
    check_with(
        "slo = \"400ms\"",
        "slo = 400",
        &["3: `slo` must be a duration in quotes, not a whole number"],
    );
    check_with(
        "slo = \"400ms\"",
        "slo = \"0ms\"",
        &["3: `slo` must be above zero"],
    );
    check_with(
        "slo = \"400ms\"",
        "slo = \"fast\"",
        &["3: \"fast\" is not a duration"],
    );
    check_with(
        "uri = \"crossing.mp4\"",
        "uri = 3",
        &["10: `uri` must be a text, not a whole number"],
    );
    check_with("fps = 12.5", "fps = -1", &["15: `fps` must be above zero"]);
    check_with(
        "fps = 12.5",
        "fps = 1979-05-27",
        &["15: `fps` must be a number, not a date"],
    );
    check_with("fps = 12.5", "loop = 1", &["15: `loop` must be true or false"]);
    check_with(
        "inputs = [\"detect\"]",
        "inputs = \"detect\"",
        &["37: `inputs` must be a list of texts"],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = [1]",
        &["37: `inputs` must hold texts"],
    );
    check_with("slots = 2", "slots = 0", &["18: `slots` must lie between 1 and"]);
    check_with(
        "[devices.cpu]\nslots = 2",
        "[devices]\ncpu = 2",
        &["18: [devices] holds named tables"],
    );
    check_with(
        "regions = [\"plate\"]",
        "weight = 0",
        &["35: takes flat things", "38: `weight` must be above"],
    );
    check_with(
        "[sources.north]",
        "[sources.\"no rth\"]",
        &["9: cannot be a name", "32: no source or module \"north\""],
    );
    check_with("fps = 12.5", "fps = 99999999999999999999", &["15: out of range"]);
}

#[test]
fn mistakes_in_the_policy_are_reported_key_by_key() {
    check_with(
        "order = \"adaptive\"",
        "order = \"adptive\"\nforming = \"soon\"\narbitration = \"weighed\"",
        &[
            "7: `order` cannot be \"adptive\" | did you mean \"adaptive\"?",
            "8: `forming` cannot be \"soon\" | one of: eager, late",
            "9: did you mean \"weighted\"",
        ],
    );
    let drop = "drop = { rule = \"pard\", quantile = 0.1, window = \"5s\" }";
    check_with(drop, "drop = \"none\"", &[]);
    check_with(
        drop,
        "drop = \"prd\"",
        &["6: no drop rule \"prd\" | did you mean \"pard\"?"],
    );
    check_with(
        drop,
        "drop = { quantile = 0.1 }",
        &["6: does not name its `rule`"],
    );
    check_with(drop, "drop = 3", &["6: `drop` cannot be a whole number"]);
    check_with(
        drop,
        "drop = { rule = \"nexus\", quantile = 0.1 }",
        &["6: no parameter \"quantile\""],
    );
    check_with(
        drop,
        "drop = { rule = \"pard\", quantil = 0.1 }",
        &["6: did you mean \"quantile\""],
    );
    check_with(
        drop,
        "[policy.drop]\nrule = \"pard\"\nquantile = 2\nwindow = \"soon\"\n[policy.x]",
        &[
            "8: between 0 and 1",
            "9: `window`",
            "10: [policy] has no key \"x\"",
        ],
    );
}

#[test]
fn names_that_do_not_resolve_are_reported() {
    check_with(
        "operator = \"detect\"",
        "operator = \"segment\"",
        &["30: no operator \"segment\" | operators: detect"],
    );
    check_with(
        "head = \"ctc\"",
        "head = \"cct\"",
        &["27: no head \"cct\" | did you mean \"ctc\"?"],
    );
    check_with(
        "head = \"ctc\"",
        "head = \"transformer\"",
        &["27: no head \"transformer\" | heads: yolox"],
    );
    check_with(
        "type = \"jsonl\"",
        "type = \"json\"",
        &["41: no sink type \"json\" | did you mean \"jsonl\"?"],
    );
    check_with(
        "model = \"reader\"",
        "model = \"raeder\"",
        &["36: no model \"raeder\" | did you mean \"reader\"?"],
    );
    check_with(
        "workers = 2",
        "device = \"cuda\"",
        &["23: no device \"cuda\" | did you mean \"cuda:0\"?"],
    );
    check_with("workers = 2", "device = \"tpu\"", &["23: no device \"tpu\""]);
    check_with(
        "[devices.cpu]\nslots = 2",
        "[devices.cpus]\nslots = 2",
        &["17: did you mean \"cpu\""],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = [\"dtect\"]",
        &["37: did you mean \"detect\""],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = [\"detector\"]",
        &["37: \"detector\" is a model"],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = [\"events\"]",
        &["37: \"events\" is a sink"],
    );
    check_with(
        "embedded:street-detector",
        "embedded:street-detecter",
        &["21: did you mean \"street-detector\""],
    );
    check_with(
        "embedded:street-detector",
        "zoo:yolox-nan",
        &["21: did you mean \"yolox-nano\"", "38: the class \"plate\""],
    );
}

#[test]
fn missing_tables_and_keys_are_reported() {
    check_with("slo = \"400ms\"\n", "", &["1: [app] has no `slo`"]);
    check_with(
        "uri = \"crossing.mp4\"\n",
        "",
        &["9: source \"north\" has no `uri`"],
    );
    check_with(
        "operator = \"detect\"\n",
        "",
        &["29: module \"detect\" has no `operator`"],
    );
    check_with(
        "model = \"reader\"\n",
        "",
        &["34: module \"plates\" has no `model`"],
    );
    check_with(
        "inputs = [\"detect\"]\n",
        "",
        &["34: module \"plates\" has no `inputs`"],
    );
    check_with("type = \"jsonl\"\n", "", &["40: sink \"events\" has no `type`"]);
    check_with(
        "model = \"reader.onnx\"\n",
        "",
        &["25: model \"reader\" has no `model`"],
    );
    check_with(
        "head = \"ctc\"\n",
        "",
        &[
            "35: operator \"read-text\" cannot run \"reader\" without its `head`: only the head of a detector is found automatically | it runs heads: ctc",
        ],
    );
    check("", &["1: no [app]", "1: no sources", "1: no modules"]);
}

#[test]
fn missing_files_are_reported() {
    check_with(
        "\"crossing.mp4\"",
        "\"videos/crossing.mp4\"",
        &["10: there is no folder"],
    );
    check_with(
        "\"reader.onnx\"",
        "\"raeder.onnx\"",
        &["26: did you mean \"reader.onnx\" beside it?"],
    );
    check_with("\"reader.onnx\"", "\"faces\"", &["26: \"faces\" is a folder"]);
    check_with(
        "workers = 2",
        "labels = \"label.txt\"",
        &["23: did you mean \"labels.txt\""],
    );
    let catalog = catalog();
    let problems = load("no/such/graph.toml".as_ref(), &catalog, &environment).unwrap_err();
    assert!(
        problems
            .to_string()
            .starts_with("no/such/graph.toml: cannot be read"),
        "{problems}"
    );
    let folder = common::folder();
    let path = folder.path().join("crossing.mp4");
    for (bytes, said) in [([0xff, 0xd8, 0xff], "not UTF-8"), ([0xff, 0xfe, 0], "UTF-16")] {
        std::fs::write(&path, bytes).unwrap();
        let problems = load(&path, &catalog, &environment).unwrap_err();
        assert!(problems.to_string().contains(said), "{problems}");
    }
}

#[test]
fn dangling_edges_and_cycles_are_reported() {
    check_with(
        "inputs = [\"north\", \"south\"]",
        "inputs = [\"plates\"]",
        &["32: cycle: detect -> plates -> detect"],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = [\"plates\"]",
        &["37: cycle: plates -> plates"],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = []",
        &["37: no source reaches module \"plates\""],
    );
    check_with(
        "[sources.south]",
        "[sources.detect]",
        &[
            "29: names this module and the source of line 13",
            "32: no source or module \"south\"",
        ],
    );
    check_with(
        "[sinks.events]",
        "[sinks.north]",
        &["40: names this sink and the source of line 9"],
    );
    let twice = format!(
        "{VALID}[sinks.more]\ntype = \"jsonl\"\npath = \"./out/events.jsonl\"\ninputs = [\"detect\"]\n"
    );
    check(&twice, &["46: writes the same file as sink \"events\""]);
}

#[test]
fn too_many_paths_are_refused() {
    let mut toml = VALID.to_owned();
    let mut below = "north".to_owned();
    for layer in 0..13 {
        for half in ["a", "b"] {
            toml += &format!(
                "[modules.{half}{layer}]\noperator = \"detect\"\nmodel = \"detector\"\ninputs = [{below:?}]\n"
            );
        }
        below = format!("j{layer}");
        toml += &format!(
            "[modules.{below}]\noperator = \"detect\"\nmodel = \"detector\"\ninputs = [\"a{layer}\", \"b{layer}\"]\n"
        );
    }
    check(&toml, &["196: more than 4096 paths lead to module \"j12\""]);
}

#[test]
fn invalid_batch_sizes_and_worker_counts_are_reported() {
    check_with("batch = [1, 2, 4]", "batch = []", &["22: `batch` is empty"]);
    check_with(
        "batch = [1, 2, 4]",
        "batch = [0, 1]",
        &["22: whole numbers between 1 and 4096"],
    );
    check_with(
        "batch = [1, 2, 4]",
        "batch = [1, 4, 2]",
        &["22: must ascend, but 2 is out of order"],
    );
    check_with(
        "batch = [1, 2, 4]",
        "batch = 4",
        &["22: must be a list of batch sizes"],
    );
    check_with(
        "workers = 2",
        "workers = 0",
        &["23: `workers` must lie between 1 and"],
    );
    check_with(
        "workers = 2",
        "workers = 3",
        &["23: 3 workers do not fit on device \"cpu\" with 2 slots"],
    );
    check_with(
        "workers = 2",
        "device = \"cuda:1\"\nworkers = 2",
        &["24: with 1 slots"],
    );
}

#[test]
fn invalid_settings_of_the_catalog_are_reported() {
    let with = |line: &str, expected: &[&str]| check_with("workers = 2", line, expected);
    with("threshold = 0.5\nsize = 64\nfit = \"stretch\"\nswap = true", &[]);
    with(
        "threshold = 1.5",
        &["23: `threshold` must lie between 0 and 1, not 1.5"],
    );
    with(
        "threshold = \"high\"",
        &["23: `threshold` must be a number, not a text"],
    );
    with("size = 31", &["23: `size` must lie between 32 and 4096"]);
    with(
        "size = 64.5",
        &["23: `size` must be a whole number, not a number"],
    );
    with(
        "fit = \"strech\"",
        &["23: `fit` cannot be \"strech\" | did you mean \"stretch\"?"],
    );
    with("swap = 1", &["23: `swap` must be true or false"]);
    with("labels = [\"plate\", 1]", &["23: `labels` must hold texts"]);
    check_with(
        "operator = \"detect\"",
        "operator = \"detect\"\nlimit = 0",
        &["31: between 1 and 100"],
    );
    check_with(
        "regions = [\"plate\"]",
        "gallery = \"faces\"",
        &["35: takes flat things", "38: has no key \"gallery\""],
    );
}

#[test]
fn type_mismatches_between_modules_are_reported() {
    check_with(
        "regions = [\"plate\"]",
        "regions = [\"plates\"]",
        &[
            "38: nothing upstream finds the class \"plates\" | did you mean \"plate\"? classes upstream: car, plate",
        ],
    );
    check_with(
        "regions = [\"plate\"]\n",
        "",
        &["35: takes flat things with four corners"],
    );
    check_with(
        "workers = 2",
        "labels = \"labels.txt\"",
        &["38: classes upstream: bus, tram"],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = [\"north\"]",
        &["35: takes flat things"],
    );
    check_with(
        "model = \"detector\"",
        "model = \"reader\"",
        &[
            "31: operator \"detect\" cannot run \"reader\", whose head is \"ctc\" | it runs heads: yolox, yunet, corners, auto",
            "35: takes flat things",
        ],
    );
    let boxes = "operator = \"classify\"\nmodel = \"c\"\ninputs = [\"detect\"]";
    let plates = "operator = \"read-text\"\nmodel = \"reader\"\ninputs = [\"detect\"]\nregions = [\"plate\"]";
    let model = "[models.c]\nmodel = \"reader.onnx\"\nhead = \"classify\"\n";
    let with =
        |module: &str, expected: &[&str]| check(&(VALID.replacen(plates, module, 1) + model), expected);
    with(&format!("{boxes}\nregions = [\"car\"]"), &[]);
    with(
        boxes,
        &[
            "35: operator \"classify\" needs `regions`: the classes whose crops it takes | classes upstream: car",
        ],
    );
    let faces = boxes.replace("classify", "match").replace("\"c\"", "\"e\"");
    let model = "[models.e]\nmodel = \"reader.onnx\"\nhead = \"embed\"\n";
    check(
        &(VALID.replacen(plates, &faces, 1) + model),
        &["35: takes faces with five points"],
    );
    let upright = "[models.e]\nmodel = \"reader.onnx\"\nhead = \"embed\"\nalign = \"none\"\n";
    let read = |module: &str, expected: &[&str]| {
        check(&(VALID.replacen(plates, module, 1) + upright), expected);
    };
    read(&format!("{faces}\nregions = [\"plate\"]"), &[]);
    read(&faces, &["35: operator \"match\" needs `regions`"]);
    check_with(
        "operator = \"detect\"",
        "operator = \"emulate\"",
        &["31: on emulated devices, and \"detector\" is on none"],
    );
}

#[test]
fn weights_and_reserves_of_sources_are_above_zero() {
    let with = |line: &str, expected: &[&str]| {
        check_with("mode = \"live\"", &format!("mode = \"live\"\n{line}"), expected);
    };
    with("weight = 3\nreserve = 5", &[]);
    with(
        "weight = 0",
        &["12: `weight` must lie between 0.001 and 1000, not 0 | weights are relative"],
    );
    with(
        "weight = -1.5",
        &["12: `weight` must lie between 0.001 and 1000, not -1.5 | weights are relative"],
    );
    with("weight = nan", &["12: `weight` must lie between"]);
    with(
        "reserve = 0",
        &["12: `reserve` must lie between 0.001 and 10000, not 0 | frames a second"],
    );
    with(
        "reserve = \"5\"",
        &["12: `reserve` must be a number from 0.001 to 10000, not a text"],
    );
}

#[test]
fn invalid_profiles_are_reported() {
    let with = |line: &str, expected: &[&str]| check_with("workers = 2", line, expected);
    with("profile = \"profile.toml\"", &[]);
    with(
        "profile = \"profil.toml\"",
        &["23: did you mean \"profile.toml\" beside it?"],
    );
    with(
        "profile = \"bad-profile.toml\"",
        &["2: \"one\" is not a batch size", "3: \"fast\" is not a duration"],
    );
    with("profile = {}", &["23: the profile is empty"]);
    with("profile = { \"1\" = 8 }", &["23: a duration must be a text"]);
    with(
        "profile = { \"1\" = \"8ms\" }",
        &["23: `profile` ends at batches of 1, but model \"detector\" may run 4"],
    );
    with(
        "profile = { \"4\" = \"8ms\", \"04\" = \"9ms\" }",
        &["23: batch size 4 is given twice"],
    );
    with("profile = 3", &["23: `profile` cannot be a whole number"]);
    with(
        "fail_every = 100",
        &["23: `fail_every` is for emulated devices, and model \"detector\" computes | leave it out"],
    );
}

#[test]
fn invalid_decoders_of_sources_are_reported() {
    for name in ["cuda:1", "cpu", "auto", "qsv", "vaapi"] {
        check_with("mode = \"live\"", &format!("decoder = \"{name}\""), &[]);
    }
    for wrong in ["gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "vaapi:0", "nvdec"] {
        check_with(
            "mode = \"live\"",
            &format!("decoder = \"{wrong}\""),
            &[&format!(
                "11: `decoder` cannot be \"{wrong}\" | it is \"cpu\", \"auto\", \"qsv\", \"vaapi\", or an NVIDIA GPU: \"cuda:0\""
            )],
        );
    }
    check_with(
        "uri = \"crossing.mp4\"",
        "uri = \"emulated:uniform?rate=1\"\ndecoder = \"cuda:0\"",
        &["11: `decoder` is for streams that are decoded, not for emulated ones"],
    );
}

#[test]
fn invalid_emulated_sources_and_devices_are_reported() {
    check_with(
        "\"crossing.mp4\"",
        "\"emulated:poisson?rate=100&seed=1&frames=500&size=64x48\"",
        &[],
    );
    check_with(
        "\"crossing.mp4\"",
        "\"emulated:poison?rate=100\"",
        &["10: did you mean \"poisson\""],
    );
    check_with(
        "\"crossing.mp4\"",
        "\"emulated:uniform\"",
        &["10: needs its rate"],
    );
    let emulated = "[app]\nslo = \"1s\"\n[sources.a]\nuri = \"emulated:uniform?rate=1\"\n[models.m]\ndevice = \"emulated:t4\"\n\
        profile = { \"1\" = \"8ms\" }\n[modules.x]\noperator = \"emulate\"\nmodel = \"m\"\ninputs = [\"a\"]\n\
        [modules.y]\noperator = \"read-text\"\nmodel = \"m\"\nregions = [\"anything\"]\ninputs = [\"x\"]\n";
    check(emulated, &[]);
    check(
        &emulated.replace("profile = { \"1\" = \"8ms\" }\n", ""),
        &["5: model \"m\" has no `profile`"],
    );
    check(
        &emulated.replace("profile =", "threshold = 1\nprofile ="),
        &["7: model \"m\" has no key \"threshold\""],
    );
    check(
        &emulated.replace("emulated:t4", "emulated:"),
        &["6: no device \"emulated:\""],
    );
}

#[test]
fn invalid_traces_of_emulated_sources_are_reported() {
    let with = |query: &str, expected: &[&str]| {
        check_with(
            "\"crossing.mp4\"",
            &format!("\"emulated:trace?{query}\""),
            expected,
        );
    };
    with("file=day.csv", &[]);
    with("file=day.csv&rate=30&process=gamma&cv=2&seed=4&frames=9", &[]);
    with("file=dey.csv", &["10: did you mean \"day.csv\" beside it?"]);
    with("file=bad-day.csv", &["3: \"60,many\" is not a row of a trace"]);
    with("file=labels.txt", &["1: this is not a trace"]);
    with("file=faces", &["10: it is a folder"]);
    with("file=silent.csv", &[]);
    with("file=silent.csv&rate=3", &["10: a trace without any arrival"]);
    with("rate=3", &["10: needs its file"]);
    with("file=day.csv&proces=gamma", &["10: did you mean \"process\""]);
}

#[test]
fn unset_variables_are_reported() {
    check_with("\"crossing.mp4\"", "\"${CLIP}\"", &[]);
    check_with("\"crossing.mp4\"", "\"${CAMERA}/1\"", &[]);
    check_with("\"crossing.mp4\"", "\"${UNSET:-crossing.mp4}\"", &[]);
    check_with("\"400ms\"", "\"${SLO:-300ms}\"", &[]);
    check_with(
        "\"400ms\"",
        "\"${SLO}\"",
        &["3: the environment variable SLO is not set | set it, or give a default: ${SLO:-...}"],
    );
    check_with(
        "inputs = [\"detect\"]",
        "inputs = [\"${A}\"]",
        &["37: variable A is not set"],
    );
}

#[test]
fn labels_must_be_classes_of_the_model() {
    let with = |labels: &str, expected: &[&str]| {
        let keeps = format!("operator = \"detect\"\nlabels = {labels}");
        check_with("operator = \"detect\"", &keeps, expected);
    };
    with("[\"plate\"]", &[]);
    with(
        "[\"plate\", \"carr\"]",
        &["31: \"detector\" has no class \"carr\" | did you mean \"car\"? it finds: car, plate"],
    );
    with("[]", &["31: `labels` is empty"]);
    // Modules downstream do not see classes that `labels` leaves out.
    with("[\"car\"]", &["39: nothing upstream finds the class \"plate\""]);
}
