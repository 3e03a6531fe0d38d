use proptest::prelude::*;

use super::*;

const HOUR_MS: f64 = 3_600_000.0;

fn at(ms: f64) -> Timestamp {
    Timestamp::from_micros((ms * 1e3) as u64)
}

fn recorded() -> MediaClock {
    let mut clock = MediaClock::new(Some(1.0));
    clock.on_open(MediaInfo {
        live: false,
        stamped: true,
        bursts: false,
        fps: Some(25.0),
    });
    clock
}

fn live() -> MediaClock {
    let mut clock = MediaClock::new(Some(1.0));
    clock.on_open(LIVE);
    clock
}

const LIVE: MediaInfo = MediaInfo {
    live: true,
    stamped: true,
    bursts: false,
    fps: Some(25.0),
};

/// Stamps of a recorded stream, what comes of them, and how many discontinuities that is.
fn check_recorded(stamps: &[f64], expected: &[f64], discontinuities: usize) {
    let mut clock = recorded();
    let times: Vec<FrameTime> = stamps
        .iter()
        .map(|stamp| clock.on_frame(*stamp, 1, at(0.0)))
        .collect();
    let found: Vec<f64> = times.iter().map(|time| time.pts_ms).collect();
    assert_eq!(found, expected, "{stamps:?}");
    let jumps = times.iter().filter(|time| time.discontinuity).count();
    assert_eq!(jumps, discontinuities, "{stamps:?}");
    for time in times {
        assert_eq!(time.due, Some(at(time.pts_ms)), "{stamps:?}");
    }
}

/// Frames of segments of 2 s, each read once it is there and the one before was due. Segments are late by `delays`.
#[test]
fn frames_of_a_burst_are_due_as_they_were_made() {
    let mut clock = MediaClock::new(Some(1.0));
    clock.on_open(MediaInfo { bursts: true, ..LIVE });
    let delays = [0.0, 0.0, 300.0, 0.0, 300.0, 100.0, 61_000.0, 61_000.0, 61_000.0];
    let (mut now_ms, mut dues) = (0.0_f64, Vec::new());
    for frame in 0..delays.len() * 50 {
        let segment = frame / 50;
        now_ms = now_ms.max(2_000.0 * (segment + 1) as f64 + delays[segment]);
        let time = clock.on_frame(frame as f64 * 40.0, 1, at(now_ms));
        assert_eq!(time.age, Span::ZERO, "{frame}");
        let due = time.due.unwrap();
        assert!(due >= at(now_ms), "{frame}");
        now_ms = due.since(Timestamp::ZERO).as_millis_f64();
        dues.push(now_ms);
    }
    let late: Vec<usize> = (1..dues.len())
        .filter(|frame| dues[*frame] - dues[frame - 1] > 40.1)
        .collect();
    // The pace is moved by the greatest delay only: later segments that are as late find their frames not due yet.
    assert_eq!(late, [2 * 50, 6 * 50]);
    assert_eq!(dues[49], 2_000.0 + 49.0 * 40.0);
}

#[test]
fn a_jump_of_an_hour_is_rebased_and_a_pause_of_seconds_is_kept() {
    check_recorded(&[0.0, 40.0, 80.0], &[0.0, 40.0, 80.0], 0);
    check_recorded(&[0.0, 5_000.0, 5_040.0], &[0.0, 5_000.0, 5_040.0], 0);
    check_recorded(
        &[0.0, 40.0, HOUR_MS, HOUR_MS + 40.0],
        &[0.0, 40.0, 80.0, 120.0],
        1,
    );
    // One flipped byte: there and back.
    check_recorded(&[0.0, 40.0, HOUR_MS, 120.0], &[0.0, 40.0, 80.0, 120.0], 2);
    check_recorded(&[0.0, HOUR_MS, f64::MAX, 1.0], &[0.0, 40.0, 80.0, 120.0], 3);
}

#[test]
fn missing_repeated_and_decreasing_stamps_give_increasing_times() {
    check_recorded(
        &[0.0, 40.0, 40.0, 20.0, 120.0],
        &[0.0, 40.0, 41.0, 42.0, 120.0],
        0,
    );
    check_recorded(&[0.0, f64::NAN, 80.0], &[0.0, 40.0, 80.0], 1);
    check_recorded(&[0.0, 9_000.0, 0.0, 40.0], &[0.0, 9_000.0, 9_040.0, 9_080.0], 1);
    let still = [0.0; 9];
    let found = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 45.0, 85.0, 125.0];
    check_recorded(&still, &found, 1);
}

#[test]
fn a_wrong_stated_frame_rate_is_replaced_by_the_measured_one() {
    let mut clock = recorded();
    for frame in 0..40 {
        clock.on_frame(f64::from(frame) * 100.0, 1, at(0.0));
    }
    assert_eq!(clock.interval(), Span::from_millis(100));
    let jump = clock.on_frame(HOUR_MS, 1, at(0.0));
    assert_eq!((jump.pts_ms, jump.discontinuity), (4_000.0, true));
}

#[test]
fn frames_skipped_by_the_source_are_no_discontinuity() {
    // One frame in 20 seconds of a recording at 25 frames a second.
    let mut clock = recorded();
    for frame in 0..30 {
        let stamp = f64::from(frame) * 20_000.0;
        let time = clock.on_frame(stamp, 500, at(0.0));
        assert_eq!((time.pts_ms, time.discontinuity), (stamp, false));
    }
    assert_eq!(clock.interval(), Span::from_millis(40));
}

#[test]
fn a_loop_continues_with_the_next_frame_time() {
    let mut clock = recorded();
    clock.on_frame(0.0, 1, at(0.0));
    clock.on_frame(40.0, 1, at(40.0));
    clock.on_open(clock.info);
    let again = clock.on_frame(0.0, 1, at(50.0));
    assert_eq!(
        (again.pts_ms, again.discontinuity, again.missing),
        (80.0, false, 0)
    );
    assert_eq!(again.due, Some(at(80.0)));
}

#[test]
fn speed_scales_due_times_and_not_media_time() {
    let mut clock = MediaClock::new(Some(2.0));
    clock.on_open(MediaInfo { live: false, ..LIVE });
    clock.on_frame(0.0, 1, at(100.0));
    let time = clock.on_frame(1_000.0, 1, at(100.0));
    assert_eq!((time.pts_ms, time.due), (1_000.0, Some(at(600.0))));
    let mut unpaced = MediaClock::new(None);
    assert_eq!(unpaced.on_frame(0.0, 1, at(0.0)).due, None);
}

/// Frames of a live stream, one each 40 ms from `from` to `to`, that take `delay_ms` to come.
fn stream(clock: &mut MediaClock, from: u32, to: u32, delay_ms: f64) {
    for frame in from..to {
        let made = f64::from(frame) * 40.0;
        let time = clock.on_frame(made, 1, at(made + delay_ms));
        assert_eq!((time.pts_ms, time.missing, time.discontinuity), (made, 0, false));
        assert_eq!(time.age, Span::ZERO);
        assert_eq!(time.due, None);
    }
}

#[test]
fn buffered_frames_have_the_age_of_their_wait() {
    let mut clock = live();
    stream(&mut clock, 0, 50, 30.0);
    // Seven seconds of frames come at once.
    let woke = 2_000.0 + 7_000.0;
    for frame in 50..225 {
        let made = f64::from(frame) * 40.0;
        let time = clock.on_frame(made, 1, at(woke + 30.0));
        assert_eq!(time.pts_ms, made);
        assert_eq!(
            time.age,
            Span::from_secs_f64((woke - made) / 1e3),
            "frame {frame}"
        );
        assert_eq!((time.missing, time.discontinuity), (0, false));
    }
    stream(&mut clock, 225, 300, 30.0);
}

#[test]
fn an_outage_confirmed_by_the_wall_clock_stays_a_gap() {
    let mut clock = live();
    stream(&mut clock, 0, 50, 30.0);
    // It was away for an hour, kept its clock, and the connection with it.
    let time = clock.on_frame(2_000.0 + HOUR_MS, 1, at(2_000.0 + HOUR_MS + 30.0));
    assert_eq!((time.pts_ms, time.discontinuity), (2_000.0 + HOUR_MS, false));
    assert_eq!(time.missing, 90_000);
    assert_eq!(time.age, Span::ZERO);
}

#[test]
fn frames_skipped_by_sampling_are_not_counted_missing() {
    let mut clock = live();
    let mut send = |second: u32, steps: u64| {
        let made = f64::from(second) * 1_000.0;
        clock.on_frame(made, steps, at(made + 30.0)).missing
    };
    assert!((0..60).all(|second| send(second, 25) == 0), "one frame of 25");
    assert_eq!(
        send(69, 25),
        225,
        "of ten seconds, one second's frames were numbered"
    );
}

#[test]
fn a_live_stamp_from_the_future_is_rebased() {
    let mut clock = live();
    stream(&mut clock, 0, 50, 30.0);
    let time = clock.on_frame(HOUR_MS, 1, at(2_030.0));
    assert_eq!((time.pts_ms, time.discontinuity), (2_000.0, true));
    let next = clock.on_frame(HOUR_MS + 40.0, 1, at(2_070.0));
    assert_eq!((next.pts_ms, next.discontinuity), (2_040.0, false));
    assert_eq!(next.age, Span::ZERO);
}

#[test]
fn a_reopened_stream_shows_its_outage() {
    let mut clock = live();
    stream(&mut clock, 0, 50, 30.0);
    clock.on_open(LIVE);
    let time = clock.on_frame(0.0, 1, at(12_030.0));
    assert_eq!((time.pts_ms, time.missing), (12_000.0, 250));
    assert_eq!((time.age, time.discontinuity), (Span::ZERO, false));
    let next = clock.on_frame(40.0, 1, at(12_070.0));
    assert_eq!((next.pts_ms, next.missing), (12_040.0, 0));
}

#[test]
fn the_initial_burst_of_a_player_has_no_age_and_no_discontinuity() {
    // Frames that the server had buffered come at once, then frames at their rate.
    let mut clock = live();
    for frame in 0..75 {
        let time = clock.on_frame(f64::from(frame) * 40.0, 1, at(5_000.0));
        assert_eq!((time.age, time.discontinuity), (Span::ZERO, false));
    }
}

#[test]
fn counted_stamps_give_no_age() {
    let mut clock = MediaClock::new(Some(1.0));
    clock.on_open(MediaInfo {
        stamped: false,
        ..LIVE
    });
    // Counted at 25 a second, it sends 10.
    for frame in 0..1_000 {
        let time = clock.on_frame(f64::from(frame) * 40.0, 1, at(f64::from(frame) * 100.0));
        assert_eq!(time.age, Span::ZERO);
    }
}

#[test]
fn a_slow_clock_is_detected_and_a_poor_crystal_adds_milliseconds() {
    let ages = |rate: f64| {
        let mut clock = live();
        let age = |frame: u32| {
            let now = f64::from(frame) * 40.0;
            clock.on_frame(now * rate, 1, at(now)).age.as_millis_f64()
        };
        (0..10_000).map(age).collect::<Vec<f64>>()
    };
    let crystal = ages(1.0 - 200e-6).into_iter().fold(0.0, f64::max);
    assert!(crystal < 15.0, "{crystal} ms");
    let wrong = ages(0.8);
    assert_eq!(wrong[9_999], 0.0, "after a window the clock is not believed");
}

proptest! {
    /// Whatever the stamps and arrivals: times grow, are finite, and no wait is longer than the bound.
    #[test]
    fn times_grow_and_waits_are_bounded(
        is_live in any::<bool>(),
        frames in prop::collection::vec((any::<u8>(), any::<f64>(), -5_000.0..5_000.0, 0_u64..2_000, prop::bool::weighted(0.02)), 1..300),
    ) {
        let info = MediaInfo { live: is_live, ..LIVE };
        let mut clock = MediaClock::new(Some(1.0));
        clock.on_open(info);
        let (mut now, mut stamp, mut last) = (0, 0.0, f64::NEG_INFINITY);
        let mut due = Timestamp::ZERO;
        for (kind, wild, near, gap, reopen) in frames {
            now += gap;
            stamp = match kind {
                0..=20 => wild,
                21..=60 => stamp + near,
                _ => stamp + 40.0,
            };
            if reopen {
                clock.on_open(info);
            }
            let time = clock.on_frame(stamp, 1, at(now as f64));
            prop_assert!(time.pts_ms.is_finite() && time.pts_ms > last, "{} after {last}", time.pts_ms);
            if let Some(next) = time.due {
                prop_assert!(next.since(due) <= MAX_JUMP + clock.interval() + Span::from_millis(now));
                due = next;
            }
            prop_assert_eq!(time.due.is_some(), !is_live);
            last = time.pts_ms;
        }
    }
}

#[test]
fn a_stream_that_goes_on_keeps_its_time_base() {
    let mut clock = live();
    clock.on_frame(0.0, 1, at(0.0));
    clock.on_frame(40.0, 1, at(40.0));
    // Ten seconds later the source gives what it had ready, from where it was.
    clock.on_open(LIVE);
    clock.on_resumption();
    let times = [80.0, 120.0].map(|stamp| clock.on_frame(stamp, 1, at(10_000.0 + stamp / 10.0)));
    assert_eq!(times.map(|time| time.pts_ms), [80.0, 120.0]);
    assert!(times.iter().all(|time| !time.discontinuity && time.missing == 0));
}
