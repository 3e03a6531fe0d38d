//! Edited files on the readers of samples, of published profiles, and of recordings of other people.

use std::fs;
use std::path::Path;

use weir_sim::gears::read_samples;
use weir_sim::generate::published_instance;
use weir_sim::traces::{
    TokenTrace, counts_per_second, events_azure_2021, events_azure_llm, functions_azure_2019,
    lengths_azure_llm,
};

use crate::edited::{MemoryBound, fuzz};

const WORDS: [&[u8]; 12] = [
    b"\n",
    b",",
    b"\"",
    b"{",
    b"[",
    b":",
    b"nan",
    b"inf",
    b"-1",
    b"1e308",
    b"18446744073709551616",
    b"\xef\xbb\xbf",
];

/// Values of JSON in trees.
const TREES: MemoryBound = MemoryBound {
    base: 4 << 20,
    per_byte: 400,
};

fn on_file(name: &str, seeds: &[&str], read: impl Fn(&Path)) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let seeds = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    fuzz(name, 400, TREES, seeds, &WORDS, |bytes| {
        fs::write(file.path(), bytes).expect("written");
        read(file.path());
    });
}

#[test]
fn fuzz_published_profiles() {
    let profile = r#"{"cuda_profile":{"intervals":{"(0, 101)":{"intercept":0.01,"slope":0.0001},"(101, 513)":{"intercept":0.02,"slope":0.0002}}},
        "no_cuda_profile":{"intervals":{"(0, 2049)":{"intercept":0.01,"slope":0.0001}}},"block_size":16,"max_model_len":4096,
        "max_num_batched_tokens":2048,"max_num_seqs":256,"num_gpu_blocks":9000,"num_watermark_blocks":90}"#;
    on_file("published-profiles", &[profile], |path| {
        let _ = published_instance(path, None).is_ok();
    });
}

#[test]
fn fuzz_gear_samples() {
    let header = r#"{"samples":1,"graph":"g","cascades":{"plates":["small","large"]},"durations_ms":{"small":{"1":5.0}}}"#;
    let item = r#"{"cascade":"plates","stream":"s","frame":1,"item":0,"certainty":[0.5,0.9],"right":[true,true],"answer":["A","B"]}"#;
    on_file(
        "gear-samples",
        &[&format!("{header}\n{item}\n{item}\n")],
        |path| {
            let _ = read_samples(path).is_ok();
        },
    );
}

#[test]
fn fuzz_recordings_of_requests() {
    let seeds = [
        "12\n0\n7\n",
        "HashFunction,HashOwner,HashApp,1,2,3\na,b,c,1,0,5\nd,e,f,7,7,7\n",
        "app,func,end_timestamp,duration\na,f,10.5,0.5\na,f,12.0,1.0\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
        "t_s,in,out\n0,120,300\n1.5,1,1\n",
    ];
    on_file("recordings-of-requests", &seeds, |path| {
        let _ = counts_per_second(path).map(|trace| trace.mean());
        let functions = functions_azure_2019(path);
        let _ = functions.map(|functions| (functions.total().is_ok(), functions.indices_by_burstiness()));
        let _ = (
            events_azure_2021(path).is_ok(),
            events_azure_llm(path).is_ok(),
            lengths_azure_llm(path).is_ok(),
        );
        if let Ok(Some(trace)) = TokenTrace::read(path) {
            let _ = (trace.mean_tokens(), trace.scale_to(5.0).is_ok());
        }
    });
}
