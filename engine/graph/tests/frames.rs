//! `items = "frame"`: what a module whose items are whole frames needs, and what it may not say.

use crate::common::{VALID, check, check_with, read};

#[test]
fn whole_frames_need_nothing_upstream_and_go_with_no_regions() {
    let plates = "inputs = [\"detect\"]\nregions = [\"plate\"]";
    let with = |lines: &str, expected: &[&str]| check_with(plates, lines, expected);
    with("inputs = [\"north\"]\nitems = \"frame\"", &[]);
    with("inputs = [\"detect\"]\nitems = \"frame\"", &[]);
    with("inputs = [\"north\"]\nregions = []\nitems = \"frame\"", &[]);
    let both = "38: module \"plates\" has both `items` and `regions`: its items are whole frames, or crops of objects \
                | leave out `items` for crops, `regions` for whole frames";
    with(
        "inputs = [\"detect\"]\nregions = [\"plate\"]\nitems = \"frame\"",
        &[both],
    );
    with(
        "inputs = [\"north\"]\nregions = [\"plate\"]\nitems = \"frame\"",
        &[both],
    );
    // The intended word is unknown, so a missing source of corners is not reported: that would be a guess.
    with(
        "inputs = [\"north\"]\nitems = \"frames\"",
        &["38: `items` cannot be \"frames\" | did you mean \"frame\"?"],
    );
    with(
        "inputs = [\"north\"]\nitems = \"crops\"",
        &["38: `items` cannot be \"crops\" | one of: frame"],
    );
    with("inputs = [\"north\"]\nitems = 1", &["38: `items` must be a text"]);
    with(
        "inputs = [\"north\"]\nitem = \"frame\"",
        &["38: no key \"item\" | did you mean \"items\"?"],
    );
    with(
        "inputs = [\"north\"]",
        &["35: ; for whole frames, such as a folder of crops: items = \"frame\""],
    );
    for (operator, model) in [("match", "embed"), ("classify", "classify")] {
        let module =
            format!("operator = \"{operator}\"\nmodel = \"m\"\ninputs = [\"north\"]\nitems = \"frame\"");
        let plates = format!("operator = \"read-text\"\nmodel = \"reader\"\n{plates}");
        let model = format!("[models.m]\nmodel = \"reader.onnx\"\nhead = \"{model}\"\n");
        check(&(VALID.replacen(&plates, &module, 1) + &model), &[]);
    }
}

#[test]
fn keys_of_crops_beside_whole_frames_are_warned_of() {
    let toml = VALID.replace(
        "regions = [\"plate\"]",
        "items = \"frame\"\ncut = \"square\"\nlimit = 3",
    );
    let graph = read(&toml).expect("no problems");
    let module = graph.modules().iter().find(|module| module.name == "plates");
    let module = module.expect("it is there");
    assert!(module.settings.takes_frames() && module.regions.is_empty());
    let [warning] = graph.warnings() else {
        panic!("{:?}", graph.warnings())
    };
    assert_eq!(warning.line, 38);
    assert_eq!(
        warning.message,
        "module \"plates\" takes whole frames, which leaves `cut` without effect"
    );
}
