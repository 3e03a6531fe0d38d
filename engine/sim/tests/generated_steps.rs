//! Instances against runs of real vLLM that the asset pack has (`profiles/llm/runs`): two models on two L40S, prompts that
//! are all there before the first step, or one more before each step.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails where it cannot go on, and shows what it found"
)]

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_policy::generate::InstanceSpec;
use weir_sim::generate::{InstanceDriver, Placed, SequenceNews, published_instance};
use weir_types::{SequenceId, Span, Timestamp};

/// Measurements of one request of a run.
#[derive(Debug, Deserialize)]
struct Measured {
    #[serde(rename = "in")]
    prompt: u32,
    #[serde(rename = "out")]
    length: u32,
    ttft_s: f64,
    total_s: f64,
}

/// First and last token of a request, from when it arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Simulated {
    arrived: Timestamp,
    first: Span,
    last: Span,
}

fn simulate(spec: &InstanceSpec, run: &[Measured], sequential: bool) -> Vec<Simulated> {
    let mut driver = InstanceDriver::new(spec.clone()).unwrap();
    let mut simulated = vec![Simulated::default(); run.len()];
    let mut news = Vec::new();
    let (mut now, mut next) = (Timestamp::ZERO, 0);
    loop {
        let arriving = if sequential { 1 } else { run.len() };
        for _ in 0..arriving.min(run.len() - next) {
            simulated[next].arrived = now;
            driver.place(Placed {
                sequence: SequenceId(next as u64),
                prompt: run[next].prompt,
                generated: 0,
                cached: 0,
                length: run[next].length,
                due: Timestamp::ZERO,
                prefix: None,
            });
            next += 1;
        }
        driver.decide(now, &mut news);
        let Some(end) = driver.step_end() else {
            return simulated;
        };
        now = end;
        driver.finish_step(now, &mut news);
        for news in news.drain(..) {
            match news {
                SequenceNews::Generated { sequence, tokens: 1 } => {
                    let request = &mut simulated[sequence.index()];
                    request.first = now - request.arrived;
                }
                SequenceNews::Generated { .. } => {}
                SequenceNews::Finished(sequence) => {
                    let request = &mut simulated[sequence.index()];
                    request.last = now - request.arrived;
                }
                other => panic!("nothing else happens: {other:?}"),
            }
        }
    }
}

fn error(simulated: Span, measured_s: f64) -> f64 {
    (simulated.as_secs_f64() / measured_s - 1.0).abs()
}

fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len() as f64
}

fn runs_of(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut runs: Vec<PathBuf> = files.filter(|path| !path.ends_with("profile.json")).collect();
    runs.sort();
    runs
}

#[test]
fn runs_of_real_vllm_come_out_as_they_were_measured() {
    let Some(assets) = std::env::var_os("WEIR_ASSETS").map(PathBuf::from) else {
        println!("skipped: WEIR_ASSETS is not set");
        return;
    };
    let (mut all, mut runs) = (Vec::new(), 0);
    for model in ["llama8b", "llama70b"] {
        let folder = assets.join("profiles/llm/runs").join(model);
        let spec = published_instance(&folder.join("profile.json"), None).unwrap();
        for path in runs_of(&folder) {
            let run: Vec<Measured> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let simulated = simulate(&spec, &run, name.contains("sequential"));
            let pairs = || simulated.iter().zip(&run);
            let last: Vec<f64> = pairs().map(|(is, was)| error(is.last, was.total_s)).collect();
            let first: Vec<f64> = pairs().map(|(is, was)| error(is.first, was.ttft_s)).collect();
            let worst = last.iter().copied().fold(0.0, f64::max);
            println!(
                "{model} {name}: last token within {:.2} %, mean {:.2} %; first tokens, mean {:.2} %",
                100.0 * worst,
                100.0 * mean(&last),
                100.0 * mean(&first)
            );
            assert!(worst <= 0.065, "{model} {name}: a request is {worst} off");
            assert!(
                mean(&first) <= 0.055,
                "{model} {name}: first tokens are {} off",
                mean(&first)
            );
            all.extend(last);
            runs += 1;
        }
    }
    println!(
        "{runs} runs, {} requests: mean {:.2} %",
        all.len(),
        100.0 * mean(&all)
    );
    assert_eq!(runs, 16);
    assert!(mean(&all) <= 0.04, "requests are {} off in the mean", mean(&all));
}
