//! Cameras whose frames are decoded on the cores that run batches.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::{Policy, Report};
use weir_sim::{DecodingSpec, SceneSpec, WorldModule, WorldPool, WorldSpec, simulate_streams};
use weir_types::{DropReason, Profile, Span, StreamId, Timestamp};

const SECONDS: u64 = 60;
const FPS: u64 = 30;

/// Detection on both cores of a machine, with a capacity of 126 frames per second without decoding.
fn run(cameras: u32, group: u32, non_reference: f64, as_needed: bool) -> Report {
    run_scene(cameras, group, (non_reference, as_needed), None)
}

fn run_scene(
    cameras: u32,
    group: u32,
    (non_reference, as_needed): (f64, bool),
    scene: Option<SceneSpec>,
) -> Report {
    let spec = WorldSpec {
        streams: cameras,
        max_in_flight: Some(256),
        decoding: Some(DecodingSpec {
            cores: 2,
            picture: Span::from_micros(1_300),
            group,
            non_reference,
            as_needed,
            scene,
        }),
        noise: 0.05,
        ..WorldSpec::new(
            Span::from_millis(400),
            Policy::preset("weir").unwrap(),
            vec![WorldModule {
                ends: Vec::new(),
                name: "detect".to_owned(),
                profile: Profile::new(vec![(1, Span::from_micros(15_800))]).unwrap(),
                batch: vec![1],
                pool: WorldPool::Fixed(2),
                next: Vec::new(),
                weight: 1.0,
                overlap: None,
                model: None,
            }],
        )
    };
    let frames = u64::from(cameras) * FPS * SECONDS;
    let gap = 1_000_000.0 / (u64::from(cameras) * FPS) as f64;
    let mut arrivals = (0..frames).map(|frame| {
        let at = Timestamp::from_micros((frame as f64 * gap) as u64);
        (at, StreamId((frame % u64::from(cameras)) as u32))
    });
    simulate_streams(&spec, "cameras", &mut arrivals, &mut |_| {}).report
}

fn not_decoded(report: &Report) -> u64 {
    let drops = report.drops.iter();
    drops
        .filter(|drop| drop.reason == DropReason::NotDecoded)
        .map(|drop| drop.count)
        .sum()
}

#[test]
fn many_cameras_give_as_much_as_few_where_only_what_can_be_used_is_decoded() {
    // Intervals between key frames of one, four and eight seconds; the last with non-reference frames.
    for (group, non_reference) in [(30, 0.0), (120, 0.0), (250, 0.5)] {
        let few = run(4, group, non_reference, true).goodput_rps;
        let goodput = [16, 32, 64].map(|cameras| run(cameras, group, non_reference, true).goodput_rps / few);
        let case = format!("groups of {group}: {few}, then {goodput:?} of it");
        assert!(
            goodput[0] >= 0.9 && goodput[1] >= 0.85 && goodput[2] >= 0.85,
            "{case}"
        );
    }
}

#[test]
fn decoding_all_of_many_cameras_leaves_little_for_batches() {
    let all = run(64, 30, 0.0, false);
    let as_needed = run(64, 30, 0.0, true);
    assert_eq!(not_decoded(&all), 0);
    assert!(
        as_needed.goodput_rps >= 5.0 * all.goodput_rps,
        "{} of {}",
        all.goodput_rps,
        as_needed.goodput_rps
    );
}

#[test]
fn nothing_is_left_out_of_few_cameras() {
    let (all, as_needed) = (run(4, 30, 0.0, false), run(4, 30, 0.0, true));
    assert_eq!(not_decoded(&as_needed), 0);
    assert_eq!(all.requests, as_needed.requests);
}

#[test]
fn frames_left_out_arrived_and_were_dropped() {
    let report = run(16, 30, 0.0, true);
    assert_eq!(report.requests.arrived, 16 * FPS * SECONDS);
    assert!(report.requests.is_balanced());
    assert!(not_decoded(&report) > report.requests.arrived / 2, "{report:?}");
}

#[test]
fn still_frames_are_not_dropped_and_leave_the_models_to_cameras_that_see_something() {
    let scene = SceneSpec {
        moves: Span::from_secs(4),
        rests: Span::from_secs(28),
    };
    let all = run_scene(16, 30, (0.0, true), None);
    let gated = run_scene(16, 30, (0.0, true), Some(scene));
    let counts = gated.requests;
    assert!(counts.is_balanced() && counts.in_flight == 0, "{counts:?}");
    assert_eq!(counts.arrived, 16 * FPS * SECONDS);
    // Nothing moves for seven eighths of the time; what moved is looked at for a second more, as is the beginning.
    let share = counts.still as f64 / counts.arrived as f64;
    assert!((0.7..0.875).contains(&share), "{share}");
    let in_time = |report: &Report| 1.0 - report.requests.drop_rate();
    assert!(
        in_time(&all) < 0.3 && in_time(&gated) > 0.85,
        "{} and {}",
        in_time(&all),
        in_time(&gated)
    );
}
