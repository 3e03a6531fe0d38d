use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use weir_graph::{ArrivalProcess, Arrivals, Trace};
use weir_types::Span;

use super::*;

const LENGTH: Span = Span::from_secs(1_000);

fn assets() -> Option<PathBuf> {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    if assets.is_none() {
        println!("skipped: WEIR_ASSETS is not set");
    }
    assets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn generated_loads_have_their_mean_and_variation_for_any_seed(seed: u64, seconds in 60_u64..2_000) {
        for kind in TraceKind::ALL {
            let trace = generate(kind, seed, Span::from_secs(seconds), 200.0).unwrap();
            prop_assert_eq!((trace.slot(), trace.duration()), (Span::from_secs(1), Span::from_secs(seconds)));
            prop_assert!((trace.mean() - 200.0).abs() < 1e-6);
            prop_assert!((trace.cv() - kind.cv()).abs() < 0.03, "{kind:?} {}", trace.cv());
            prop_assert_eq!(&trace, &generate(kind, seed, Span::from_secs(seconds), 200.0).unwrap());
        }
    }

    #[test]
    fn a_power_keeps_the_mean_and_the_order_of_rates(
        rates in proptest::collection::vec(0.1..100.0, 50..200), target in 0.1..2.0
    ) {
        let trace = Trace::new(Span::from_secs(1), rates).unwrap();
        let Ok((other, power)) = with_cv(&trace, target) else { return Ok(()) };
        prop_assert!(power > 0.0 && (other.cv() - target).abs() < 1e-6);
        prop_assert!((other.mean() - trace.mean()).abs() < 1e-6 * trace.mean());
        let mut pairs: Vec<_> = trace.rates().iter().zip(other.rates()).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(b.0));
        prop_assert!(pairs.is_sorted_by(|a, b| a.1 <= b.1));
    }
}

/// Correlation of rates with those `lag` slots later.
fn correlation(trace: &Trace, lag: usize) -> f64 {
    let (mean, rates) = (trace.mean(), trace.rates());
    let product = |a: f64, b: f64| (a - mean) * (b - mean);
    let shifted: f64 = rates
        .iter()
        .zip(&rates[lag..])
        .map(|(a, b)| product(*a, *b))
        .sum();
    let own: f64 = rates.iter().map(|rate| product(*rate, *rate)).sum();
    shifted / own * rates.len() as f64 / (rates.len() - lag) as f64
}

#[test]
fn the_kinds_have_their_shapes() {
    for seed in 0..20 {
        let of = |kind| generate(kind, seed, Span::from_secs(1_400), 200.0).unwrap();
        let (wiki, tweet, azure) = (of(TraceKind::Wiki), of(TraceKind::Tweet), of(TraceKind::Azure));
        assert!(
            correlation(&wiki, 100) > 0.7 && correlation(&wiki, 50) < 0.0,
            "days of 100 s, seed {seed}"
        );
        assert!(wiki.peak() < 3.0 * wiki.mean(), "seed {seed}: {}", wiki.peak());
        // A burst at least doubles the rate within three seconds: the one at 85 % of the length too.
        let before = tweet.rates()[1_189];
        let after = tweet.rates()[1_190..1_193].iter().copied().fold(0.0, f64::max);
        assert!(after > 2.0 * before, "seed {seed}: {before} {after}");
        let doubles = |trace: &Trace| trace.rates().windows(4).filter(|w| w[3] > 2.0 * w[0]).count();
        assert!(doubles(&wiki) == 0 && doubles(&tweet) > 5, "seed {seed}");
        assert!(doubles(&azure) > doubles(&tweet), "seed {seed}");
    }
}

#[test]
fn arrivals_of_a_generated_load_are_as_many_as_it_says() {
    for kind in TraceKind::ALL {
        let trace = generate(kind, 5, LENGTH, 300.0).unwrap();
        let count = Arrivals::new(&trace, ArrivalProcess::Poisson, 1).count() as f64;
        // Five standard deviations of a Poisson number.
        assert!(
            (count - trace.expected_requests()).abs() < 5.0 * trace.expected_requests().sqrt(),
            "{kind:?}: {count}"
        );
    }
}

#[test]
fn without_recordings_a_load_is_generated_and_says_so() {
    let empty = tempfile::tempdir().unwrap();
    for kind in TraceKind::ALL {
        for assets in [None, Some(empty.path())] {
            let (trace, origin) = build(kind, assets, 3, LENGTH, 150.0).unwrap();
            assert_eq!(trace, generate(kind, 3, LENGTH, 150.0).unwrap());
            assert!(
                origin.starts_with(kind.name()) && origin.contains("generated, seed 3"),
                "{origin}"
            );
        }
    }
    let short = build(TraceKind::Wiki, None, 3, Span::from_secs(59), 150.0);
    assert_eq!(short, Err(RecordingError::TooShort { seconds: 59 }));
    assert!(generate(TraceKind::Wiki, 1, LENGTH, 0.0).is_err());
}

#[test]
fn recorded_loads_have_their_mean_and_variation() {
    let Some(assets) = assets() else { return };
    for kind in TraceKind::ALL {
        for seed in [1, 2, 3] {
            for (seconds, mean) in [(1_000, 200.0), (300, 80.0)] {
                let length = Span::from_secs(seconds);
                let (trace, origin) = build(kind, Some(&assets), seed, length, mean).unwrap();
                println!("{origin}");
                assert_eq!(
                    (trace.slot(), trace.duration()),
                    (Span::from_secs(1), length),
                    "{origin}"
                );
                assert!((trace.mean() - mean).abs() < 1e-6, "{origin}");
                assert!((trace.cv() - kind.cv()).abs() < 0.03, "{origin}");
                assert!(!origin.contains("generated"), "{origin}");
            }
        }
        let again = |seed| build(kind, Some(&assets), seed, LENGTH, 200.0).unwrap().0;
        assert_eq!(again(1), again(1));
        assert_ne!(again(1), again(2));
    }
}

#[test]
fn recordings_are_read_as_their_publishers_have_them() {
    let Some(assets) = assets() else { return };
    let traces = assets.join("traces");
    let functions = functions_azure_2019(&traces.join("azure2019_1350fn_1day_permin.csv.gz")).unwrap();
    let total = functions.total().unwrap();
    assert_eq!((functions.count(), total.rates().len()), (1_350, 1_440));
    let derived = Trace::read(&traces.join("derived/azure2019_total_1350fn_permin.csv")).unwrap();
    for (ours, theirs) in total.rates().iter().zip(derived.rates()) {
        assert!((ours - theirs).abs() < 1e-4 * theirs.max(1.0), "{ours} {theirs}");
    }
    let llm = events_azure_llm(&traces.join("azure_llm2023_conv.csv.gz")).unwrap();
    let per_second = bin_events(&llm, Span::from_secs(1)).unwrap();
    assert_eq!(llm.len() as f64, per_second.expected_requests().round());
    assert!(
        per_second.duration() < Span::from_secs(3_600),
        "an hour of a conversation"
    );
    let invocations = events_azure_2021(&traces.join("azure2021_200_invocations.csv")).unwrap();
    assert!(invocations.len() > 190 && invocations.is_sorted());
    let posts = counts_per_second(&traces.join("twitter_2021_08_persec_days01-14.csv.gz")).unwrap();
    assert_eq!(posts.rates().len(), 14 * 86_400);
}

fn file(folder: &Path, name: &str, text: &str, packed: bool) -> PathBuf {
    let path = folder.join(name);
    let mut bytes = text.as_bytes().to_vec();
    if packed {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&bytes).unwrap();
        bytes = encoder.finish().unwrap();
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn formats_are_read_packed_and_plain_and_wrong_lines_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for packed in [false, true] {
        let path = file(folder, "posts", "3\n0\n7\n", packed);
        assert_eq!(counts_per_second(&path).unwrap().rates(), [3.0, 0.0, 7.0]);
        let table = "HashFunction,HashOwner,HashApp,1_minute,2_minute\na,b,c,60,120\nd,e,f,0,240\n";
        let functions = functions_azure_2019(&file(folder, "functions", table, packed)).unwrap();
        assert_eq!(functions.total().unwrap().rates(), [1.0, 6.0]);
        assert_eq!(functions.indices_by_burstiness(), [1, 0]);
    }
    let path = file(
        folder,
        "2021",
        "app,func,end_timestamp,duration\na,f,5.5,0.5\na,g,2.25,1.25\n",
        false,
    );
    assert_eq!(
        events_azure_2021(&path).unwrap(),
        [Span::ZERO, Span::from_secs(4)]
    );
    let text =
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-28 23:59:59.5,1,2\n2024-03-01 00:00:00.25,1,2\n";
    let path = file(folder, "llm", text, true);
    let events = events_azure_llm(&path).unwrap();
    assert_eq!(lengths_azure_llm(&path).unwrap(), [[1, 2], [1, 2]]);
    assert_eq!(events, [Span::ZERO, Span::from_millis(86_400_750)]);
    let wrong = counts_per_second(&file(folder, "posts", "3\nmany\n", false)).unwrap_err();
    assert!(matches!(wrong, RecordingError::Line { line: 2, .. }), "{wrong}");
    let cut = file(
        folder,
        "functions",
        "HashFunction,HashOwner,HashApp,1_minute,2_minute\na,b,c,60\n",
        true,
    );
    assert!(matches!(
        functions_azure_2019(&cut),
        Err(RecordingError::Line { line: 2, .. })
    ));
    assert!(matches!(
        counts_per_second(&folder.join("none")),
        Err(RecordingError::Unreadable { .. })
    ));
    assert!(
        bin_events(&[], Span::from_secs(1)).is_err() && bin_events(&[Span::MAX], Span::from_secs(1)).is_err()
    );
}

#[test]
fn rates_that_do_not_differ_cannot_be_made_to() {
    let flat = Trace::constant(5.0, LENGTH).unwrap();
    assert!(matches!(
        with_cv(&flat, 0.5),
        Err(RecordingError::Unreachable { .. })
    ));
    assert_eq!("tweet".parse(), Ok(TraceKind::Tweet));
    assert!("twitter".parse::<TraceKind>().is_err());
}
