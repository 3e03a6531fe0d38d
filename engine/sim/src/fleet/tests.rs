use weir_types::Span;

use super::*;

fn failing() -> FleetWorld {
    FleetWorld {
        engines: 8,
        streams: 100,
        failure_every: Span::from_secs(40),
        ..FleetWorld::default()
    }
}

#[test]
fn without_failures_each_stream_is_seen_by_one_engine_and_stays_there() {
    let result = simulate_fleet(&FleetWorld::default());
    assert_eq!((result.unseen, result.seen_twice), (0.0, 0.0), "{result:?}");
    assert!(
        result.swings_per_minute == 0.0 && result.done > 0.99,
        "{result:?}"
    );
}

#[test]
fn streams_of_a_lost_engine_are_seen_again_within_three_seconds() {
    let result = simulate_fleet(&failing());
    assert!(result.failures > 3, "{result:?}");
    // The token's second, the way of the word, and the time of opening.
    assert!(result.longest_unseen_s < 3.0, "{result:?}");
    // Each hides an eighth of the streams for less than these three seconds, of three hundred.
    let hidden = result.failures as f64 * 3.0 / (8.0 * 300.0);
    assert!(result.unseen < hidden && result.seen_twice < 0.001, "{result:?}");
}

#[test]
fn redirections_bring_work_from_overloaded_engines_to_others_without_swinging() {
    let world = FleetWorld {
        load: 0.8,
        swing: 0.4,
        ..FleetWorld::default()
    };
    let mut plain = world;
    plain.fleet.redirect = false;
    let (with, without) = (simulate_fleet(&world), simulate_fleet(&plain));
    assert!(with.done > without.done + 0.005, "{with:?} {without:?}");
    assert!(with.swings_per_minute < 1.0, "{with:?}");
}

#[test]
fn a_run_is_the_same_each_time() {
    assert_eq!(simulate_fleet(&failing()), simulate_fleet(&failing()));
}
