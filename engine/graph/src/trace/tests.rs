use std::path::Path;

use proptest::prelude::*;
use weir_types::Span;

use super::*;

fn trace(slot_ms: u64, rates: &[f64]) -> Trace {
    Trace::new(Span::from_millis(slot_ms), rates).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn traces() -> impl Strategy<Value = Trace> {
    let rate = prop_oneof![1 => Just(0.0), 3 => 0.1..2_000.0];
    (1_u64..5_000, proptest::collection::vec(rate, 1..40)).prop_map(|(slot, rates)| trace(slot, &rates))
}

fn processes() -> impl Strategy<Value = ArrivalProcess> {
    prop_oneof![
        Just(ArrivalProcess::Poisson),
        Just(ArrivalProcess::Uniform),
        (0.05..4.0).prop_map(|cv| ArrivalProcess::Gamma { cv })
    ]
}

proptest! {
    #[test]
    fn arrival_times_are_ordered_fall_into_slots_with_a_rate_and_repeat_by_seed(
        trace in traces(), process in processes(), seed: u64
    ) {
        let times: Vec<Span> = Arrivals::new(&trace, process, seed).collect();
        prop_assert!(times.is_sorted());
        for time in &times {
            prop_assert!(trace.rate_at(*time) > 0.0, "{time:?}");
        }
        let again: Vec<Span> = Arrivals::new(&trace, process, seed).collect();
        prop_assert_eq!(times, again);
    }

    #[test]
    fn equal_gaps_give_the_integral_of_the_rate_up_to_one(trace in traces(), seed: u64) {
        let count = Arrivals::new(&trace, ArrivalProcess::Uniform, seed).count() as f64;
        prop_assert!((count - trace.expected_requests()).abs() <= 1.0 + 1e-6, "{count} {}", trace.expected_requests());
    }

    #[test]
    fn compressing_time_keeps_rates_and_divides_the_expected_requests(trace in traces(), factor in 0.5..20.0) {
        let fast = trace.compress(factor).unwrap();
        prop_assert_eq!(fast.rates(), trace.rates());
        // Slots are rounded to a microsecond.
        let slack = trace.rates().len() as f64 * trace.peak() * 1e-6;
        prop_assert!((fast.expected_requests() - trace.expected_requests() / factor).abs() <= slack);
    }

    #[test]
    fn scaling_sets_the_mean_and_the_peak_and_keeps_the_shape(trace in traces(), target in 0.1..1e4) {
        prop_assume!(trace.peak() > 0.0);
        let (mean, peak) = (trace.scale_to(target).unwrap(), trace.scale_peak(target).unwrap());
        prop_assert!(close(mean.mean(), target));
        prop_assert!(close(peak.peak(), target));
        prop_assert!(close(mean.cv(), trace.cv()) && close(peak.cv(), trace.cv()));
        prop_assert_eq!(mean.duration(), trace.duration());
    }

    #[test]
    fn resampling_keeps_the_expected_requests(trace in traces(), slot_ms in 1_u64..7_000) {
        let other = trace.resample(Span::from_millis(slot_ms)).unwrap();
        prop_assert!(close(other.expected_requests(), trace.expected_requests()));
        prop_assert!(other.duration() >= trace.duration());
        prop_assert_eq!(trace.resample(trace.slot()).unwrap().slot(), trace.slot());
    }

    #[test]
    fn two_cuts_add_up_to_the_trace(trace in traces(), share in 0.0..1.0) {
        let slots = trace.rates().len() as u64;
        let at = trace.slot() * (share * slots as f64) as u64;
        let end = trace.cut(at, Span::MAX).unwrap();
        let mut rates = trace.cut(Span::ZERO, at).map_or(Vec::new(), |cut| cut.rates().to_vec());
        rates.extend(end.rates());
        prop_assert_eq!(rates, trace.rates());
    }

    #[test]
    fn a_trace_survives_writing_and_reading(trace in traces()) {
        prop_assume!(trace.rates().len() > 1);
        let slot = trace.slot().as_secs_f64();
        let rows = (0..).zip(trace.rates()).map(|(index, rate)| format!("{},{rate}\n", f64::from(index) * slot));
        let text = format!("# a remark\nt_s,rate_rps\n{}", rows.collect::<String>());
        prop_assert_eq!(Trace::parse(&text, Path::new("x.csv")).unwrap(), trace);
    }

    #[test]
    fn the_reader_never_panics(text in "[t_s,rae#\\n0-9.eE+-]{0,80}") {
        let _ = Trace::parse(&text, Path::new("x.csv"));
        let _ = Trace::parse(&format!("t_s,rate_rps\n{text}"), Path::new("x.csv"));
    }
}

#[test]
fn mean_counts_match_the_integral_of_the_rate_from_the_start() {
    // Two slots around a silent one: the first gap and that across the silence are where a bias would show.
    let trace = trace(1_000, &[10.0, 0.0, 40.0, 2.5]);
    for process in [
        ArrivalProcess::Poisson,
        ArrivalProcess::Uniform,
        ArrivalProcess::Gamma { cv: 0.4 },
        ArrivalProcess::Gamma { cv: 2.5 },
    ] {
        let runs = 20_000;
        let mut counts = [0.0; 4];
        for seed in 0..runs {
            for time in Arrivals::new(&trace, process, seed) {
                counts[(time.micros() / 1_000_000) as usize] += 1.0 / runs as f64;
            }
        }
        for (count, rate) in counts.iter().zip(trace.rates()) {
            assert!((count - rate).abs() <= 0.03 * rate, "{process:?}: {counts:?}");
        }
    }
}

#[test]
fn gaps_have_the_variation_of_their_process() {
    let trace = Trace::constant(1_000.0, Span::from_secs(200)).unwrap();
    for (process, cv) in [
        (ArrivalProcess::Poisson, 1.0),
        (ArrivalProcess::Uniform, 0.0),
        (ArrivalProcess::Gamma { cv: 0.25 }, 0.25),
        (ArrivalProcess::Gamma { cv: 2.0 }, 2.0),
        (ArrivalProcess::Gamma { cv: 0.0 }, 0.0),
    ] {
        let times: Vec<f64> = Arrivals::new(&trace, process, 7).map(Span::as_secs_f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1e-3).abs() < 2e-5, "{process:?}: mean gap {mean}");
        assert!(
            (variance.sqrt() / mean - cv).abs() < 0.02,
            "{process:?}: {}",
            variance.sqrt() / mean
        );
    }
}

#[test]
fn the_first_arrival_may_be_at_zero_and_there_is_none_after_the_end() {
    let silent_first = trace(500, &[0.0, 4.0]);
    let mut times = Arrivals::starting_at_zero(&silent_first, ArrivalProcess::Uniform, 1);
    let seen: Vec<u64> = times.by_ref().map(|time| time.micros() / 1_000).collect();
    assert_eq!(seen, [500, 750]);
    assert!((0..10).all(|_| times.next().is_none()));
}

#[test]
fn invalid_lines_are_reported_with_their_number() {
    let check = |text: &str, line: usize, part: &str| {
        let error = Trace::parse(text, Path::new("day.csv")).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("day.csv:{line}: ")) && error.contains(part),
            "{error}"
        );
    };
    check("", 1, "not a trace");
    check("# remark\ntime,rate\n0,1\n", 2, "not a trace");
    check("t_s,rate_rps\n", 1, "two rows, not 0");
    check("t_s,rate_rps\n0,1\n", 2, "two rows, not 1");
    check("t_s,rate_rps\n0,1\n1,fast\n", 3, "no row of a trace");
    check(
        "t_s,rate_rps\n0,1\n1,2\n3,4\n",
        4,
        "a row at 3 s where one at 2 s is due",
    );
    check("t_s,rate_rps\n1,1\n0,2\n", 3, "does not come after");
    check("t_s,rate_rps\n0,1\n1,-2\n", 3, "below zero");
    check("t_s,rate_rps\n0,1\n1,nan\n", 3, "no row of a trace");
}

#[test]
fn impossible_traces_are_errors() {
    assert_eq!(Trace::new(Span::from_secs(1), []), Err(TraceError::Empty));
    assert_eq!(Trace::new(Span::ZERO, [1.0]), Err(TraceError::NoSlot));
    assert!(matches!(
        Trace::new(Span::MAX, [1.0, f64::NAN]),
        Err(TraceError::Rate { slot: 1, .. })
    ));
    let flat = trace(1_000, &[0.0, 0.0]);
    assert_eq!(flat.scale_to(3.0), Err(TraceError::Silent));
    assert!(flat.compress(0.0).is_err() && flat.scale_to(f64::INFINITY).is_err());
    assert_eq!(flat.compress(1e9), Err(TraceError::NoSlot));
    assert_eq!(
        flat.cut(Span::from_secs(2), Span::from_secs(3)),
        Err(TraceError::Empty)
    );
    assert_eq!(flat.cv(), 0.0);
}

#[test]
fn processes_are_serialized_by_name() {
    let read = |text: &str| serde_json::from_str::<ArrivalProcess>(text).ok();
    assert_eq!(read("\"poisson\""), Some(ArrivalProcess::Poisson));
    assert_eq!(read("\"uniform\""), Some(ArrivalProcess::Uniform));
    assert_eq!(
        read("{\"gamma\":{\"cv\":2.0}}"),
        Some(ArrivalProcess::Gamma { cv: 2.0 })
    );
    assert_eq!(read("{\"gamma\":{\"cv\":-2.0}}"), None);
    assert_eq!(read("\"weibull\""), None);
}
