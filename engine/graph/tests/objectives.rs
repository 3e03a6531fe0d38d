//! Objectives that no frame could meet: of the graph, and of a source.

use crate::common::{VALID, check};

#[test]
fn an_slo_below_the_critical_path_is_reported() {
    let toml = VALID
        .replace("slo = \"400ms\"", "slo = \"10ms\"")
        .replace("workers = 2", "profile = { \"1\" = \"8ms\", \"4\" = \"20ms\" }")
        .replace("head = \"ctc\"", "head = \"ctc\"\nprofile = { \"1\" = \"3ms\" }");
    check(
        &toml,
        &["3: the SLO of 10ms is shorter than the graph's bare execution of 11ms: detect -> plates"],
    );
    check(&toml.replace("slo = \"10ms\"", "slo = \"11ms\""), &[]);

    // Frames can go without a branch, and without what follows on it.
    let degrades = toml
        .replace("slo = \"10ms\"", "slo = \"8ms\"")
        .replace("[modules.plates]\n", "[modules.plates]\non_drop = \"degrade\"\n");
    check(&degrades, &[]);
    let follows = "\n[modules.again]\noperator = \"classify\"\nmodel = \"c\"\ninputs = [\"plates\"]\nregions = [\"car\"]\n";
    let model = "[models.c]\nmodel = \"reader.onnx\"\nhead = \"classify\"\nprofile = { \"1\" = \"5ms\" }\n";
    check(&format!("{degrades}{follows}{model}"), &[]);
}

#[test]
fn an_slo_of_a_source_leaves_time_for_what_its_frames_pass() {
    let with_profiles = VALID
        .replace("workers = 2", "profile = { \"1\" = \"8ms\", \"4\" = \"20ms\" }")
        .replace("head = \"ctc\"", "head = \"ctc\"\nprofile = { \"1\" = \"3ms\" }");
    let with = |slo: &str| with_profiles.replace("mode = \"live\"", &format!("mode = \"live\"\nslo = {slo}"));
    check(&with("\"11ms\""), &[]);
    check(
        &with("\"10ms\""),
        &["12: the SLO of 10ms is shorter than the source's bare execution of 11ms: detect -> plates"],
    );
    check(&with("\"0s\""), &["12: `slo` must be above zero"]);
    check(&with("\"150\""), &["12: \"150\" is not a duration"]);
    check(&with("150"), &["12: `slo` must be a duration in quotes"]);
}
