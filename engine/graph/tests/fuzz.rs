//! Edited texts on the readers of graphs, gear plans and traces.

use std::path::Path;

use weir_graph::{Trace, parse_gears, parse_policy, parse_streams};

use crate::common::{VALID, read};
use crate::edited::{MemoryBound, fuzz};

/// Trees of TOML, and problems with their texts.
const TREES: MemoryBound = MemoryBound {
    base: 8 << 20,
    per_byte: 2_000,
};

const WORDS: [&[u8]; 24] = [
    b"[",
    b"]",
    b"{",
    b"}",
    b"\"",
    b"'",
    b"\"\"\"",
    b"=",
    b".",
    b",",
    b"#",
    b"\\",
    b"\n",
    b"${HOME}",
    b"${A:-",
    b"$$",
    b"inf",
    b"nan",
    b"-1",
    b"9223372036854775807",
    b"1e308",
    b"\xff",
    b"\xef\xbb\xbf",
    b"inputs = [\"detect\"]\n",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn fuzz_graph_toml() {
    let more = [
        "[transforms.gate]\ntype = \"line\"\ninputs = [\"detect\"]\npoints = [[0.1, 0.2], [0.9, 0.2]]\n",
        "[policy]\npreset = \"weir\"\n[memory]\nmodels = \"1GiB\"\n[app]\nslo = \"1s\"\n",
        "[emulated.load]\nrate = 50.0\ntrace = \"t.csv\"\n[devices.gpu]\nslots = 4\nmemory = \"12 GiB\"\n",
    ];
    let seeds = std::iter::once(VALID)
        .chain(more)
        .map(|seed| seed.as_bytes().to_vec());
    fuzz("graph-toml", 300, TREES, seeds.collect(), &WORDS, |bytes| {
        let text = text(bytes);
        match read(&text) {
            Ok(graph) => drop((graph.to_mermaid(), graph.to_dot())),
            Err(problems) => {
                assert!(problems.count() > 0);
                let lines = text.split('\n').count();
                assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)));
                assert!(!problems.to_string().is_empty());
            }
        }
        let path = Path::new("/graph.toml");
        let _ = (
            parse_policy(&text, path).is_ok(),
            parse_streams(&text, path).is_ok(),
        );
    });
}

#[test]
fn fuzz_gears_toml() {
    let graph = read(VALID).expect("a graph");
    let seeds = [
        "graph = \"traffic\"\nnumber = 3\n[shift]\nwindow = \"2s\"\nwaiting = 0.5\n[[gears]]\nup_to = 10.0\naccuracy = 0.9\n",
        "graph = \"traffic\"\nnumber = 1\n[[gears]]\nup_to = 1.0\n[gears.cascades]\nplates = [{ model = \"reader\", certainty = 0.4, \
         items = 2, wait = \"5ms\", shares = [1.0] }]\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).into();
    fuzz("gears-toml", 500, TREES, seeds, &WORDS, |bytes| {
        let _ = parse_gears(&text(bytes), Path::new("/gears.toml"), &graph).is_ok();
    });
}

#[test]
fn fuzz_trace_csv() {
    let seeds = vec![
        b"0,12.5\n60,20\n120,0\n".to_vec(),
        b"# rates\nseconds,rate\n0;1\n1;2\n2;3\n".to_vec(),
    ];
    let words: [&[u8]; 9] = [
        b",", b"\n", b"nan", b"inf", b"-1", b"1e308", b"1e-300", b"#", b"\r",
    ];
    fuzz(
        "trace-csv",
        1_000,
        MemoryBound::default(),
        seeds,
        &words,
        |bytes| {
            if let Ok(trace) = Trace::parse(&text(bytes), Path::new("/trace.csv")) {
                assert!(trace.rates().iter().all(|rate| *rate >= 0.0));
                let _ = (
                    trace.mean(),
                    trace.peak(),
                    trace.cv(),
                    trace.expected_requests(),
                    trace.duration(),
                );
            }
        },
    );
}
